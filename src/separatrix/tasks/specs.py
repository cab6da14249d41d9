"""A task as a spec, its name and its parameters as JSON, and back; a machine is written as its text."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.evidence import TaskSpec
from separatrix.records import JsonValue
from separatrix.tasks import TASKS, Task
from separatrix.tasks._sparse_features import Feature
from separatrix.tasks.interface import make
from separatrix.tasks.machine_runs import MachineRuns
from separatrix.tasks.machines import Machine, parse_machine

__all__ = ["defaults_of", "spec_of", "task_of"]

_PLAIN: Final = (bool, int, float, str, type(None))
_UNLISTED: Final[Mapping[str, type[Task]]] = {MachineRuns.name: MachineRuns}
"""Tasks that no registry lists, since a command line cannot express them."""


def spec_of(task: Task) -> TaskSpec:
    """Every parameter, features written out; a parameter that a file cannot hold is refused.

    Parameters that are newer than files of their task are left out while they have their defaults.
    """
    fields = [
        field
        for field in dataclasses.fields(task)
        if field.init and not (_newer(field) and getattr(task, field.name) == field.default)
    ]
    return TaskSpec(
        name=task.name,
        params={field.name: _plain(task, field.name, getattr(task, field.name)) for field in fields},
    )


def defaults_of(kind: type[Task]) -> dict[str, Any]:
    """What a spec has where nothing else is asked for."""
    return {
        field.name: field.default
        for field in dataclasses.fields(kind)
        if field.init and field.default is not dataclasses.MISSING and not _newer(field)
    }


def task_of(spec: TaskSpec) -> Task:
    """The task that a spec describes; a spec that fits no task is refused in a sentence.

    A spec may come from a stranger, so it can make no task read a file.
    """
    kind = _UNLISTED.get(spec.name) or TASKS.get(spec.name)
    types = typing.get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind) if field.init}
    values: dict[str, Any] = {}
    for name, value in spec.params.items():
        if name not in known:
            raise InvalidFile(f"{spec.name} has no parameter '{name[:40]}'; it is not from this version.")
        values[name] = _rich(spec.name, name, value, types[name])
    try:
        return make(kind, values)
    except InvalidInput as error:
        raise InvalidFile(f"The task breaks a rule: {error}") from error


def _newer(field: dataclasses.Field[Any]) -> bool:
    return bool(field.metadata.get("newer", False))


def _plain(task: Task, name: str, value: object) -> JsonValue:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, tuple):
        return tuple(_plain(task, name, each) for each in value)
    if isinstance(value, Feature):
        return {"indices": value.indices, "table": value.table}
    if isinstance(value, Machine):
        return value.render()
    raise InvalidInput(
        f"{task.name} with a {type(value).__name__} for {name} cannot be written to a file; leave {name} out."
    )


def _rich(task: str, name: str, value: JsonValue, kind: Any) -> object:
    """The value as the task's constructor takes it; only kinds that the constructor checks itself pass."""
    parts = typing.get_args(kind)
    if Path in parts and value is not None:
        raise InvalidFile(f"A file cannot name another to read; {task} here has one for {name}.")
    if isinstance(value, Mapping):
        raise InvalidFile(f"{task} takes no object for {name}.")
    if kind is Machine:
        return _machine(task, name, value)
    if not isinstance(value, tuple):
        return value
    lists = [part for part in parts if typing.get_origin(part) is tuple]
    if not lists:
        raise InvalidFile(f"{task} takes no list for {name}.")
    item = typing.get_args(lists[0])[0]
    return tuple(_feature(each) if item is Feature else _number(task, name, each) for each in value)


def _feature(data: JsonValue) -> Feature:
    if isinstance(data, Mapping) and {*data} == {"indices", "table"}:
        indices, table = data["indices"], data["table"]
        if isinstance(indices, tuple) and isinstance(table, tuple):
            return Feature(indices=indices, table=table)  # type: ignore[arg-type]
    raise InvalidFile("A feature is an object with the lists 'indices' and 'table'.")


def _machine(task: str, name: str, value: JsonValue) -> Machine:
    if not isinstance(value, str):
        raise InvalidFile(f"{task} takes a machine as text for {name}.")
    try:
        return parse_machine(value)
    except InvalidInput as error:
        raise InvalidFile(f"The machine of {task} breaks a rule: {error}") from error


def _number(task: str, name: str, value: JsonValue) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise InvalidFile(f"{task} takes whole numbers for {name}.")
