"""What all tasks share: parameters by name, examples to show, and the labels' last word."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from separatrix.errors import InvalidInput, TooLarge, UnknownName
from separatrix.tasks import TASKS, Labels, task
from separatrix.tasks.interface import Batch, example_task, make


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("dyck", {"n": True}, "dyck needs a whole number for n; got True."),
        ("dyck", {"n": 4.0}, "dyck needs a whole number for n; got 4.0."),
        ("cycle3", {"n": 5, "density": "thick"}, "cycle3 needs a number for density; got 'thick'."),
        ("match2", {"n": 5, "distinct": "yes"}, "match2 needs True or False for distinct; got 'yes'."),
        ("match2", {"n": 5, "distinct": 1}, "match2 needs True or False for distinct; got 1."),
        ("equality", {"n": 4, "form": "two"}, "equality knows form as random or one or ncp; got 'two'."),
        ("counting", {}, "counting needs a value for n; none was given."),
    ],
)
def test_parameters_of_the_wrong_kind_are_refused(
    name: str, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        task(name, **parameters)
    assert str(caught.value) == message


def test_unknown_parameters_are_answered_with_near_ones() -> None:
    with pytest.raises(UnknownName, match=r"There is no option of dyck called 'dept'. Did you mean depth\?"):
        task("dyck", n=4, dept=2)


def test_every_task_has_something_to_show() -> None:
    for name, kind in TASKS.items():
        shown = example_task(kind)
        assert all(getattr(shown, key) == value for key, value in kind.showcase.items()), name
        assert shown.sample(2, seed=0).inputs.shape[0] == 2


def test_an_example_task_keeps_what_was_given() -> None:
    dyck = TASKS.get("dyck")
    assert example_task(dyck, {"n": 6}) == task("dyck", n=6)
    assert example_task(dyck, {"types": 3}) == task("dyck", n=dyck.showcase["n"], types=3)
    beaver = example_task(TASKS.get("turing"), {"machine": "parity", "n": 4})
    assert beaver == task("turing", machine="parity", n=4)
    with pytest.raises(InvalidInput, match="even length"):
        example_task(dyck, {"n": 7})


def test_full_length_changes_the_sampling_only() -> None:
    lookup = task("index-lookup", n=30)
    assert lookup.full_length() == make(type(lookup), {"n": 30, "lengths": "full"})
    dyck = task("dyck", n=8)
    assert dyck.full_length() is dyck


def test_too_many_inputs_are_not_listed() -> None:
    with pytest.raises(TooLarge, match=r"about 10\^\d+ inputs .* at most 16,777,216 are listed"):
        next(task("index-lookup", n=5000).enumerate())
    with pytest.raises(TooLarge, match=r"dyck has about 10\^10 inputs"):
        next(task("dyck", n=18).enumerate())


def test_the_answer_is_the_last_label() -> None:
    mask = torch.tensor([[True, False, True, False], [False, True, False, False]])
    labels = Labels(targets=torch.tensor([[5, 0, 7, 0], [0, 3, 0, 0]]), mask=mask)
    assert labels.answer.tolist() == [7, 3]


def test_joined_batches_have_the_examples_of_both() -> None:
    mask = torch.tensor([[False, True, True], [False, False, True]])
    batch = Batch(inputs=mask.long(), targets=mask.long(), mask=mask, lengths=torch.tensor([3, 3]))
    joined = Batch.joined([batch, batch])
    assert joined.lengths.tolist() == [3, 3, 3, 3]
    assert [field.name for field in dataclasses.fields(joined)] == ["inputs", "targets", "mask", "lengths"]
