"""The drawing of nearest neighbour: the query in the middle, every point as far away as it is unlike it."""

from __future__ import annotations

import math
from typing import Final

from separatrix.atlas.drawings.layout import Sketch, ring
from separatrix.atlas.examples import Example
from separatrix.atlas.svg import WIDTH, Canvas, Point
from separatrix.tasks.nearest_neighbour import NearestNeighbour

__all__ = ["draw_nearest_neighbour"]

_CLEAR: Final = 36
"""How far out a point is drawn that does not differ from the query at all."""


def draw_nearest_neighbour(canvas: Canvas, example: Example) -> Sketch:
    """Points on rays around the query; the ring that the margin keeps free is washed."""
    task, rows = example.task, example.row[: example.length]
    assert isinstance(task, NearestNeighbour)
    signs = rows[::2, : task.dimension] > 0
    labels = [f":{int(label)}" for label in rows[1::2, task.dimension :].argmax(1)]
    distances = (signs[:-1] != signs[-1]).sum(1).tolist()
    nearest = distances.index(min(distances))
    middle, unit = (WIDTH / 2, 150.0), (136 - _CLEAR) / max(distances)
    gap = math.ceil(task.margin * task.dimension / 2)
    kept_free = (distances[nearest] + gap / 2) * unit + _CLEAR
    canvas.element("circle", "margin", cx=middle[0], cy=middle[1], r=kept_free, stroke_width=gap * unit)
    rays = ring(len(distances), centre=(0, 0), radius=1)
    places = [
        _out(middle, ray, _CLEAR + unit * distance) for ray, distance in zip(rays, distances, strict=True)
    ]
    for at in places:
        canvas.line(middle, at, "edge faint")
    canvas.line(middle, places[nearest], "edge on")
    for place, at in enumerate(places):
        role = "answer" if place == nearest else ""
        canvas.node(at, labels[place], f"tile {role}".strip(), radius=12)
    canvas.node(middle, "?", "tile on", radius=11)
    return Sketch(
        height=302,
        says=f"The query differs from its nearest point in {distances[nearest]} of {task.dimension} "
        f"coordinates and takes its label, {example.answers[0]}; the margin keeps the shaded ring free.",
    )


def _out(middle: Point, ray: Point, distance: float) -> Point:
    return (middle[0] + distance * ray[0], middle[1] + distance * ray[1])
