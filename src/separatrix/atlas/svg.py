"""A drawing in SVG, written element by element: shapes carry a class, and the page's style gives the colour.

Three roles run through every drawing: plain (`tile`) is what the model reads, tinted (`tile on`) is what the
answer depends on, and filled (`tile answer`) is the answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Final

__all__ = ["CHARACTER", "LINE", "WIDTH", "Canvas", "Point", "place", "slug", "text_width"]

WIDTH: Final = 440
"""Every drawing is this wide in its own units, so that text has one size across the page."""
CHARACTER: Final = 7.9
"""Advance of a monospaced character at the drawings' usual size."""
LINE: Final = 18

Point = tuple[float, float]


def text_width(words: str, *, small: bool = False) -> float:
    """About how wide a monospaced text is."""
    return len(words) * (CHARACTER * 11 / 13 if small else CHARACTER)


class Canvas:
    """Elements in the order they are painted; the height is settled at the end."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def element(self, tag: str, style: str, text: str | None = None, **attributes: float | str) -> None:
        """Any element; numbers are rounded to a tenth, text is escaped."""
        named = {"class": style, **attributes}
        written = "".join(
            f' {key.replace("_", "-")}="{escape(_number(value))}"'
            for key, value in named.items()
            if value != ""
        )
        self._parts.append(
            f"<{tag}{written}/>" if text is None else f"<{tag}{written}>{_inside(text)}</{tag}>"
        )

    def rect(self, x: float, y: float, width: float, height: float, style: str, *, round: float = 4) -> None:
        """A box by its upper left corner."""
        self.element("rect", style, x=x, y=y, width=width, height=height, rx=round)

    def circle(self, at: Point, radius: float, style: str) -> None:
        """A disc."""
        self.element("circle", style, cx=at[0], cy=at[1], r=radius)

    def line(self, start: Point, end: Point, style: str) -> None:
        """A straight stroke."""
        self.element("line", style, x1=start[0], y1=start[1], x2=end[0], y2=end[1])

    def path(self, d: str, style: str) -> None:
        """A path whose data the caller wrote with `place`."""
        self.element("path", style, d=d)

    def polyline(self, points: list[Point], style: str) -> None:
        """Straight strokes through points."""
        self.element("polyline", style, points=" ".join(place(point, ",") for point in points))

    def text(self, at: Point, words: str, style: str = "word", *, anchor: str = "middle") -> None:
        """Words whose middle line, and middle unless anchored otherwise, is at a point."""
        self.element("text", style, words, x=at[0], y=at[1], text_anchor="" if anchor == "middle" else anchor)

    @contextmanager
    def named(self, name: str) -> Iterator[None]:
        """What is drawn within belongs together, and tells its whole name to whoever points at it."""
        self._parts.append(f"<g><title>{_inside(name)}</title>")
        yield
        self._parts.append("</g>")

    def tile(self, centre: Point, size: Point, words: str, style: str = "tile") -> None:
        """A word in a box."""
        self.rect(centre[0] - size[0] / 2, centre[1] - size[1] / 2, *size, style)
        self.text(centre, words, f"word in-{style.rsplit(maxsplit=1)[-1]}")

    def node(self, at: Point, words: str, style: str = "tile", *, radius: float = 14) -> None:
        """A word in a disc."""
        self.circle(at, radius, style)
        self.text(at, words, f"word in-{style.rsplit(maxsplit=1)[-1]}")

    def arrow(
        self, start: Point, end: Point, style: str = "edge", *, bend: float = 0, shorten: float = 0
    ) -> None:
        """A stroke with a head at its end, bowed to the left of its direction by `bend`.

        `shorten` leaves a gap at both ends, for discs that the arrow runs between.
        """
        bow = _bow(start, end, bend)
        start, end = _toward(start, bow, shorten), _toward(end, bow, shorten)
        self.path(f"M{place(start)} Q{place(bow)} {place(end)}", style)
        angle = math.atan2(end[1] - bow[1], end[0] - bow[0])
        wings = [
            (end[0] - 7 * math.cos(angle + side), end[1] - 7 * math.sin(angle + side))
            for side in (0.45, -0.45)
        ]
        points = " ".join(place(point, ",") for point in (wings[0], end, wings[1]))
        self.element("polygon", f"head {style}", points=points)

    def arc(self, start: Point, end: Point, style: str, *, rise: float) -> None:
        """A bow above the line between two points, `rise` high at its top."""
        top = min(start[1], end[1]) - rise * 4 / 3
        self.path(f"M{place(start)} C{place((start[0], top))} {place((end[0], top))} {place(end)}", style)

    def hatching(self, name: str) -> str:
        """Slanted strokes as a fill, for elements that take it; `name` is that of the drawing."""
        key = f"{slug(name)}-hatching"
        self._parts.append(
            f'<pattern id="{key}" width="7" height="7" patternUnits="userSpaceOnUse" '
            'patternTransform="rotate(45)"><path class="hatch" d="M0 0v7"/></pattern>'
        )
        return f"url(#{key})"

    def svg(self, name: str, *, title: str, desc: str, height: float) -> str:
        """The whole drawing; `name` makes its ids unique in the page."""
        key = slug(name)
        head = (
            f'<svg class="drawing" viewBox="0 0 {WIDTH} {math.ceil(height)}" role="img" '
            f'aria-labelledby="{key}-title {key}-desc">'
            f'<title id="{key}-title">{_inside(title)}</title><desc id="{key}-desc">{_inside(desc)}</desc>'
        )
        return head + "".join(self._parts) + "</svg>"


def slug(name: str) -> str:
    """A name as part of an id or an anchor: what is no letter, digit, dot or hyphen becomes its code."""
    return re.sub(r"[^A-Za-z0-9.-]", lambda found: f"_{ord(found[0]):x}", name)


def place(point: Point, between: str = " ") -> str:
    """A point as path data."""
    return f"{_number(point[0])}{between}{_number(point[1])}"


def _inside(text: str) -> str:
    """Text as the content of an element; what cannot be printed, and XML may not hold, is shown as such."""
    return escape(
        "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    )


def _number(value: float | str) -> str:
    if isinstance(value, str):
        return value
    rounded = round(value, 1) + 0.0
    return f"{rounded:.0f}" if rounded == int(rounded) else f"{rounded:.1f}"


def _bow(start: Point, end: Point, bend: float) -> Point:
    """The control point of a curve that passes `bend` to the left of the middle."""
    across, down = end[0] - start[0], end[1] - start[1]
    span = math.hypot(across, down) or 1
    return (
        (start[0] + end[0]) / 2 + 2 * bend * down / span,
        (start[1] + end[1]) / 2 - 2 * bend * across / span,
    )


def _toward(point: Point, target: Point, distance: float) -> Point:
    span = math.hypot(target[0] - point[0], target[1] - point[1]) or 1
    return (
        point[0] + distance * (target[0] - point[0]) / span,
        point[1] + distance * (target[1] - point[1]) / span,
    )
