"""Index lookup far beyond the papers' lengths: up to 3,200, where S ends at 400."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import OURS, Cell, Panel, Study
from separatrix.experiments.protocols import Protocol, Settings, named, s_jobs, s_protocol, s_shape
from separatrix.tasks import task

__all__ = ["x_lengths"]

_MODELS: Final = (("TF", 1, 64), ("TF", 2, 64), ("Mamba", 2, 64), ("LSTM", 1, 64))
_QUICK: Final = {
    ("TF-(1,64)", 800): 32_000,
    ("TF-(1,64)", 1600): 20_000,
    ("TF-(1,64)", 3200): 16_000,
    ("Mamba-(2,64)", 800): 2_000,
    ("LSTM-(1,64)", 800): 1_000,
}
"""Steps of the cells that tell most in twenty minutes."""
_QUICK_RATES: Final = (1e-3, 5e-4)
_BATCH: Final = 512
_PAPER_STEPS: Final = 100_000


@EXPERIMENTS.register("x-lengths")
def x_lengths(settings: Settings) -> Study:
    """One and two layers of attention, and two recurrent models as wide."""
    columns = settings.of(smoke=(8,), quick=(800, 1600, 3200), paper=(400, 800, 1600, 3200))
    cells = []
    for label, *size in _MODELS:
        layers, width = s_shape(settings, *size)
        row = named(label, layers, width)
        for n in columns:
            if settings.budget == "quick" and (row, n) not in _QUICK:
                continue
            lookup = task("index-lookup", n=n, alphabet=8 if settings.small else 64)
            protocol = _protocol(settings, label, width, _QUICK.get((row, n), 0))
            jobs = s_jobs(settings, protocol, lookup, label, layers=layers, width=width)
            cells.append(Cell(row=row, column=n, jobs=jobs))
    return Study(
        name="x-lengths",
        title="Index lookup up to 3,200",
        work=None,
        where=OURS,
        claim="One layer of attention suffices at every length, by theorem. Looked for is how far training "
        "finds it: the number of places grows, and every example asks for one.",
        budget=settings.budget,
        panels=(Panel(name="index-lookup", title="Index lookup", cells=tuple(cells), curves_at=columns[0]),),
    )


def _protocol(settings: Settings, label: str, width: int, quick_steps: int) -> Protocol:
    """S's way, but with larger batches for attention.

    A place is learned when it is asked for, once in every N examples. Example for example 512 at a time teach
    as much as 64, and one layer that answers once is so light that 64 leave a GPU idle. S's 250,000 steps are
    31,250 of these.
    """
    if label != "TF" or settings.small:
        return s_protocol(settings, label, width=width, quick_steps=quick_steps)
    protocol = s_protocol(settings, label, width=width, quick_steps=quick_steps, quick_rates=_QUICK_RATES)
    steps = quick_steps if settings.budget == "quick" else _PAPER_STEPS
    return replace(protocol, training=replace(protocol.training, batch=_BATCH, steps=steps))
