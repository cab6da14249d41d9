"""What cyclopts finds wrong with a command line, in one sentence of the house's own style."""

from __future__ import annotations

import re
import typing
from pathlib import Path
from typing import Any, Final

from cyclopts import CycloptsError
from cyclopts.argument import Argument
from cyclopts.exceptions import (
    CoercionError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from separatrix.registry import unknown_name

__all__ = ["sentence"]

_LONGEST_WORD: Final = 80
_GLOBAL: Final = ("--help", "--version")
_KINDS: Final = {int: "a whole number", float: "a number", bool: "yes or no", Path: "a path"}


def sentence(error: CycloptsError, commands: tuple[str, ...]) -> str:
    """What was expected, what came, what to do."""
    match error:
        case UnknownCommandError(unused_tokens=[name, *_]):
            text = _unknown(name, ("option", _GLOBAL) if name.startswith("-") else _known(error, commands))
        case UnknownOptionError():
            text = _unknown(error.token.keyword or error.token.value, ("option", _options(error)))
        case CoercionError(argument=Argument() as argument):
            text = _wrong_value(argument, error)
        case MissingArgumentError(argument=Argument() as argument):
            text = _missing(argument, error)
        case RepeatArgumentError():
            text = f"{error.token.keyword} was given twice; give it once."
        case UnusedCliTokensError(unused_tokens=[word, *_]):
            text = f"'{_cut(word)}' is one word too many; --help shows what {_command(error)} takes."
        case _:
            text = " ".join(str(error).split())
    return text


def _unknown(name: str, known: tuple[str, tuple[str, ...]]) -> str:
    kind, names = known
    return str(unknown_name(kind, name.partition("=")[0], names))


def _known(error: UnknownCommandError, commands: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """What kind of command was meant, and those there are: a command may have commands of its own."""
    if not error.command_chain or error.app is None:
        return "command", commands
    own = tuple(name for name in error.app if not name.startswith("-"))
    return f"{_command(error)} command", own


def _options(error: UnknownOptionError) -> tuple[str, ...]:
    named = tuple(argument.name for argument in error.argument_collection if argument.name.startswith("--"))
    return (*named, "--help") if named else _GLOBAL


def _wrong_value(argument: Argument, error: CoercionError) -> str:
    name = _shown(argument)
    came = f"got '{_cut(error.token.value)}'" if error.token is not None else "another came"
    hint: Any = argument.hint
    if type(None) in typing.get_args(hint):
        hint = next(kind for kind in typing.get_args(hint) if kind is not type(None))
    if typing.get_origin(hint) is tuple:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is typing.Literal:
        return f"{name} is one of {', '.join(map(str, typing.get_args(hint)))}; {came}."
    if hint is int and error.token is not None and re.fullmatch(r"[+-]?[0-9]+", error.token.value, re.ASCII):
        digits = len(error.token.value.lstrip("+-"))
        return f"{name} needs a whole number of ordinary size; got one of {digits:,} digits."
    return f"{name} needs {_KINDS.get(hint, 'another kind of value')}; {came}."


def _missing(argument: Argument, error: MissingArgumentError) -> str:
    name = error.keyword or _shown(argument)
    if error.keyword is not None or argument.tokens:
        return f"{name} needs a value; none was given."
    if name == "TASK":
        return f"{_command(error)} needs the name of a task; `separatrix tasks` lists them."
    meaning = f" ({argument.parameter.help})" if argument.parameter.help else ""
    return f"{_command(error)} needs {name}{meaning}; none was given."


def _cut(word: str) -> str:
    return word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}…"


def _shown(argument: Argument) -> str:
    return argument.name if argument.name.startswith("-") else argument.name.upper()


def _command(error: CycloptsError) -> str:
    return " ".join(error.command_chain or ("separatrix",))
