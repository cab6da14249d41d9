"""Drawings of what training found: heat maps of accuracies, learning curves, matrices of attention."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from typing import Final

from separatrix.atlas.svg import WIDTH, Canvas, Point, text_width
from separatrix.experiments.outcomes import CellOutcome, PanelOutcome
from separatrix.experiments.tables import per_cent, whole_per_cent

__all__ = ["MOST_POINTS", "SHADES", "draw_curves", "draw_heat_map", "draw_matrix", "shade"]

SHADES: Final = 10
"""Steps of colour above the first; the style has a class for each, with words on it that can be read."""
MOST_POINTS: Final = 60
"""Of a curve: more would not be seen."""
_LIGHT_WORDS: Final = 7
"""From this shade on, words have the colour of the ground."""
_ROW: Final = 40.0
_LOW_ROW: Final = 28.0
"""Of a map with many cells, whose numbers stand in its table."""
_ROOM: Final = 24.0
"""As wide as a cell must be to have a number in it."""
_TOP: Final = 22.0
_HEADING: Final = 15.0
"""From one line of the columns' names to the next."""
_MOST_TURNS: Final = 3
_GAP: Final = 2.0
_WIDEST: Final = 110.0
_APART: Final = 7.0
_LETTERS: Final = 16
"""Of a row's name that stays in one line."""
_MOST_LETTERS: Final = 28
"""Of a line; a name of a row or a curve that has more is cut, so that the plot keeps its room."""
_FRAME: Final = (38.0, 12.0, 296.0, 196.0)
"""Left, top, right and bottom of a plot of curves; long names of curves move the right."""
_KEY: Final = (12.0, 32.0, 37.0)
"""Behind the frame: where the stroke of a curve's key begins and ends, and where its name begins."""
_LINES: Final = 7
"""Colours of curves."""
_SOON: Final = 0.1


def shade(share: float) -> int:
    """The step of colour for a share from 0 to 1."""
    return round(SHADES * min(max(share, 0.0), 1.0))


def draw_heat_map(panel: PanelOutcome, name: str) -> tuple[str, str]:
    """A row for each model and a column for each size, our number above the paper's; and what it shows."""
    canvas = Canvas()
    rows, columns = panel.panel.rows, panel.panel.columns
    labels = _row_labels(rows)
    left = max(text_width(line, small=True) for lines in labels.values() for line in lines) + 8
    wide = min((WIDTH - left) / len(columns), _WIDEST)
    tall = _LOW_ROW if panel.panel.wide else _ROW
    hatch = canvas.hatching(name)
    top = _draw_columns(canvas, panel, left, wide)
    small: dict[str, list[tuple[CellOutcome, Point]]] = {}
    trained = {cell.row for cell in panel.panel.cells if cell.jobs}
    for number, row in enumerate(rows):
        # What is not trained stands a little apart from the models.
        top += _APART if number and row not in trained and rows[number - 1] in trained else 0
        with canvas.named(row):
            for line, words in enumerate(labels[row]):
                y = top + tall / 2 + 12 * (line - (len(labels[row]) - 1) / 2)
                canvas.text((left - 8, y), words, "small strong", anchor="end")
        for place, column in enumerate(columns):
            one = panel.at(row, column)
            if one is None:
                continue
            corner = (left + place * wide, top)
            if panel.panel.wide:
                small.setdefault(_ground(one), []).append((one, corner))
            else:
                _draw_cell(canvas, one, corner, wide, hatch)
        top += tall
    for ground, cells in sorted(small.items()):
        _draw_small_cells(canvas, ground, cells, wide, hatch)
    says = _heat_map_in_words(panel)
    title = f"{panel.panel.title}: accuracy by model and {panel.panel.column_name}"
    return canvas.svg(name, title=title, desc=says, height=top), says


