"""S, appendix H.2: equality where unequal strings differ in one symbol."""

from __future__ import annotations

from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import Panel, Study
from separatrix.experiments.protocols import Settings
from separatrix.experiments.s_equality import equality_cells, hard_panel, shortcut_cells


@EXPERIMENTS.register("s-eq-one")
def s_eq_one(settings: Settings) -> Study:
    """Six models of two layers beside the solver that only counts symbols."""
    columns = settings.of(smoke=(4, 8), quick=(100, 200), paper=(20, 50, 100, 200, 400))
    return Study(
        name="s-eq-one",
        title="Equality of strings: one symbol changed",
        work="S",
        where="appendix H.2",
        claim="Every model tells equal strings from those with one symbol changed, up to 400; so does "
        "one that only counts symbols and compares nothing.",
        budget=settings.budget,
        panels=(
            Panel(
                name="eq-one",
                title="Eq-one",
                cells=(
                    *equality_cells(settings, form="one", width=256, columns=columns),
                    *shortcut_cells(settings, form="one", columns=columns),
                ),
                published="s_eq_one",
            ),
            hard_panel(settings, columns=settings.of(smoke=(24,), quick=columns, paper=columns)),
        ),
    )
