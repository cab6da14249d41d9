"""Names behind the ends of the curves of a plot, moved apart where these lie close."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from separatrix.atlas.svg import WIDTH, Canvas, Point, text_width

__all__ = ["LABEL", "draw_labels"]

LABEL: Final = 15.0
"""Least distance of two labels' middle lines."""


def draw_labels(canvas: Canvas, labels: Sequence[tuple[Point, str, str]]) -> float:
    """Names behind the ends of their curves, moved apart where these lie close; where the last stands."""
    ordered = sorted(labels, key=lambda label: label[0][1])
    heights = list(_apart([end[1] for end, _, _ in ordered]))
    for (end, words, style), y in zip(ordered, heights, strict=True):
        x = end[0] + 18
        canvas.polyline([(end[0] + 2, end[1]), (x - 3, y)], "edge faint")
        canvas.text((x, y), _cut(words, x), style, anchor="start")
    return heights[-1]


def _apart(wanted: Sequence[float]) -> Iterator[float]:
    """Heights near those wanted, in their order and not too close: crowds spread about their middle."""
    crowds: list[list[float]] = []
    for height in wanted:
        crowds.append([height])
        while len(crowds) > 1 and _top(crowds[-1]) - _top(crowds[-2]) < LABEL * len(crowds[-2]):
            last = crowds.pop()
            crowds[-1] += last
    for crowd in crowds:
        yield from (_top(crowd) + LABEL * place for place in range(len(crowd)))


def _top(crowd: Sequence[float]) -> float:
    """Where the first of a crowd stands; none stands above the drawing."""
    return max(LABEL / 2, sum(crowd) / len(crowd) - LABEL * (len(crowd) - 1) / 2)


def _cut(words: str, x: float) -> str:
    """The words, shortened if they would leave the drawing."""
    if x + text_width(words, small=True) <= WIDTH:
        return words
    return words[: int((WIDTH - x) / text_width(" ", small=True)) - 1] + "…"
