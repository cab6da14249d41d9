"""Disjointness: two sets as bit strings a and b; do they meet, is a_i = b_i = 1 anywhere (S, appendix B.1)?

The label is 1 where the sets *intersect* and 0 where they are disjoint: S's DISJ(a, b) = max a_i·b_i.

>>> from separatrix.tasks import task
>>> disjointness = task("disjointness", n=8)
>>> rows = torch.stack([disjointness.parse("01101001"), disjointness.parse("01101010")])
>>> disjointness.solve(rows).answer.tolist()
[0, 1]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks._packed_digits import packed_digits
from separatrix.tasks.domains import digits
from separatrix.tasks.interface import Asking, Batch, Classes, Labels, Partition, TokenTask, option, require
from separatrix.tasks.shaping import labels_at
from separatrix.tasks.vocabulary import Vocabulary, numbered


@TASKS.register("disjointness")
@dataclass(frozen=True, kw_only=True)
class Disjointness(TokenTask):
    """Find a place where both of two bit strings have a one.

    An input is the n/2 bits of a followed by the n/2 bits of b; the label, at the last bit, is 1 iff some
    i has a_i = b_i = 1. The papers give no law, so samples follow the one that makes one place decide:
    every pair (a_i, b_i) is uniform among 00, 01 and 10; with probability ½ it stays so, label 0, and else
    one place, uniform, becomes 11, label 1.
    """

    name = "disjointness"
    title = "Set disjointness"
    source = "S"
    showcase = MappingProxyType({"n": 26})

    n: int = option(help="bits of both sets together, even")

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        require(
            self.n >= 2 and self.n % 2 == 0,
            f"disjointness needs an even n ≥ 2; got n={self.n}. "
            f"Try {min(max(self.n + self.n % 2, 2), 1 << 20)}.",
        )
        require(self.n <= 1 << 20, f"disjointness takes n up to 2^20; got n={self.n}. Try 400.")

    @property
    def vocabulary(self) -> Vocabulary:
        """The bits 0 and 1."""
        return Vocabulary(numbered("bit", 2), separator="")

    @property
    def length(self) -> int:
        """n bits."""
        return self.n

    @property
    def target_space(self) -> Classes:
        """1 for sets that intersect, 0 for disjoint ones."""
        return Classes(size=2)

    @property
    def asking(self) -> Asking:
        """One answer, behind everything it depends on."""
        return Asking()

    def draw(self, draws: Draws) -> Batch:
        """Half disjoint, half with one common element."""
        meet = draws.coins("meet", ())
        pairs = packed_digits(draws, "pairs", self.n // 2, 3)
        place = draws.integers("common place", (1,), self.n // 2)
        common = meet.unsqueeze(1).to(pairs.dtype) * 3
        pairs = pairs.scatter(1, place, torch.maximum(pairs.gather(1, place), common))
        inputs = torch.cat([pairs >> 1, pairs & 1], dim=1).long()
        labels = self._labels(meet)
        lengths = torch.full_like(meet, self.n, dtype=torch.int64)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=lengths)

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """The greatest of the products a_i·b_i."""
        first, second = inputs[:, : self.n // 2], inputs[:, self.n // 2 :]
        return self._labels((first & second).amax(1) == 1)

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """Bits stand in any order."""

    def domain_size(self) -> int:
        """2^n pairs of sets."""
        return 1 << self.n

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """The bits of the number, the first one most significant."""
        return digits(numbers, [2] * self.n)

    def partitions(self) -> Mapping[str, Partition]:
        """The splits that put a_i and b_i in different hands.

        Halves: Alice holds a, Bob b (S, theorem 12 and appendix B.1). Odd and even places do the same if
        a_i and b_i, n/2 apart, have different parity.
        """
        splits = {"halves": Partition.prefix(self.n, self.n // 2)}
        if self.n % 4 == 2:
            splits["odd/even"] = Partition.odd_even(self.n)
        return splits

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """1 for sets that intersect, else 0."""
        return str(int(target))

    def _labels(self, meet: Bool[Tensor, "batch"]) -> Labels:
        last = torch.full_like(meet, self.n - 1, dtype=torch.int64)
        return labels_at(last, meet.long(), length=self.n)
