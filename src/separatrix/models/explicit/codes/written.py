"""Codes of what a model both reads and writes: numbers as points of a parabola, and several codes in one."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.models.explicit.codes._common import (
    LARGEST_COUNT,
    require_between,
    whole_numbers,
    zero_outside,
)
from separatrix.models.explicit.codes.interface import Code
from separatrix.records import JsonObject

__all__ = ["BlockCode", "Parabola"]

LARGEST_ROOT = 1 << 26
"""Squares up to this are whole float64 numbers, exactly."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parabola(Code):
    """(i, i², 1) for the number i: a linear form of it is largest wherever one wants it to be."""

    kind: ClassVar[str] = "parabola"
    count: int = field()
    first: int = 0

    def __post_init__(self) -> None:
        require_between("A parabola", least=0, most=LARGEST_ROOT, count=self.count, first=self.first)
        require_between("A parabola", least=0, most=LARGEST_ROOT, last=self.last)

    @property
    def dim(self) -> int:
        """The number, its square, and 1."""
        return 3

    @property
    def last(self) -> int:
        """The largest number."""
        return max(0, self.first + self.count - 1)

    @property
    def entries(self) -> tuple[Fraction, Fraction]:
        """From 0 to the last square."""
        return Fraction(0), Fraction(max(1, self.last**2))

    @property
    def square(self) -> Fraction:
        """That of the last."""
        return Fraction(self.last**4 + self.last**2 + 1)

    @property
    def parameters(self) -> int:
        """Nothing is stored."""
        return 0

    def rows(self, numbers: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
        """The point of number + first."""
        wide, inside = whole_numbers(numbers, self.count)
        root = (wide + self.first).to(torch.float64)
        return zero_outside(torch.stack([root, root * root, torch.ones_like(root)], dim=-1), inside)

    def spec(self) -> JsonObject:
        """Its count and where it starts."""
        return {"kind": self.kind, "count": self.count, "first": self.first}


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockCode(Code):
    """Codes one after another: the numbers of each part have its vectors, in coordinates of its own."""

    kind: ClassVar[str] = "blocks"
    parts: tuple[Code, ...]

    def __post_init__(self) -> None:
        require_between("A code of blocks", least=0, most=LARGEST_COUNT, count=self.count)

    @property
    def count(self) -> int:
        """Those of all parts."""
        return sum(part.count for part in self.parts)

    @property
    def dim(self) -> int:
        """Those of all parts."""
        return sum(part.dim for part in self.parts)

    @property
    def entries(self) -> tuple[Fraction, Fraction]:
        """The least and the greatest of any part."""
        lows, highs = zip(*(part.entries for part in self.parts), strict=True)
        return min(lows), max(highs)

    @property
    def square(self) -> Fraction:
        """The largest of any part."""
        return max(part.square for part in self.parts)

    @property
    def parameters(self) -> int:
        """What the parts store."""
        return sum(part.parameters for part in self.parts)

    def rows(self, numbers: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
        """Part by part: a part gives the vector 0 to the numbers of others."""
        found, first = [], 0
        for part in self.parts:
            found.append(part.rows(numbers - first))
            first += part.count
        return torch.cat(found, dim=-1)

    def spec(self) -> JsonObject:
        """The parts in order."""
        return {"kind": self.kind, "parts": [part.spec() for part in self.parts]}
