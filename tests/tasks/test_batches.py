"""Partitions check themselves; rows are checked for shape, range and padding before anything else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from separatrix.errors import InvalidInput, TooLarge
from separatrix.tasks import Partition, task
from separatrix.tasks.index_lookup import IndexLookup


def test_a_prefix_leaves_what_is_written_to_nobody() -> None:
    split = Partition.prefix(7, 2, given=5)
    assert (split.alice, split.bob, split.written) == ((0, 1), (2, 3, 4), (5, 6))
    assert Partition.prefix(3, 1).written == ()
    assert Partition.odd_even(5) == Partition(alice=(0, 2, 4), bob=(1, 3))


@pytest.mark.parametrize("parts", [((0, 1), (1, 2)), ((0,), (2,)), ((1,), (2,)), ((0, -1), (1,))])
def test_a_partition_gives_every_position_once(parts: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(InvalidInput, match="every position, counted from 0, to exactly one party"):
        Partition(alice=parts[0], bob=parts[1])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([9, 1, 4, 8, 8], "Tokens of index-lookup run from 0 to 8; got 9."),
        ([0, 1], "An input of index-lookup is int64 of shape (5,); got int64 of shape (2,)."),
        (
            [0.0, 1.0, 4.0, 8.0, 8.0],
            "An input of index-lookup is int64 of shape (5,); got float32 of shape (5,).",
        ),
        ([0, 8, 1, 4, 8], "Padding stands only at the end of an input of index-lookup; got it at 1."),
        ([0, 1, -1, 4, 8], "Tokens of index-lookup run from 0 to 8; got -1."),
    ],
)
def test_rows_that_are_no_inputs_are_named(row: list[Any], message: str) -> None:
    lookup = IndexLookup(n=4, alphabet=4)
    with pytest.raises(InvalidInput) as caught:
        lookup.check(torch.tensor(row))
    assert str(caught.value) == message


def test_choices_are_checked_however_a_task_is_made() -> None:
    with pytest.raises(InvalidInput, match="index-lookup knows lengths as varied or full; got 'ful'"):
        dataclasses.replace(task("index-lookup", n=4), lengths="ful")  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match=r"index-lookup needs a whole number for n; got 4\.0"):
        IndexLookup(n=4.0)  # type: ignore[arg-type]


def test_huge_domains_are_counted_and_not_numbered() -> None:
    assert IndexLookup(n=3, alphabet=2).domain_size() == 2 + 2 * 4 + 3 * 8
    assert IndexLookup(n=4, alphabet=1).domain_size() == 10
    assert IndexLookup(n=1 << 16, alphabet=3).domain_size().bit_length() > 100_000
    with pytest.raises(TooLarge, match=r"at most 2\^62 are numbered"):
        IndexLookup(n=40).decode(torch.tensor([0]))
