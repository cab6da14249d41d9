"""Reproduce a figure: train what is missing, let models write where they have to, measure the rest, compare.

Everything is kept in a store, so that a call that was cut off, at any moment, goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from separatrix.errors import InvalidInput, SeparatrixError, UnknownName
from separatrix.evidence import Decoded
from separatrix.experiments import study_of
from separatrix.experiments.cells import Measured, Study
from separatrix.experiments.decoded import decoded_score, measured
from separatrix.experiments.engines import Engine, Failure, Ran, Tell
from separatrix.experiments.local import LocalEngine
from separatrix.experiments.measurements import measured_now, series_in, write_series
from separatrix.experiments.outcomes import Known, StudyOutcome, best_run, outcome_of
from separatrix.experiments.protocols import Settings
from separatrix.experiments.scheduling import further_jobs, packed, second_looks, unfinished
from separatrix.store import Point, Store
from separatrix.store.bundles import Bundle
from separatrix.training.jobs import Job
from separatrix.training.running import chosen_device, load_run

__all__ = ["Reproduction", "known_in", "known_of", "measured_in", "reproduce"]


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """What came of a study, and what is left of it."""

    outcome: StudyOutcome
    failed: tuple[Failure, ...]
    interrupted: bool
    seconds: float


def reproduce(
    study: Study | str,
    store: Store,
    *,
    settings: Settings | None = None,
    engine: Engine | None = None,
    device: str = "auto",
    tell: Tell | None = None,
) -> Reproduction:
    """Run what a study still lacks, and return all its numbers.

    A name stands for the study of these settings; without settings that is the smallest budget.
    """
    study = study_of(study, settings) if isinstance(study, str) else study
    if study.refusal:
        raise InvalidInput(study.refusal)
    say: Tell = tell or (lambda line: None)
    runner = engine or LocalEngine(device=device)
    started = time.monotonic()
    with _threads(1 if study.budget == "smoke" else None):
        ran = _trained(packed(study), store, runner, say)
        if not ran.interrupted:
            ran = _went_further(study, store, runner, say, ran)
        if not ran.interrupted:
            _written(study, store, device=device, tell=say)
            ran = _looked_again(study, store, runner, say, ran, device=device)
        if not ran.interrupted:
            _counted(study, store, tell=say)
        outcome = outcome_of(study, known_of(store), measured=measured_in(study, store))
    return Reproduction(
        outcome=outcome, failed=ran.failed, interrupted=ran.interrupted, seconds=time.monotonic() - started
    )


@contextmanager
def _threads(wanted: int | None) -> Iterator[None]:
    """In the block torch computes with so many threads; on tensors as small as smoke's more only wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(wanted or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _trained(jobs: Sequence[Job], store: Store, engine: Engine, tell: Tell) -> Ran:
    left = unfinished(jobs, store)
    if len(left) < len(jobs):
        tell(f"{len(jobs) - len(left):,} of {len(jobs):,} jobs are in the store already.")
    return engine.run(left, store, tell=tell) if left else Ran(done=0)


def _and_then(ran: Ran, jobs: Sequence[Job], store: Store, engine: Engine, tell: Tell, *, which: str) -> Ran:
    """More jobs, if the store lacks them, and what came of all."""
    left = unfinished(jobs, store)
    if not left:
        return ran
    tell(f"Cells {which}: {len(left):,}.")
    more = engine.run(left, store, tell=tell)
    return Ran(done=ran.done + more.done, failed=ran.failed + more.failed, interrupted=more.interrupted)


def _went_further(study: Study, store: Store, engine: Engine, tell: Tell, ran: Ran) -> Ran:
    """Cells that are given more steps where they have not learned their task."""
    jobs = further_jobs(study, store.runs())
    which = "that have not learned their task, and are trained for longer"
    return _and_then(ran, jobs, store, engine, tell, which=which)


def _looked_again(study: Study, store: Store, engine: Engine, tell: Tell, ran: Ran, *, device: str) -> Ran:
    """Cells whose full budget ended far from the paper, with other seeds and the neighbouring rates."""
    if study.budget != "paper":
        return ran
    jobs = second_looks(outcome_of(study, known_of(store), measured={}))
    which = "that lie more than 5 points from the paper, and are trained again"
    after = _and_then(ran, jobs, store, engine, tell, which=which)
    if after.done > ran.done and not after.interrupted:
        _written(study, store, device=device, tell=tell)
    return after


def _written(study: Study, store: Store, *, device: str, tell: Tell) -> None:
    """Let the best run of every cell that counts by decoding write, unless it has."""
    known, where = known_of(store), chosen_device(device)
    for cell in [cell for cell in study.cells if cell.decoded]:
        run = best_run(cell, known.runs)
        if run is None or run.key in known.decoded:
            continue
        task = cell.jobs[0].built_task
        tell(f"{cell.row} writes its way to {run.examples:,} answers on {cell.jobs[0].task}.")
        try:
            trained = load_run(store, run.key)
            record = decoded_score(trained.population, task, examples=run.examples or 0, device=where)
        except SeparatrixError as problem:  # no weights, or no engine for its searches
            tell(f"{cell.row} is not decoded here: {problem}")
            continue
        store.write_evidence(run.key, record)


def _counted(study: Study, store: Store, *, tell: Tell) -> None:
    """Measure every series that the store lacks, and keep each as soon as it is there."""
    known = series_in(store)
    rows = {cell.series.key: cell.row for cell in study.cells if cell.series is not None}
    left = [series for series in study.series if series.key not in known]
    for number, series in enumerate(left, start=1):
        tell(f"Measures {rows[series.key]}, {number:,} of {len(left):,}.")
        write_series(store, measured_now(series))


class _Curves(Mapping[str, tuple[Point, ...]]):
    """The curves of a store, each read when somebody asks for it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getitem__(self, key: str) -> tuple[Point, ...]:
        try:
            return self._store.curve(key)
        except UnknownName:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.all_keys())

    def __len__(self) -> int:
        return len(self._store.all_keys())


def known_of(store: Store) -> Known:
    """Everything in a store."""
    runs = store.runs()
    decoded = {}
    for run in runs:
        record = store.decoding(run.key) if run.finished and run.task == "is-tree" else None
        if record is not None:
            decoded[run.key] = measured(record)
    series = {key: one.by_column for key, one in series_in(store).items()}
    return Known(runs=runs, curves=_Curves(store), decoded=decoded, series=series)


def known_in(bundle: Bundle) -> Known:
    """Everything in a bundle."""
    return Known(
        runs=bundle.runs,
        curves=bundle.curves,
        decoded={
            key: measured(record)
            for key, records in bundle.evidence.items()
            for record in records
            if isinstance(record, Decoded)
        },
    )


def measured_in(study: Study, store: Store) -> dict[tuple[str, str, int], Measured]:
    """The cells that need no training and take no time, each measured now."""
    return {
        (panel.name, cell.row, cell.column): cell.measure(store)
        for panel in study.panels
        for cell in panel.cells
        if cell.measure is not None
    }
