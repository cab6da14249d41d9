"""The drawing any task can have: every position as a tile, and labels under those that have one."""

from __future__ import annotations

from typing import Final

from separatrix.atlas.drawings.layout import Sketch, lay_tiles
from separatrix.atlas.examples import Example
from separatrix.atlas.svg import WIDTH, Canvas
from separatrix.tasks import TokenTask

__all__ = ["draw_positions"]

_MOST: Final = 64
_LONGEST: Final = 8


def draw_positions(canvas: Canvas, example: Example) -> Sketch:
    """Tiles in order; of a long input, its beginning and the part that ends with the last label."""
    labels = dict(zip(example.labelled, example.answers, strict=True))
    places = _places(example.length, max(labels))
    words = [_word(example, place) for place in places]
    tiles = lay_tiles(words, top=4, leading=46)
    for place, word, centre in zip(places, words, tiles.centres, strict=True):
        canvas.tile(centre, tiles.size, word, "tile on" if place in labels else "tile")
        if place in labels:
            canvas.text((centre[0], centre[1] + 23), _short(labels[place]), "small said")
    hidden = example.length - len(places)
    if hidden > 0:
        canvas.text((WIDTH / 2, tiles.bottom + 34), f"{hidden} more positions are left out", "note")
    carry = "carries a label, written under it" if len(labels) == 1 else "carry a label, written under each"
    return Sketch(
        height=tiles.bottom + (44 if hidden > 0 else 24),
        says=f"{len(labels)} of {example.length} positions {carry}.",
    )


def _places(length: int, last: int) -> list[int]:
    if length <= _MOST:
        return list(range(length))
    half = _MOST // 2
    begin = max(half, last + 1 - half)
    return [*range(half), *range(begin, begin + half)]


def _word(example: Example, place: int) -> str:
    task, value = example.task, example.row[place]
    if isinstance(task, TokenTask):
        return _short(task.vocabulary.word(int(value)))
    return _short(" ".join(f"{number:g}" for number in value.flatten().tolist()))


def _short(word: str) -> str:
    return word if len(word) <= _LONGEST else f"{word[: _LONGEST - 1]}…"
