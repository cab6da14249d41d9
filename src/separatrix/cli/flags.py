"""Parameters of tasks, models and trainings as command-line flags.

Name, type, default and help of a flag come from the field of a dataclass.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import os
import re
import sys
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import CoercionError, Group, Parameter, Token

import separatrix
from separatrix.errors import InvalidInput
from separatrix.registry import unknown_name

if TYPE_CHECKING:
    from separatrix.models.population import Population
    from separatrix.tasks import Task

__all__ = [
    "TASK_NAME",
    "Arithmetic",
    "AsJson",
    "Family",
    "Flags",
    "Variant",
    "Wanted",
    "Whole",
    "Wholes",
    "assembled",
    "flag_of",
    "list_flag",
    "listed",
    "model_flags",
    "named_model",
    "named_task",
    "own_options",
    "task_flags",
    "value_of",
    "with_task_flags",
]


def _whole_number(_: type, tokens: Sequence[Token]) -> int:
    """Digits only: cyclopts would round 7.5 to 8 without a word."""
    text = tokens[0].value
    if not re.fullmatch(r"[+-]?[0-9]{1,100}", text, re.ASCII):
        raise CoercionError(token=tokens[0])
    return int(text)


def _whole_numbers(kind: type, tokens: Sequence[Token]) -> tuple[int, ...]:
    return tuple(_whole_number(kind, (token,)) for token in tokens)


Whole = Annotated[int, Parameter(converter=_whole_number)]
Wholes = Annotated[
    tuple[int, ...] | None,
    Parameter(converter=_whole_numbers, consume_multiple=True, negative_iterable=()),
]
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
    hidden: Collection[str] = (),
) -> Callable[..., int | None]:
    """`command(task, *, …)` as a function of the task's name, its parameters and the command's own options.

    Without a task there is only `--n`, enough to print the command's help. With `size_optional`, a size
    that is not given is one at which the task is shown; `deferred`, the command gets what was given, as
    `Wanted`, and makes the task itself. The help leaves out what is `hidden`. Where a parameter of the task
    has the name of an option, the word means the task's: match3's `--variant` says which task it is, and so
    which construction.
    """
    flags = task_flags(kind).flags
    if size_optional or deferred:
        flags = [_optional(flag) if flag.name == "n" else flag for flag in flags]
    flags = [
        flag.replace(annotation=Annotated[flag.annotation, Parameter(show=False)])
        if flag.name in hidden
        else flag
        for flag in flags
    ]

    def run(task: str, /, **options: Any) -> int | None:
        if kind is None or task != kind.name:
            raise InvalidInput(f"Name the task right after {command.__name__}; got '{task}' later on.")
        given = {flag.name: options.pop(flag.name) for flag in flags if flag.name in options}
        if deferred:
            return command(Wanted(kind, given), **options)
        shown = size_optional and "n" not in given
        return command(_shown(kind, given) if shown else separatrix.task(task, **given), **options)

    own = own_options(command, taken={"task", *(flag.name for flag in flags)})
    return assembled(run, [TASK_NAME, *flags, *own], like=command)


TASK_NAME = inspect.Parameter(
    "task",
    inspect.Parameter.POSITIONAL_ONLY,
    annotation=Annotated[str, Parameter(help="Name of the task; `separatrix tasks` lists them.")],
)


def own_options(
    command: Callable[..., Any], *, taken: Collection[str], types: Mapping[str, Any] | None = None
) -> list[inspect.Parameter]:
    """The options that a command has itself, but for the names that are taken.

    `types` are those of its annotations that its module only imports for a type checker.
    """
    # `Task` would cost an import of torch, and the task itself is no option.
    hints = typing.get_type_hints(command, localns={"Task": object, **(types or {})}, include_extras=True)
    return [
        option.replace(annotation=hints[option.name])
        for option in inspect.signature(command).parameters.values()
        if option.name not in taken
    ]


def assembled(
    run: Callable[..., int | None],
    parameters: Sequence[inspect.Parameter],
    *,
    like: Callable[..., int | None],
) -> Callable[..., int | None]:
    """`run` as a command of these parameters, with the name and the help of another."""
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__name__, run.__doc__ = like.__name__, like.__doc__
    return run


def listed(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """A command that is not called this time: its name and its help are enough to list it."""
    return assembled(lambda: None, [], like=command)


@dataclass(frozen=True)
class Flags:
    """The flags of a dataclass, and which field each of them sets."""

    flags: list[inspect.Parameter]
    fields: Mapping[str, str]

    @classmethod
    def of(
        cls, kind: type, *, heading: str, sort_key: float = 1, taken: Collection[str] = (), prefix: str = ""
    ) -> Flags:
        """One flag for each option of a dataclass; where a name is taken, the prefix stands before it."""
        types = typing.get_type_hints(kind)
        group = Group(heading, sort_key=sort_key)
        fields = {
            f"{prefix}_{field.name}" if field.name in taken else field.name: field
            for field in dataclasses.fields(kind)
            if field.init and field.metadata.get("flag", True)
        }
        flags = [
            flag_of(name, types[field.name], help=_help(field), default=_default(field), group=group)
            for name, field in fields.items()
        ]
        return cls(flags, {name: field.name for name, field in fields.items()})

    @property
    def names(self) -> set[str]:
        """The names of the flags."""
        return {flag.name for flag in self.flags}

    def popped(self, options: dict[str, Any]) -> dict[str, Any]:
        """The dataclass's parameters, taken out of what a command line gave."""
        return {field: options.pop(name) for name, field in self.fields.items() if name in options}


