"""What is free in a construction: the numbers it computes with, and the code of its addresses."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, final, get_args

from separatrix.errors import InvalidInput
from separatrix.models.explicit.codes import Binary, Code, ExtendedBCH, OneHot, RandomSign, SignCode
from separatrix.precision import Float64, NumberSystem

__all__ = ["Addresses", "Choices"]

Addresses = Literal["binary", "bch-1/2", "bch-1/4", "bch-1/8", "random-1/2", "random-1/4", "one-hot"]


@final
@dataclass(frozen=True, kw_only=True)
class Choices:
    """How to build: `system` are the numbers, `addresses` the code of positions (theorem S-T1 and others).

    `binary` is the shortest code, the two others have smaller products between different addresses and so
    need less sharp attention; `one-hot` is what other compilers use, as wide as there are positions.
    """

    system: NumberSystem = field(default_factory=Float64)
    addresses: Addresses = "binary"

    def __post_init__(self) -> None:
        if self.addresses not in get_args(Addresses):
            known = ", ".join(get_args(Addresses))
            raise InvalidInput(f"Addresses are one of {known}; got {str(self.addresses)[:40]!r}. Try binary.")

    def code(self, count: int) -> SignCode:
        """A code of signs with an address for each of `count` numbers."""
        kind, _, bound = self.addresses.partition("-")
        if kind == "bch":
            return ExtendedBCH.least(count=count, gamma=Fraction(bound), one_sided=True)
        if kind == "random":
            return RandomSign.search(count=count, gamma=Fraction(bound))
        if kind == "one":
            raise InvalidInput("This construction needs addresses of signs; one-hot is none. Try binary.")
        return Binary(count=count)

    def any_code(self, count: int) -> Code:
        """The same, or the one-hot code where that was chosen."""
        return OneHot(count=count) if self.addresses == "one-hot" else self.code(count)