def _draw_columns(canvas: Canvas, panel: PanelOutcome, left: float, wide: float) -> float:
    """The columns' names, and where the rows begin.

    Where they have no room side by side, some numbers are left out, and words go up and down by turns.
    """
    shown = [panel.panel.label(column) for column in panel.panel.columns]
    widest = max(text_width(label, small=True) for label in shown) + 4
    turns = math.ceil(widest / wide)
    by_turns = turns <= _MOST_TURNS and any(letter.isalpha() for label in shown for letter in label)
    lowest = 9 + (_HEADING * (turns - 1) if by_turns else 0)
    canvas.text((left - 8, lowest), panel.panel.column_name, "note", anchor="end")
    for place, label in enumerate(shown):
        at = min(left + (place + 0.5) * wide, WIDTH - text_width(label) / 2)
        if by_turns:
            canvas.text((at, 9 + _HEADING * (place % turns)), label, "note strong")
        elif place % turns == 0:
            canvas.text((at, 9), label, "note strong")
    return _TOP - 9 + lowest


def _row_labels(rows: Sequence[str]) -> dict[str, list[str]]:
    """The rows' names in one line or two: in one where the longest of the others' lines gives it room."""
    parted = {row: _parted(row) for row in rows}
    longest = max(len(line) for lines in parted.values() for line in lines)
    return {row: [row] if len(row) <= longest else lines for row, lines in parted.items()}


def _parted(row: str) -> list[str]:
    """A long name in two lines: parted behind its colon, or else where the lines are shortest."""
    if len(row) <= _LETTERS:
        return [row]
    kind, colon, rest = row.partition(": ")
    if colon and max(len(kind) + 1, len(rest)) <= _MOST_LETTERS:
        return [f"{kind}:", rest]
    for within_words in (False, True):
        for letters in range(_LETTERS, _MOST_LETTERS + 1):
            lines = textwrap.wrap(row, letters, break_long_words=False, break_on_hyphens=within_words)
            if len(lines) <= 2 and all(len(line) <= letters for line in lines):
                return lines or [row]
    lines = textwrap.wrap(row, _MOST_LETTERS)
    return [lines[0], _cut(" ".join(lines[1:]))]


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}…"


def _draw_cell(canvas: Canvas, one: CellOutcome, corner: Point, wide: float, hatch: str) -> None:
    x, y, width, height = corner[0], corner[1], wide - _GAP, _ROW - _GAP
    middle = x + width / 2
    paper = one.paper_said if one.paper is None else per_cent(one.paper)
    above = y + (14 if paper else height / 2 - 1)
    words = "paper" if one.paper is not None else "paper worded"
    if one.accuracy is None:
        canvas.element("rect", "unrun", x=x, y=y, width=width, height=height, rx=2, fill=hatch)
        canvas.text((middle, above), one.state, "waits")
        words += " faint"
    else:
        step = shade(one.accuracy)
        ground = "over" if step >= _LIGHT_WORDS else "on"
        canvas.rect(x, y, width, height, f"cell h{step}", round=2)
        canvas.text((middle, above), per_cent(one.accuracy), f"ours {ground}")
        words += f" {ground}"
        _draw_budget(canvas, one, (x, y + height), width, ground)
        if one.far_off:
            corners = [(x + width - 10, y + 1), (x + width - 1, y + 1), (x + width - 1, y + 10)]
            canvas.element("polygon", "far", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in corners))
    if paper:
        canvas.text((middle, y + 28), paper, words)


def _ground(one: CellOutcome) -> str:
    """The deepest shade is for all, so that one mistake in many is seen."""
    if one.accuracy is None:
        return "unrun"
    return f"cell h{SHADES if one.accuracy == 1 else min(shade(one.accuracy), SHADES - 1)}"


def _draw_small_cells(
    canvas: Canvas, ground: str, cells: Sequence[tuple[CellOutcome, Point]], wide: float, hatch: str
) -> None:
    """All cells of one shade in one stroke, for there are many; with numbers where there is room for them."""
    width, height = wide - _GAP / 2, _LOW_ROW - _GAP / 2
    box = f"h{width:.1f}v{height:.1f}h{-width:.1f}z"
    boxes = "".join(f"M{x:.1f} {y:.1f}{box}" for _, (x, y) in cells)
    canvas.element("path", ground, d=boxes, fill=hatch if ground == "unrun" else "")
    for one, (x, y) in cells if wide >= _ROOM else ():
        if one.accuracy is not None:
            words = "paper over" if shade(one.accuracy) >= _LIGHT_WORDS else "paper on"
            canvas.text((x + width / 2, y + height / 2), whole_per_cent(one.accuracy), words)


