"""Opening what lies in the folder: always a private copy, so that readers need not be careful about links."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, final

from separatrix.errors import InvalidInput
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


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedRun:
    """A finished run: its row, its weights as a population of one, and its task."""

    run: Run
    population: Population
    task: Task


def opened_witness(folder: Folder, path: str) -> Witness:
    """The witness in a folder within the folder."""
    with folder.copied(path, SPEC, WEIGHTS) as place:
        return load(place)


@contextmanager
def opened_store(folder: Folder, path: str, *names: str) -> Iterator[Store]:
    """A copy of a store, with these of its files."""
    with folder.copied(path, _DATABASE, *names, optional=(_LOG,)) as place:
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
