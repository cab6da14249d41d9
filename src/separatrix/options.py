"""Parameters as fields of a frozen dataclass: each with the line that the command line and the page show.

Tasks and models are such dataclasses. What is unknown, missing or of another type is refused in a sentence,
whoever gives it: a program, the command line or a file.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any, Final, TypeVar

from separatrix.errors import InvalidInput
from separatrix.registry import unknown_name

__all__ = ["check_types", "made", "option", "require"]

Kind = TypeVar("Kind")
_SIMPLE: Final = {int: "a whole number", float: "a number", bool: "True or False"}


def option(
    default: Any = MISSING, *, help: str, flag: bool = True, newer: bool = False, begins: bool = False
) -> Any:
    """A parameter, with the line that the command line and the page show for it.

    `flag=False` keeps a parameter that no command line can express out of it. `newer=True` is for one that
    joins a task or a model of which there are files: specs leave it out while it has its default, so that
    what they described before is described in the same words, and runs keep their keys. `begins=True` says
    that a model's parameter only decides how its weights begin: trained, it is the same architecture.
    """
    metadata = {"help": help, "flag": flag, "newer": newer, "begins": begins}
    return dataclasses.field(default=default, metadata=metadata)


def require(condition: bool, message: str) -> None:
    """Refuse a user's value with one sentence: what was expected, what came, what would work."""
    if not condition:
        raise InvalidInput(message)


def made(kind: type[Kind], parameters: Mapping[str, Any], *, name: str) -> Kind:
    """A dataclass from named parameters, with unknown and missing ones refused in a sentence about `name`."""
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}  # type: ignore[arg-type]
    for key in parameters:
        if key not in fields:
            raise unknown_name(f"option of {name} called", key, tuple(fields))
    missing = [
        key
        for key, field in fields.items()
        if field.default is MISSING and field.default_factory is MISSING and key not in parameters
    ]
    if missing:
        raise InvalidInput(f"{name} needs a value for {' and '.join(missing)}; none was given.")
    return kind(**parameters)


def check_types(owner: Any, *, name: str) -> None:
    """Refuse values of another type than a dataclass declares; to be called from `__post_init__`."""
    types = typing.get_type_hints(type(owner))
    for field in dataclasses.fields(owner):
        kind, value = types[field.name], getattr(owner, field.name)
        if kind in _SIMPLE and not _is_a(value, kind):
            raise InvalidInput(f"{name} needs {_SIMPLE[kind]} for {field.name}; got {value!r}.")
        allowed = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
        if allowed and value not in allowed:
            choices = " or ".join(map(str, allowed))
            raise InvalidInput(f"{name} knows {field.name} as {choices}; got {value!r}.")


def _is_a(value: object, kind: type) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    return isinstance(value, (int, float) if kind is float else kind)
