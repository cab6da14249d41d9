"""Bits against the length of the input, both logarithmic: the frame of a plot and where things lie in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

from separatrix.atlas.labels import LABEL
from separatrix.atlas.svg import Canvas, Point

__all__ = ["LONGEST", "SHORTEST", "BitsPlot", "raised"]

SHORTEST, LONGEST = 10, 100_000
_TOP, _LEFT, _RIGHT = 26.0, 34.0, 298.0
_DIGITS: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_MOST_TICKS: Final = 6


def raised(power: int) -> str:
    """A whole number as an exponent."""
    return str(power).translate(_DIGITS)


@final
@dataclass(frozen=True, kw_only=True)
class BitsPlot:
    """From `least` to `most` bits and from the shortest to the longest input, in powers of `base`."""

    least: float
    most: float
    across: str
    """What the lengths count."""
    shortest: int = SHORTEST
    longest: int = LONGEST
    base: int = 10
    bottom: float = 322.0

    def at(self, n: float, bits: float) -> Point:
        """Where a length and a number of bits are; what is beyond the edges lies on them."""
        across = math.log(n / self.shortest) / math.log(self.longest / self.shortest)
        up = math.log(min(max(bits, self.least), self.most) / self.least) / math.log(self.most / self.least)
        return _LEFT + across * (_RIGHT - _LEFT), self.bottom - up * (self.bottom - _TOP)

    def draw_axes(self, canvas: Canvas) -> None:
        """A faint line for every power of ten, with its name."""
        canvas.text((0, 10), "bits", "note", anchor="start")
        for power in range(math.ceil(math.log10(self.least)), round(math.log10(self.most)) + 1):
            _, y = self.at(self.shortest, 10**power)
            canvas.line((_LEFT, y), (_RIGHT, y), "edge faint")
            canvas.text((_LEFT - 6, y), f"10{raised(power)}", "small", anchor="end")
        for power in self._powers():
            x, _ = self.at(self.base**power, self.least)
            canvas.line((x, self.bottom), (x, _TOP), "edge faint")
            name = f"{10**power:,}" if self.base == 10 else f"{self.base}{raised(power)}"
            canvas.text((x, self.bottom + 12), name, "small")
        canvas.line((_LEFT, self.bottom), (_RIGHT, self.bottom), "edge")
        canvas.text(((_LEFT + _RIGHT) / 2, self.bottom + 28), self.across, "note")

    def height(self, lowest: float) -> float:
        """Of a drawing whose last label stands there."""
        return max(self.bottom + 34, lowest + LABEL)

    def _powers(self) -> range:
        """The exponents that are named: as many as there is room for, evenly spaced."""
        first = math.ceil(round(math.log(self.shortest, self.base), 9))
        last = math.floor(round(math.log(self.longest, self.base), 9))
        step = math.ceil((last - first + 1) / _MOST_TICKS)
        return range(math.ceil(first / step) * step, last + 1, step)
