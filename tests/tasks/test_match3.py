"""Triple matching and its variants against their definition, their sampling laws, and the words of errors."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput, TooLarge
from separatrix.tasks import Task, _residues, task
from separatrix.tasks.match3 import Match3
from separatrix.testing import TaskConformance


def completes(match: Match3, row: list[int], i: int) -> bool:
    """Is there an allowed pair of positions that completes position i, counted from zero?"""
    everywhere = range(match.n)
    for j, k in itertools.product(everywhere, everywhere):
        if match.distinct and len({i, j, k}) < 3:
            continue
        if match.variant == "last" and match.n - 1 in (j, k):
            continue
        if match.variant == "local" and not (abs(j - i) <= match.window and abs(k - i) <= match.window):
            continue
        if match.variant == "bigram" and k != j + 1:
            continue
        if (row[i] + row[j] + row[k]) % match.residues == 0:
            return True
    return False


class TestMatch3(TaskConformance):
    samples = 100
    typical = (
        Match3(n=12),
        Match3(n=12, distinct=True),
        Match3(n=9, modulus=1000),  # more residues than a table is made for
        Match3(n=9, modulus=331, distinct=True),
        Match3(n=11, modulus=12, distinct=True),
        Match3(n=12, variant="local"),
        Match3(n=12, variant="local", window=5, distinct=True),
        Match3(n=8, variant="local", window=64),
        Match3(n=12, variant="bigram"),
        Match3(n=12, variant="bigram", distinct=True),
        Match3(n=12, variant="last"),
        Match3(n=9, variant="last", modulus=6, distinct=True),
        Match3(n=3, variant="last"),
        Match3(n=12, variant="last", instances="disjointness"),
        Match3(n=11, variant="last", instances="disjointness", distinct=True, modulus=13),
    )
    small = (
        Match3(n=4, modulus=5),
        Match3(n=4, modulus=6, distinct=True),
        Match3(n=5, modulus=3, distinct=True),
        Match3(n=3, modulus=9, distinct=True),
        Match3(n=5, modulus=4, variant="local", window=1),
        Match3(n=5, modulus=4, variant="local", window=1, distinct=True),
        Match3(n=5, modulus=4, variant="bigram"),
        Match3(n=5, modulus=4, variant="bigram", distinct=True),
        Match3(n=5, modulus=4, variant="last"),
        Match3(n=5, modulus=4, variant="last", distinct=True),
        Match3(n=4, modulus=6, variant="last", instances="disjointness"),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        assert isinstance(task, Match3)
        labelled = [task.n - 1] if task.variant == "last" else range(task.n)
        return {i: int(completes(task, row, i)) for i in labelled}

    def balance(self, task: Task) -> dict[int, float] | None:
        assert isinstance(task, Match3)
        return {0: 0.5, 1: 0.5} if task.variant == "last" else None


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("modulus", [40, 3000])
def test_pairs_are_counted_alike_in_small_rounds(
    monkeypatch: pytest.MonkeyPatch, distinct: bool, modulus: int
) -> None:
    match = Match3(n=16, modulus=modulus, distinct=distinct)
    whole = match.sample(50, seed=3)
    monkeypatch.setattr(_residues, "_ROOM", 3 * max(modulus, 256))
    assert torch.equal(match.solve(whole.inputs).targets, whole.targets)
    monkeypatch.setattr(_residues, "_ROOM", 1)
    assert torch.equal(match.solve(whole.inputs).targets, whole.targets)


def completions(match: Match3) -> int:
    """The sets {j, k} that may complete a position in the middle of the row."""
    middle = match.n // 2
    found = set()
    for j, k in itertools.product(range(match.n), repeat=2):
        pair_is_allowed = not match.distinct or len({middle, j, k}) == 3
        if match.variant == "local":
            pair_is_allowed &= max(abs(j - middle), abs(k - middle)) <= match.window
        if match.variant == "bigram":
            pair_is_allowed = k == j + 1
        if match.variant == "last":
            pair_is_allowed = max(j, k) < match.n - 1 and not (match.distinct and j == k)
        if pair_is_allowed:
            found.add(frozenset((j, k)))
    return len(found)


@pytest.mark.parametrize("variant", ["full", "local", "bigram", "last"])
@pytest.mark.parametrize("distinct", [False, True])
def test_the_automatic_modulus_matches_about_half(variant: Any, distinct: bool) -> None:
    match = Match3(n=30, variant=variant, distinct=distinct, window=4)
    assert match.residues == math.ceil(completions(match) / math.log(2))
    uniform = torch.randint(match.residues, (600, 30), generator=torch.Generator().manual_seed(1))
    uniform[:, -1] = 0
    labels = match.solve(uniform)
    middle = labels.answer if variant == "last" else labels.targets[:, 10:20]
    assert abs(middle.double().mean().item() - 0.5) < 0.1


def assert_law(rows: torch.Tensor, law: Mapping[tuple[int, ...], Fraction]) -> None:
    assert sum(law.values()) == 1
    seen = Counter(map(tuple, rows.tolist()))
    assert set(seen) <= {row for row, share in law.items() if share}
    for row, share in law.items():
        spread = 5 * math.sqrt(share * (1 - share) / len(rows))
        assert abs(seen[row] / len(rows) - share) <= spread, row


def test_numbers_are_uniform() -> None:
    law = dict.fromkeys(itertools.product(range(2), repeat=3), Fraction(1, 8))
    for variant in ("full", "local", "bigram"):
        assert_law(Match3(n=3, modulus=2, variant=variant).sample(8000, seed=9).inputs, law)


@pytest.mark.slow
def test_rows_of_the_last_variant_follow_the_stated_law() -> None:
    match = Match3(
        n=4, variant="last", modulus=6
    )  # classes {1, 5} and {2, 4}; 0 and 3 are their own negatives
    law: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for classes in itertools.product((1, 2), repeat=3):
        for signs in itertools.product((False, True), repeat=2):
            row = [6 - c if signs[c - 1] else c for c in classes]
            share = Fraction(1, 2**3 * 2**2)
            law[(*row, 0)] += share / 2
            for kept, replaced in itertools.permutations(range(3), 2):
                planted = list(row)
                planted[replaced] = 6 - planted[kept]
                law[(*planted, 0)] += share / 2 / 6
    assert_law(match.sample(20_000, seed=4).inputs, law)


def disjointness_row(match: Match3, alice: set[int], bob: set[int]) -> tuple[int, ...]:
    size = (match.n - 1) // 2
    first = [i + 1 if i in alice else 1 for i in range(1, size + 1)]
    second = [match.residues - (i + 1) if i in bob else 1 for i in range(1, size + 1)]
    return (*first, *second, *[1] * (match.n - 1 - 2 * size), 0)


def subsets(size: int) -> list[set[int]]:
    return [{i + 1 for i in range(size) if bits >> i & 1} for bits in range(1 << size)]


@pytest.mark.parametrize("n", [5, 6])
def test_disjointness_instances_follow_the_stated_law(n: int) -> None:
    match = Match3(n=n, variant="last", instances="disjointness")
    disjoint = [(a, b) for a, b in itertools.product(subsets(2), repeat=2) if not a & b]
    law: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for alice, bob in disjoint:
        law[disjointness_row(match, alice, bob)] += Fraction(1, 2 * len(disjoint))
        for common in (1, 2):
            row = disjointness_row(match, alice | {common}, bob | {common})
            law[row] += Fraction(1, 4 * len(disjoint))
    assert_law(match.sample(20_000, seed=4).inputs, law)


@pytest.mark.parametrize("n", [7, 8])
def test_the_reduction_from_disjointness(n: int) -> None:
    """R's inputs match exactly if the sets meet, at the least modulus too, and with repeats as without."""
    for distinct in (False, True):
        match = Match3(n=n, variant="last", instances="disjointness", modulus=n + 2, distinct=distinct)
        pairs = list(itertools.product(subsets(3), repeat=2))
        rows = torch.tensor([disjointness_row(match, *pair) for pair in pairs])
        assert match.solve(rows).answer.tolist() == [int(bool(a & b)) for a, b in pairs]
    full = Match3(n=n, modulus=n + 2, distinct=True)
    assert full.solve(rows).answer.tolist() == [int(bool(a & b)) for a, b in pairs]
    # To the letter, with repeats, 0 + 0 + 0 answers every question with yes.
    assert Match3(n=n, modulus=n + 2).solve(rows).answer.tolist() == [1] * len(pairs)


