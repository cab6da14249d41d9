"""Drawings of what is proven of a trained model: all its cases as a grid, and where it looks when it errs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from separatrix.atlas.coverage import LETTERS, BrokenInput, CoverageRow
from separatrix.atlas.svg import WIDTH, Canvas, text_width

__all__ = ["MOST_CELLS", "MOST_TILES", "RETRIEVAL", "draw_attention", "draw_grid"]

RETRIEVAL: Final = ("index-lookup", "associative-recall")
"""Tasks whose cases are places asked for, with what can stand there: a grid shows them all."""
MOST_CELLS: Final = 8192
"""Of a grid: more can be neither told apart nor stored in a few kilobytes."""
MOST_TILES: Final = 24
"""Tokens and gaps that are drawn of one input."""

_TALLEST: Final = 256.0
_CELL: Final = 8.0
_TOP: Final = 20.0
_LEFT: Final = 48.0
_GAP: Final = 4.0
_LANE: Final = 14.0
_LONGEST: Final = 20
"""Characters of a word in a tile."""
_NAMED: Final = 6
"""Queries that a sentence names one by one."""
_FAINT: Final = 0.01
"""Weight below which a token of a long input is left out."""


def draw_grid(row: CoverageRow, name: str) -> tuple[str, str]:
    """A column for each query, a cell for each right answer in its order; and in a sentence what it shows.

    Every verdict is one path, with one stroke for each run of equal letters: its size is that of the runs.
    """
    canvas = Canvas()
    columns, tall = len(row.verdicts), max(len(letters) for _, letters in row.verdicts)
    across, down = WIDTH / columns, min(_TALLEST / tall, _CELL)
    where = f"translate({across / 2:.6g} {_TOP:g}) scale({across:.6g} {down:.6g})"
    canvas.text((0, 8), f"{tall} right answers, downwards", "small", anchor="start")
    for letter, verdict in LETTERS.items():
        strokes = "".join(
            f"M{column} {start}v{length}"
            for column, (_, letters) in enumerate(row.verdicts)
            for start, length in _runs(letters, letter)
        )
        if strokes:
            canvas.element("path", f"cases {verdict}", d=strokes, transform=where)
    bottom = _TOP + tall * down
    first, last = (query.partition(" ")[0] for query in (row.verdicts[0][0], row.verdicts[-1][0]))
    canvas.text((0, bottom + 12), first, "small", anchor="start")
    canvas.text((WIDTH / 2, bottom + 12), f"what is asked for, {columns} queries", "small")
    canvas.text((WIDTH, bottom + 12), last, "small", anchor="end")
    says = _counted(row)
    title = f"Every case of {row.task.name} at n = {row.n}"
    return canvas.svg(name, title=title, desc=says, height=bottom + 22), says


def _runs(letters: str, letter: str) -> list[tuple[int, int]]:
    """Where runs of a letter begin, and how long they are."""
    found, start = [], 0
    for each, run in itertools.groupby(letters):
        length = sum(1 for _ in run)
        if each == letter:
            found.append((start, length))
        start += length
    return found


def _counted(row: CoverageRow) -> str:
    broken = [query.partition(" ")[0] for query, letters in row.verdicts if "b" in letters]
    said = f"{row.cases:,} cases: {row.proved:,} proved, {row.refuted:,} broken, {row.unknown:,} unknown."
    if not broken:
        return said
    if len(broken) > _NAMED:
        return f"{said} {len(broken)} of the {len(row.verdicts)} queries have a broken case."
    return f"{said} Broken cases ask for {', '.join(broken)}."


@dataclass(frozen=True, kw_only=True)
class _Marked:
    """Where the model is asked, and where what the answer depends on stands."""

    asked: int
    targets: tuple[int, ...]

    def label(self, place: int) -> str:
        """What stands above a token."""
        if place == self.asked:
            return "query"
        return "target" if place in self.targets else str(place + 1)

    def style(self, place: int) -> str:
        """How its tile looks."""
        return "tile on" if place == self.asked or place in self.targets else "tile"


def draw_attention(row: CoverageRow, answered: str, name: str) -> tuple[str, str]:
    """The tokens of the counterexample, each head's weight on them beneath; and in words what it shows."""
    broken = row.counterexample
    assert broken is not None
    marked = _marked(row.task.name, broken)
    shown = _shown(broken, marked)
    right = broken.target.partition(", ")[0]
    canvas = Canvas()
    bottom = _draw_tokens(canvas, broken, marked, shown)
    middle = bottom + 22
    _draw_answer(canvas, (_LEFT, middle), "right answer", right, "tile answer")
    _draw_answer(canvas, (_LEFT + (WIDTH - _LEFT) / 2, middle), "given", answered, "tile")
    says = _told(row, broken, marked, shown, answered=answered)
    title = f"Where {row.model} looks on an input that it gets wrong"
    return canvas.svg(name, title=title, desc=says, height=middle + 18), says


