"""The control to S's figure 3: index lookup by LSTMs of growing width (S, appendix H.1)."""

from __future__ import annotations

from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import Study
from separatrix.experiments.protocols import Settings
from separatrix.experiments.s_widths import width_panel
from separatrix.tasks import task


@EXPERIMENTS.register("s-lstm-width")
def s_lstm_width(settings: Settings) -> Study:
    """The widths and lengths of figure 3."""
    return Study(
        name="s-lstm-width",
        title="The LSTM's width on index lookup",
        work="S",
        where="appendix H.1",
        claim="A wider LSTM is no better: beyond length 100 it stays at chance whatever its width.",
        budget=settings.budget,
        panels=(
            width_panel(
                settings,
                name="index-lookup",
                title="Index lookup, LSTM of two layers",
                label="LSTM",
                layers=2,
                widths=settings.of(smoke=(8, 16), quick=(64, 256, 512), paper=(32, 64, 256, 512, 1024)),
                columns=settings.of(smoke=(4, 8), quick=(50, 100), paper=(20, 50, 75, 100, 200, 400)),
                task=lambda n: task("index-lookup", n=n, alphabet=8 if settings.small else 64),
                published="s_lstm_width",
            ),
        ),
    )
