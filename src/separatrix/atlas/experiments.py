"""What training found, for the page: runs that were kept as bundles, and the papers' studies they speak to.

A folder of results has a folder for each bundle; one that is missing or empty leaves every trained cell as
"not run". What needs no training, such as a solver that only counts symbols, is counted when the page is
made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.experiments import EXPERIMENTS, study_of
from separatrix.experiments.attention_pictures import AttentionPictures
from separatrix.experiments.cells import Cell, Measured, Study
from separatrix.experiments.measurements import KEPT, read_series
from separatrix.experiments.outcomes import Known, StudyOutcome, fitting, outcome_of
from separatrix.experiments.protocols import Settings
from separatrix.experiments.reproducing import known_in, measured_in
from separatrix.records import JsonValue, parse_json
from separatrix.store import Run, Store
from separatrix.store.bundles import has_bundle, merge_bundles, read_bundle

__all__ = ["PICTURES", "Asked", "Kept", "asked", "kept_in", "paper_studies", "reported", "runs_of"]

PICTURES: Final = "attention.json"
"""Beside a bundle: what a unit attends to while it learns."""
_MOST_BYTES: Final = 1 << 22
_MOST_PLACES: Final = 64
"""More could not be told apart in a matrix of the page."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """All that a folder of results holds; notes and pictures go by the names of their studies."""

    known: Known = field(default_factory=lambda: Known(runs=(), curves={}, decoded={}))
    notes: Mapping[str, str] = field(default_factory=dict)
    pictures: Mapping[str, AttentionPictures] = field(default_factory=dict)
    made: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)
    """Where series were computed, by their keys."""


def kept_in(folder: Path | None) -> Kept:
    """Read every bundle in a folder, or the one that the folder itself is; a damaged one is refused."""
    if folder is None:
        return Kept()
    places = _places(folder)
    bundles = [read_bundle(place) for place in places if has_bundle(place)]
    known = known_in(reduce(merge_bundles, bundles)) if bundles else Kept().known
    series = {key: one for place in places for key, one in read_series(place).items()}
    found = {place.name: _pictures_in(place / PICTURES) for place in places}
    return Kept(
        known=replace(known, series={key: one.by_column for key, one in series.items()}),
        made={key: one.provenance for key, one in series.items()},
        notes={bundle.name: bundle.notes for bundle in bundles if bundle.notes},
        pictures={name: pictures for name, pictures in found.items() if pictures is not None},
    )


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A study, and those of its numbers that need no training."""

    study: Study
    measured: Mapping[tuple[str, str, int], Measured]


def paper_studies() -> tuple[Asked, ...]:
    """Every study as its paper has it."""
    return tuple(_paper_study(name) for name in EXPERIMENTS.names())


@cache
def _paper_study(name: str) -> Asked:
    return asked(study_of(name, Settings(budget="paper")))


def asked(study: Study) -> Asked:
    """A study, with what is counted now; one that cannot be run as it is has nothing to count."""
    if study.refusal or all(cell.measure is None for cell in study.cells):
        return Asked(study=study, measured={})
    with TemporaryDirectory() as folder:
        return Asked(study=study, measured=measured_in(study, Store(Path(folder))))


def reported(asked: Asked, kept: Kept) -> StudyOutcome:
    """A study's numbers: trained ones from what was kept beside those that were counted."""
    # To know a run's question takes hashing its config, so whatever is of another task is left out before.
    known = replace(kept.known, runs=_on_tasks_of(asked.study, kept.known.runs))
    return outcome_of(asked.study, known, measured=asked.measured)


def runs_of(study: Study, runs: Sequence[Run]) -> tuple[Run, ...]:
    """Those runs that answer what some cell of a study asks."""
    jobs = study.jobs
    if not jobs:
        return ()
    return fitting(Cell(row=study.name, column=0, jobs=jobs), _on_tasks_of(study, runs))


def _on_tasks_of(study: Study, runs: Sequence[Run]) -> tuple[Run, ...]:
    tasks = {job.task.name for job in study.jobs}
    return tuple(run for run in runs if run.task in tasks)


def _places(folder: Path) -> list[Path]:
    try:
        if not folder.is_dir():
            raise InvalidInput(f"Results are a folder with a folder for each bundle; '{folder}' is none.")
        alone = has_bundle(folder) or (folder / KEPT).is_file()
        return [folder] if alone else sorted(path for path in folder.iterdir() if path.is_dir())
    except (OSError, ValueError) as failure:  # a null in the name
        if isinstance(failure, InvalidInput):
            raise
        reason = failure.strerror if isinstance(failure, OSError) and failure.strerror else failure
        raise InvalidFile(f"The results in '{folder}' cannot be read: {reason}.") from failure


def _pictures_in(path: Path) -> AttentionPictures | None:
    """The record in a file, read strictly; None if there is no file."""
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidFile(f"it may have {_MOST_BYTES:,} bytes and has {path.stat().st_size:,}.")
        pictures = AttentionPictures.from_json(
            parse_json(path.read_bytes(), what="it", most_bytes=_MOST_BYTES)
        )
        if len(pictures.sets) > _MOST_PLACES:
            raise InvalidFile(f"it shows {len(pictures.sets):,} places, and the page draws {_MOST_PLACES}.")
    except OSError as failure:
        raise InvalidFile(f"'{path}' cannot be read: {failure.strerror or failure}.") from failure
    except InvalidFile as problem:
        raise InvalidFile(f"'{path}' is of no use: {problem}") from problem
    return pictures
