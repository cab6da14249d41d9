"""Exact numbers as evidence: intervals with rational ends, and decimals that say which way they round."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

from separatrix.errors import InvalidInput
from separatrix.record_checks import require_count
from separatrix.records import MOST_DIGITS, JsonObject, Reader, Record, exact_to_text, fits_exact_text

__all__ = ["Interval", "as_decimal", "as_short_text", "require_exact"]

Direction = Literal["down", "up", "nearest"]
_ROUNDING = {
    "down": decimal.ROUND_FLOOR,
    "up": decimal.ROUND_CEILING,
    "nearest": decimal.ROUND_HALF_EVEN,
}


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
            raise InvalidInput(f"An interval's low end is at most its high end; got {self}.")

    @classmethod
    def point(cls, value: int | Fraction) -> Interval:
        """The interval of one exact value."""
        exact = require_exact("An interval of one value", value)
        return cls(low=exact, high=exact)

    @classmethod
    def outward(cls, *, low: float | Fraction, high: float | Fraction, bits: int = 128) -> Interval:
        """The least interval around [low, high] whose ends are multiples of 2^-bits; keeps files short."""
        require_count("Rounding outward", bits=bits)
        for end in (low, high):
            if isinstance(end, float) and not math.isfinite(end):
                raise InvalidInput(f"An interval has finite ends; got {end}.")
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
    """A number to so many significant digits, rounded as told, however large or small it is."""
    exact = Fraction(value)
    context = decimal.Context(prec=digits, rounding=_ROUNDING[direction])
    rounded = context.divide(decimal.Decimal(exact.numerator), decimal.Decimal(exact.denominator))
    shown = rounded.normalize(context)
    return f"{shown:f}" if 0 <= shown.adjusted() < digits else f"{shown:g}"


def as_short_text(value: Fraction) -> str:
    """The exact number while that is short, else the nearest decimal, which says that it is about so much."""
    exact = exact_to_text(value)
    return exact if len(exact) <= 12 else f"about {as_decimal(value, 'nearest')}"


def require_exact(owner: str, value: object) -> Fraction:
    """The value as a fraction; refuses floats, whose exactness nobody promised, and giants."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise InvalidInput(
            f"{owner} is an exact number (int or Fraction); got {type(value).__name__}. "
            "Use Fraction(x) for the exact value of a float."
        )
    number = Fraction(value)
    if not fits_exact_text(number):
        raise InvalidInput(f"{owner} may have {MOST_DIGITS} digits; round it outward first.")
    return number
