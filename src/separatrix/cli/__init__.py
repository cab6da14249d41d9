"""The command line. Thin: it parses, calls the library, prints.

Exit codes: 0 done or proved, 1 a negative verdict, 2 wrong use or bad input with one sentence on standard
error, 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP. Nothing here imports torch until a command
needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Final

from cyclopts import App, CycloptsError, Group

import separatrix
from separatrix.cli.auditing import audit, audit_command
from separatrix.cli.bounding import bound, wall
from separatrix.cli.breaking import break_weights
from separatrix.cli.certifying import certify
from separatrix.cli.describing import describe
from separatrix.cli.exporting import export
from separatrix.cli.flags import listed, named_task, with_task_flags
from separatrix.cli.frontier import frontier
from separatrix.cli.listing import list_tasks
from separatrix.cli.matrix import matrix_command
from separatrix.cli.models import list_models, size_command
from separatrix.cli.output import note, stdout_console
from separatrix.cli.page import atlas
from separatrix.cli.probing import probe
from separatrix.cli.protocol import protocol
from separatrix.cli.reproducing import reproduce
from separatrix.cli.runs import runs_app
from separatrix.cli.sampling import sample
from separatrix.cli.sentences import sentence
from separatrix.cli.serving import serve
from separatrix.cli.solving import solve
from separatrix.cli.subjects import about_a_model
from separatrix.cli.surroundings import Terminated, let_the_reader_go, streams, terminable
from separatrix.cli.task_exporting import dataset
from separatrix.cli.training import train, train_command
from separatrix.cli.turing import turing
from separatrix.cli.witnessing import witness
from separatrix.errors import InvalidInput, SeparatrixError

__all__ = ["main"]

_COMMANDS: Final = (
    "tasks",
    "sample",
    "dataset",
    "describe",
    "witness",
    "certify",
    "break",
    "frontier",
    "bound",
    "wall",
    "protocol",
    "matrix",
    "solve",
    "turing",
    "models",
    "size",
    "audit",
    "probe",
    "train",
    "reproduce",
    "runs",
    "export",
    "atlas",
    "serve",
)
_OUT_OF_MEMORY: Final = "This does not fit in memory; choose a smaller n or a smaller model."
_CLOSED: Final = "Standard output is closed; send it to a file or to a reader."
_HELP: Final = frozenset({"--help", "-h"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; without `argv`, the one this process was called with."""
    called = argv is None
    tokens = list(sys.argv[1:] if argv is None else argv)
    with streams() as stdout_is_open:
        if not stdout_is_open:
            return _refuse(_CLOSED)
        try:
            with terminable() if called else nullcontext():
                return _run(tokens)
        except Terminated as ended:
            let_the_reader_go()
            return ended.code


