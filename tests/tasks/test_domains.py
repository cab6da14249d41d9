"""Numberings list each element once: against itertools."""

from __future__ import annotations

import itertools
import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from separatrix.tasks.domains import arrangement, arrangements, digits, permutation, split_union, subset


def rows(table: torch.Tensor) -> list[tuple[int, ...]]:
    return [tuple(row) for row in table.tolist()]


@given(st.lists(st.integers(1, 4), max_size=4))
def test_digits_are_the_product(radices: list[int]) -> None:
    listed = rows(digits(torch.arange(math.prod(radices)), radices))
    assert listed == list(itertools.product(*map(range, radices)))


@given(st.integers(0, 5).flatmap(lambda bound: st.tuples(st.integers(0, bound), st.just(bound))))
def test_arrangements_and_subsets_are_itertools(sizes: tuple[int, int]) -> None:
    count, bound = sizes
    listed = rows(arrangement(torch.arange(arrangements(count, bound)), count, bound))
    assert listed == list(itertools.permutations(range(bound), count))
    chosen = rows(subset(torch.arange(math.comb(bound, count)), count, bound))
    assert sorted(chosen) == list(itertools.combinations(range(bound), count))


def test_permutations() -> None:
    assert rows(permutation(torch.arange(24), 4)) == list(itertools.permutations(range(4)))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_a_union_is_split_into_its_parts(sizes: list[int]) -> None:
    part, rest = split_union(torch.arange(sum(sizes)), sizes)
    expected = [(index, place) for index, size in enumerate(sizes) for place in range(size)]
    assert list(zip(part.tolist(), rest.tolist(), strict=True)) == expected
