"""Pair matching against its definition, the law of its labels, and the words of its errors."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput, TooLarge
from separatrix.tasks import Task, _residues, task
from separatrix.tasks.match2 import Match2
from separatrix.testing import TaskConformance


def share_matched(match: Match2) -> float:
    """Given z_i, each of the others is its negative with probability 1/M; with repeats z_i may be its own."""
    modulus = match.residues
    own = 0 if match.distinct else sum(2 * residue % modulus == 0 for residue in range(modulus))
    return 1 - (1 - own / modulus) * (1 - 1 / modulus) ** (match.n - 1)


class TestMatch2(TaskConformance):
    typical = (
        Match2(n=32),
        Match2(n=32, distinct=True),
        Match2(n=2),
        Match2(n=9, modulus=8, distinct=True),
        Match2(n=12, modulus=6),
        Match2(n=20, modulus=100_003),
    )
    small = (
        Match2(n=4, modulus=5),
        Match2(n=4, modulus=6, distinct=True),
        Match2(n=5, modulus=2, distinct=True),
        Match2(n=3, modulus=9),
    )

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        assert isinstance(task, Match2)
        return {
            i: int(
                any(
                    (row[i] + row[j]) % task.residues == 0
                    for j in range(task.n)
                    if j != i or not task.distinct
                )
            )
            for i in range(task.n)
        }

    def balance(self, task: Task) -> dict[int, float]:
        assert isinstance(task, Match2)
        share = share_matched(task)
        return {0: 1 - share, 1: share}


@pytest.mark.parametrize("n", [2, 3, 8, 64, 500])
@pytest.mark.parametrize("distinct", [False, True])
def test_the_automatic_modulus_matches_about_half(n: int, distinct: bool) -> None:
    match = Match2(n=n, distinct=distinct)
    assert match.residues == max(2, math.ceil((n - 1) / math.log(2)))
    if n >= 8:
        assert abs(share_matched(match) - 0.5) < 0.1
        drawn = match.sample(400, seed=2).targets.double().mean().item()
        assert abs(drawn - share_matched(match)) < 0.03


def test_numbers_are_uniform() -> None:
    numbers = Match2(n=2, modulus=3).sample(9000, seed=5).inputs
    pairs = (3 * numbers[:, 0] + numbers[:, 1]).bincount(minlength=9)
    assert pairs.numel() == 9
    assert (pairs - 1000).abs().max() < 5 * math.sqrt(1000)


def test_the_largest_task_answers_and_is_counted() -> None:
    match = Match2(n=1 << 16, modulus=1 << 30)
    assert match.sample(1, seed=1).inputs.shape == (1, 1 << 16)
    assert match.domain_size() == 1 << 30 * (1 << 16)
    with pytest.raises(TooLarge):
        next(match.enumerate())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 1}, "match2 needs 2 ≤ n ≤ 2^16; got n=1. Try 32."),
        ({"n": 2**60}, f"match2 needs 2 ≤ n ≤ 2^16; got n={2**60}. Try 32."),
        (
            {"n": 4, "modulus": 1},
            "match2 needs a modulus of 2 to 2^30 here, or 0 for an automatic one; got modulus=1. Try 64.",
        ),
        (
            {"n": 4, "modulus": -3},
            "match2 needs a modulus of 2 to 2^30 here, or 0 for an automatic one; got modulus=-3. Try 64.",
        ),
        ({"n": 4, "modulus": 2.5}, "match2 needs a whole number for modulus; got 2.5."),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("match2", **parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 3", "This task's inputs have exactly 4 words; got 3."),
        ("1 2 3 10", "'10' is no word of this task; known are 0 … 9."),
        ("1 2 3 -1", "'-1' is no word of this task; known are 0 … 9."),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Match2(n=4, modulus=10).parse(text)
    assert str(caught.value) == message


def test_rows_that_are_no_inputs() -> None:
    match = Match2(n=3, modulus=4)
    for row, message in (
        ([0, 1, 4], "Tokens of match2 run from 0 to 3; got 4."),
        ([0, -1, 2], "Tokens of match2 run from 0 to 3; got -1."),
        ([0, 1], "An input of match2 is int64 of shape (3,); got int64 of shape (2,)."),
    ):
        with pytest.raises(InvalidInput) as caught:
            match.check(torch.tensor(row))
        assert str(caught.value) == message


@given(st.text(max_size=30) | st.lists(st.integers(-1, 10), max_size=4).map(lambda z: " ".join(map(str, z))))
def test_parse_answers_any_text(text: str) -> None:
    match = Match2(n=3, modulus=10)
    try:
        row = match.parse(text)
    except InvalidInput:
        return
    assert torch.equal(match.parse(match.render(row)), row)


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(-2, 40) | st.sampled_from([-(2**60), 2**60, (1 << 16) + 1]),
    modulus=st.integers(-2, 90) | st.integers(),
    distinct=st.booleans(),
)
def test_any_parameters_are_refused_or_work(n: int, modulus: int, distinct: bool) -> None:
    try:
        match = task("match2", n=n, modulus=modulus, distinct=distinct)
    except InvalidInput:
        return
    batch = match.sample(3, seed=1)
    for row in batch.inputs:
        match.check(row)
    assert torch.equal(match.solve(batch.inputs).targets, batch.targets)


@pytest.mark.parametrize("count", [1, 7, 24, 25, 40])
def test_short_rows_are_counted_as_long_ones_are(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.randint(0, 9, (50, count), generator=torch.Generator().manual_seed(count))
    wanted = torch.arange(-2, 12).expand(50, -1).contiguous()
    by_hand = [[row.count(number) for number in range(-2, 12)] for row in rows.tolist()]
    for short in (0, 1 << 6):
        monkeypatch.setattr(_residues, "_SHORT", short)
        assert _residues._occurrences(rows, wanted).tolist() == by_hand
