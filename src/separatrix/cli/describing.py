"""`separatrix describe`: one task with its parameters, sizes, an example and the theorems about it."""

from __future__ import annotations

import inspect
import itertools
import math
import sys
import types
import typing
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from separatrix.cli.flags import AsJson, Whole
from separatrix.cli.listing import papers, summary
from separatrix.cli.output import (
    cut,
    paragraphs,
    printable,
    printable_line,
    stdout_console,
    wrapped,
    write_json,
)
from separatrix.cli.sampling import drawn, parameters_of
from separatrix.errors import TooLarge
from separatrix.theorems import THEOREMS, WORKS, Theorem

if TYPE_CHECKING:
    from separatrix.tasks import Partition, Task

__all__ = ["describe", "type_name"]

_LONGEST_COUNTED: Final = 512
"""Positions up to which the inputs are counted: beyond it their number takes long and says little."""


def describe(
    task: Task,
    *,
    seed: Annotated[Whole, Parameter(help="Chooses the example.")] = 0,
    json: AsJson = False,
) -> None:
    """Describe a task: parameters, sizes, an example and the theorems about it."""
    facts = _facts(task, seed=seed)
    if json:
        write_json(facts)
    else:
        _print(facts, stdout_console())


def _facts(task: Task, *, seed: int) -> dict[str, Any]:
    example = next(drawn(task, count=1, seed=seed))[0]
    theorems = [entry for entry in THEOREMS.values() if task.name in entry.tasks]
    return {
        "task": task.name,
        "title": task.title,
        "source": task.source,
        "papers": papers({*task.source.split(", "), *(entry.source.work for entry in theorems)}),
        "n": task.n,
        "summary": summary(type(task)),
        "definition": _definition(type(task)),
        "description": inspect.getdoc(type(task)) or "",
        "parameters": _parameters(task),
        "length": task.length,
        "input": _space(task.input_space),
        "target": _space(task.target_space),
        **_domain(task),
        "example": {"seed": seed, **example},
        "partitions": {name: _split(split) for name, split in task.partitions().items()},
        "theorems": [_theorem(entry) for entry in theorems],
        "general_theorems": [entry.id for entry in THEOREMS.values() if entry.families and not entry.tasks],
    }


def _theorem(entry: Theorem) -> dict[str, Any]:
    work, place = entry.source.work, entry.source.place
    return {
        "id": entry.id,
        "status": entry.status,
        "statement": entry.statement,
        "source": str(entry.source),
        "place": f"{work}, {place}" if WORKS[work].arxiv else place,
    }


def _definition(kind: type[Task]) -> str:
    """The first paragraph of the task's module: what goes in and what comes out."""
    module = sys.modules[kind.__module__].__doc__ or ""
    return " ".join(inspect.cleandoc(module).partition("\n\n")[0].split())


def _parameters(task: Task) -> list[dict[str, Any]]:
    values, hints = parameters_of(task), typing.get_type_hints(type(task))
    return [
        {
            "name": field.name,
            "flag": f"--{field.name.replace('_', '-')}",
            "type": type_name(hints[field.name]),
            "value": values[field.name],
            "help": field.metadata.get("help", ""),
        }
        for field in fields(task)
        if field.name in values
    ]


def type_name(hint: Any) -> str:
    """The kind of value in a word, or the choices; that there may be none shows in the value."""
    if typing.get_origin(hint) is typing.Literal:
        return " | ".join(map(str, typing.get_args(hint)))
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        return " | ".join(type_name(part) for part in typing.get_args(hint) if part is not type(None))
    if hint is Path:
        return "file"
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _space(space: object) -> dict[str, Any]:
    return {"kind": type(space).__name__.lower(), **vars(space)}


