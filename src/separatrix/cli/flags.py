"""A task's parameters as command-line flags: name, type, default and help come from its dataclass."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter, Token

import separatrix
from separatrix.errors import InvalidInput
from separatrix.registry import unknown_name

if TYPE_CHECKING:
    from separatrix.tasks import Task

__all__ = ["Arithmetic", "AsJson", "Family", "Variant", "Wanted", "Whole", "named_task", "with_task_flags"]


def _whole_number(_: type, tokens: Sequence[Token]) -> int:
    """Digits only: cyclopts would round 7.5 to 8 without a word."""
    text = tokens[0].value
    if not re.fullmatch(r"[+-]?[0-9]{1,4000}", text, re.ASCII):
        raise ValueError(text)
    return int(text)


Whole = Annotated[int, Parameter(converter=_whole_number)]
Family = Annotated[str | None, Parameter(help="Family of models. [default: the first that has a witness]")]
Variant = Annotated[
    str | None, Parameter(help="Which of several constructions, as docs/witnesses.md names them.")
]
Arithmetic = Annotated[
    str | None,
    Parameter(
        help="float64, float32, down:N,K (S: multiples of N^-K, rounded down) or nearest:P (W: P bits, "
        "odd). [default: float64]"
    ),
]
AsJson = Annotated[
    bool, Parameter(help="One JSON object on standard output.", negative=(), show_default=False)
]


def named_task(tokens: Sequence[str]) -> type[Task] | None:
    """The task that a command's words name, wherever among them it stands; None if they name none.

    Its flags must be known before the words can be parsed. A first word that is no task is refused here;
    a later one may be the value of an option.
    """
    words = [token for token in tokens if not token.startswith("-")]
    if not words:
        return None
    names = separatrix.TASKS.names()
    name = next((word for word in words if word in names), None)
    if name is None and tokens[0] == words[0]:
        raise unknown_name("task", words[0], names)
    return None if name is None else separatrix.TASKS.get(name)


@dataclass(frozen=True)
class Wanted:
    """A task of which only some parameters were given; the rest depends on the input."""

    kind: type[Task]
    given: Mapping[str, Any]

    def made(self, parameters: Mapping[str, Any]) -> Task:
        """The task with these parameters."""
        from separatrix.tasks.interface import make

        return make(self.kind, parameters)


def with_task_flags(
    command: Callable[..., int | None],
    kind: type[Task] | None,
    *,
    size_optional: bool = False,
    deferred: bool = False,
) -> Callable[..., int | None]:
    """`command(task, *, …)` as a function of the task's name, its parameters and the command's own options.

    Without a task there is only `--n`, enough to print the command's help. With `size_optional`, a size
    that is not given is one at which the task is shown; `deferred`, the command gets what was given, as
    `Wanted`, and makes the task itself. Where a parameter of the task has the name of an
    option, the word means the task's: match3's `--variant` says which task it is, and so which construction.
    """
    flags = [_generic_size()] if kind is None else _parameters(kind)
    if size_optional or deferred:
        flags = [_optional(flag) if flag.name == "n" else flag for flag in flags]

    def run(task: str, /, **options: Any) -> int | None:
        if kind is None or task != kind.name:
            raise InvalidInput(f"Name the task right after {command.__name__}; got '{task}' later on.")
        given = {flag.name: options.pop(flag.name) for flag in flags if flag.name in options}
        if deferred:
            return command(Wanted(kind, given), **options)
        shown = size_optional and "n" not in given
        return command(_shown(kind, given) if shown else separatrix.task(task, **given), **options)

    # `Task` would cost an import of torch, and the task itself is no option.
    types = typing.get_type_hints(command, localns={"Task": object}, include_extras=True)
    own = [
        option.replace(annotation=types[option.name])
        for option in inspect.signature(command).parameters.values()
        if option.name not in {"task", *(flag.name for flag in flags)}
    ]
    name = inspect.Parameter(
        "task",
        inspect.Parameter.POSITIONAL_ONLY,
        annotation=Annotated[str, Parameter(help="Name of the task; `separatrix tasks` lists them.")],
    )
    run.__signature__ = inspect.Signature([name, *flags, *own])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (name, *flags, *own)}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _parameters(kind: type[Task]) -> list[inspect.Parameter]:
    types = typing.get_type_hints(kind)
    group = Group(f"Parameters of {kind.name}", sort_key=1)
    return [
        _flag(
            field.name,
            types[field.name],
            help=field.metadata.get("help", ""),
            default=_default(field),
            group=group,
        )
        for field in dataclasses.fields(kind)
        if field.init and field.metadata.get("flag", True)
    ]


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _generic_size() -> inspect.Parameter:
    group = Group("Parameters of the task", sort_key=1)
    text = "Size of the input. A task has more: add its name before --help."
    return _flag("n", int, help=text, default=inspect.Parameter.empty, group=group)


def _flag(name: str, type_: Any, *, help: str, default: Any, group: Group) -> inspect.Parameter:
    converter = _whole_number if type_ is int or set(typing.get_args(type_)) == {int, type(None)} else None
    parameter = Parameter(help=help, group=group, converter=converter, negative_iterable=())
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[type_, parameter]
    )


def _optional(flag: inspect.Parameter) -> inspect.Parameter:
    type_, parameter = typing.get_args(flag.annotation)
    return flag.replace(default=None, annotation=Annotated[type_ | None, parameter])


def _shown(kind: type[Task], parameters: dict[str, Any]) -> Task:
    from separatrix.tasks.interface import example_task

    return example_task(kind, parameters)