def task_flags(kind: type[Task] | None) -> Flags:
    """The flags of a task; where none is named, `--n` stands for them all."""
    if kind is None:
        return Flags([_generic_size()], {"n": "n"})
    return Flags.of(kind, heading=f"Parameters of {kind.name}")


def model_flags(model: type[Population] | None, *, taken: Collection[str]) -> Flags:
    """The flags of a model; a name that is taken is the model's with `model-` before it."""
    if model is None:
        return Flags([], {})
    heading = f"Parameters of {model.name}"
    return Flags.of(model.Config, heading=heading, taken=taken, prefix="model")


def value_of(flag: str, words: Sequence[str]) -> str | None:
    """The value that an option has among the words of a command, which may bring options of its own."""
    for word, following in itertools.zip_longest(words, words[1:]):
        if word == flag and following is not None and not following.startswith("-"):
            return following
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return None


def named_model(name: str | None) -> type[Population] | None:
    """The model of this name, its flags being needed to parse the rest; None for none.

    What is typed at a command line is the user's own wish, so code that it names is run.
    """
    if name is None:
        return None
    from separatrix.models.specs import kind_of

    if ":" in name and "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` would find a module of the user's own
    return kind_of(name, own_code=True)


def _help(field: dataclasses.Field[Any]) -> str:
    text = field.metadata.get("help", "")
    assert isinstance(text, str)
    return text


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _generic_size() -> inspect.Parameter:
    group = Group("Parameters of the task", sort_key=1)
    text = "Size of the input. A task has more: add its name before --help."
    return flag_of("n", int, help=text, default=inspect.Parameter.empty, group=group)


def flag_of(name: str, type_: Any, *, help: str, default: Any, group: Group) -> inspect.Parameter:
    """A flag of one value."""
    converter = _whole_number if type_ is int or set(typing.get_args(type_)) == {int, type(None)} else None
    parameter = Parameter(help=help, group=group, converter=converter, negative_iterable=())
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[type_, parameter]
    )


def list_flag(name: str, type_: Any, *, help: str, default: Any, group: Group) -> inspect.Parameter:
    """A flag of one value or several."""
    parameter = Parameter(
        help=help,
        group=group,
        converter=_whole_numbers if type_ is int else None,
        consume_multiple=True,
        negative_iterable=(),
        show_default=lambda values: " ".join(map(str, values)),
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=(default,),
        annotation=Annotated[tuple[type_, ...], parameter],
    )


def _optional(flag: inspect.Parameter) -> inspect.Parameter:
    type_, parameter = typing.get_args(flag.annotation)
    return flag.replace(default=None, annotation=Annotated[type_ | None, parameter])


def _shown(kind: type[Task], parameters: dict[str, Any]) -> Task:
    from separatrix.tasks.interface import example_task

    return example_task(kind, parameters)