def _domain(task: Task) -> dict[str, Any]:
    """How many inputs there are: exactly while a JSON reader can hold it, and as bits."""
    unknown = {"inputs": None, "input_bits": None}
    if task.length > _LONGEST_COUNTED:
        return unknown
    try:
        size = task.domain_size()
    except TooLarge:
        return unknown
    return {"inputs": size if size < 1 << 53 else None, "input_bits": round(math.log2(size), 3)}


def _split(split: Partition) -> dict[str, list[int]]:
    return {"alice": list(split.alice), "bob": list(split.bob)}


def _print(facts: dict[str, Any], console: Console) -> None:
    console.print(Text.assemble((facts["task"], "bold cyan"), f"  {facts['title']} ({facts['source']})"))
    for paragraph in (facts["definition"], *paragraphs(facts["description"])):
        if not paragraph.startswith("- "):
            console.print()
        console.print(paragraph)
    _heading(console, "Parameters, with the values used here (without --n: a small, readable choice)")
    console.print(_grid([[p["flag"], _value(p), _explained(p)] for p in facts["parameters"]]))
    _heading(console, "Sizes")
    console.print(_grid(_sizes(facts)))
    _heading(console, f"Example (seed {facts['example']['seed']})")
    console.print("\n".join(_drawn_lines(facts["example"], console.width)))
    if facts["partitions"]:
        _heading(console, "Splits between two parties, for communication bounds")
        console.print(_grid([[name, _held(split)] for name, split in facts["partitions"].items()]))
    _heading(console, "Theorems")
    theorems = [[entry["id"], f"{entry['statement']} ({_where(entry)})"] for entry in facts["theorems"]]
    console.print(_grid([*theorems, ["general", ", ".join(facts["general_theorems"])]]))
    console.print()
    for letter, paper in facts["papers"].items():
        console.print(f"{letter}: {paper}")


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, "bold"))


def _grid(rows: list[list[str]]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _value(parameter: dict[str, Any]) -> str:
    value = parameter["value"]
    return "none" if value is None else printable_line(str(value))


def _explained(parameter: dict[str, Any]) -> str:
    choices = f" ({parameter['type']})" if "|" in parameter["type"] else ""
    return f"{parameter['help']}{choices}"


def _sizes(facts: dict[str, Any]) -> list[list[str]]:
    rows = [
        ["positions", f"{facts['length']:,}"],
        ["input", _in_words(facts["input"])],
        ["answer", _in_words(facts["target"])],
    ]
    if facts["inputs"] is not None:
        rows.append(["different inputs", f"{facts['inputs']:,}"])
    elif facts["input_bits"] is not None:
        rows.append(["different inputs", f"about 2^{facts['input_bits']:,.0f}"])
    return rows


def _in_words(space: dict[str, Any]) -> str:
    return {
        "tokens": "a token of {size:,} at each position",
        "reals": "a vector of width {width:,} at each position",
        "classes": "one of {size:,} classes",
        "vectors": "a vector of width {width:,}, right within {tolerance:.3g}",
    }[space["kind"]].format(**space)


def _drawn_lines(example: dict[str, Any], width: int) -> list[str]:
    parts = (printable(example["text"]), printable(f"→ {example['answer']}"))
    return [line for part in parts for line in cut(wrapped(part, width))]


def _held(split: dict[str, list[int]]) -> str:
    return f"Alice holds {_ranges(split['alice'])}; Bob holds {_ranges(split['bob'])}"


def _ranges(positions: list[int]) -> str:
    """Positions counted from one, runs of even step shortened: 1–8, or 1, 3, …, 9."""
    counted = [position + 1 for position in positions]
    steps = {after - before for before, after in itertools.pairwise(counted)}
    if len(counted) > 2 and steps == {1}:
        return f"{counted[0]}–{counted[-1]}"
    if len(counted) > 6:
        return f"{', '.join(map(str, counted[:3]))}, …, {counted[-1]}"
    return ", ".join(map(str, counted))


def _where(entry: dict[str, Any]) -> str:
    return f"{entry['place']}; {entry['status']}" if entry["status"] != "proven" else str(entry["place"])
