"""What came of a study: for every cell the best that any run in the store, or in a bundle, has reached.

As in the papers the best of all learning rates and seeds counts. What was not run says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, Literal

from separatrix.experiments.cells import Cell, Measured, Panel, Study
from separatrix.experiments.published import Published, published
from separatrix.models.specs import architecture_of
from separatrix.records import JsonObject
from separatrix.store import Point, Run, key_of
from separatrix.store.intervals import Interval
from separatrix.store.runs import FINISHED

__all__ = [
    "FAR",
    "LEARNED",
    "SEPARATED",
    "CellOutcome",
    "Known",
    "PanelOutcome",
    "Separation",
    "StudyOutcome",
    "best_run",
    "ended_runs",
    "fitting",
    "outcome_of",
    "wants_more",
]

State = Literal["not run", "under way", "done"]
SEPARATED: Final = 0.10
"""Models that the paper's numbers hold further apart than this are to come in the paper's order."""
FAR: Final = 0.05
"""A cell with its full budget that lies further from the paper than this is looked at again."""
LEARNED: Final = 0.99
"""A model that has so many of its test examples right, every label, is trained no further."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """Everything that was run, from wherever it comes: runs, their curves, scores by decoding, and series."""

    runs: tuple[Run, ...]
    curves: Mapping[str, tuple[Point, ...]]
    decoded: Mapping[str, Measured]
    series: Mapping[str, Mapping[int, Measured]] = field(default_factory=dict)
    """What was measured without training and written down, by the keys of the series, then by column."""


@dataclass(frozen=True, kw_only=True)
class CellOutcome:
    """One cell: our number with its interval, and the paper's."""

    cell: Cell
    state: State
    accuracy: float | None = None
    interval: Interval | None = None
    best: Run | None = None
    """The run whose number this is; None where nothing was trained."""
    runs: int = 0
    steps: int | None = None
    most_steps: int | None = None
    """What the budget of the best run had, or what the cell's own jobs give if that is more."""
    full_budget: bool = False
    """Whether some run had all the steps that the cell's own jobs give, or solved the task before."""
    rate: float | None = None
    seeds: tuple[int, ...] = ()
    """Of all finished runs."""
    seconds: float | None = None
    note: str = ""
    paper: float | None = None
    paper_said: str = ""
    curve: tuple[Point, ...] = ()

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.accuracy is None or self.paper is None else self.accuracy - self.paper

    @property
    def has_steps_left(self) -> bool:
        """Whether there are runs, and none of them has taken all the steps that the cell asks for."""
        return self.best is not None and not self.full_budget

    @property
    def far_off(self) -> bool:
        """Whether the paper's number lies far from ours although the budget was the full one."""
        return self.full_budget and self.difference is not None and _beyond(abs(self.difference), FAR)

    def to_fields(self) -> JsonObject:
        """What there is to say, as JSON values."""
        return {
            "row": self.cell.row,
            "column": self.cell.column,
            "state": self.state,
            "accuracy": self.accuracy,
            "interval": None if self.interval is None else list(self.interval),
            "paper": self.paper,
            "paper_said": self.paper_said,
            "difference": self.difference,
            "steps": self.steps,
            "most_steps": self.most_steps,
            "rate": self.rate,
            "seeds": list(self.seeds),
            "runs": self.runs,
            "seconds": self.seconds,
            "run": None if self.best is None else self.best.key,
            "note": self.note,
        }


@dataclass(frozen=True, kw_only=True)
class Separation:
    """Two models that the paper holds apart in a column, and whether ours come apart the same way."""

    column: int
    better: str
    worse: str
    kept: bool | None
    """None where one of them was not run."""
    open: bool
    """Whether that may still come: one was not run, or the better one has steps left and the worse one is not
    so far above the paper as the two are apart there at the least.
    """


