"""Ours beside the paper's, cell by cell: as rows of text, as Markdown, and as CSV.

For people accuracies are per cent with one decimal. The CSV has two, which is all that 5,000 examples give.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from separatrix.experiments.outcomes import (
    FAR,
    SEPARATED,
    CellOutcome,
    PanelOutcome,
    Separation,
    StudyOutcome,
)

__all__ = [
    "CSV_COLUMNS",
    "csv_text",
    "headings_of",
    "lines_below",
    "markdown",
    "notes_of",
    "per_cent",
    "rows_of",
    "separations_text",
    "whole_per_cent",
]

NOTHING: Final = "–"
_GOES_ON: Final = {
    "constant": "is constant",
    "cosine": "falls along a cosine",
    "wsd": "stays until the last fifth of the steps",
}
"""What a learning rate does after the warm-up."""
CSV_COLUMNS: Final = (
    "experiment",
    "budget",
    "panel",
    "model",
    "column",
    "at",
    "state",
    "ours_percent",
    "paper_percent",
    "paper_said",
    "difference_points",
    "low_percent",
    "high_percent",
    "steps",
    "steps_asked",
    "solved_at",
    "learning_rate",
    "runs",
    "run",
    "note",
)
_WORDS: Final = (0,)
"""Columns of text, set to the left; the others are numbers."""


def per_cent(share: float, *, decimals: int = 1) -> str:
    """A share between 0 and 1 as per cent, without the sign for it."""
    return f"{100 * share:.{decimals}f}"


def headings_of(panel: PanelOutcome) -> tuple[str, ...]:
    """What stands above the columns of a panel's rows."""
    if panel.panel.wide:
        return ("model", *map(panel.panel.label, panel.panel.columns))
    paper = () if panel.ours else ("paper", "difference")
    return ("model", panel.panel.column_name, "ours", *paper, "interval", "steps", "learning rate")


def rows_of(panel: PanelOutcome) -> list[tuple[str, ...]]:
    """A panel's cells as text, model by model with growing columns; of a wide panel a line for each model.

    Where no paper has the study, there is no column for its numbers.
    """
    if panel.panel.wide:
        return [
            (row, *(_short(panel.at(row, column)) for column in panel.panel.columns))
            for row in panel.panel.rows
        ]
    return [(*_ours(panel, one), *_theirs(panel, one), *_how(one)) for one in _in_order(panel)]


def whole_per_cent(share: float) -> str:
    """A share as whole per cents: 100 is all, and 0 none."""
    return str(min(99, max(1, round(100 * share))) if 0 < share < 1 else round(100 * share))


def _short(one: CellOutcome | None) -> str:
    if one is None:
        return ""
    return NOTHING if one.accuracy is None else whole_per_cent(one.accuracy)


def _ours(panel: PanelOutcome, one: CellOutcome) -> tuple[str, ...]:
    label = panel.panel.label(one.cell.column)
    return one.cell.row, label, one.state if one.accuracy is None else per_cent(one.accuracy)


def _theirs(panel: PanelOutcome, one: CellOutcome) -> tuple[str, ...]:
    if panel.ours:
        return ()
    return _paper(one), NOTHING if one.difference is None else _signed(one.difference)


def _how(one: CellOutcome) -> tuple[str, ...]:
    interval = NOTHING if one.interval is None else "–".join(per_cent(end) for end in one.interval)
    return interval, _steps(one), NOTHING if one.rate is None else f"{one.rate:g}"


def lines_below(panel: PanelOutcome) -> list[str]:
    """What a reader should know of a panel besides its rows, a sentence or two a line."""
    lines = [f"Paper: {panel.source}"] if panel.source else []
    lines += [panel.panel.said] if panel.panel.said else []
    lines += [separations_text(panel)] if panel.separations() else []
    far = [panel.panel.place(one.cell.row, one.cell.column) for one in _in_order(panel) if one.far_off]
    if far:
        lines.append(f"More than {100 * FAR:.0f} points from the paper with all steps taken: {_listed(far)}.")
    return lines + notes_of(panel)


def notes_of(panel: PanelOutcome) -> list[str]:
    """What is noted on cells, each note once; the last lines below a panel."""
    noted: dict[str, list[CellOutcome]] = {}
    for one in _in_order(panel):
        for note in (*_choices(one), one.note):
            if note:
                noted.setdefault(note, []).append(one)
    return [f"{_noted_at(panel, cells)}: {note}" for note, cells in noted.items()]


def _choices(one: CellOutcome) -> Iterator[str]:
    """What the paper leaves open and the best run of a cell has in one way of several, or otherwise than the
    cell asks for.
    """
    best = one.best
    if best is None:
        return
    if best.initial is not None:
        yield f"the best run's weights began by {best.initial}"
    if best.positions == "none":
        yield "the best run has no table of positions"
    otherwise = []
    if best.schedule not in {member.schedule for job in one.cell.jobs for member in job.members}:
        otherwise.append(f"rate {_GOES_ON[best.schedule]}")
    if best.clip not in {job.training.clip for job in one.cell.jobs}:
        otherwise.append(f"gradients are {f'cut to {best.clip:g}' if best.clip else 'not cut'}")
    if otherwise:
        yield f"the best run's {' and its '.join(otherwise)}"


