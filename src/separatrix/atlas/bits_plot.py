"""Bits against the length of the input, both logarithmic: the frame of a plot and where things lie in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

from separatrix.atlas.labels import LABEL
from separatrix.atlas.svg import Canvas, Point

__all__ = ["LONGEST", "SHORTEST", "BitsPlot"]

SHORTEST, LONGEST = 10, 100_000
_TOP, _BOTTOM, _LEFT, _RIGHT = 26.0, 322.0, 34.0, 298.0
_DIGITS: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@final
@dataclass(frozen=True, kw_only=True)
class BitsPlot:
    """From `least` to `most` bits, for lengths from 10 to 100,000."""

    least: float
    most: float
    across: str
    """What the lengths count."""

    def at(self, n: float, bits: float) -> Point:
        """Where a length and a number of bits are; what is beyond the edges lies on them."""
        across = math.log(n / SHORTEST) / math.log(LONGEST / SHORTEST)
        up = math.log(min(max(bits, self.least), self.most) / self.least) / math.log(self.most / self.least)
        return _LEFT + across * (_RIGHT - _LEFT), _BOTTOM - up * (_BOTTOM - _TOP)

    def draw_axes(self, canvas: Canvas) -> None:
        """A faint line for every power of ten, with its name."""
        canvas.text((0, 10), "bits", "note", anchor="start")
        for power in range(math.ceil(math.log10(self.least)), round(math.log10(self.most)) + 1):
            _, y = self.at(SHORTEST, 10**power)
            canvas.line((_LEFT, y), (_RIGHT, y), "edge faint")
            canvas.text((_LEFT - 6, y), f"10{str(power).translate(_DIGITS)}", "small", anchor="end")
        for power in range(1, 6):
            x, _ = self.at(10**power, self.least)
            canvas.line((x, _BOTTOM), (x, _TOP), "edge faint")
            canvas.text((x, _BOTTOM + 12), f"{10**power:,}", "small")
        canvas.line((_LEFT, _BOTTOM), (_RIGHT, _BOTTOM), "edge")
        canvas.text(((_LEFT + _RIGHT) / 2, _BOTTOM + 28), self.across, "note")

    def height(self, lowest: float) -> float:
        """Of a drawing whose last label stands there."""
        return max(_BOTTOM + 34, lowest + LABEL)
