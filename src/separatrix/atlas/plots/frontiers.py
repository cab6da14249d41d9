"""Width against precision: proven witnesses that no other beats in both, as steps, for growing lengths."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from separatrix.atlas.bits_plot import raised
from separatrix.atlas.plots.points import Corner, Front, fronts
from separatrix.atlas.svg import WIDTH, Canvas, Point
from separatrix.tasks import TASKS

__all__ = ["Frontier", "collect_frontiers"]

_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, WIDTH - 6.0, 46.0, 246.0
_DARKEST: Final = 4
"""Shades of the regions, one within the other; the style has a class for each."""


@final
@dataclass(frozen=True, kw_only=True)
class Frontier:
    """The fronts of a task from the shortest inputs to the longest, drawn, and what that says."""

    task: str
    title: str
    theorem: str
    fronts: tuple[Front, ...]
    plot: str
    says: str


def collect_frontiers() -> tuple[Frontier, ...]:
    """Every task of the record."""
    by_task = itertools.groupby(fronts(), key=lambda front: front.task.name)
    return tuple(_frontier(name, tuple(each)) for name, each in by_task)


def _frontier(name: str, each: tuple[Front, ...]) -> Frontier:
    title, says = TASKS.get(name).title, _sentence(each)
    plot = _draw(name, title, each, says)
    return Frontier(task=name, title=title, theorem=each[0].theorem, fronts=each, plot=plot, says=says)


@final
@dataclass(frozen=True, kw_only=True)
class _Frame:
    """Widths from left to right on a logarithmic scale, bits a number from the bottom up on an even one."""

    narrow: float
    wide: float
    fewest: int
    most: int

    def at(self, width: float, bits: float) -> Point:
        across = math.log(width / self.narrow) / math.log(self.wide / self.narrow)
        up = (bits - self.fewest) / (self.most - self.fewest)
        return _LEFT + across * (_RIGHT - _LEFT), _BOTTOM - up * (_BOTTOM - _TOP)


def _frame(corners: Sequence[Corner]) -> _Frame:
    widths = [corner.width for corner in corners]
    bits = [corner.precision_bits for corner in corners]
    room = (max(widths) / min(widths)) ** 0.18
    low, high = min(bits), max(bits)
    return _Frame(
        narrow=min(widths) / room,
        wide=max(widths) * room**2,
        fewest=max(0, low - max(2, (high - low) // 6)),
        most=high + max(2, (high - low) // 6),
    )


def _draw(name: str, title: str, each: Sequence[Front], says: str) -> str:
    canvas = Canvas()
    corners = [corner for front in each for corner in front.corners]
    frame = _frame(corners)
    for place, front in enumerate(each):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*_edge(frame, front), (_RIGHT, _TOP)])
        canvas.element("polygon", f"region r{min(place, _DARKEST)}", points=points)
    _draw_axes(canvas, frame, corners)
    above: list[float] = []
    for front in each:
        edge = _edge(frame, front)
        canvas.polyline(edge, "curve c2 whole step")
        for corner in front.corners:
            canvas.circle(frame.at(corner.width, corner.precision_bits), 3.5, "mark c2 ringed")
        length = f"2{raised(_n(front).bit_length() - 1)}"
        # Where two lines are close, the second's name stands higher.
        high = bool(above) and edge[0][0] - above[-1] < 22
        above = above if high else [*above, edge[0][0]]
        words = f"n = {length}" if front is each[0] else length
        canvas.text((edge[0][0], edge[0][1] - (19 if high else 8)), words, "small strong")
    whole = f"{title}: width against bits a number, for growing n"
    return canvas.svg(f"frontier-{name}", title=whole, desc=says, height=_BOTTOM + 38)


def _n(front: Front) -> int:
    n = front.task.params["n"]
    assert isinstance(n, int)
    return n


def _edge(frame: _Frame, front: Front) -> list[Point]:
    """Down to the narrowest corner, then in steps to the right."""
    corners = sorted(front.corners, key=lambda corner: corner.width)
    edge = [frame.at(corners[0].width, frame.most)]
    for corner, following in itertools.zip_longest(corners, corners[1:]):
        width = frame.wide if following is None else following.width
        edge += [frame.at(corner.width, corner.precision_bits), frame.at(width, corner.precision_bits)]
    return edge


def _draw_axes(canvas: Canvas, frame: _Frame, corners: Sequence[Corner]) -> None:
    canvas.text((0, 10), "bits a number", "note", anchor="start")
    step = next(size for size in (2, 4, 8, 16) if (frame.most - frame.fewest) / size <= 7)
    for bits in range(-(-frame.fewest // step) * step, frame.most + 1, step):
        _, y = frame.at(frame.narrow, bits)
        canvas.line((_LEFT, y), (_RIGHT, y), "edge faint")
        canvas.text((_LEFT - 6, y), str(bits), "small", anchor="end")
    shown: list[float] = []
    for corner in sorted(corners, key=lambda corner: corner.width):
        x, _ = frame.at(corner.width, frame.fewest)
        if all(abs(x - other) > 20 for other in shown):
            canvas.line((x, _BOTTOM), (x, _BOTTOM + 4), "edge")
            canvas.text((x, _BOTTOM + 13), f"{corner.width:,}", "small")
            shown.append(x)
    canvas.line((_LEFT, _BOTTOM), (_RIGHT, _BOTTOM), "edge")
    canvas.text(((_LEFT + _RIGHT) / 2, _BOTTOM + 28), "width", "note")


def _sentence(each: Sequence[Front]) -> str:
    first, last = each[0], each[-1]
    said = f"{_reach(first)}; {_reach(last, short=True)}."
    if all(len(front.corners) == 1 for front in each):
        said += " At every length one witness is the narrowest and the coarsest at once."
    return said[0].upper() + said[1:]


def _reach(front: Front, *, short: bool = False) -> str:
    """From one end of a front to the other."""
    narrow, *_, coarse = sorted([*front.corners, *front.corners[-1:]], key=lambda corner: corner.width)
    bits = f"{narrow.precision_bits} bits" if short else f"numbers of {narrow.precision_bits} bits"
    said = f"at n = 2{raised(_n(front).bit_length() - 1)} width {narrow.width} with {bits}"
    return said if len(front.corners) == 1 else f"{said} or width {coarse.width} with {coarse.precision_bits}"
