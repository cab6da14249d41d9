"""Exact numbers as evidence: intervals with rational ends, and decimals that say which way they round."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from separatrix.errors import InvalidInput
from separatrix.records import MOST_DIGITS, JsonObject, Reader, Record, exact_to_text

__all__ = ["Interval", "as_decimal", "require_exact"]

Direction = Literal["down", "up"]
_ROUNDING = {"down": decimal.ROUND_FLOOR, "up": decimal.ROUND_CEILING}
_MOST_BITS = int(MOST_DIGITS * math.log2(10)) - 1


@dataclass(frozen=True, kw_only=True)
class Interval(Record):
    """A closed interval that provably holds a real number: `low ≤ value ≤ high`, both ends exact.

    Whoever computes in rounded arithmetic rounds `low` down and `high` up before they come here.
    """

    SCHEMA: ClassVar[str] = "separatrix.interval"

    low: Fraction
    high: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", require_exact("An interval's low end", self.low))
        object.__setattr__(self, "high", require_exact("An interval's high end", self.high))
        if self.low > self.high:
            raise InvalidInput(
                f"An interval's low end is at most its high end; got [{self.low}, {self.high}]."
            )

    @classmethod
    def point(cls, value: int | Fraction) -> Interval:
        """The interval of one exact value."""
        return cls(low=Fraction(value), high=Fraction(value))

    @classmethod
    def outward(cls, *, low: float | Fraction, high: float | Fraction, bits: int = 128) -> Interval:
        """The least interval around [low, high] whose ends are multiples of 2^-bits; keeps files short."""
        if not (math.isfinite(low) and math.isfinite(high)):
            raise InvalidInput(f"An interval has finite ends; got [{low}, {high}].")
        scale = 2**bits
        return cls(
            low=Fraction(math.floor(Fraction(low) * scale), scale),
            high=Fraction(math.ceil(Fraction(high) * scale), scale),
        )

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float | Fraction) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"[{as_decimal(self.low, 'down')}, {as_decimal(self.high, 'up')}]"

    def to_fields(self) -> JsonObject:
        """The ends as exact texts."""
        return {"low": exact_to_text(self.low), "high": exact_to_text(self.high)}

    @classmethod
    def from_fields(cls, read: Reader) -> Interval:
        """The interval whose fields `read` holds."""
        return cls(low=read.exact("low"), high=read.exact("high"))


def as_decimal(value: Fraction | int, direction: Direction, *, digits: int = 6) -> str:
    """A number to so many significant digits, rounded down or up and never the other way."""
    exact = Fraction(value)
    context = decimal.Context(prec=digits, rounding=_ROUNDING[direction])
    rounded = context.divide(decimal.Decimal(exact.numerator), decimal.Decimal(exact.denominator))
    return f"{rounded.normalize(context):g}" if rounded else "0"


def require_exact(owner: str, value: object) -> Fraction:
    """The value as a fraction; refuses floats, whose exactness nobody promised, and giants."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise InvalidInput(
            f"{owner} is an exact number (int or Fraction); got {type(value).__name__}. "
            "Use Fraction(x) for the exact value of a float."
        )
    number = Fraction(value)
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > _MOST_BITS:
        raise InvalidInput(f"{owner} may have {MOST_DIGITS} digits; round it outward first.")
    return number
