"""Drawings of the tasks in which something is fetched from the input, or counted in it."""

from __future__ import annotations

from separatrix.atlas.drawings.layout import Sketch, lay_tiles, verdict
from separatrix.atlas.examples import Example
from separatrix.atlas.svg import WIDTH, Canvas, Point, text_width
from separatrix.tasks.c_gram import CGramRetrieval

__all__ = ["draw_associative_recall", "draw_c_gram", "draw_counting", "draw_index_lookup", "draw_mqar"]


def draw_index_lookup(canvas: Canvas, example: Example) -> Sketch:
    """The symbols with their places, the index below, and an arrow from it to the symbol it names."""
    *symbols, index = example.text.split()
    wanted = int(index.removeprefix("@")) - 1
    tiles = lay_tiles(symbols, top=4, leading=48)
    for place, (word, centre) in enumerate(zip(symbols, tiles.centres, strict=True)):
        canvas.tile(centre, tiles.size, word, "tile answer" if place == wanted else "tile")
        canvas.text((centre[0], centre[1] + 22), str(place + 1), "small said" if place == wanted else "small")
    there = tiles.centres[wanted]
    asked = (WIDTH / 2, tiles.bottom + 62)
    canvas.tile(asked, tiles.size, index, "tile on")
    canvas.arrow((asked[0], asked[1] - 13), (there[0], there[1] + 31), "edge on", bend=_away(asked, there, 9))
    return Sketch(
        height=asked[1] + 17,
        says=f"The index {index} points at place {wanted + 1}, where {example.answers[0]} stands.",
    )


def draw_associative_recall(canvas: Canvas, example: Example) -> Sketch:
    """Labels on top of their keys, the query below, and an arrow from it to its key."""
    *stored, query = example.text.split()
    keys, values = stored[::2], stored[1::2]
    asked_for = keys.index(query)
    tiles = lay_tiles(keys, top=30, gap=8, leading=72, least=max(text_width(word) for word in stored) + 10)
    for place, (x, y) in enumerate(tiles.centres):
        found = place == asked_for
        canvas.tile((x, y - 26), tiles.size, values[place], "tile answer" if found else "tile faint")
        canvas.tile((x, y), tiles.size, keys[place], "tile on" if found else "tile")
    there = (tiles.centres[asked_for][0], tiles.centres[asked_for][1] + 15)
    asked = (WIDTH / 2, tiles.bottom + 56)
    canvas.tile(asked, tiles.size, query, "tile on")
    canvas.arrow((asked[0], asked[1] - 13), there, "edge on", bend=_away(asked, there, 9))
    return Sketch(
        height=asked[1] + 17,
        says=f"The query {query} is key {asked_for + 1} with the label {example.answers[0]}.",
    )


def draw_mqar(canvas: Canvas, example: Example) -> Sketch:
    """Stored pairs above, queries below in their own order, each tied to its pair."""
    words = example.text.split()
    labels = dict(zip(example.labelled, example.answers, strict=True))
    first = min(labels)
    keys, values = words[:first:2], words[1:first:2]
    width = max(text_width(word) for word in words) + 12
    columns = [WIDTH * (place + 0.5) / len(keys) for place in range(len(keys))]
    for x, key, value in zip(columns, keys, values, strict=True):
        canvas.tile((x, 17), (width, 26), key, "tile")
        canvas.tile((x, 43), (width, 26), value, "tile faint")
    for x, place in zip(columns, labels, strict=True):
        origin = columns[keys.index(words[place])]
        canvas.line((x, 138), (origin, 57), "edge on")
        canvas.tile((x, 152), (width, 26), words[place], "tile on")
        canvas.tile((x, 178), (width, 26), labels[place], "tile answer")
    return Sketch(
        height=195,
        says=f"{len(keys)} pairs above; below, the same keys come back in another order and each is answered "
        "with its label.",
    )


def draw_c_gram(canvas: Canvas, example: Example) -> Sketch:
    """The sequence, the query below, and an arrow from it to where its tokens first stand side by side."""
    assert isinstance(example.task, CGramRetrieval)
    known = example.task.c - 1
    words = example.text.split()
    sequence, query = words[:-known], words[-known:]
    found = next(place for place in range(len(sequence)) if sequence[place : place + known] == query)
    tiles = lay_tiles(sequence, top=4)
    for place, (word, centre) in enumerate(zip(sequence, tiles.centres, strict=True)):
        role = "on" if found <= place < found + known else "answer" if place == found + known else "faint"
        canvas.tile(centre, tiles.size, word, f"tile {role}")
    width = tiles.size[0] + 4
    left = (WIDTH - width * (known - 1)) / 2
    below = tiles.bottom + 62
    for place, word in enumerate(query):
        canvas.tile((left + place * width, below), tiles.size, word, "tile on")
    last = tiles.centres[found + known - 1]
    there = ((tiles.centres[found][0] + last[0]) / 2 if known > 1 else last[0], last[1] + 17)
    canvas.arrow((WIDTH / 2, below - 14), there, "edge on", bend=_away((WIDTH / 2, below), there, 9))
    return Sketch(
        height=below + 17,
        says=f"The query {' '.join(query)} first stands at place {found + 1}; {example.answers[0]} follows.",
    )


def draw_counting(canvas: Canvas, example: Example) -> Sketch:
    """How often each token occurs, as columns, and the threshold as a line across the one in question."""
    *sequence, query, compared = example.text.split()
    threshold = int(compared.removeprefix(">"))
    tiles = lay_tiles(sequence, top=4, leading=30)
    for word, centre in zip(sequence, tiles.centres, strict=True):
        canvas.tile(centre, tiles.size, word, "tile on" if word == query else "tile faint")
    counts = {
        word: sequence.count(word) for word in sorted({*sequence, query}, key=lambda word: (len(word), word))
    }
    tallest = max(threshold, *counts.values())
    unit, step = 110 / tallest, WIDTH / (len(counts) + 0.5)
    floor = tiles.bottom + 30 + unit * tallest
    for column, (word, count) in enumerate(counts.items()):
        x = step * (column + 0.75)
        asked = word == query
        canvas.rect(
            x - 15, floor - unit * count, 30, unit * count, "tile on" if asked else "tile faint", round=2
        )
        canvas.text((x, floor - unit * count - 9), str(count), "small said" if asked else "small")
        canvas.text((x, floor + 13), word, "word" if asked else "small")
        if asked:
            level = floor - unit * threshold
            canvas.line((x - 28, level), (x + 28, level), "edge ridge")
            canvas.text((x + 32, min(level, floor - 9)), compared, "word", anchor="start")
    canvas.line((0, floor), (WIDTH, floor), "edge")
    answer = example.answers[-1]
    verdict(canvas, floor + 46, f"{answer}: {'more' if answer == '1' else 'not more'}")
    return Sketch(
        height=floor + 62,
        says=f"{query} occurs {counts[query]} times: {'' if answer == '1' else 'not '}more than {threshold}.",
    )


def _away(start: Point, end: Point, bend: float) -> float:
    """A bow that opens outwards, whichever way the arrow goes."""
    if abs(end[0] - start[0]) < 24:
        return 0
    return bend if end[0] < start[0] else -bend
