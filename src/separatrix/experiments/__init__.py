"""Experiments: the papers' figures as named studies, with the papers' numbers beside ours.

`EXPERIMENTS` lists them by name. Each is a function from settings to a `Study`: configs, and no more. Users
register studies of their own with the same decorator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from separatrix.registry import Registry

if TYPE_CHECKING:
    from separatrix.experiments.cells import Study
    from separatrix.experiments.protocols import Settings

__all__ = ["EXPERIMENTS", "study_of"]

EXPERIMENTS: Registry[Callable[[Settings], Study]] = Registry(
    "experiment",
    package=__name__,
    names=(
        "s-fig2",
        "s-fig3",
        "s-fig4",
        "s-eq-one",
        "s-eq-depth",
        "s-lstm-width",
        "s-dss-wide",
        "r-qsa",
        "w-istree",
        "w-hotpot",
        "x-precision",
        "x-attention",
        "x-lengths",
        "x-widths",
        "x-positions",
        "x-symbols",
    ),
)


def study_of(name: str, settings: Settings | None = None) -> Study:
    """The study of this name; by default at the smallest budget."""
    from separatrix.experiments.protocols import Settings as Chosen  # noqa: PLC0415  training imports torch

    return EXPERIMENTS.get(name)(settings or Chosen())
