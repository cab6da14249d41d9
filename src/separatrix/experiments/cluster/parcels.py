"""Parcels: what a store holds of a job, for the way to a machine that shares no disk with this one, and back.

A parcel is names and bytes: rows as JSON, curves, weights and the last checkpoint as the very files that a
store has of them. On arrival everything is read as strictly as a stranger's file and written by the store
itself, so a run that was trained far away is kept as one that was trained here.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final, TypeAlias

from separatrix.errors import InvalidFile
from separatrix.records import Reader, parse_json
from separatrix.store import Result, Run, Store, key_of
from separatrix.store.checkpoints import Checkpoint, Checkpoints
from separatrix.store.curves import read_curve
from separatrix.store.runs import FINISHED
from separatrix.store.sealed import read_sealed
from separatrix.training.jobs import Job

__all__ = ["Parcel", "pack", "unpack"]

Parcel: TypeAlias = dict[str, bytes]
"""Contents by name."""

_ROWS: Final = "runs.json"
_CHECKPOINT: Final = re.compile(r"step-[0-9]{12}\.safetensors")


def pack(
    job: Job, store: Store, *, keys: Collection[str] | None = None, checkpoint: Path | None = None
) -> Parcel:
    """What a store has of a job's members, or of those with these keys, and a checkpoint of the job."""
    wanted = set(_keys(job) if keys is None else keys)
    runs = [run for run in store.runs(task=job.task.name, model=job.model.name) if run.key in wanted]
    # Where training stops with the first that has solved the task, the others are known before that.
    runs.sort(key=lambda run: run.solved_at is not None)
    parcel = {_ROWS: json.dumps({"runs": [run.to_json() for run in runs]}, allow_nan=False).encode()}
    files = [path for run in runs if run.status in FINISHED for path in _files(store, run.key)]
    if checkpoint is not None:
        files.append(checkpoint)
    try:
        return parcel | {path.name: path.read_bytes() for path in files}
    except OSError as failure:
        raise InvalidFile(f"'{failure.filename}' cannot be read: {failure.strerror or failure}.") from failure


def unpack(parcel: Parcel, job: Job, store: Store, checkpoints: Checkpoints) -> None:
    """Keep all that a parcel holds: rows, curves and weights in the store, and the checkpoint among others.

    `checkpoints` are the job's, claimed in the same store. Rows are kept in their order, each when its files
    are: whoever is killed on the way has fewer runs, and no run that lacks something.
    """
    configs = {key_of(job.config_of(member)): job.config_of(member) for member in job.members}
    reached: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="separatrix-") as name:
        folder = Path(name)
        for run in _rows(parcel):
            if run.key not in configs:
                raise InvalidFile(f"The run {run.short} came with a job that it is no member of.")
            store.begin(configs[run.key], population=job.key, provenance=run.provenance)
            if run.status in FINISHED:
                _keep_files(parcel, run, folder, store)
            if run.status == "running":
                reached[run.key] = run.steps
            else:
                store.finish(run.key, _result_of(run))
        checkpoint = _checkpoint(parcel, job, folder)
        if checkpoint is not None:
            checkpoints.save(checkpoint.tensors, meta=checkpoint.meta, step=checkpoint.step)
    store.reached(reached)


def _keys(job: Job) -> list[str]:
    return [key_of(job.config_of(member)) for member in job.members]


def _files(store: Store, key: str) -> tuple[Path, ...]:
    return store.place("weights", key, "safetensors"), store.place("curves", key, "parquet")


def _rows(parcel: Parcel) -> tuple[Run, ...]:
    what = "the rows of a parcel"
    read = Reader(parse_json(parcel.get(_ROWS, b"null"), what=what), what=what)
    runs = tuple(Run.from_json(row) for row in read.items("runs"))
    read.finish()
    return runs


def _keep_files(parcel: Parcel, run: Run, folder: Path, store: Store) -> None:
    weights, curve = f"{run.key}.safetensors", f"{run.key}.parquet"
    for name in (weights, curve):
        if name not in parcel:
            raise InvalidFile(f"The run {run.short} came without its file {name}.")
        (folder / name).write_bytes(parcel[name])
    sealed = read_sealed(folder / weights)
    if sealed.owner != run.key:
        raise InvalidFile(f"The run {run.short} came with the weights of another.")
    store.write_weights(run.key, sealed.tensors, sealed.meta)
    store.write_curve(run.key, read_curve(folder / curve))


def _result_of(run: Run) -> Result:
    return Result(
        status=run.status,
        steps=run.steps,
        solved_at=run.solved_at,
        correct=run.correct,
        examples=run.examples,
        label_accuracy=run.label_accuracy,
        loss=run.loss,
        seconds=run.seconds,
        provenance=run.provenance,
    )


def _checkpoint(parcel: Parcel, job: Job, folder: Path) -> Checkpoint | None:
    for name in parcel:
        if _CHECKPOINT.fullmatch(name):
            (folder / name).write_bytes(parcel[name])
    loaded = Checkpoints(folder, job.key).load()
    if loaded.checkpoint is None and loaded.note is not None:
        raise InvalidFile(loaded.note)
    return loaded.checkpoint
