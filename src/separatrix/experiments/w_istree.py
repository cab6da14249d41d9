"""W, figure 3: is a graph a tree? Directly, by a chain of thought, and by searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import Cell, Panel, Study
from separatrix.experiments.protocols import Settings, w_protocol
from separatrix.experiments.w_models import W_MODELS, w_model, w_small_model
from separatrix.tasks import task

_TITLES: Final = {
    "direct": "IsTree, answered at once",
    "cot": "IsTree by a chain of thought",
    "retrieval": "IsTree by searches",
}
_RATES: Final = {"Transformer": 1e-3, "Mamba": 3e-4, "Hybrid": 3e-4}


@EXPERIMENTS.register("w-istree")
def w_istree(settings: Settings) -> Study:
    """Transformer, Mamba and hybrid in three sizes on graphs of 16 to 128 vertices."""
    graphs = settings.of(smoke=(4,), quick=(16, 32), paper=(16, 32, 64, 128))
    few = settings.of(smoke=(4,), quick=(16,), paper=graphs)
    return Study(
        name="w-istree",
        title="Is a graph a tree?",
        work="W",
        where="figure 3",
        claim="Without a chain of thought no model decides it. With one, Transformers and hybrids do, and "
        "Mamba falls off as graphs grow; with searches of its own text every model does.",
        budget=settings.budget,
        panels=(
            _panel(settings, "direct", few),
            _panel(settings, "cot", graphs),
            _panel(settings, "retrieval", few),
        ),
    )


def _panel(settings: Settings, form: Literal["direct", "cot", "retrieval"], columns: Sequence[int]) -> Panel:
    sizes = ("0.5M", "1M", "2M") if settings.budget == "paper" else ("0.5M",)
    cells = []
    for label in W_MODELS:
        protocol = w_protocol(settings, rate=_RATES[label])
        for size in sizes:
            config = w_small_model(label) if settings.small else w_model(label, size)
            row = f"{label} small" if settings.small else f"{label} {size}"
            for n in columns:
                asked = task("is-tree", n=n, form=form)
                jobs, further = (protocol.job(asked, config),), protocol.further(asked, config)
                cells.append(Cell(row=row, column=n, jobs=jobs, further=further, decoded=form != "direct"))
    return Panel(
        name=form, title=_TITLES[form], column_name="n", cells=tuple(cells), published=f"w_istree_{form}"
    )
