"""What a reduction is: a way for two parties to turn a classic problem into an input of a task.

Alice writes the tokens at her positions from x alone, Bob those at his from y alone, and the right labels of
the row they made together tell the answer. So whoever does the task under that partition decides the problem
with the same bits, and what the problem needs, the task needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from separatrix.communication.problems import Problem
from separatrix.errors import InvalidInput
from separatrix.tasks import TASKS, Labels, Partition, Task

__all__ = ["Reduction"]

Kind = TypeVar("Kind", bound=Task)


@dataclass(frozen=True, kw_only=True)
class Reduction(ABC, Generic[Kind]):
    """From a problem to this task, as large a problem as the task's parameters take.

    Where one question of Bob's does not say all he needs, he asks several: rows that share Alice's part.
    One message of Alice's serves them all, so such a reduction carries over bounds on one message, and only
    those; `asks` is 1 where it carries over every bound.
    """

    problem_name: ClassVar[str]
    """The problem's name in `PROBLEMS`."""
    task_name: ClassVar[str]
    """The task's name in `TASKS`."""
    variant: ClassVar[str] = ""
    """What tells apart two reductions between the same pair."""
    size: ClassVar[str]
    """How large the problem is, as a formula of the task's parameters."""
    reads: ClassVar[str]
    """Which labels the answer is read from."""

    task: Kind

    def __post_init__(self) -> None:
        kind = TASKS.get(self.task_name)
        if not isinstance(self.task, kind):
            raise InvalidInput(
                f"A reduction to {self.task_name} needs such a task; got {type(self.task).__name__}."
            )
        self.validate()

    @abstractmethod
    def validate(self) -> None:
        """Raise `InvalidInput` unless at least the smallest problem fits into the task."""

    @property
    @abstractmethod
    def problem(self) -> Problem:
        """The problem, at the largest size that fits."""

    @property
    @abstractmethod
    def split(self) -> str:
        """The partition's name."""

    @abstractmethod
    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Shaped[Tensor, "batch alice_pos *width"]:
        """What stands at Alice's positions, in their order."""

    @abstractmethod
    def bob(self, y: Int[Tensor, "batch bob_place"]) -> Shaped[Tensor, "batch ask bob_pos *width"]:
        """What stands at Bob's positions, in their order, for each of the rows he asks about."""

    @abstractmethod
    def read(
        self, targets: Shaped[Tensor, "batch ask pos *target"], y: Int[Tensor, "batch bob_place"]
    ) -> Int[Tensor, "batch"]:
        """The problem's answer from the task's labels; Bob reads them, and he knows y."""

    @property
    def asks(self) -> int:
        """How many rows Bob asks about for one answer."""
        return 1

    @property
    def partition(self) -> Partition:
        """Which positions are whose."""
        return self.task.partitions()[self.split]

    @property
    def name(self) -> str:
        """The problem, an arrow, the task."""
        return f"{self.problem.title} → {self.task_name}"

    @property
    def one_way_bits(self) -> int:
        """The bits of Alice's message, at least: no two of her strings may send the same.

        In INDEX, EQ and DISJ any two strings x differ in the answer for some y.
        """
        return (self.problem.alice.count - 1).bit_length()

    def complete(self, rows: Shaped[Tensor, "row pos *width"]) -> Shaped[Tensor, "row pos *width"]:
        """The rows with what a model writes itself, where the partition leaves positions to it."""
        assert not self.partition.written, "a task with written positions says what belongs there"
        return rows

    def inputs(
        self, x: Int[Tensor, "batch alice_place"], y: Int[Tensor, "batch bob_place"]
    ) -> Shaped[Tensor, "batch ask pos *width"]:
        """The rows of the task, from both parts and nothing else."""
        hers, his = self.alice(x), self.bob(y)
        partition = self.partition
        batch, asks, width = len(x), his.shape[1], his.shape[3:]
        rows = his.new_zeros(batch, asks, self.task.length, *width)
        rows[:, :, list(partition.alice)] = hers.unsqueeze(1)
        rows[:, :, list(partition.bob)] = his
        return self.complete(rows.flatten(0, 1)).view(rows.shape)

    def answer(self, labels: Labels, y: Int[Tensor, "batch bob_place"]) -> Int[Tensor, "batch"]:
        """The problem's answer from the labels of `inputs(x, y).flatten(0, 1)`."""
        return self.read(labels.targets.view(len(y), self.asks, *labels.targets.shape[1:]), y)

    def value(
        self, x: Int[Tensor, "batch alice_place"], y: Int[Tensor, "batch bob_place"]
    ) -> Int[Tensor, "batch"]:
        """The problem's answer by way of the task's oracle; equal to `problem.value(x, y)`."""
        return self.answer(self.task.solve(self.inputs(x, y).flatten(0, 1)), y)


def one_question(his: Shaped[Tensor, "batch bob_pos *width"]) -> Shaped[Tensor, "batch 1 bob_pos *width"]:
    """Bob's part where he asks about one row."""
    return his.unsqueeze(1)


def label_at(
    targets: Shaped[Tensor, "batch ask pos *target"], position: int
) -> Shaped[Tensor, "batch *target"]:
    """The label of the one row at this position."""
    return targets[:, 0, position]


def places(count: int, like: Tensor) -> Int[Tensor, "count"]:
    """0 … count − 1 where the other tensor is."""
    return torch.arange(count, device=like.device)
