"""What populations gain that take their steps abreast on one H200: measured, and what follows for others.

`data/gains.csv` has a line for each measurement: so many populations of one size, each on a stream of its
own, did so many times as much as one after another. Three rules say what others gain at the least:

- a population that is no larger in any way leaves no less of a card idle, so it gains no less; a tenth more
  positions, padding counted, are no more where both come in as many bands. An LSTM leaves it idle while it
  waits for one position after another, so one of less than half the length may gain less: of two layers,
  alone and of width 256, four gained 3.3 times at 400, 3.1 at 200, 2.8 at 50 and 2.5 at 20;
- more of them at once gain no less than fewer;
- one of fewer goes no slower than one of more.

What was measured of a size itself and for so many comes before what other sizes say. Each of 159 measurements
left out in turn, none is less than nine tenths of what the others say. Of which nothing was measured, nothing
is gained.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from separatrix.experiments.rates import SIZE_COLUMNS, Size, size_from

__all__ = ["GAIN_COLUMNS", "Gain", "Gains", "gains_from", "gains_measured"]

GAIN_COLUMNS: Final = (*SIZE_COLUMNS, "abreast", "gain", "device", "torch")


@dataclass(frozen=True, kw_only=True)
class Gain:
    """One measurement: populations of this size, so many at once."""

    size: Size
    abreast: int
    gain: float
    """How many times as much they do as one after another."""
    device: str
    torch: str

    def among(self, together: int) -> float:
        """What so many of them gain at the least."""
        return self.gain * min(1.0, together / self.abreast)

    def speaks_for(self, size: Size) -> bool:
        """Whether populations of this size gain no less."""
        waits = self.size.model == "lstm" and 2 * size.length < self.size.length
        return self.size.nearly_holds(size) and not waits


class Gains:
    """All measurements there are, and what they say of other populations."""

    def __init__(self, measured: Iterable[Gain] = ()) -> None:
        self.measured = tuple(measured)
        self._known: dict[tuple[Size, int], float] = {}

    def of(self, size: Size, together: int) -> float:
        """What `together` populations of this size gain at the least; 1 is nothing."""
        place = size, together
        if place not in self._known:
            own = [one for one in self.measured if one.size == size]
            is_known = any(one.abreast == together for one in own)
            told = own if is_known else [one for one in self.measured if one.speaks_for(size)]
            self._known[place] = max([1.0, *(one.among(together) for one in told)])
        return self._known[place]

    def speed(self, size: Size, together: int) -> float:
        """The share of its speed alone that one of so many has at the least."""
        return self.of(size, together) / together


@cache
def gains_measured() -> Gains:
    """The measurements that come with the package."""
    text = (files("separatrix.experiments") / "data" / "gains.csv").read_text(encoding="utf-8")
    return Gains(gains_from(text.splitlines()))


def gains_from(lines: Iterable[str]) -> tuple[Gain, ...]:
    """The measurements in lines of CSV."""
    return tuple(
        Gain(
            size=size_from(row),
            abreast=int(row["abreast"]),
            gain=float(row["gain"]),
            device=row["device"],
            torch=row["torch"],
        )
        for row in csv.DictReader(lines)
    )
