"""Where tiles and vertices go, and what a finished drawing says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from separatrix.atlas.svg import WIDTH, Canvas, Point, text_width

__all__ = ["Sketch", "TileRow", "lay_tiles", "ring", "verdict"]


@dataclass(frozen=True, kw_only=True)
class Sketch:
    """What a painted canvas came to: its height, and in a sentence what is to be seen."""

    height: float
    says: str


@dataclass(frozen=True, kw_only=True)
class TileRow:
    """Tiles of one size, in one or more lines; `bottom` is where they end."""

    centres: tuple[Point, ...]
    size: Point
    bottom: float


def lay_tiles(
    words: Sequence[str], *, top: float, gap: float = 4, leading: float = 36, least: float = 26
) -> TileRow:
    """Equal tiles, as wide as the longest word needs, in as few and as even lines as fit."""
    width = max(least, *(text_width(word) + 12 for word in words))
    most = max(1, int((WIDTH + gap) // (width + gap)))
    lines = math.ceil(len(words) / most)
    columns = math.ceil(len(words) / lines)
    start = (WIDTH - columns * (width + gap) + gap) / 2
    centres = tuple(
        (start + width / 2 + place % columns * (width + gap), top + 13 + place // columns * leading)
        for place in range(len(words))
    )
    return TileRow(centres=centres, size=(width, 26), bottom=centres[-1][1] + 13)


def ring(count: int, *, centre: Point, radius: float) -> list[Point]:
    """Points evenly on a circle, the first at the top, clockwise."""
    turns = [2 * math.pi * place / count - math.pi / 2 for place in range(count)]
    return [(centre[0] + radius * math.cos(turn), centre[1] + radius * math.sin(turn)) for turn in turns]


def verdict(canvas: Canvas, y: float, words: str) -> None:
    """The answer of a task that says one thing about the whole input, filled, in the middle."""
    canvas.tile((WIDTH / 2, y), (text_width(words) + 28, 26), words, "tile answer")
