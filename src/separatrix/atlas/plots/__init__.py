"""The plots of the page: separations, fronts, and the memory of published models.

All are drawn here as plain SVG. A charting library would be heavier than the rest of the page together and
would draw only after its script has run; these are there as soon as the page is, and print, scale and export
as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from separatrix.atlas.plots.frontiers import Frontier, collect_frontiers
from separatrix.atlas.plots.memory import MemoryPlot, collect_memory
from separatrix.atlas.plots.separations import Separation, collect_separations

__all__ = ["Plots", "collect_plots"]


@dataclass(frozen=True, kw_only=True)
class Plots:
    """Everything that this part of the page shows."""

    separations: tuple[Separation, ...]
    frontiers: tuple[Frontier, ...]
    memory: MemoryPlot


def collect_plots() -> Plots:
    """Ask the bounds, read the records, audit the configs, and draw."""
    return Plots(separations=collect_separations(), frontiers=collect_frontiers(), memory=collect_memory())