def _marked(task: str, broken: BrokenInput) -> _Marked:
    """Read from the query and the right answer, which name positions from 1 where they name any."""
    tokens = broken.tokens
    named = re.search(r" at position (\d+)$", broken.query)
    asked = int(named[1]) - 1 if named else len(tokens) - 1
    told = [int(place) - 1 for place in re.findall(r"(?:position |, v)(\d+)", broken.target)]
    if not told and task == "index-lookup":
        told = [int(place) - 1 for place in re.findall(r"^@(\d+)$", tokens[-1])]
    elif not told and task == "associative-recall":
        told = [tokens.index(tokens[-1]) + 1]
    return _Marked(asked=asked, targets=tuple(place for place in told if 0 <= place < len(tokens)))


def _shown(broken: BrokenInput, marked: _Marked) -> list[int | None]:
    """The positions to draw, None where some between are left out: all of a short input.

    Of a long one the marked tokens, and those that some head looks at most while there is room.
    """
    count = len(broken.tokens)
    if count <= MOST_TILES:
        return list(range(count))
    chosen = {marked.asked, *marked.targets[: MOST_TILES // 4]}
    for place in sorted(range(count), key=lambda place: (-_heaviest(broken, place), place)):
        if _heaviest(broken, place) < _FAINT or len(_gapped({*chosen, place}, count)) > MOST_TILES:
            break
        chosen.add(place)
    return _gapped(chosen, count)


def _heaviest(broken: BrokenInput, place: int) -> float:
    return max(head[place] for head in broken.attention)


def _gapped(chosen: set[int], count: int) -> list[int | None]:
    found: list[int | None] = []
    for place in sorted(chosen):
        before = -1 if not found else found[-1]
        if before is not None and place > before + 1:
            found.append(None)
        found.append(place)
    return [*found, None] if max(chosen) < count - 1 else found


def _draw_tokens(canvas: Canvas, broken: BrokenInput, marked: _Marked, shown: Sequence[int | None]) -> float:
    """Tiles in as few and as even lines as fit, lanes of bars beneath each; where the last one ends."""
    words = ["…" if place is None else _cut(broken.tokens[place]) for place in shown]
    width = max(36.0, *(text_width(word) + 12 for word in words))
    most = max(1, int((WIDTH - _LEFT + _GAP) // (width + _GAP)))
    columns = math.ceil(len(words) / math.ceil(len(words) / most))
    leading = 46 + _LANE * len(broken.attention) + 12
    top = 0.0
    for start in range(0, len(words), columns):
        line = shown[start : start + columns]
        _draw_lanes(canvas, broken, top + 46, len(line) * (width + _GAP) - _GAP)
        for number, place in enumerate(line):
            x = _LEFT + number * (width + _GAP) + width / 2
            if place is None:
                canvas.text((x, top + 31), "…", "word in-faint")
                continue
            label = marked.label(place)
            canvas.text((x, top + 8), label, "small" if label.isdigit() else "small said")
            canvas.tile((x, top + 31), (width, 26), words[start + number], marked.style(place))
            bar = "dot on" if place in marked.targets else "dot"
            for head, weights in enumerate(broken.attention):
                tall = weights[place] * (_LANE - 2)
                if tall >= 0.1:
                    canvas.rect(
                        x - width / 2 + 3, top + 46 + _LANE * (head + 1) - tall, width - 6, tall, bar, round=0
                    )
        top += leading
    return top - 12


def _draw_lanes(canvas: Canvas, broken: BrokenInput, top: float, width: float) -> None:
    for head in range(len(broken.attention)):
        y = top + _LANE * (head + 1)
        canvas.text((0, y - 5), f"head {head + 1}", "small", anchor="start")
        canvas.line((_LEFT, y), (_LEFT + width, y), "edge faint")


def _draw_answer(canvas: Canvas, at: tuple[float, float], words: str, answer: str, style: str) -> None:
    canvas.text(at, words, "note", anchor="start")
    shown = _cut(answer)
    width, left = text_width(shown) + 20, at[0] + text_width(words, small=True) + 8
    canvas.tile((left + width / 2, at[1]), (width, 26), shown, style)


def _cut(word: str) -> str:
    return word if len(word) <= _LONGEST else f"{word[: _LONGEST - 1]}…"


def _told(
    row: CoverageRow, broken: BrokenInput, marked: _Marked, shown: Sequence[int | None], *, answered: str
) -> str:
    heads = len(broken.attention)
    ahead = ""
    if broken.lead is not None and isinstance(broken.answered, int):  # of numbers none leads another
        ahead = f", which leads by {-broken.lead:.3g}"
    said = [
        f"To “{broken.query}” the right answer is “{broken.target}”; {row.model} gives “{answered}”{ahead}.",
        f"Beneath every token are the weights of {_plural(heads, 'head')}, from 0 to 1.",
    ]
    for place in marked.targets[:1]:
        weights = ", ".join(f"{head[place]:.2f}" for head in broken.attention)
        said.append(f"On the target, token {place + 1}, {'it is' if heads == 1 else 'they are'} {weights}.")
    hidden = set(range(len(broken.tokens))) - set(shown)
    if hidden:
        most = max(_heaviest(broken, place) for place in hidden)
        said.append(f"No head gives any of the {len(hidden)} tokens left out more than {most:.2g}.")
    return " ".join(said)


def _plural(count: int, noun: str) -> str:
    return f"the one {noun}" if count == 1 else f"the {count} {noun}s"
