"""Counting against a tally, its sampling law, and the words of its errors."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.tasks import Task, task
from separatrix.tasks.counting import Counting
from separatrix.testing import TaskConformance


class TestCounting(TaskConformance):
    typical = (
        Counting(n=32),
        Counting(n=9, alphabet=2),
        Counting(n=1, alphabet=3),
        Counting(n=20, alphabet=7),
    )
    small = (Counting(n=4, alphabet=2), Counting(n=3, alphabet=3), Counting(n=1, alphabet=2))

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        *sequence, query, threshold = task.render(torch.tensor(row)).split()
        tally = Counter(sequence)
        return {len(row) - 1: 1 if tally[query] > int(threshold.removeprefix(">")) else 0}

    def balance(self, task: Task) -> dict[int, float]:
        return {0: 0.5, 1: 0.5}


def test_every_sample_stands_at_the_edge() -> None:
    """Given the threshold the label is still a fair coin, and the count is the threshold or one more."""
    n, count = 5, 20_000
    batch = Counting(n=n, alphabet=3).sample(count, seed=4)
    threshold = batch.inputs[:, -1] - 3
    occurrences = (batch.inputs[:, :n] == batch.inputs[:, n : n + 1]).sum(1)
    assert torch.equal(occurrences, threshold + batch.labels.answer)
    cells = Counter(zip(threshold.tolist(), batch.labels.answer.tolist(), strict=True))
    assert set(cells) == set(product(range(n), range(2)))
    assert all(abs(seen - count / 10) < 5 * (count / 10) ** 0.5 for seen in cells.values())


def test_tokens_and_places_are_uniform() -> None:
    """With one occurrence of a query in two places there are 3 · 2 · 2 sequences, all equally likely."""
    batch = Counting(n=2, alphabet=3).sample(40_000, seed=4)
    once = (batch.inputs[:, :2] == batch.inputs[:, 2:3]).sum(1) == 1
    seen = Counter(map(tuple, batch.inputs[once, :3].tolist()))
    share = int(once.sum()) / 12
    assert len(seen) == 12
    assert all(abs(count - share) < 5 * share**0.5 for count in seen.values())


def test_the_text_ends_with_the_query() -> None:
    counting = Counting(n=3, alphabet=2)
    assert counting.render(counting.decode(torch.tensor([4 * 5 + 3]))[0]) == "s0 s1 s0 s1 >3"
    assert counting.partitions()["prefix/suffix"].bob == (3, 4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 0}, "counting needs 1 ≤ n ≤ 2^20; got n=0. Try 64."),
        ({"n": 1 << 60}, f"counting needs 1 ≤ n ≤ 2^20; got n={1 << 60}. Try 64."),
        ({"n": 4, "alphabet": 1}, "counting needs an alphabet of 2 to 2^20 tokens; got alphabet=1. Try 64."),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("counting", **parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s0 s1 s0 s1 s1", "The last word must be a threshold >0 … >3; got 's1'."),
        ("s0 >1 s0 s1 >1", "Word 2 must be a token s0 … s1; got '>1'."),
        ("s0 s1 s0 >1", "This task's inputs have exactly 5 words; got 4."),
        ("s0 s1 s0 s1 >4", "'>4' is no word of this task; known are s0 s1, >0 … >3."),
        ("s0 s1 s0 s1 > 1", "This task's inputs have exactly 5 words; got 6."),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Counting(n=3, alphabet=2).parse(text)
    assert str(caught.value) == message


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.lists(st.sampled_from(["s0", "s1", "s2", ">0", ">2", ">9"])).map(" ".join)))
def test_any_text_is_an_input_or_refused(text: str) -> None:
    counting = Counting(n=2, alphabet=2)
    try:
        row = counting.parse(text)
    except InvalidInput:
        return
    assert counting.render(row) == " ".join(text.split())


@settings(max_examples=150, deadline=None)
@given(
    n=st.one_of(st.integers(-1, 40), st.integers((1 << 20) + 1), st.integers(max_value=0)),
    alphabet=st.one_of(st.integers(), st.integers(-1, 60)),
)
def test_any_parameters_make_a_task_or_are_refused(n: int, alphabet: int) -> None:
    try:
        counting = task("counting", n=n, alphabet=alphabet)
    except InvalidInput:
        return
    batch = counting.sample(2, seed=0)
    counting.check(batch.inputs[1])
    assert torch.equal(counting.solve(batch.inputs).targets, batch.targets)
