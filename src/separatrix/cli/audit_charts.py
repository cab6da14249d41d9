"""State against n in a terminal: lines of dots on two logarithmic scales, and the bits that are needed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from separatrix.audits import Audit

__all__ = ["chart"]

_ROWS: Final = 8
_MOST_COLUMNS: Final = 60
_LEAST_COLUMNS: Final = 20
_BLANK: Final = 0x2800
_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a braille character, by row and column."""
_DASH: Final = 3
_FAR: Final = 1024
"""A wall so many times further than the last length is left out."""
_BYTES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB")


def chart(audit: Audit, *, width: int) -> list[str]:
    """The state as a line, its bounded part as another where some of it grows, and what index lookup needs.

    What is needed is dashed; where it passes the bounded part is the wall.
    """
    margin = 10
    columns = max(_LEAST_COLUMNS, min(_MOST_COLUMNS, width - margin - 2))
    first, last = audit.lengths[0], _last(audit)
    places = [first * (last / first) ** (dot / (2 * columns - 1)) for dot in range(2 * columns)]
    word = math.log2(max(2, audit.vocabulary))
    bounded = [part for part in audit.size.state if part.most_bits is not None]
    curves = [[float(audit.size.state_bits(int(place))) for place in places]]
    if audit.grows and bounded:
        curves.append([float(sum(part.bits(int(place)) for part in bounded)) for place in places])
    needed = [place * word for place in places]
    low = math.log10(min(min(curve) for curve in (*curves, needed)))
    high = math.log10(max(max(curve) for curve in (*curves, needed)))
    grid = [[_BLANK] * columns for _ in range(_ROWS)]
    for curve in curves:
        _draw(grid, curve, low, high, dashed=False)
    _draw(grid, needed, low, high, dashed=True)
    lines = [
        f"{_height(row, low, high):>{margin - 1}} {''.join(map(chr, cells))}"
        for row, cells in enumerate(grid)
    ]
    ends = f"n = {first:,}{f'n = {last:,}':>{columns - len(f'n = {first:,}')}}"
    return [*lines, f"{'':>{margin}}{ends}", f"{'':>{margin}}dashed: needed to look up one of n words"]


def _last(audit: Audit) -> int:
    """The last length, or a little past the wall where that is not far."""
    last = max(audit.lengths[-1], 2 * audit.lengths[0])
    walls = [wall.largest_n for wall in audit.walls if wall.task == "index-lookup"]
    nearest = min(walls, default=0)
    return max(last, 4 * nearest) if nearest < _FAR * last else last


def _draw(grid: list[list[int]], curve: list[float], low: float, high: float, *, dashed: bool) -> None:
    """Set the dots of a curve, every so-many-th left out where it is dashed."""
    top = 4 * len(grid) - 1
    for place, value in enumerate(curve):
        if dashed and place // _DASH % 2:
            continue
        share = (math.log10(value) - low) / (high - low) if high > low else 0.5
        dot = top - round(share * top)
        grid[dot // 4][place // 2] |= _DOTS[dot % 4][place % 2]


def _height(row: int, low: float, high: float) -> str:
    """The bytes at the top of the chart, at its middle and at its bottom."""
    if row not in {0, _ROWS // 2, _ROWS - 1}:
        return ""
    share = 1 - row / (_ROWS - 1)
    count, unit = 10 ** (low + share * (high - low)) / 8, 0
    while count >= 1024 and unit < len(_BYTES) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:.3g} {_BYTES[unit]}"
