"""PyTorch's default dtype is the caller's affair: inputs and labels do not follow it."""

from __future__ import annotations

import typing
from collections.abc import Iterator

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.tasks import TASKS, Reals, Task, Vectors
from separatrix.tasks.interface import example_task, make


@pytest.fixture
def doubles() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def least_task(kind: type[Task]) -> Task:
    """The smallest task of this kind that can be sampled, so that its inputs can be numbered."""
    for n in range(1, 6):
        try:
            found = make(kind, {"n": n})
            found.sample(1, seed=0)
        except InvalidInput:
            continue
        return found
    raise AssertionError(f"{kind.name} cannot be sampled at n ≤ 5")


def tasks_of(kind: type[Task]) -> Iterator[Task]:
    """The smallest one, the one that is shown, and one for each choice of each option that has choices."""
    yield least_task(kind)
    yield example_task(kind)
    for option, declared in typing.get_type_hints(kind).items():
        for choice in typing.get_args(declared) if typing.get_origin(declared) is typing.Literal else ():
            try:
                yield example_task(kind, {option: choice})
            except InvalidInput:
                continue  # a choice that goes only with another


@pytest.mark.parametrize("kind", [kind for _, kind in TASKS.items()], ids=lambda kind: kind.name)
@pytest.mark.usefixtures("doubles")
def test_inputs_and_labels_keep_their_types(kind: type[Task]) -> None:
    for one in tasks_of(kind):
        dtype = torch.float32 if isinstance(one.input_space, Reals) else torch.int64
        answers = torch.float32 if isinstance(one.target_space, Vectors) else torch.int64
        batch = one.sample(3, seed=1)
        assert batch.inputs.dtype == dtype
        assert batch.targets.dtype == one.solve(batch.inputs).targets.dtype == answers
        assert batch.lengths.dtype == torch.int64
        read = one.parse(one.render(batch.inputs[0]))
        assert read.dtype == dtype
        assert torch.equal(read, batch.inputs[0])
    listed = least_task(kind).decode(torch.tensor([0]))
    assert listed.dtype == dtype
