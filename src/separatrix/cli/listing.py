"""`separatrix tasks`: every task in a line or two."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

import separatrix
from separatrix.cli.flags import AsJson
from separatrix.cli.output import stdout_console, write_json
from separatrix.theorems import WORKS

if TYPE_CHECKING:
    from separatrix.models.population import Population
    from separatrix.tasks import Task

__all__ = ["list_tasks", "papers", "summary"]


def list_tasks(*, json: AsJson = False) -> None:
    """List the tasks: name, title, source and what is asked."""
    kinds = dict(separatrix.TASKS.items())
    cited = papers({letter for kind in kinds.values() for letter in kind.source.split(", ")})
    if json:
        entries = [
            {"name": name, "title": kind.title, "source": kind.source, "summary": summary(kind)}
            for name, kind in kinds.items()
        ]
        write_json({"tasks": entries, "papers": cited})
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(ratio=1)
    table.add_column(no_wrap=True)
    for name, kind in kinds.items():
        table.add_row(name, Text.assemble((kind.title, "bold"), "\n", summary(kind)), kind.source)
    console = stdout_console()
    console.print(table)
    console.print()
    for letter, paper in cited.items():
        console.print(f"{letter}: {paper}")


def summary(kind: type[Task] | type[Population]) -> str:
    """The first line of a task's or a model's own words."""
    return (inspect.getdoc(kind) or kind.title).partition("\n")[0]


def papers(letters: Collection[str]) -> dict[str, str]:
    """The papers that these letters stand for."""
    return {
        letter: f"{work.authors}: {work}"
        for letter, work in WORKS.items()
        if letter in letters and work.arxiv is not None
    }
