"""`separatrix frontier`: the trade between width and precision, each point proven."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from separatrix.cli.flags import AsJson, Family, Variant
from separatrix.cli.output import note_if_long, printable_line, stdout_console, write_json

if TYPE_CHECKING:
    from separatrix.certificates.frontier import Point
    from separatrix.tasks import Task

__all__ = ["frontier"]


def frontier(
    task: Task,
    *,
    family: Family = None,
    variant: Variant = None,
    plot: Annotated[Path | None, Parameter(help="File for a figure; it ends in .svg or .png.")] = None,
    json: AsJson = False,
) -> None:
    """List the witnesses that no other beats in width and bits a number, each proven on every input."""
    from separatrix.certificates.frontier import frontier as front
    from separatrix.certificates.plots import check_figure, plot_frontier
    from separatrix.tasks.specs import spec_of

    if plot is not None:
        check_figure(plot)
    with note_if_long("Trying choices and proving each; this may take minutes."):
        points = front(task, family=family, variant=variant)
    if plot is not None:
        plot_frontier(points, plot, title=f"{task.name}, n = {task.n}")
    if json:
        write_json(
            {
                "task": spec_of(task).to_fields(),
                "points": [point.to_fields() for point in points],
                "plot": None if plot is None else str(plot),
            }
        )
        return
    _print(points)
    if plot is not None:
        print(printable_line(str(plot)))


def _print(points: tuple[Point, ...]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    columns: dict[str, Any] = {"width": "right", "bits a number": "right", "parameter bits": "right"}
    for name in (*columns, "numbers", "addresses"):
        table.add_column(name, justify=columns.get(name, "left"))
    for point in points:
        table.add_row(
            str(point.width),
            str(point.precision),
            f"{point.size.parameter_bits:,}",
            point.arithmetic,
            point.addresses,
        )
    stdout_console().print(table)
