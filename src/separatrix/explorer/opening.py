"""Opening what lies in the folder: always a private copy, so that readers need not be careful about links."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from separatrix.errors import InvalidFile, InvalidInput, SeparatrixError
from separatrix.evidence import TaskSpec
from separatrix.explorer.folder import Folder
from separatrix.models.population import Population
from separatrix.records import Reader, thaw
from separatrix.store import Run, Store
from separatrix.tasks import Task
from separatrix.tasks.specs import task_of
from separatrix.training.remembered import load_run
from separatrix.witnesses import Witness
from separatrix.witnesses.files import SPEC, WEIGHTS, load

__all__ = ["TrainedRun", "opened_run", "opened_store", "opened_witness"]

_DATABASE: Final = "runs.sqlite"
_LOG: Final = "runs.sqlite-wal"
_COMPUTES: Final = re.compile(r"\b(?:view|trigger|virtual|generated|check|as)\b", re.IGNORECASE)
"""Words of a schema by which reading a table computes something; a store's has none of them."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedRun:
    """A finished run: its row, its weights as a population of one, and its task."""

    run: Run
    population: Population
    task: Task


def opened_witness(folder: Folder, path: str) -> Witness:
    """The witness in a folder within the folder."""
    with _copied(folder, path, SPEC, WEIGHTS) as place:
        return load(place)


@contextmanager
def opened_store(folder: Folder, path: str, *names: str) -> Iterator[Store]:
    """A copy of a store, with these of its files."""
    with _copied(folder, path, _DATABASE, *names, optional=(_LOG,)) as place:
        _refuse_computing(place / _DATABASE)
        yield Store(place, must_exist=True)


def opened_run(folder: Folder, path: str, key: str) -> TrainedRun:
    """A finished run in a store; a model of somebody's own code is refused, because nothing here is run."""
    with opened_store(folder, path) as store:
        full = store.run(key).key
    with opened_store(folder, path, f"weights/{full}.safetensors", f"curves/{full}.parquet") as store:
        trained = load_run(store, full)
    assert trained.run is not None
    config = thaw(trained.run.config)
    if not isinstance(config, dict):
        raise InvalidInput(f"The run {trained.run.short} does not say what it was trained on.")
    task = task_of(TaskSpec.read(Reader(config["task"], what=f"the task of run {trained.run.short}")))
    return TrainedRun(run=trained.run, population=trained.population, task=task)


@contextmanager
def _copied(folder: Folder, path: str, *names: str, optional: tuple[str, ...] = ()) -> Iterator[Path]:
    """Copies of these files; what is wrong with a copy is said of the file that it was made from."""
    with folder.copied(path, *names, optional=optional) as place:
        try:
            yield place
        except SeparatrixError as error:
            raise type(error)(str(error).replace(str(place), path)) from error


def _refuse_computing(database: Path) -> None:
    """Refuse a schema with more than tables in it: a view can be a query that never ends."""
    try:
        with closing(sqlite3.connect(database)) as connection:
            schema = [
                str(row[0]) for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql NOTNULL")
            ]
    except sqlite3.Error:
        return  # the store says itself what is wrong with its file
    if any(_COMPUTES.search(each) for each in schema):
        raise InvalidFile(f"'{database}' has more than the tables of a store in it and is not read.")
