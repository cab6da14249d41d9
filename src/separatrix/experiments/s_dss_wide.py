"""Wide DSS on equality by next characters up to 800 (S, appendix H.2)."""

from __future__ import annotations

from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import Study
from separatrix.experiments.protocols import Settings
from separatrix.experiments.s_widths import width_panel
from separatrix.tasks import task


@EXPERIMENTS.register("s-dss-wide")
def s_dss_wide(settings: Settings) -> Study:
    """Width 64, which fails beyond 400, and wider ones."""
    return Study(
        name="s-dss-wide",
        title="DSS on next characters, wide enough",
        work="S",
        where="appendix H.2",
        claim="What a DSS of width 64 cannot copy at length 600 and beyond, wider ones can, up to 800.",
        budget=settings.budget,
        panels=(
            width_panel(
                settings,
                name="eq-ncp",
                title="Equality, next characters, DSS of two layers",
                label="DSS",
                layers=2,
                widths=settings.of(smoke=(8, 16), quick=(64, 256), paper=(64, 128, 256, 512)),
                columns=settings.of(smoke=(4, 8), quick=(400, 600), paper=(100, 200, 400, 600, 800)),
                task=lambda n: task("equality", n=n, form="ncp", alphabet=8 if settings.small else 0),
                published="s_dss_wide",
            ),
        ),
    )