def _draw_budget(canvas: Canvas, one: CellOutcome, corner: Point, width: float, ground: str) -> None:
    """How much of the paper's steps there was, where it was not all and the task was not solved."""
    if one.steps is None or one.most_steps is None or one.full_budget:
        return
    share = min(1.0, one.steps / one.most_steps)
    x, y, whole = corner[0] + 4, corner[1] - 3, width - 8
    canvas.line((x, y), (x + whole, y), f"budget {ground} all")
    canvas.line((x, y), (x + max(1.0, share * whole), y), f"budget {ground}")


def _heat_map_in_words(panel: PanelOutcome) -> str:
    ran = [one for one in panel.cells if one.accuracy is not None]
    whole = sum(one.full_budget for one in ran if one.cell.jobs)
    said = f"Per cent right. {len(ran):,} of {len(panel.cells):,} cells have a number"
    if not any(one.cell.jobs for one in ran):
        return f"{said}."
    whose = "their" if panel.ours else "the paper’s"
    return f"{said}; {whole:,} with all of {whose} steps or until solved."


def draw_curves(panel: PanelOutcome, name: str) -> tuple[str, str]:
    """Validation accuracy against steps for the best run of each model; empty if there is no curve."""
    cells = _curved(panel)
    if not cells:
        return "", ""
    canvas = Canvas()
    looks = [_looks(one) for one in cells]
    names = {one.cell.row: _cut(one.cell.row) for one in cells}
    room = max(text_width(words, small=True) for words in names.values())
    axis = _Steps(
        [points[-1][0] for points in looks],
        [points[0][0] for points in looks],
        right=min(_FRAME[2], WIDTH - _KEY[2] - room),
    )
    _draw_frame(canvas, axis)
    numbers = {row: number % _LINES for number, row in enumerate(panel.panel.rows)}
    for one, points in zip(cells, looks, strict=True):
        _draw_curve(canvas, one, [_at(axis, *point) for point in points], numbers[one.cell.row])
    ordered = sorted(zip(cells, looks, strict=True), key=lambda pair: -pair[1][-1][1])
    for line, (one, _) in enumerate(ordered):
        with canvas.named(one.cell.row):
            corner = axis.right, _FRAME[1] + 18 * line
            _draw_key(canvas, corner, names[one.cell.row], numbers[one.cell.row])
    says = _curves_in_words(panel, cells)
    title = (
        f"{panel.panel.title}: learning curves at {panel.panel.column_name} = {panel.panel.curves_at or 0:,}"
    )
    height = max(_FRAME[3] + 34, _FRAME[1] + 18 * len(cells) + 8)
    return canvas.svg(name, title=title, desc=says, height=height), says


def _curved(panel: PanelOutcome) -> list[CellOutcome]:
    at = panel.panel.curves_at
    cells = [] if at is None else [panel.at(row, at) for row in panel.panel.rows]
    return [one for one in cells if one is not None and _looks(one)]


