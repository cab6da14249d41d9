"""S, figure 4: equality with random negatives, and by next characters."""

from __future__ import annotations

from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import Panel, Study
from separatrix.experiments.protocols import Settings
from separatrix.experiments.s_equality import equality_cells, shortcut_cells


@EXPERIMENTS.register("s-fig4")
def s_fig4(settings: Settings) -> Study:
    """Six models of two layers; beside Eq-random the solvers that need not compare the strings."""
    random = settings.of(smoke=(4, 8), quick=(200,), paper=(20, 50, 100, 200, 400))
    ncp = settings.of(smoke=(4, 8), quick=(100, 600), paper=(100, 200, 400, 600, 800))
    return Study(
        name="s-fig4",
        title="Equality of strings: random negatives, and next characters",
        work="S",
        where="figure 4",
        claim="By next characters a two-layer Transformer of width 64 compares strings at every length, "
        "where recurrent models of that width fail from 400 or 600 on; with random negatives a short "
        "prefix is enough, and state-space models keep up.",
        budget=settings.budget,
        panels=(
            Panel(
                name="eq-random",
                title="Eq-random",
                cells=(
                    *equality_cells(settings, form="random", width=256, columns=random),
                    *shortcut_cells(settings, form="random", columns=random),
                ),
                published="s_fig4_eq_random",
            ),
            Panel(
                name="eq-ncp",
                title="Eq-ncp",
                cells=equality_cells(settings, form="ncp", width=64, columns=ncp),
                published="s_fig4_eq_ncp",
            ),
        ),
    )
