"""What `separatrix reproduce` does with a study: train what it lacks, or look up what is known.

Imported when the command is run, since it needs torch.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import ChainMap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TextIO

import torch

from separatrix.cli.output import columns, note, wrapped
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.experiments.asked import READS, Asked
from separatrix.experiments.cells import Study
from separatrix.experiments.engines import Engine, Failure, Ran, Tell
from separatrix.experiments.illustrations import Illustration
from separatrix.experiments.local import LocalEngine
from separatrix.experiments.measurements import read_series
from separatrix.experiments.outcomes import Known, StudyOutcome, fitting, outcome_of
from separatrix.experiments.projecting import projection_of
from separatrix.experiments.reproducing import known_in, known_of, measured_in, reproduce
from separatrix.experiments.scheduling import further_jobs, packed, unfinished
from separatrix.experiments.searching import found_in, search_study, space_of
from separatrix.interop.model_folders import model_folder
from separatrix.store import Run, Store
from separatrix.store.bundles import bundles_in, read_bundle, results_folder
from separatrix.training.course import Course, Outcome
from separatrix.training.jobs import Job
from separatrix.training.running import Observer, chosen_device
from separatrix.training.views import LinesView, NotesView, Tally, line_of, opening, watching

__all__ = [
    "Found",
    "everything_known",
    "local_engine",
    "looked_up",
    "owed_further",
    "reachable",
    "require_gpu",
    "require_runnable",
    "still_to_do",
    "time_taken",
    "trained",
]

_AT_ONCE: Final = 7
"""Runs that a search asks for at a time: as many as S has learning rates."""
_BETWEEN_LINES: Final = 10.0
_HOURS_FROM: Final = 120
"""Minutes from which a time is told in hours."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is known of an experiment now, and what could not be done."""

    asked: Asked
    outcome: StudyOutcome
    runs: tuple[Run, ...]
    """The finished ones behind its cells."""
    failed: tuple[Failure, ...] = ()
    interrupted: bool = False
    seconds: float = 0.0
    illustrations: tuple[Illustration, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether all that was asked for was done."""
        return not self.failed and not self.interrupted


def trained(asked: Asked, study: Study, store: Store, *, quiet: bool, ends: float | None) -> Found:
    """Train what a study lacks; `quiet`, with no more words than a person must hear.

    `ends` is when time is over, by the clock that only goes forward.
    """
    with watching(quiet=quiet) as view:
        came = reproduce(
            study,
            store,
            engine=_engine(asked, study, view if quiet else _Numbered(view), ends=ends),
            device=asked.device if asked.engine == "local" else "auto",
            tell=_unheard if quiet else view.says,
        )
    return Found(
        asked=asked,
        outcome=came.outcome,
        runs=_runs_of(study, known_of(store)),
        failed=came.failed,
        interrupted=came.interrupted,
        seconds=came.seconds,
        illustrations=_illustrated(study, store),
    )


def looked_up(asked: Asked, study: Study, store: Store | None) -> Found:
    """What the store and the published bundles know of a study; nothing is trained."""
    known = everything_known(store)
    with tempfile.TemporaryDirectory(prefix="separatrix-") as elsewhere:  # whoever only looks makes no store
        measured = {} if study.name == READS else measured_in(study, store or Store(elsewhere))
    return Found(
        asked=asked,
        outcome=outcome_of(study, known, measured=measured),
        runs=_runs_of(study, known),
        illustrations=() if store is None else _illustrated(study, store),
    )


def everything_known(store: Store | None) -> Known:
    """All that is published and all that the store has; whoever counts takes the best."""
    found = []
    published = results_folder()
    for folder in bundles_in(published):
        try:
            found.append(known_in(read_bundle(folder)))
        except InvalidFile as problem:
            note(f"{problem} It is left out.")
    found += [] if store is None else [known_of(store)]
    curves: list[Any] = [known.curves for known in found]  # a chain of maps is typed as one that can change
    decoded: list[Any] = [known.decoded for known in found]
    series: list[Any] = [known.series for known in found]
    return Known(
        runs=tuple(run for known in found for run in known.runs),
        curves=ChainMap(*curves),
        decoded=ChainMap(*decoded),
        series=ChainMap(*series, _series_in(published)),
    )


def _series_in(results: Path | None) -> dict[str, Any]:
    """What is published of series, folder by folder."""
    found: dict[str, Any] = {}
    for folder in sorted(results.iterdir()) if results is not None else ():
        try:
            found |= {key: one.by_column for key, one in read_series(folder).items()}
        except InvalidFile as problem:
            note(f"{problem} It is left out.")
    return found


def _runs_of(study: Study, known: Known) -> tuple[Run, ...]:
    finished = [run for run in known.runs if run.finished]
    return tuple({run.key: run for cell in study.cells for run in fitting(cell, finished)}.values())


def _illustrated(study: Study, store: Store) -> tuple[Illustration, ...]:
    return () if study.illustrate is None else tuple(study.illustrate(store))


def require_runnable(asked: Asked, study: Study) -> None:
    """Refuse what cannot be begun in the way that is asked for, before anything is written."""
    if study.refusal:
        raise InvalidInput(study.refusal)
    for _, folder in asked.models if study.name == READS else ():
        model_folder(folder)
    if asked.engine == "local":
        chosen_device(asked.device)
    _engine(asked, study, Observer())
    if asked.search == "optuna":
        for cell in study.cells:
            if cell.jobs:
                space_of(cell.jobs)


def require_gpu(work: Sequence[tuple[Asked, Study]], store: Store | None) -> None:
    """Refuse what would take for ever without a GPU, and say what it takes where there is one."""
    if torch.cuda.is_available():
        return
    needing = [
        (asked, study)
        for asked, study in work
        if asked.budget != "smoke"
        and (asked.engine, asked.device) == ("local", "auto")
        and still_to_do(asked, study, store) + owed_further(study, store)
    ]
    if not needing:
        return
    names = ", ".join(asked.name for asked, _ in needing)
    them = ("needs", "its", "it") if len(needing) == 1 else ("need", "their", "them")
    raise InvalidInput(
        f"{names} at --budget {needing[0][0].budget} {them[0]} a GPU and there is none here: {them[1]} "
        f"{_price(needing)}; run {them[2]} where there is one, try --budget smoke "
        "here, or give --device cpu to wait as long as it takes."
    )


def _price(work: Sequence[tuple[Asked, Study]]) -> str:
    projections = [projection_of(study, abreast=asked.lanes) for asked, study in work]
    jobs = [job for one in projections for job in (*one.jobs, *one.further)]
    unknown = sum(job.seconds is None for job in jobs)
    if unknown == len(jobs):
        return f"{len(jobs):,} jobs take a time on an H200 that nobody has measured"
    rest = f", without {unknown:,} that nobody has measured" if unknown else ""
    most = sum(one.most_minutes for one in projections)
    return f"{len(jobs):,} jobs take at most about {time_taken(most)} on an H200{rest}"


def time_taken(minutes: float) -> str:
    """Minutes in words, hours where they are many."""
    if minutes >= _HOURS_FROM:
        return f"{minutes / 60:,.0f} hours" if minutes >= 600 else f"{minutes / 60:.1f} hours"
    return f"{minutes:.0f} minutes" if minutes >= 1.5 else "a minute"


@contextmanager
def reachable(work: Sequence[tuple[Asked, Study]], store: Store | None) -> Iterator[None]:
    """In the block the cluster that work is for is connected; one that does not answer is refused first."""
    with ExitStack() as stack:
        for asked, study in work:
            if asked.engine == "ray" and still_to_do(asked, study, store) + owed_further(study, store):
                from separatrix.experiments.cluster.ray_connection import connected  # few have a cluster

                answers = sys.stdout
                stack.enter_context(connected(asked.address))
                stack.enter_context(redirect_stdout(answers))  # which is turned aside for what Ray prints
        yield


def still_to_do(asked: Asked, study: Study, store: Store | None) -> int:
    """How many jobs a study lacks, or cells that a search is not done with; what is trained for longer where
    a model has not learned its task is not among them.
    """
    if asked.search == "optuna":
        cells = [cell for cell in study.cells if cell.jobs]
        found = [] if store is None else [found_in(space_of(cell.jobs), store) for cell in cells]
        return len(cells) - sum(one.solved or one.trials >= asked.trials for one in found)
    jobs = packed(study)
    return len(jobs if store is None else unfinished(jobs, store))


def owed_further(study: Study, store: Store | None) -> int:
    """How many jobs models are owed that the store has trained, and that have not learned their task."""
    return 0 if store is None else len(unfinished(further_jobs(study, store.runs()), store))


def local_engine(asked: Asked, observer: Observer | None = None) -> LocalEngine:
    """This machine, as it was asked to be used; what makes no sense is refused."""
    return LocalEngine(
        device=asked.device,
        processes=asked.processes,
        abreast=asked.lanes,
        with_room=asked.abreast is None,
        seats=asked.seats,
        minutes=asked.minutes,
        observer=observer,
    )


def _engine(asked: Asked, study: Study, observer: Observer, *, ends: float | None = None) -> Engine:
    engine: Engine
    if asked.engine == "ray":
        from separatrix.experiments.cluster.ray_engine import RayEngine  # few have a cluster

        engine = RayEngine(address=asked.address, gpus_per_job=asked.gpus_per_job, seats=asked.seats)
    else:
        engine = local_engine(asked, observer)
    engine = _Counted(engine, observer, ends)
    return _Searching(engine, study, asked) if asked.search == "optuna" else engine


class _Searching:
    """An engine that does not do the grid it is given, but what a search asks for in its place."""

    def __init__(self, engine: Engine, study: Study, asked: Asked) -> None:
        self._engine, self._study, self._asked = engine, study, asked

    def run(self, jobs: Sequence[Job], store: Store, *, tell: Tell) -> Ran:
        """Search; jobs that are none of the grid's follow from what was found, and are done as they are."""
        if not {job.key for job in jobs} <= {job.key for job in packed(self._study)}:
            return self._engine.run(jobs, store, tell=tell)
        return search_study(
            self._study,
            store,
            trials=self._asked.trials,
            engine=self._engine,
            tell=tell,
            seats=self._asked.seats or _AT_ONCE,
        )


class _Numbered(Observer):
    """Says which job of how many begins, and passes everything on."""

    def __init__(self, view: Observer) -> None:
        # Jobs may be many and short: then a line for each is enough.
        self._view = _JobLines(sys.stderr) if isinstance(view, LinesView) else view
        self._of = 0
        self._numbers: dict[str, int] = {}

    def expect(self, jobs: int) -> None:
        """So many jobs come."""
        self._numbers, self._of = {}, jobs

    def _which(self, job: Job) -> str:
        """Its number; one that was begun among others and is done alone keeps it."""
        number = self._numbers.setdefault(job.key, len(self._numbers) + 1)
        return f"Job {number:,} of {self._of:,}"

    def beside(self, job: Job) -> Observer:
        """Number it, and have the view tell of it among others."""
        self._view.says(f"{self._which(job)}: {job.short_name}")
        return self._view.beside(job)

    def begins(self, job: Job, *, seats: int, finished: Sequence[int]) -> None:
        """Number it, and pass it on."""
        line = f"{self._which(job)}: {opening(job, seats=seats, finished=finished)}"
        for part in wrapped(line, columns(sys.stderr)):
            self._view.says(part)
        self._view.begins(job, seats=seats, finished=finished)

    def steps(self, course: Course, count: int) -> None:
        """Pass it on."""
        self._view.steps(course, count)

    def looked(self, course: Course) -> None:
        """Pass it on."""
        self._view.looked(course)

    def left(self, job: Job, outcome: Outcome) -> None:
        """Pass it on."""
        self._view.left(job, outcome)

    def says(self, note: str) -> None:
        """Pass it on."""
        self._view.says(note)


class _JobLines(NotesView):
    """A line now and then of a job that takes longer."""

    def __init__(self, stream: TextIO, *, name: str = "") -> None:
        super().__init__(stream, name=name)
        self._tally: Tally | None = None
        self._last = 0.0

    def beside(self, job: Job) -> Observer:
        """The same for one of several jobs."""
        return _JobLines(self._stream, name=job.short_name)

    def begins(self, job: Job, *, seats: int, finished: Sequence[int]) -> None:
        """Count anew."""
        self._tally = Tally(job, finished=finished, clock=time.monotonic)
        self._last = time.monotonic()

    def steps(self, course: Course, count: int) -> None:
        """Count them."""
        assert self._tally is not None
        self._tally.stepped(course, count)

    def looked(self, course: Course) -> None:
        """Say where the population is, if that was not said just now."""
        assert self._tally is not None
        self._tally.looked(course)
        if time.monotonic() - self._last >= _BETWEEN_LINES:
            self._last = time.monotonic()
            self.says(line_of(self._tally))


class _Counted:
    """An engine that says how many jobs it is given, and has the time that is left of the whole."""

    def __init__(self, engine: Engine, observer: Observer, ends: float | None) -> None:
        self._engine, self._observer, self._ends = engine, observer, ends

    def run(self, jobs: Sequence[Job], store: Store, *, tell: Tell) -> Ran:
        """Do them in what time there is."""
        engine = self._engine
        if isinstance(engine, LocalEngine):  # a cluster may refuse them first
            tell("1 job to do." if len(jobs) == 1 else f"{len(jobs):,} jobs to do, the longest first.")
            if self._ends is not None:
                left = (self._ends - time.monotonic()) / 60
                if left <= 0:
                    return Ran(done=0, interrupted=True)
                engine = replace(engine, minutes=left)
        if isinstance(self._observer, _Numbered):
            self._observer.expect(len(jobs))
        return engine.run(jobs, store, tell=tell)


def _unheard(line: str) -> None:
    """Nobody listens."""
