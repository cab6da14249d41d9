"""Codes that spell a number out: as a unit vector, digits, itself, its reciprocal, a point of the circle."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import TooLarge
from separatrix.models.explicit.codes._common import (
    LARGEST_COUNT,
    bits_for,
    require_between,
    whole_numbers,
    zero_outside,
)
from separatrix.models.explicit.codes._turns import TURN_ERROR, cos_sin_of_turns
from separatrix.models.explicit.codes.interface import Code
from separatrix.records import JsonObject

__all__ = ["Circle", "Digits", "Ladder", "OneHot", "Reciprocal"]

WIDEST_ONE_HOT = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class OneHot(Code):
    """A unit vector for each number: different ones are orthogonal, at the price of `count` coordinates."""

    kind: ClassVar[str] = "one-hot"
    count: int = field()

    def __post_init__(self) -> None:
        require_between("A one-hot code", least=0, most=LARGEST_COUNT, count=self.count)

    @property
    def dim(self) -> int:
        """One coordinate for each number."""
        return self.count

    @property
    def entries(self) -> tuple[Fraction, Fraction]:
        """0 and 1."""
        return Fraction(0), Fraction(1)

    @property
    def square(self) -> Fraction:
        """The one 1."""
        return Fraction(1)

    @property
    def parameters(self) -> int:
        """Nothing is stored."""
        return 0

    def rows(self, numbers: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
        """A 1 at the number's own coordinate; refused where a row alone would have more than 2^16."""
        if self.count > WIDEST_ONE_HOT:
            raise TooLarge(
                f"One-hot vectors are made for up to {WIDEST_ONE_HOT} numbers; this code has {self.count}. "
                "Try Digits or Binary, which need as many coordinates as a number has binary digits."
            )
        wide, inside = whole_numbers(numbers, self.count)
        hit = wide.unsqueeze(-1) == torch.arange(self.count, device=wide.device)
        return (hit & inside.unsqueeze(-1)).to(torch.float64)

    def spec(self) -> JsonObject:
        """Its count."""
        return {"kind": self.kind, "count": self.count}


@dataclass(frozen=True, kw_only=True, slots=True)
class Digits(Code):
    """The binary digits of the number as 0 and 1, the lowest first."""

    kind: ClassVar[str] = "digits"
    count: int = field()

    def __post_init__(self) -> None:
        require_between("A code of digits", least=0, most=LARGEST_COUNT, count=self.count)

    @property
    def dim(self) -> int:
        """Digits of the largest number, at least one."""
        return max(1, bits_for(self.count))

    @property
    def entries(self) -> tuple[Fraction, Fraction]:
        """0 and 1."""
        return Fraction(0), Fraction(1)

    @property
    def square(self) -> Fraction:
        """All digits 1."""
        return Fraction(self.dim)

    @property
    def parameters(self) -> int:
        """Nothing is stored."""
        return 0

    def rows(self, numbers: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
        """Digit j at coordinate j. The number 0 has the vector 0 too, like what lies outside."""
        wide, _ = whole_numbers(numbers, self.count)
        places = torch.arange(self.dim, device=wide.device)
        return ((wide.unsqueeze(-1) >> places) & 1).to(torch.float64)

    def spec(self) -> JsonObject:
        """Its count."""
        return {"kind": self.kind, "count": self.count}


@dataclass(frozen=True, kw_only=True, slots=True)
class Ladder(Code):
    """The number itself, counted from `first`: one coordinate, exact because it stays far below 2^53."""

    kind: ClassVar[str] = "ladder"
    count: int = field()
    first: int = 0

    def __post_init__(self) -> None:
        require_between("A ladder", least=0, most=LARGEST_COUNT, count=self.count, first=self.first)

    @property
    def dim(self) -> int:
        """One coordinate."""
        return 1

    @property
    def entries(self) -> tuple[Fraction, Fraction]:
        """From 0 to the last."""
        return Fraction(0), Fraction(max(0, self.first + self.count - 1))

    @property
    def square(self) -> Fraction:
        """That of the last."""
        return self.entries[1] ** 2

    @property
    def parameters(self) -> int:
        """Nothing is stored."""
        return 0

    def rows(self, numbers: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
        """number + first."""
        wide, inside = whole_numbers(numbers, self.count)
        return zero_outside((wide + self.first).to(torch.float64).unsqueeze(-1), inside)

    def spec(self) -> JsonObject:
        """Its count and where it starts."""
        return {"kind": self.kind, "count": self.count, "first": self.first}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reciprocal(Code):
    """1 / (number + first): what a running mean divides by, so that a mean can be compared with a count."""

    kind: ClassVar[str] = "reciprocal"
    count: int = field()
    first: int = 1

    def __post_init__(self) -> None:
        require_between("A code of reciprocals", least=0, most=LARGEST_COUNT, count=self.count)
        require_between("A code of reciprocals", least=1, most=LARGEST_COUNT, first=self.first)

    @property
    def dim(self) -> int:
        """One coordinate."""
        return 1

    @property
    def entries(self) -> tuple[Fraction, Fraction]:
        """From 0 to the first."""
        return Fraction(0), Fraction(1, self.first)

    @property
    def square(self) -> Fraction:
        """That of the first."""
        return Fraction(1, self.first**2)

    @property
    def parameters(self) -> int:
        """Nothing is stored."""
        return 0

    @property
    def error(self) -> Fraction:
        """The most an entry is off: 1 and 1/2 are exact, and below 1/2 floats are at most 2^-54 apart."""
        return Fraction(1, 2**55)

    def rows(self, numbers: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
        """The float64 nearest to the reciprocal: IEEE division of two exact numbers."""
        wide, inside = whole_numbers(numbers, self.count)
        return zero_outside((wide + self.first).to(torch.float64).reciprocal().unsqueeze(-1), inside)

    def spec(self) -> JsonObject:
        """Its count and where it starts."""
        return {"kind": self.kind, "count": self.count, "first": self.first}


@dataclass(frozen=True, kw_only=True, slots=True)
class Circle(Code):
    """Residues modulo M as points of the circle, where adding residues is turning."""

    kind: ClassVar[str] = "circle"
    modulus: int

    def __post_init__(self) -> None:
        require_between("A circle", least=1, most=LARGEST_COUNT, modulus=self.modulus)

    @property
    def count(self) -> int:
        """One vector for each residue."""
        return self.modulus

    @property
    def dim(self) -> int:
        """Cosine and sine."""
        return 2

    @property
    def entries(self) -> tuple[Fraction, Fraction]:
        """Cosines and sines."""
        return Fraction(-1), Fraction(1)

    @property
    def square(self) -> Fraction:
        """cos² + sin²."""
        return Fraction(1)

    @property
    def parameters(self) -> int:
        """Nothing is stored."""
        return 0

    @property
    def error(self) -> Fraction:
        """2^-53: more than any entry differs from the true cosine or sine, proven where they are made."""
        return TURN_ERROR

    def rows(self, numbers: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
        """(cos, sin) of 2π·number/M, each the float64 nearest to it (see `error`)."""
        wide, inside = whole_numbers(numbers, self.modulus)
        # Where a residue must repeat, making each once is less work; the bits are the same.
        if wide.numel() > self.modulus:
            residues = torch.arange(self.modulus, device=wide.device)
            points = torch.stack(cos_sin_of_turns(residues, self.modulus), dim=-1)[wide]
        else:
            points = torch.stack(cos_sin_of_turns(wide, self.modulus), dim=-1)
        return zero_outside(points, inside)

    def spec(self) -> JsonObject:
        """Its modulus."""
        return {"kind": self.kind, "modulus": self.modulus}
