"""Runs that nobody trained: they have a job's configs and whatever result a test wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from separatrix.experiments.cells import Cell, Measured, Panel, Study
from separatrix.experiments.outcomes import Known, StudyOutcome, outcome_of
from separatrix.store import Point, Run, Status, key_of, wilson
from separatrix.store.runs import checked_config
from separatrix.training.jobs import Job

WHEN = "2026-01-01T00:00:00+00:00"


def fake_run(
    job: Job,
    number: int = 0,
    *,
    correct: int | None = None,
    examples: int = 1000,
    status: Status = "done",
    steps: int | None = None,
    solved_at: int | None = None,
    seconds: float = 2.0,
) -> Run:
    """The run of a job's member: all its steps unless told otherwise, and no test without `correct`."""
    config = checked_config(job.config_of(job.members[number]))
    low, high = (None, None) if correct is None else wilson(correct, examples)
    return Run(
        key=key_of(config),
        config=config,
        status=status,
        steps=job.training.steps if steps is None else steps,
        solved_at=solved_at,
        accuracy=None if correct is None else correct / examples,
        correct=correct,
        examples=None if correct is None else examples,
        low=low,
        high=high,
        label_accuracy=None,
        loss=None,
        seconds=seconds,
        provenance={},
        created=WHEN,
        updated=WHEN,
    )


def known(
    runs: Sequence[Run],
    *,
    curves: Mapping[str, tuple[Point, ...]] | None = None,
    decoded: Mapping[str, Measured] | None = None,
) -> Known:
    return Known(runs=tuple(runs), curves=curves or {}, decoded=decoded or {})


def cell_of(study: Study, panel: str, row: str, column: int) -> Cell:
    (found,) = (
        cell
        for one in study.panels
        if one.name == panel
        for cell in one.cells
        if (cell.row, cell.column) == (row, column)
    )
    return found


def only(study: Study, panel: str, **changes: object) -> Study:
    """A study with one of its panels, changed as told."""
    found = next(one for one in study.panels if one.name == panel)
    return replace(study, panels=(replace(found, **changes),))  # type: ignore[arg-type]


def outcome_with(
    study: Study,
    accuracies: Mapping[tuple[str, int], int],
    *,
    curves: bool = False,
    measured: Mapping[tuple[str, str, int], Measured] | None = None,
) -> StudyOutcome:
    """A study in whose first panel the first member of these cells has so many of 1,000 right."""
    panel: Panel = study.panels[0]
    runs = [
        fake_run(cell_of(study, panel.name, row, column).jobs[0], correct=correct)
        for (row, column), correct in accuracies.items()
    ]
    points = {run.key: climb(run) for run in runs} if curves else {}
    return outcome_of(study, known(runs, curves=points), measured=measured or {})


def climb(run: Run) -> tuple[Point, ...]:
    """A curve to where the run ended, looked at five times, with a point between that was not looked at."""
    end, last = run.correct or 0, run.steps
    looks = [Point(step=last * k // 5, loss=1.0, correct=end * k // 5, examples=1000) for k in range(1, 6)]
    return (*looks[:2], replace(looks[2], correct=None, examples=None), *looks[3:])
