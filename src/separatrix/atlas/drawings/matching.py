"""Drawings of matching modulo M: numbers as places on a clock, whose sums come round to nought."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, permutations, product

from separatrix.atlas.drawings.layout import Sketch, lay_tiles
from separatrix.atlas.examples import Example
from separatrix.atlas.svg import WIDTH, Canvas, Point
from separatrix.tasks.match2 import Match2
from separatrix.tasks.match3 import Match3

__all__ = ["draw_match2", "draw_match3"]


def draw_match2(canvas: Canvas, example: Example) -> Sketch:
    """Each number at its hour; a match lies straight across from its partner."""
    return _draw_clock(canvas, example, size=2)


def draw_match3(canvas: Canvas, example: Example) -> Sketch:
    """Each number at its hour; a match is a triangle."""
    return _draw_clock(canvas, example, size=3)


def _draw_clock(canvas: Canvas, example: Example, *, size: int) -> Sketch:
    assert isinstance(example.task, Match2 | Match3)
    numbers, modulus = [int(word) for word in example.text.split()], example.task.residues
    labels = dict(zip(example.labelled, example.answers, strict=True))
    matched = {place for place, answer in labels.items() if answer == "1"}
    tiles = lay_tiles([str(number) for number in numbers], top=4, leading=46)
    for place, (number, centre) in enumerate(zip(numbers, tiles.centres, strict=True)):
        canvas.tile(centre, tiles.size, str(number), "tile answer" if place in matched else "tile")
        canvas.text((centre[0], centre[1] + 22), labels[place], "small said" if place in matched else "small")
    middle = (WIDTH / 2, tiles.bottom + 148)
    hours = [_hour(value, modulus, middle, 92) for value in range(modulus)]
    canvas.circle(middle, 92, "edge faint")
    shown = _shapes(numbers, modulus, matched, size)
    for shape in shown:
        points = [hours[value] for value in shape]
        canvas.polyline([*points, points[0]] if size > 2 else points, "edge on")
    for value, at in enumerate(hours):
        present = value in numbers
        on = any(value in shape for shape in shown)
        canvas.circle(at, 4.5 if present else 1.8, "dot on" if on else "dot")
        if present or value == 0:
            canvas.text(_hour(value, modulus, middle, 110), str(value), "small said" if on else "small")
    canvas.text((WIDTH / 2 + 176, middle[1] + 100), f"mod {modulus}", "note")
    return Sketch(height=middle[1] + 122, says=_sentence(shown, modulus, len(matched), len(numbers), size))


def _shapes(numbers: list[int], modulus: int, matched: set[int], size: int) -> list[tuple[int, ...]]:
    """For each matched place one way to complete it, as values; each way once."""
    found: dict[tuple[int, ...], None] = {}
    for place in sorted(matched):
        sums = (
            way for way in _ways(place, len(numbers), size) if sum(numbers[at] for at in way) % modulus == 0
        )
        for way in list(sums)[:1]:
            found[tuple(sorted(numbers[at] for at in way))] = None
    return list(found)


def _ways(place: int, count: int, size: int) -> Iterator[tuple[int, ...]]:
    """The positions that may be added up with this one, different ones first."""
    others = [at for at in range(count) if at != place]
    rests = chain(permutations(others, size - 1), product(range(count), repeat=size - 1))
    return ((place, *rest) for rest in rests)


def _sentence(shapes: list[tuple[int, ...]], modulus: int, matched: int, count: int, size: int) -> str:
    if not shapes:
        return f"No {'two' if size == 2 else 'three'} of the {count} numbers sum to a multiple of {modulus}."
    sums = "; ".join(" + ".join(map(str, shape)) for shape in shapes[:3])
    return f"{matched} of {count} numbers have a match that sums to a multiple of {modulus}: {sums}."


def _hour(value: int, modulus: int, middle: Point, radius: float) -> Point:
    turn = 2 * math.pi * value / modulus
    return (middle[0] + radius * math.sin(turn), middle[1] - radius * math.cos(turn))