def _noted_at(panel: PanelOutcome, cells: Sequence[CellOutcome]) -> str:
    """Where a note belongs: everywhere, to whole rows of several columns, or to columns of some rows."""
    if 1 < len(cells) == len(panel.cells):
        return "Every cell"
    whole = {row: [one.cell.column for one in panel.cells if one.cell.row == row] for row in panel.panel.rows}
    noted: dict[str, list[int]] = {}
    for one in cells:
        noted.setdefault(one.cell.row, []).append(one.cell.column)
    rows: dict[str, list[str]] = {}
    for row, columns in noted.items():
        everywhere = 1 < len(columns) == len(whole[row])
        labels = ", ".join(map(panel.panel.label, columns))
        rows.setdefault("" if everywhere else f" at {panel.panel.column_name} = {labels}", []).append(row)
    return "; ".join(f"{_together(names)}{where}" for where, names in rows.items())


def separations_text(panel: PanelOutcome) -> str:
    """How many pairs that the paper holds apart come in its order here or may yet, and which do not."""
    pairs = panel.separations()
    bar = f"{100 * SEPARATED:.0f} points"
    if not pairs:
        return f"The paper gives no two models more than {bar} apart here."
    kept, apart, unknown = ([pair for pair in pairs if pair.kept is state] for state in (True, False, None))
    lost, later = ([pair for pair in apart if pair.open is state] for state in (False, True))
    counted = "1 pair" if len(pairs) == 1 else f"{len(pairs):,} pairs"
    text = (
        f"Of the {counted} of models that the paper holds more than {bar} apart, {len(kept):,} "
        f"{_keeps(kept)} order here with disjoint intervals"
    )
    if lost:
        text += f", {_do_not(lost)} ({_listed(_pairs(panel, lost))})"
    if later:
        text += f", {_do_not(later)} yet, the better one having steps left"
    if unknown:
        text += f", and {len(unknown):,} {'waits' if len(unknown) == 1 else 'wait'} for runs"
    return f"{text}."


def markdown(outcome: StudyOutcome) -> str:
    """A study as a section: what the paper claims, and a table for each panel with what follows from it."""
    study = outcome.study
    parts = [
        f"## {study.name}: {study.title}",
        f"{_capital(study.source)}; budget {study.budget}. {study.claim}",
    ]
    for panel in outcome.panels:
        parts.append(f"### {panel.panel.title}")
        parts.append(_markdown_table(headings_of(panel), rows_of(panel)))
        parts += lines_below(panel)
    return "\n\n".join(parts) + "\n"


def csv_text(outcome: StudyOutcome) -> str:
    """Every cell of a study as a line; what there is not is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for panel in outcome.panels:
        writer.writerows(_csv_row(outcome, panel, one) for one in _in_order(panel))
    return text.getvalue()


def _csv_row(outcome: StudyOutcome, panel: PanelOutcome, one: CellOutcome) -> tuple[object, ...]:
    low, high = one.interval or (None, None)
    numbers = {
        "ours_percent": one.accuracy,
        "paper_percent": one.paper,
        "difference_points": one.difference,
        "low_percent": low,
        "high_percent": high,
    }
    values = {name: None if value is None else _two_decimals(value) for name, value in numbers.items()}
    values |= {
        "experiment": outcome.study.name,
        "budget": outcome.study.budget,
        "panel": panel.panel.name,
        "model": one.cell.row,
        "column": panel.panel.column_name,
        "at": panel.panel.label(one.cell.column).replace(",", ""),
        "state": one.state,
        "paper_said": one.paper_said,
        "steps": _plain(one.steps),
        "steps_asked": _plain(one.most_steps),
        "solved_at": _plain(None if one.best is None else one.best.solved_at),
        "learning_rate": None if one.rate is None else f"{one.rate:g}",
        "runs": str(one.runs),
        "run": None if one.best is None else one.best.key,
        "note": one.note,
    }
    return tuple(values[name] for name in CSV_COLUMNS)


def _in_order(panel: PanelOutcome) -> list[CellOutcome]:
    place = {row: number for number, row in enumerate(panel.panel.rows)}
    return sorted(panel.cells, key=lambda one: (place[one.cell.row], one.cell.column))


def _paper(one: CellOutcome) -> str:
    return one.paper_said or NOTHING if one.paper is None else per_cent(one.paper)


def _signed(difference: float) -> str:
    points = round(100 * difference, 1)
    return f"{points:+.1f}".replace("-", "−") if points else "0.0"


def _steps(one: CellOutcome) -> str:
    if one.steps is None:
        return NOTHING
    if one.best is not None and one.best.solved_at is not None:
        return f"solved at {one.best.solved_at:,}"
    return f"{one.steps:,} of {one.most_steps:,}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _keeps(pairs: Sequence[Separation]) -> str:
    return "keeps its" if len(pairs) == 1 else "keep their"


def _do_not(pairs: Sequence[Separation]) -> str:
    return f"{len(pairs):,} {'does' if len(pairs) == 1 else 'do'} not"


def _pairs(panel: PanelOutcome, pairs: Iterable[Separation]) -> list[str]:
    return [panel.panel.place(f"{pair.better} over {pair.worse}", pair.column) for pair in pairs]


def _listed(places: Iterable[str]) -> str:
    return "; ".join(places)


def _together(names: Sequence[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])


def _two_decimals(value: float) -> str:
    return f"{round(100 * value, 2) + 0.0:.2f}"  # adding nought makes −0 a plain one


def _plain(value: int | None) -> str | None:
    return None if value is None else str(value)


def _markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rules = ["---" if place in _WORDS else "---:" for place in range(len(headings))]
    return "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in (headings, rules, *rows))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
