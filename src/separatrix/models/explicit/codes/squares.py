"""The code of squares: what a head needs beside a number to find the one nearest to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.models.explicit.codes._common import require_between, whole_numbers, zero_outside
from separatrix.models.explicit.codes.interface import Code
from separatrix.records import JsonObject

__all__ = ["Squares"]

LAST_SQUARED = 1 << 26  # its square is 2^52, so every entry is exact


@dataclass(frozen=True, kw_only=True, slots=True)
class Squares(Code):
    """(number + first)², one coordinate, exact because it stays below 2^53."""

    kind: ClassVar[str] = "squares"
    count: int = field()
    first: int = 0

    def __post_init__(self) -> None:
        require_between("A code of squares", least=0, most=LAST_SQUARED // 2, count=self.count)
        require_between("A code of squares", least=0, most=LAST_SQUARED // 2, first=self.first)

    @property
    def dim(self) -> int:
        """One coordinate."""
        return 1

    @property
    def entries(self) -> tuple[Fraction, Fraction]:
        """From 0 to the last."""
        return Fraction(0), Fraction(max(0, self.first + self.count - 1) ** 2)

    @property
    def square(self) -> Fraction:
        """That of the last."""
        return self.entries[1] ** 2

    @property
    def parameters(self) -> int:
        """Nothing is stored."""
        return 0

    def rows(self, numbers: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
        """(number + first)²."""
        wide, inside = whole_numbers(numbers, self.count)
        return zero_outside(((wide + self.first) ** 2).to(torch.float64).unsqueeze(-1), inside)

    def spec(self) -> JsonObject:
        """Its count and where it starts."""
        return {"kind": self.kind, "count": self.count, "first": self.first}
