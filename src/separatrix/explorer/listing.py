"""What lies in the folder, in a few words each: witnesses with their task, stores with their runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from separatrix.errors import InvalidFile, SeparatrixError
from separatrix.explorer.folder import Folder
from separatrix.explorer.opening import opened_store
from separatrix.explorer.view import Deadline
from separatrix.records import JsonObject, parse_json, thaw
from separatrix.store import Run
from separatrix.store.runs import FINISHED
from separatrix.witnesses.files import SPEC, WitnessRecord

__all__ = ["listing"]

_MOST_RUNS: Final = 200
_LARGEST_SPEC: Final = 2**20
_LONGEST_FORM: Final = 100


def listing(folder: Folder, deadline: Deadline) -> JsonObject:
    """Everything that a view can open; what cannot be read is listed with the reason."""
    found: list[JsonObject] = []
    enough = deadline.left / 2
    for entry in folder.entries():
        about: JsonObject = {"path": entry.path, "kind": entry.kind}
        try:
            if deadline.left <= enough:
                raise InvalidFile("There was no time left to look into this; serve a smaller folder.")
            about |= _witness(folder, entry.path) if entry.kind == "witness" else _store(folder, entry.path)
        except SeparatrixError as problem:
            about["problem"] = str(problem)
        found.append(about)
    return {"folder": folder.root.name, "entries": found}


def _witness(folder: Folder, path: str) -> JsonObject:
    record = WitnessRecord.from_json(parse_json(folder.read(path, SPEC, most=_LARGEST_SPEC), what=SPEC))
    n, model = thaw(record.task.params.get("n")), json.loads(record.model)
    form = model.get("form") if isinstance(model, dict) else None
    if not isinstance(n, int | None) or not isinstance(form, str) or len(form) > _LONGEST_FORM:
        raise InvalidFile(f"'{SPEC}' does not say of which size its task is and of which form its model.")
    return {
        "task": record.task.name,
        "n": n,
        "family": record.family,
        "theorem": record.theorem,
        "writes": record.script is not None,
        "form": form,
    }


def _store(folder: Folder, path: str) -> JsonObject:
    with opened_store(folder, path) as store:
        runs = [run for run in store.runs() if run.status in FINISHED]
    return {"runs": [_run(run) for run in runs[:_MOST_RUNS]], "finished": len(runs)}


def _run(run: Run) -> JsonObject:
    return {
        "key": run.key,
        "short": run.short,
        "task": _part(run, "task"),
        "model": _part(run, "model"),
        "accuracy": run.accuracy,
    }


def _part(run: Run, part: str) -> str:
    """The name of the run's task or model, as a store checks that every run has one."""
    described = run.config[part]
    assert isinstance(described, Mapping)
    return str(described["name"])