def _run(tokens: list[str]) -> int:
    try:
        code = _app(tokens)(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        let_the_reader_go()
    except Exception as error:
        message = _blame(error)
        if message is None:
            raise
        if isinstance(error, OSError):
            let_the_reader_go()
        return _refuse(message)
    else:
        return code if isinstance(code, int) else 0
    return 0


def _blame(error: Exception) -> str | None:
    """What the user can do something about, in a sentence; None for our own mistakes."""
    match error:
        case CycloptsError():
            return sentence(error, _COMMANDS)
        case SeparatrixError():
            return str(error)
        case OSError():
            return f"The answer cannot be written: {error.strerror or error}."
        case MemoryError():
            return _OUT_OF_MEMORY
        case RuntimeError() if "can't allocate memory" in str(error):  # torch's own way to say it
            return _OUT_OF_MEMORY
        case _:
            return None


def _app(tokens: Sequence[str]) -> App:
    """The commands; those about a task have the flags of the task that the words name."""
    _refuse_values(tokens)
    command, words = (tokens[0], tokens[1:]) if tokens else ("", ())
    about_a_task = command in {
        "sample",
        "dataset",
        "describe",
        "witness",
        "frontier",
        "solve",
        "train",
        "bound",
        "wall",
        "protocol",
    }
    task = named_task(words) if about_a_task else None
    if about_a_task and task is None and not _HELP.intersection(words):
        raise InvalidInput(f"{command} needs the name of a task; `separatrix tasks` lists them.")
    if command in {"train", "size"} and not _HELP.intersection(words):
        _require_model(command, words)
    app = App(
        name="separatrix",
        usage="Usage: separatrix COMMAND [OPTIONS]",
        help="What can a sequence model of this size compute, at this length?",
        help_epilogue="`separatrix COMMAND --help` explains a command; every command takes --json.",
        help_format="plaintext",
        version=separatrix.__version__,
        group_commands=Group("Commands", sort_key=0),
        group_parameters=Group("Options", sort_key=2),
        console=stdout_console(),
        suppress_keyboard_interrupt=False,
    )
    named = task.name if task is not None else "TASK"
    commands: tuple[tuple[str, Callable[..., int | None], str], ...] = (
        ("tasks", list_tasks, "tasks [--json]"),
        ("sample", with_task_flags(sample, task), f"sample {named} --n N [OPTIONS]"),
        ("dataset", with_task_flags(dataset, task), f"dataset {named} --n N --out FOLDER [OPTIONS]"),
        ("describe", with_task_flags(describe, task, size_optional=True), f"describe {named} [OPTIONS]"),
        ("witness", with_task_flags(witness, task), f"witness {named} --n N [OPTIONS]"),
        (
            "certify",
            about_a_model(certify, words if command == "certify" else ()),
            "certify PATH [OPTIONS]",
        ),
        (
            "break",
            about_a_model(break_weights, words if command == "break" else ()),
            "break PATH [OPTIONS]",
        ),
        ("frontier", with_task_flags(frontier, task), f"frontier {named} --n N [OPTIONS]"),
        ("bound", with_task_flags(bound, task), f"bound {named} --n N [OPTIONS]"),
        (
            "wall",
            with_task_flags(wall, task, deferred=True, hidden={"n"}),
            f"wall {named} --family F [OPTIONS]",
        ),
        (
            "protocol",
            with_task_flags(protocol, task, deferred=True),
            f"protocol {named} --n N [OPTIONS]",
        ),
        ("matrix", matrix_command(words if command == "matrix" else ()), "matrix PROBLEM --n N [OPTIONS]"),
        ("solve", with_task_flags(solve, task, deferred=True), f"solve {named} --input TEXT [OPTIONS]"),
        ("turing", turing, "turing MACHINE [OPTIONS]"),
        ("models", list_models, "models [--json]"),
        ("size", size_command(words if command == "size" else ()), "size MODEL --n N [OPTIONS]"),
        ("audit", audit_command(words) if command == "audit" else listed(audit), "audit CONFIG [OPTIONS]"),
        ("probe", probe, "probe MODEL_FOLDER --task TASK [OPTIONS]"),
        # Its flags come from modules that import torch, which no other command should wait for.
        (
            "train",
            train_command(task, words) if command == "train" else listed(train),
            f"train {named} --model M --n N [OPTIONS]",
        ),
        ("reproduce", reproduce, "reproduce [NAME…] [OPTIONS]"),
        (
            "export",
            about_a_model(export, words if command == "export" else ()),
            "export PATH --to hf|onnx --out FOLDER [OPTIONS]",
        ),
        ("atlas", atlas, "atlas [OPTIONS]"),
        ("serve", serve, "serve [OPTIONS]"),
    )
    for name, function, usage in commands:
        place = _COMMANDS.index(name)
        app.command(function, name=name, usage=f"Usage: separatrix {usage}", sort_key=place, help_epilogue="")
    app.command(runs_app(sort_key=_COMMANDS.index("runs")))
    app["--help"].sort_key = app["--version"].sort_key = len(_COMMANDS)
    return app


def _require_model(command: str, words: Sequence[str]) -> None:
    """A model must be named where its flags can be known from it, before the rest is parsed."""
    if command == "size" and (not words or words[0].startswith("-")):
        raise InvalidInput("size needs the name of a model first; `separatrix models` lists them.")
    if command == "train" and words[0].startswith("-"):
        raise InvalidInput(f"Name the task right after train; got '{words[0]}' there.")
    if command == "train" and not any(word == "--model" or word.startswith("--model=") for word in words):
        raise InvalidInput("train needs --model, the name of a model; `separatrix models` lists them.")


def _refuse_values(tokens: Sequence[str]) -> None:
    """--help and --version take no value; cyclopts would say that it does not know them."""
    for token in tokens:
        name, equals, value = token.partition("=")
        if equals and name in {*_HELP, "--version"}:
            raise InvalidInput(f"{name} takes no value; got '{value}'.")


def _refuse(message: str) -> int:
    note(message)
    return 2
