"""Index lookup by recurrent models up to twice the papers' width: 2,048, where S ends at 1,024."""

from __future__ import annotations

from typing import Final

from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import OURS, Panel, Study
from separatrix.experiments.protocols import Settings
from separatrix.experiments.s_widths import width_panel
from separatrix.tasks import task

__all__ = ["x_widths"]

_QUICK_STEPS: Final = 10_000
"""As many as two widths can take in ten minutes."""


@EXPERIMENTS.register("x-widths")
def x_widths(settings: Settings) -> Study:
    """Two layers of Mamba and of an LSTM, as in figure 3 and its control."""
    return Study(
        name="x-widths",
        title="Recurrent models up to width 2,048",
        work=None,
        where=OURS,
        claim="A recurrent model must carry N symbols, so that its width has to grow with N. Looked for is "
        "whether twice the papers' width reaches further.",
        budget=settings.budget,
        panels=tuple(_panel(settings, label) for label in ("Mamba", "LSTM")),
    )


def _panel(settings: Settings, label: str) -> Panel:
    return width_panel(
        settings,
        name=label.lower(),
        title=f"Index lookup, {label} of two layers",
        label=label,
        layers=2,
        widths=settings.of(smoke=(8, 16), quick=(1024, 2048), paper=(1024, 2048)),
        columns=settings.of(smoke=(4,), quick=(50,), paper=(50, 100, 200)),
        task=lambda n: task("index-lookup", n=n, alphabet=8 if settings.small else 64),
        quick_steps=_QUICK_STEPS,
    )
