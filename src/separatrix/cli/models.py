"""`separatrix models` and `separatrix size`: the architectures, and what one of them weighs at a length."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

import separatrix
from separatrix.cli.describing import type_name
from separatrix.cli.flags import (
    AsJson,
    Whole,
    assembled,
    model_flags,
    named_model,
    own_options,
    task_flags,
    value_of,
)
from separatrix.cli.listing import summary
from separatrix.cli.output import printable, stdout_console, write_json
from separatrix.errors import InvalidInput

if TYPE_CHECKING:
    from separatrix.models.population import ModelConfig, Population
    from separatrix.tasks import Task

__all__ = ["list_models", "size", "size_command"]

_USUAL_TASK: Final = "index-lookup"

MODEL_NAME = inspect.Parameter(
    "model",
    inspect.Parameter.POSITIONAL_ONLY,
    annotation=Annotated[
        str, Parameter(help="Name of the model, as `separatrix models` lists them, or module:name.")
    ],
)


def list_models(*, json: AsJson = False) -> None:
    """List the models that can be trained: name, title, source, what it is and its parameters."""
    from separatrix.models import MODELS

    entries = [_entry(kind) for _, kind in MODELS.items()]
    if json:
        write_json({"models": entries})
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(ratio=1)
    for entry in entries:
        flags = "  ".join(f"{one['flag']} {_written(one['default'])}" for one in entry["parameters"])
        what = Text.assemble((entry["title"], "bold"), f" ({entry['source']})\n{entry['summary']}\n")
        table.add_row(entry["name"], what.append(flags, "dim"))
    stdout_console().print(table)


def _entry(kind: type[Population]) -> dict[str, Any]:
    types = typing.get_type_hints(kind.Config)
    return {
        "name": kind.name,
        "title": kind.title,
        "source": kind.source,
        "summary": summary(kind),
        "parameters": [
            {
                "name": field.name,
                "flag": f"--{field.name.replace('_', '-')}",
                "type": type_name(types[field.name]),
                "default": field.default,
                "help": field.metadata.get("help", ""),
            }
            for field in dataclasses.fields(kind.Config)
            if field.init and field.metadata.get("flag", True)
        ],
    }


def _written(default: object) -> str:
    return {True: "yes", False: "no"}[default] if isinstance(default, bool) else str(default)


def size(
    task: Task,
    model: type[Population],
    config: ModelConfig,
    *,
    precision_bits: Annotated[Whole, Parameter(help="Bits of a number.")] = 32,
    json: AsJson = False,
) -> None:
    """Count a model at a length: parameters, and the bits of state that it carries.

    The state is that after the whole input of a task, which may have more positions than n.
    """
    from separatrix.models.population import signature_of

    read = task.length
    counted = model(config, signature_of(task), members=1).size(read, precision_bits)
    if json:
        head = {
            "model": model.name,
            "config": dataclasses.asdict(config),
            "task": task.name,
            "n": task.n,
            "positions": read,
        }
        write_json({**head, **counted.to_fields(), "state_bits": counted.state_bits(read)})
    else:
        print(printable(counted.table(n=read)))
        print(printable(f"positions: inputs of {task.name} with n={task.n:,} have {read:,}"))


def size_command(words: Sequence[str]) -> Callable[..., int | None]:
    """`size` with the flags of the model that the words begin with, and of the task that they name."""
    model = named_model(words[0] if words and not words[0].startswith("-") else None)
    kind = None if model is None else separatrix.TASKS.get(value_of("--task", words) or _USUAL_TASK)
    of_task = task_flags(kind)
    types = {"Population": object, "ModelConfig": object}
    own = own_options(size, taken={"task", "model", "config", *of_task.names}, types=types)
    taken = {*of_task.names, *(option.name for option in own), "task"}
    of_model = model_flags(model, taken=taken)

    def run(name: str, /, **options: Any) -> int | None:
        if model is None or kind is None:
            raise InvalidInput(f"Name the model right after size; got '{name}' later on.")
        from separatrix.options import made

        options.pop("task", None)
        built = separatrix.task(kind.name, **of_task.popped(options))
        config = made(model.Config, of_model.popped(options), name=model.name)
        size(built, model, config, **options)
        return None

    of_which = inspect.Parameter(
        "task",
        inspect.Parameter.KEYWORD_ONLY,
        default=_USUAL_TASK,
        annotation=Annotated[str, Parameter(help="Task whose inputs the model is made for.")],
    )
    return assembled(run, [MODEL_NAME, *of_task.flags, *of_model.flags, of_which, *own], like=size)