@dataclass(frozen=True, kw_only=True)
class PanelOutcome:
    """A panel's cells with their numbers."""

    panel: Panel
    cells: tuple[CellOutcome, ...]
    source: str
    ours: bool = False
    """Whether no paper has it, so that there is nothing to compare with."""

    def at(self, row: str, column: int) -> CellOutcome | None:
        """The cell in this place."""
        return next((one for one in self.cells if (one.cell.row, one.cell.column) == (row, column)), None)

    def separations(self) -> tuple[Separation, ...]:
        """Every pair in a column that the paper's numbers hold apart."""
        found = []
        for column in self.panel.columns:
            printed = [one for one in self.cells if one.cell.column == column and one.paper is not None]
            found += [
                _separation(a, b)
                for a in printed
                for b in printed
                if _beyond((a.paper or 0.0) - (b.paper or 0.0), SEPARATED)
            ]
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class StudyOutcome:
    """A study with its numbers."""

    study: Study
    panels: tuple[PanelOutcome, ...]

    @property
    def cells(self) -> tuple[CellOutcome, ...]:
        """All of them, panel by panel."""
        return tuple(cell for panel in self.panels for cell in panel.cells)

    def to_fields(self) -> JsonObject:
        """Everything as JSON values."""
        return {
            "experiment": self.study.name,
            "budget": self.study.budget,
            "title": self.study.title,
            "source": self.study.source,
            "panels": [
                {
                    "name": one.panel.name,
                    "title": one.panel.title,
                    "columns_are": one.panel.column_name,
                    **({"columns": one.panel.column_labels} if one.panel.column_labels else {}),
                    "paper": one.source,
                    "cells": [cell.to_fields() for cell in one.cells],
                    "separations": [asdict(pair) for pair in one.separations()],
                }
                for one in self.panels
            ],
        }


def outcome_of(
    study: Study, known: Known, *, measured: Mapping[tuple[str, str, int], Measured]
) -> StudyOutcome:
    """The numbers of a study from what is known; `measured` are those that need no run, by place."""
    by_question = _grouped(known.runs)
    panels = []
    for panel in study.panels:
        table = published(panel.published)
        cells = tuple(
            _trained_cell(cell, by_question, known, table)
            if cell.jobs
            else _measured_cell(cell, _counted(panel, cell, known, measured), table)
            for cell in panel.cells
        )
        source = "" if table is None else table.source
        panels.append(PanelOutcome(panel=panel, cells=cells, source=source, ours=study.work is None))
    return StudyOutcome(study=study, panels=tuple(panels))


def _counted(
    panel: Panel, cell: Cell, known: Known, measured: Mapping[tuple[str, str, int], Measured]
) -> Measured | None:
    if cell.series is not None:
        return known.series.get(cell.series.key, {}).get(cell.column)
    return measured.get((panel.name, cell.row, cell.column))


def fitting(cell: Cell, runs: Iterable[Run]) -> tuple[Run, ...]:
    """The runs of a cell's models on its task, whoever trained them and how."""
    return _answering(cell, _grouped(runs))


def best_run(cell: Cell, runs: Iterable[Run]) -> Run | None:
    """Of a cell's finished runs the one that answers best when it is told what it should have written."""
    return max(
        ended_runs(cell, runs),
        key=lambda run: (run.accuracy or 0.0, run.label_accuracy or 0.0),
        default=None,
    )


def ended_runs(cell: Cell, runs: Iterable[Run]) -> list[Run]:
    """A cell's runs that were trained to their end and tested."""
    return _ended(fitting(cell, runs))


def _ended(runs: Iterable[Run]) -> list[Run]:
    return [run for run in runs if run.status in FINISHED and run.accuracy is not None]


def _answering(cell: Cell, by_question: Mapping[str, Sequence[Run]]) -> tuple[Run, ...]:
    questions = {_question(job.task.to_fields(), job.model.to_fields()) for job in cell.jobs}
    return tuple(run for question in sorted(questions) for run in by_question.get(question, ()))


def _grouped(runs: Iterable[Run]) -> Mapping[str, Sequence[Run]]:
    # A run may come from the store and from a bundle too; one that has ended says more than one that has not.
    once = {run.key: run for run in sorted(runs, key=lambda run: run.finished)}
    groups: dict[str, list[Run]] = {}
    for run in once.values():
        groups.setdefault(_question(run.config["task"], run.config["model"]), []).append(run)
    return groups


def _question(task: object, model: object) -> str:
    """What a run answers, whoever trained it, how, and from which weights: a model on a task."""
    return key_of({"task": task, "model": architecture_of(model) if isinstance(model, Mapping) else model})


