"""DISJ and INDEX in multi-query recall: Bob reads Alice's whole string back (S-T8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.communication.problems import Disjointness, Index
from separatrix.communication.reductions.interface import Reduction, one_question, places
from separatrix.options import require
from separatrix.tasks.mqar import MultiQueryRecall

__all__ = ["DisjToMqar", "IndexToMqar"]


@dataclass(frozen=True, kw_only=True)
class _ToMqar(Reduction[MultiQueryRecall]):
    """Key i with Alice's symbol i as its label, i below n/2; then Bob asks for the keys in the same order.

    The labels behind the queries are the model's to write: Bob feeds it its own answers.
    """

    task_name: ClassVar[str] = MultiQueryRecall.name

    def validate(self) -> None:
        """Two labels."""
        require(
            self._labels >= 2,
            f"{self.problem.title} in mqar needs at least 2 labels, a vocabulary_size of 4; got "
            f"vocabulary_size={self.task.vocabulary_size}.",
        )

    @property
    def split(self) -> str:
        """The labelled keys are Alice's, the queries are Bob's."""
        return "prefix/suffix"

    @property
    def _labels(self) -> int:
        return self.task.target_space.size

    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Int[Tensor, "batch alice_pos"]:
        """Keys in order, each with its symbol."""
        keys = places(self.task.n // 2, x) + self._labels
        return torch.stack([keys.expand_as(x), x], dim=2).flatten(1)

    def bob(self, y: Int[Tensor, "batch bob_place"]) -> Int[Tensor, "batch 1 bob_pos"]:
        """Keys in order, whatever y is."""
        keys = places(self.task.n // 2, y) + self._labels
        return one_question(keys.expand(len(y), -1))

    def complete(self, rows: Int[Tensor, "row pos"]) -> Int[Tensor, "row pos"]:
        """Behind every query its label, which is what a right model writes there."""
        answers = self.task.solve(rows).targets
        rows = rows.clone()
        rows[:, list(self.partition.written)] = answers[:, list(self.partition.bob)]
        return rows

    def _told(self, targets: Int[Tensor, "batch ask pos"]) -> Int[Tensor, "batch half"]:
        """Alice's string."""
        return targets[:, 0, list(self.partition.bob)]


@final
@dataclass(frozen=True, kw_only=True)
class DisjToMqar(_ToMqar):
    """The labels are the bits of Alice's set, and Bob compares them with his own: S's proof."""

    problem_name: ClassVar[str] = Disjointness.name
    size: ClassVar[str] = "n/2 bits"
    reads: ClassVar[str] = "the labels at the queries of Bob's set: is one of them 1"

    @property
    def problem(self) -> Disjointness:
        """A bit for each labelled key."""
        return Disjointness(n=self.task.n // 2)

    def read(
        self, targets: Int[Tensor, "batch ask pos"], y: Int[Tensor, "batch bob_place"]
    ) -> Int[Tensor, "batch"]:
        """Whether the two sets meet."""
        return ((self._told(targets) == 1) & (y == 1)).any(1).long()


@final
@dataclass(frozen=True, kw_only=True)
class IndexToMqar(_ToMqar):
    """The same row; the labels may be any, so a string of n/2 labels goes over and not one of bits."""

    problem_name: ClassVar[str] = Index.name
    size: ClassVar[str] = "n/2 symbols of an alphabet of vocabulary_size/2"
    reads: ClassVar[str] = "the label at the query of Bob's place"

    @property
    def problem(self) -> Index:
        """A label for each labelled key."""
        return Index(n=self.task.n // 2, alphabet=self._labels)

    def read(self, targets: Int[Tensor, "batch ask pos"], y: Int[Tensor, "batch 1"]) -> Int[Tensor, "batch"]:
        """The label at Bob's place."""
        return self._told(targets).gather(1, y).squeeze(1)
