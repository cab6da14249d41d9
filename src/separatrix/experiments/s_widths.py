"""Panels of one architecture at several widths on one task, as S's figure 3 has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from separatrix.experiments.cells import Cell, Panel
from separatrix.experiments.protocols import QUICK_STEPS, Settings, named, s_model, s_protocol
from separatrix.tasks.interface import Task

__all__ = ["width_panel"]


def width_panel(
    settings: Settings,
    *,
    name: str,
    title: str,
    label: str,
    layers: int,
    widths: Sequence[int],
    columns: Sequence[int],
    task: Callable[[int], Task],
    published: str | None = None,
    quick_steps: int = QUICK_STEPS,
) -> Panel:
    """A row for each width, a column for each length."""
    cells = []
    for width in widths:
        protocol = s_protocol(settings, label, width=width, quick_steps=quick_steps)
        for n in columns:
            asked = task(n)
            job = protocol.job(asked, s_model(label, layers=layers, width=width, task=asked.name))
            cells.append(Cell(row=named(label, layers, width), column=n, jobs=(job,)))
    return Panel(name=name, title=title, cells=tuple(cells), published=published, curves_at=max(columns))
