"""What each way to do the four retrieval tasks in constant size is held to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest
import torch

from separatrix.models.explicit.base import ExplicitModel
from separatrix.models.interface import CausalModel
from separatrix.precision import FixedNearest, NumberSystem
from separatrix.tasks import Task
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.c_gram import CGramRetrieval
from separatrix.tasks.counting import Counting
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.witnesses import Choices, Witness
from tests.witnesses.checking import evaluators_agree
from tests.witnesses.small_cases import ENUMERATED, LARGE, at_size, hard_inputs, right, right_on_all

__all__ = [
    "Builders",
    "SmallWitnesses",
    "at_every_length",
    "built_by",
    "three_agree",
    "whole_is_step_by_step",
]

Builders = Mapping[str, Callable[..., Any]]

at_every_length = pytest.mark.parametrize(
    ("small", "large"),
    [
        (IndexLookup(n=2, alphabet=2), IndexLookup(n=4096, alphabet=4096)),
        (AssociativeRecall(n=2, form="sequence"), AssociativeRecall(n=4096, form="sequence")),
        (AssociativeRecall(n=2), AssociativeRecall(n=4096)),
        (CGramRetrieval(n=4, c=4), CGramRetrieval(n=4096, c=4)),
        (Counting(n=2, alphabet=2), Counting(n=4096, alphabet=4096)),
    ],
    ids=lambda task: task.name,
)


def built_by(builders: Builders, task: Task, system: NumberSystem | None = None) -> Witness:
    """By the builder of the task's name, in a system or in the usual one."""
    choices = Choices() if system is None else Choices(system=system)
    witness = builders[task.name](task, choices)
    assert isinstance(witness, Witness)
    return witness


class SmallWitnesses:
    """To inherit: every small input, hard and random larger ones, and not a bit too many."""

    builders: ClassVar[Builders]
    theorem: ClassVar[str]
    family: ClassVar[str]
    kind: ClassVar[type[ExplicitModel]]
    writes: ClassVar[bool]
    least: ClassVar[Mapping[int, tuple[int, ...]]]
    """The least p with which the tasks of each size are done: Index, both recalls, c-gram, counting."""

    @pytest.mark.parametrize("task", ENUMERATED)
    def test_every_input(self, task: Task) -> None:
        witness = built_by(self.builders, task)
        assert (witness.theorem, witness.family) == (self.theorem, self.family)
        assert isinstance(witness.model, self.kind)
        assert (witness.script is not None) == self.writes
        assert right_on_all(witness)

    @pytest.mark.parametrize("task", LARGE)
    def test_random_and_hard_inputs(self, task: Task) -> None:
        witness, hard = built_by(self.builders, task), hard_inputs(task)
        rows = hard if task.length < 256 else hard[:: len(hard) // 8]
        samples = [each.sample(8, seed=5).inputs for each in (task, task.full_length())]
        assert right(witness, torch.cat([rows, *samples]))

    @pytest.mark.parametrize("n", [16, pytest.param(64, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("which", range(5))
    def test_the_least_bits(self, n: int, which: int) -> None:
        task, p = at_size(n)[which], self.least[n][which]
        rows = torch.cat([hard_inputs(task), task.sample(16, seed=1).inputs])
        assert right(built_by(self.builders, task, FixedNearest(p=p)), rows)
        assert not right(built_by(self.builders, task, FixedNearest(p=p - 2)), rows)


def three_agree(witness: Witness) -> bool:
    """Whether the three evaluators do, on a few inputs."""
    rows = next(iter(witness.task.enumerate()))
    return all(evaluators_agree(witness, row) for row in rows[:: max(1, len(rows) // 3)])


def whole_is_step_by_step(witness: Witness) -> None:
    """Whole inputs and token by token, to rounding."""
    model, rows = witness.model, witness.task.sample(4, seed=3).inputs
    assert isinstance(model, CausalModel)
    whole, state = model.forward(rows), model.start(4)
    for place in range(rows.shape[1]):
        outputs, state = model.step(rows[:, place], state)
        torch.testing.assert_close(outputs, whole[:, place], rtol=0, atol=1e-12)