def _trained_cell(
    cell: Cell, by_question: Mapping[str, Sequence[Run]], known: Known, table: Published | None
) -> CellOutcome:
    runs = _answering(cell, by_question)
    paper, said = _printed(table, cell)
    ended = _ended(runs)
    finished = [run for run in ended if not cell.decoded or run.key in known.decoded]
    if not finished:
        return CellOutcome(
            cell=cell,
            state="under way" if runs else "not run",
            runs=len(runs),
            note="trained, and not decoded yet" if ended else "",
            paper=paper,
            paper_said=said,
        )
    # Of equals the one with most labels right, then the quickest, then whichever key comes first, so that the
    # order of the runs has no part in it.
    best = min(
        finished,
        key=lambda run: (-_accuracy(run, cell, known), -(run.label_accuracy or 0.0), run.steps, run.key),
    )
    asked = _asked_of(cell, ended)
    training = best.config["training"]
    assert isinstance(training, Mapping)
    score = known.decoded[best.key] if cell.decoded else None
    return CellOutcome(
        cell=cell,
        state="done",
        accuracy=_accuracy(best, cell, known),
        interval=_interval(best) if score is None else score.interval,
        best=best,
        runs=len(runs),
        steps=best.steps,
        most_steps=max(asked, int(str(training["steps"]))),
        full_budget=any(run.steps >= asked or run.solved_at is not None for run in ended),
        rate=best.rate,
        seeds=tuple(sorted({_seed(run) for run in ended})),
        seconds=sum(run.seconds for run in ended),
        note="" if score is None else score.note,
        paper=paper,
        paper_said=said,
        curve=known.curves.get(best.key, ()),
    )


def _asked_of(cell: Cell, finished: Sequence[Run]) -> int:
    """The steps that a cell gives its models: more to those that have not learned their task at first."""
    steps = max(job.training.steps for job in cell.jobs)
    return max(job.training.steps for job in cell.further) if wants_more(cell, finished) else steps


def wants_more(cell: Cell, finished: Iterable[Run]) -> bool:
    """Whether a cell has further jobs, and its first steps were taken without having the task learned."""
    steps = max(job.training.steps for job in cell.jobs)
    ended = [run for run in finished if run.steps >= steps or run.solved_at is not None]
    learned = any(run.solved_at is not None or (run.accuracy or 0.0) >= LEARNED for run in ended)
    return bool(cell.further) and bool(ended) and not learned


def _accuracy(run: Run, cell: Cell, known: Known) -> float:
    found = known.decoded[run.key].accuracy if cell.decoded else run.accuracy
    assert found is not None
    return found


def _seed(run: Run) -> int:
    member = run.config["member"]
    assert isinstance(member, Mapping)
    return int(str(member["seed"]))


def _interval(run: Run) -> Interval | None:
    return None if run.low is None or run.high is None else Interval(run.low, run.high)


def _measured_cell(cell: Cell, found: Measured | None, table: Published | None) -> CellOutcome:
    paper, said = _printed(table, cell)
    if found is None or not found.examples:
        note = "" if found is None else found.note
        return CellOutcome(cell=cell, state="not run", note=note, paper=paper, paper_said=said)
    return CellOutcome(
        cell=cell,
        state="done",
        accuracy=found.accuracy,
        interval=found.interval,
        seconds=found.seconds,
        note=found.note,
        paper=paper,
        paper_said=said,
    )


def _printed(table: Published | None, cell: Cell) -> tuple[float | None, str]:
    if table is None:
        return None, ""
    return table.number(cell.row, cell.column), table.words(cell.row, cell.column)


def _separation(better: CellOutcome, worse: CellOutcome) -> Separation:
    kept, open_still = None, True
    if better.interval is not None and worse.interval is not None:
        kept = better.interval.low > worse.interval.high
        too_good = _beyond(worse.interval.low - (worse.paper or 0.0), SEPARATED)
        open_still = not kept and better.has_steps_left and not too_good
    return Separation(
        column=better.cell.column,
        better=better.cell.row,
        worse=worse.cell.row,
        kept=kept,
        open=open_still,
    )


def _beyond(distance: float, bar: float) -> bool:
    """Whether a distance between two accuracies passes a bar, whatever floats make of a tenth."""
    return round(distance, 9) > bar
