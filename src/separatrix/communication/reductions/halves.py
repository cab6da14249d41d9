"""DISJ and EQ as the tasks of the same names: each party writes its string into its half (S-T11, S-T12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.communication import problems
from separatrix.communication.reductions.interface import Reduction, label_at, one_question
from separatrix.options import require
from separatrix.tasks.disjointness import Disjointness
from separatrix.tasks.equality import Equality

__all__ = ["DisjToDisjointness", "EqToEquality"]


@final
@dataclass(frozen=True, kw_only=True)
class DisjToDisjointness(Reduction[Disjointness]):
    """The problem itself: Alice's set is the first half, Bob's the second."""

    problem_name: ClassVar[str] = problems.Disjointness.name
    task_name: ClassVar[str] = Disjointness.name
    size: ClassVar[str] = "n/2 bits"
    reads: ClassVar[str] = "the one label"

    def validate(self) -> None:
        """Every such task has two halves."""

    @property
    def problem(self) -> problems.Disjointness:
        """A bit for each place of a half."""
        return problems.Disjointness(n=self.task.n // 2)

    @property
    def split(self) -> str:
        """The first half is Alice's."""
        return "halves"

    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Int[Tensor, "batch alice_pos"]:
        """x itself."""
        return x

    def bob(self, y: Int[Tensor, "batch bob_place"]) -> Int[Tensor, "batch 1 bob_pos"]:
        """y itself."""
        return one_question(y)

    def read(
        self, targets: Int[Tensor, "batch ask pos"], y: Int[Tensor, "batch bob_place"]
    ) -> Int[Tensor, "batch"]:
        """The verdict."""
        return label_at(targets, self.task.n - 1)


@final
@dataclass(frozen=True, kw_only=True)
class EqToEquality(Reduction[Equality]):
    """Strings of bits, as many bits in a symbol as it holds; symbols are equal iff their bits are.

    Where the task places w at chosen positions (S-L5) Alice writes there, and it works for any half of them.
    """

    problem_name: ClassVar[str] = problems.Equality.name
    task_name: ClassVar[str] = Equality.name
    size: ClassVar[str] = "n/2·⌊log |Σ|⌋ bits"
    reads: ClassVar[str] = "the one label"

    def validate(self) -> None:
        """A verdict, and symbols that hold a bit."""
        require(
            self.task.form != "ncp",
            "EQ in equality needs a form with a verdict; got form='ncp', where the model writes w′. "
            "Try form='random'.",
        )
        require(
            self.task.symbols >= 2, "EQ in equality needs an alphabet of at least 2; got alphabet=1. Try 2."
        )

    @property
    def problem(self) -> problems.Equality:
        """Some bits for each symbol of a half."""
        return problems.Equality(n=self.task.n // 2 * self._bits)

    @property
    def split(self) -> str:
        """w and the separator are Alice's, w′ is Bob's."""
        return "halves" if self.task.alice is None else "w/w′"

    @property
    def _bits(self) -> int:
        return self.task.symbols.bit_length() - 1

    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Int[Tensor, "batch alice_pos"]:
        """The symbols of w at their places, and the separator at its own."""
        middle = self.task.n // 2
        places = self.task.places[0]
        columns = dict(zip(places, self._symbols(x).unbind(1), strict=True))
        columns[middle] = torch.full_like(x[:, 0], self.task.symbols)
        return torch.stack([columns[position] for position in self.partition.alice], dim=1)

    def bob(self, y: Int[Tensor, "batch bob_place"]) -> Int[Tensor, "batch 1 bob_pos"]:
        """The symbols of w′, whose places ascend."""
        return one_question(self._symbols(y))

    def read(
        self, targets: Int[Tensor, "batch ask pos"], y: Int[Tensor, "batch bob_place"]
    ) -> Int[Tensor, "batch"]:
        """The verdict."""
        return label_at(targets, self.task.length - 1)

    def _symbols(self, string: Int[Tensor, "batch place"]) -> Int[Tensor, "batch half"]:
        """Bits in groups, the first of each the highest."""
        weights = 1 << torch.arange(self._bits - 1, -1, -1, device=string.device)
        return (string.reshape(-1, self.task.n // 2, self._bits) * weights).sum(2)
