"""How often each member is right: on inputs of full length only, the same for every member.

The examples are those of one seed that no member may have, so they are fresh to all. They are drawn and
judged on the device; only the counts come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import torch

from separatrix.models.population import Population
from separatrix.tasks.interface import Batch, Task
from separatrix.training.engine import arithmetic
from separatrix.training.labelled import judged, questions
from separatrix.training.recipes import Precision

__all__ = ["TEST_EXAMPLES_FROM", "TEST_SEED", "Counted", "evaluate"]

TEST_SEED: Final = (1 << 63) - 25
"""Beyond every member's seed."""
TEST_EXAMPLES_FROM: Final = 1 << 40
"""The last look is at other examples than those before it, which decide when a member stops."""
_POSITIONS: Final = 1 << 21
"""Positions of all members that are answered at once."""


@dataclass(frozen=True, kw_only=True)
class Counted:
    """One member's right answers: whole examples, and labels where an example has several."""

    examples: int
    right: int
    labels: int
    labels_right: int

    @property
    def accuracy(self) -> float:
        """The share of examples of which every label is right."""
        return self.right / self.examples


@torch.no_grad()
def evaluate(
    population: Population, task: Task, *, examples: int, precision: Precision, first: int = 0
) -> tuple[Counted, ...]:
    """Each member's counts on examples `first` … `first + examples − 1` of full length."""
    full, members = task.full_length(), population.members
    device = next(population.parameters()).device
    chunk = max(1, min(examples, _POSITIONS // (members * task.length)))
    right, labels, labels_right = (torch.zeros(members, dtype=torch.int64, device=device) for _ in range(3))
    for low in range(0, examples, chunk):
        count = min(chunk, examples - low)
        drawn = full.sample(count, seed=TEST_SEED, start=first + low, device=device)
        asked = questions(_repeated(drawn, members), members, most=full.asking.most)
        with _as_written(population), arithmetic(precision, device):
            outputs = population(asked.inputs, asked.at)
        found = judged(outputs, asked, task.target_space)
        right += found.examples_right
        labels += found.labels
        labels_right += found.labels_right
    return tuple(
        Counted(examples=examples, right=r, labels=n, labels_right=k)
        for r, n, k in zip(right.tolist(), labels.tolist(), labels_right.tolist(), strict=True)
    )


def _repeated(batch: Batch, members: int) -> Batch:
    """The same examples for every member."""
    fields = {name: getattr(batch, name) for name in ("inputs", "targets", "mask", "lengths")}
    return Batch(**{name: value.repeat(members, *[1] * (value.dim() - 1)) for name, value in fields.items()})


@contextmanager
def _as_written(population: Population) -> Iterator[None]:
    """In the block nothing of the population is compiled.

    Looks are rare and have other shapes than steps: compiling for them would cost more than it saves. The
    compiler could be told, but that would hold for the populations of other threads too.
    """
    compiled = {part: part._compiled_call_impl for part in population.modules()}
    for part in compiled:
        part._compiled_call_impl = None
    try:
        yield
    finally:
        for part, call in compiled.items():
            part._compiled_call_impl = call
