"""DISJ in triple matching: an element that both sets have adds up to 0 with the last number (R-M3).

R's encoding: 1 ≤ i ≤ m stands as i + 1 in Alice's half and as M − (i + 1) in Bob's; whoever does not have i
writes 1; the last number is 0. Which two numbers before it add up to 0 modulo M? Numbers below M are written
as i + 1, with 2 ≤ i + 1 ≤ m + 1, as their negatives, or 1, and 2m + 2 < M. Two that are positive add up to at
most 2m + 2 < M; two negatives to at least −2(m + 1) > −M; 1 and −(i + 1) to −i ≠ 0. So it is some i + 1 and
its negative: a common element.

With repeats the last number would match itself, 0 + 0 + 0, unless the variant is `last`, which never uses it
twice. So with repeats the last number is 1, and i stands as M − (i + 2) in Bob's half. Then 1 is completed to
0 by i + 1 and M − (j + 2) only if i = j, for the sum is M + i − j. The others are 3, i + 3 and i + i′ + 3,
which lie between 0 and M if 2m + 4 ≤ M; M − j; and 2M − (j + j′ + 3), which lies between M and 2M.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.communication.problems import Disjointness
from separatrix.communication.reductions.interface import Reduction, label_at, one_question, places
from separatrix.options import require
from separatrix.tasks.match3 import Match3

__all__ = ["DisjToMatch3"]


@final
@dataclass(frozen=True, kw_only=True)
class DisjToMatch3(Reduction[Match3]):
    """⌊(n − 1)/2⌋ bits, if the modulus is at least n + 2, or n + 3 where a position may be used twice."""

    problem_name: ClassVar[str] = Disjointness.name
    task_name: ClassVar[str] = Match3.name
    size: ClassVar[str] = "min(⌊(n − 1)/2⌋, ⌊(M − 3)/2⌋) bits; with repeats ⌊(M − 4)/2⌋"
    reads: ClassVar[str] = "the label at the last position, and no other"

    def validate(self) -> None:
        """Any two positions may match, and the modulus has room for an element."""
        task = self.task
        require(
            task.variant in ("full", "last"),
            f"DISJ in match3 needs the variant full or last, where any two numbers may match; got "
            f"variant={task.variant!r}.",
        )
        require(
            self._size >= 1,
            f"DISJ in match3 needs a modulus of at least {5 + self._last} here; got modulus={task.residues}.",
        )

    @property
    def problem(self) -> Disjointness:
        """An element for each number of Alice's half that the modulus leaves room for."""
        return Disjointness(n=self._size)

    @property
    def split(self) -> str:
        """Alice's half ends before the middle, the rest is Bob's."""
        return "halves"

    @property
    def _size(self) -> int:
        return min((self.task.n - 1) // 2, (self.task.residues - 3 - self._last) // 2)

    @property
    def _last(self) -> int:
        """The last number: 0, or where it could then match itself 1."""
        return int(self.task.variant == "full" and not self.task.distinct)

    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Int[Tensor, "batch alice_pos"]:
        """i + 1 for an element, else 1."""
        numbers = torch.where(x == 1, places(self._size, x) + 2, 1)
        half = (self.task.n - 1) // 2
        return torch.nn.functional.pad(numbers, (0, half - self._size), value=1)

    def bob(self, y: Int[Tensor, "batch bob_place"]) -> Int[Tensor, "batch 1 bob_pos"]:
        """What completes i + 1 and the last number to M for an element, else 1; then the last number."""
        numbers = torch.where(y == 1, self.task.residues - places(self._size, y) - 2 - self._last, 1)
        rest = self.task.n - (self.task.n - 1) // 2 - 1
        numbers = torch.nn.functional.pad(numbers, (0, rest - self._size), value=1)
        return one_question(torch.nn.functional.pad(numbers, (0, 1), value=self._last))

    def read(
        self, targets: Int[Tensor, "batch ask pos"], y: Int[Tensor, "batch bob_place"]
    ) -> Int[Tensor, "batch"]:
        """A match is a common element."""
        return label_at(targets, self.task.n - 1)