def _looks(one: CellOutcome) -> list[tuple[int, float]]:
    """Steps at which a run was looked at, with its accuracies: the first, the last and some between."""
    looks = [(point.step, point.accuracy) for point in one.curve if point.accuracy is not None]
    last, most = len(looks) - 1, MOST_POINTS - 1
    if last <= most:
        return looks
    return [looks[place * last // most] for place in range(MOST_POINTS)]


class _Steps:
    """The axis of steps: even from nought, or logarithmic where some ended so soon that they would vanish."""

    def __init__(self, ends: Sequence[int], starts: Sequence[int], *, right: float) -> None:
        self.right = right
        self.most = max(1, *ends)
        self.least = max(1, min(starts))
        self.logarithmic = min(ends) < _SOON * self.most and self.least < self.most

    def at(self, step: float) -> float:
        """Where a step is, from 0 to 1."""
        if self.logarithmic:
            return math.log(max(step, self.least) / self.least) / math.log(self.most / self.least)
        return step / self.most

    def ticks(self) -> list[int]:
        """Round numbers of steps, five at most."""
        tens = range(len(str(self.most)) + 1)
        if self.logarithmic:
            found: list[int] = []
            for factors in ((1,), (1, 3), (1, 2, 5)):
                wanted = [factor * 10**power for power in tens for factor in factors]
                closer = [step for step in wanted if self.least <= step <= self.most]
                found = closer if not found or len(closer) <= 4 else found
            return found
        sizes = (factor * 10**power for power in tens for factor in (1, 2, 5))
        size = next(size for size in sizes if self.most / size <= 4)
        return list(range(0, self.most + 1, size))


def _at(axis: _Steps, step: float, share: float) -> Point:
    left, top, _, bottom = _FRAME
    return left + axis.at(step) * (axis.right - left), bottom - share * (bottom - top)


def _draw_frame(canvas: Canvas, axis: _Steps) -> None:
    left, right, bottom = _FRAME[0], axis.right, _FRAME[3]
    for hundredth in (0, 25, 50, 75, 100):
        _, y = _at(axis, axis.most, hundredth / 100)
        canvas.line((left, y), (right, y), "edge" if hundredth == 0 else "edge faint")
        canvas.text((left - 6, y), f"{hundredth}", "small", anchor="end")
    for step in axis.ticks():
        x, _ = _at(axis, step, 0)
        canvas.line((x, bottom), (x, bottom + 4), "edge")
        canvas.text((x, bottom + 13), f"{step:,}", "small")
    canvas.text(((left + right) / 2, bottom + 27), "training step", "note")


def _draw_curve(canvas: Canvas, one: CellOutcome, points: list[Point], number: int) -> None:
    if len(points) > 1:
        canvas.polyline(points, f"curve c{number}")
    if len(points) == 1 or (one.best is not None and one.best.solved_at is not None):
        canvas.circle(points[-1], 3.5, f"mark c{number}")


def _draw_key(canvas: Canvas, corner: Point, name: str, number: int) -> None:
    (x, y), (start, end, words) = corner, _KEY
    canvas.line((x + start, y), (x + end, y), f"curve c{number}")
    canvas.text((x + words, y), name, "small strong", anchor="start")


def _curves_in_words(panel: PanelOutcome, cells: Sequence[CellOutcome]) -> str:
    at, drawn = panel.panel.curves_at, {one.cell.row for one in cells}
    missing = [
        one.cell.row
        for one in panel.cells
        if one.cell.column == at and one.cell.jobs and one.cell.row not in drawn
    ]
    said = (
        f"Validation accuracy in per cent at {panel.panel.column_name} = {at or 0:,}, for the best run of "
        "each model; a dot where one solved the task and stopped."
    )
    return f"{said} Without a curve: {', '.join(missing)}." if missing else said


def draw_matrix(
    weights: Sequence[Sequence[float]],
    name: str,
    *,
    most: float,
    sets: Sequence[Sequence[int]] = (),
    title: str,
    desc: str,
) -> str:
    """Weights as a square of shades, a row for each query; rings at the members of each set.

    Every shade is one path, with one stroke for each run of equal cells.
    """
    canvas = Canvas()
    size = WIDTH / len(weights)
    canvas.rect(0, 0, WIDTH, WIDTH, "cell h0", round=0)
    strokes: dict[int, str] = {}
    for row, shares in enumerate(weights):
        start = 0
        for step, run in itertools.groupby(shade(share / most) for share in shares):
            length = sum(1 for _ in run)
            strokes[step] = f"{strokes.get(step, '')}M{start} {row}h{length}"
            start += length
    for step in sorted(set(strokes) - {0}):
        where = f"translate(0 {size / 2:.6g}) scale({size:.6g})"
        canvas.element("path", f"cases h{step}", d=strokes[step], transform=where)
    rings = "".join(f"M{member - 1} {row}h1v1h-1z" for row, members in enumerate(sets) for member in members)
    if rings:
        canvas.element("path", "rings", d=rings, transform=f"scale({size:.6g})")
    return canvas.svg(name, title=title, desc=desc, height=WIDTH)
