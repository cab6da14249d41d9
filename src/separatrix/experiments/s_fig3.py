"""S, figure 3: index lookup by two-layer Mambas of growing width."""

from __future__ import annotations

from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import Study
from separatrix.experiments.protocols import Settings
from separatrix.experiments.s_widths import width_panel
from separatrix.tasks import task


@EXPERIMENTS.register("s-fig3")
def s_fig3(settings: Settings) -> Study:
    """Five widths at six lengths."""
    return Study(
        name="s-fig3",
        title="Mamba's width on index lookup",
        work="S",
        where="figure 3",
        claim="The wider a Mamba, the longer the inputs it can look up in; even at width 1024 it stays far "
        "behind a one-layer Transformer of width 64.",
        budget=settings.budget,
        panels=(
            width_panel(
                settings,
                name="index-lookup",
                title="Index lookup, Mamba of two layers",
                label="Mamba",
                layers=2,
                widths=settings.of(smoke=(8, 16), quick=(32, 64, 512, 1024), paper=(32, 64, 256, 512, 1024)),
                columns=settings.of(smoke=(4, 8), quick=(50, 100), paper=(20, 50, 75, 100, 200, 400)),
                task=lambda n: task("index-lookup", n=n, alphabet=8 if settings.small else 64),
                published="s_fig3_mamba_width",
                quick_steps=90_000,
            ),
        ),
    )
