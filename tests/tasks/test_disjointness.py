"""Disjointness against sets, its law, and the words of its errors."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.tasks import Task, task
from separatrix.tasks.disjointness import Disjointness
from separatrix.testing import TaskConformance


class TestDisjointness(TaskConformance):
    typical = (Disjointness(n=40), Disjointness(n=2), Disjointness(n=126))
    small = (Disjointness(n=2), Disjointness(n=4), Disjointness(n=10))

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        assert isinstance(task, Disjointness)
        first = {place for place in range(task.n // 2) if row[place]}
        second = {place for place in range(task.n // 2) if row[task.n // 2 + place]}
        return {task.n - 1: 0 if first.isdisjoint(second) else 1}

    def balance(self, task: Task) -> dict[int, float]:
        return {0: 0.5, 1: 0.5}


def test_pairs_are_uniform_but_for_one_common_place() -> None:
    batch = Disjointness(n=6).sample(24000, seed=4)
    pairs = 2 * batch.inputs[:, :3] + batch.inputs[:, 3:]
    meet = batch.labels.answer == 1
    assert bool(((pairs == 3).sum(1) == meet).all())
    for rows in (pairs[~meet], pairs[meet]):
        others = rows[rows != 3]
        shares = torch.bincount(others, minlength=3) / len(others)
        assert float((shares - 1 / 3).abs().max()) < 0.015
    common = Counter((pairs[meet] == 3).int().argmax(1).tolist())
    assert all(abs(common[place] / int(meet.sum()) - 1 / 3) < 0.025 for place in range(3))
    joint = Counter((pairs[~meet] * torch.tensor([9, 3, 1])).sum(1).tolist())
    assert all(abs(joint[code] / int((~meet).sum()) - 1 / 27) < 0.01 for code in range(27))


def test_partitions_separate_the_two_sets_place_by_place() -> None:
    for n in (2, 4, 6, 8):
        splits = Disjointness(n=n).partitions()
        assert ("odd/even" in splits) == (n % 4 == 2)
        for split in splits.values():
            for place in range(n // 2):
                assert (place in split.alice) != (place + n // 2 in split.alice)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 7}, "disjointness needs an even n ≥ 2; got n=7. Try 8."),
        ({"n": -4}, "disjointness needs an even n ≥ 2; got n=-4. Try 2."),
        (
            {"n": 10**26 + 1},
            f"disjointness needs an even n ≥ 2; got n={10**26 + 1}. Try {1 << 20}.",
        ),
        ({"n": 1 << 60}, f"disjointness takes n up to 2^20; got n={1 << 60}. Try 400."),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("disjointness", **parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("01", "This task's inputs have exactly 4 words; got 2."),
        ("01 2", "' ' is no word of this task; known are 0 1."),
        ("0120", "'2' is no word of this task; known are 0 1."),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Disjointness(n=4).parse(text)
    assert str(caught.value) == message


def test_check_names_a_row_that_is_no_input() -> None:
    with pytest.raises(InvalidInput, match=r"Tokens of disjointness run from 0 to 1; got 2\."):
        Disjointness(n=2).check(torch.tensor([0, 2]))
    with pytest.raises(InvalidInput, match=r"An input of disjointness is int64 of shape \(2,\); got int64"):
        Disjointness(n=2).check(torch.tensor([0]))


@given(text=st.text(max_size=6) | st.text("01 ²", min_size=3, max_size=6))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    disjointness = Disjointness(n=4)
    try:
        row = disjointness.parse(text)
    except InvalidInput:
        return
    assert disjointness.render(row) == text.strip()


@settings(max_examples=40, deadline=None)
@given(n=st.integers(-3, 150) | st.sampled_from([(1 << 20) + 2, 1 << 60, -(1 << 70)]))
def test_any_parameters_make_a_task_or_are_refused(n: int) -> None:
    try:
        disjointness = Disjointness(n=n)
    except InvalidInput:
        return
    batch = disjointness.sample(3, seed=n)
    for row in batch.inputs:
        disjointness.check(row)
    assert torch.equal(disjointness.solve(batch.inputs).targets, batch.targets)