def test_large_tasks_are_counted_and_not_listed() -> None:
    match = Match3(n=4096, modulus=1 << 30, variant="last")
    assert match.domain_size() == 1 << 30 * 4095
    with pytest.raises(TooLarge):
        next(match.enumerate())
    assert Match3(n=4096).residues == math.ceil(4096 * 4097 / 2 / math.log(2))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 2}, "match3 needs 3 ≤ n ≤ 4096; got n=2. Try 32."),
        ({"n": 8, "window": 0}, "match3 needs a window of 1 to 64 places; got window=0. Try 2."),
        (
            {"n": 8, "variant": "last", "modulus": 2},
            "match3 needs a modulus of 3 to 2^30 here, or 0 for an automatic one; got modulus=2. Try 64.",
        ),
        (
            {"n": 97, "variant": "last", "modulus": 98, "instances": "disjointness"},
            "match3 needs a modulus of 99 to 2^30 here, or 0 for an automatic one; got modulus=98. Try 99.",
        ),
        (
            {"n": 8, "instances": "disjointness"},
            "match3 has disjointness instances for the variant last; got variant='full'. Try variant='last'.",
        ),
        (
            {"n": 8, "variant": "first"},
            "match3 knows variant as full or last or local or bigram; got 'first'.",
        ),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("match3", **parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 0 0", "This task's inputs have exactly 3 words; got 4."),
        ("1 x 0", "'x' is no word of this task; known are 0 … 9."),
        ("1 2 3", "The last number must be 0 in the variant last; got 3."),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Match3(n=3, modulus=10, variant="last").parse(text)
    assert str(caught.value) == message


def test_rows_that_are_no_inputs() -> None:
    match = Match3(n=3, modulus=4)
    for row, message in (
        ([0, 1, 4], "Tokens of match3 run from 0 to 3; got 4."),
        ([0, -1, 2], "Tokens of match3 run from 0 to 3; got -1."),
        ([0, 1], "An input of match3 is int64 of shape (3,); got int64 of shape (2,)."),
    ):
        with pytest.raises(InvalidInput) as caught:
            match.check(torch.tensor(row))
        assert str(caught.value) == message


@given(st.text(max_size=30) | st.lists(st.integers(-1, 10), max_size=4).map(lambda z: " ".join(map(str, z))))
def test_parse_answers_any_text(text: str) -> None:
    match = Match3(n=3, modulus=10, variant="last")
    try:
        row = match.parse(text)
    except InvalidInput:
        return
    assert torch.equal(match.parse(match.render(row)), row)


@settings(deadline=None, max_examples=80)
@given(
    n=st.integers(-2, 24) | st.sampled_from([-(2**60), 2**60, 4097]),
    modulus=st.integers(-2, 90) | st.integers(),
    variant=st.sampled_from(["full", "last", "local", "bigram"]),
    window=st.integers(-1, 4) | st.integers(),
    distinct=st.booleans(),
    instances=st.sampled_from(["random", "disjointness"]),
)
def test_any_parameters_are_refused_or_work(**parameters: Any) -> None:
    try:
        match = task("match3", **parameters)
    except InvalidInput:
        return
    batch = match.sample(3, seed=1)
    for row in batch.inputs:
        match.check(row)
    assert torch.equal(match.solve(batch.inputs).targets, batch.targets)
