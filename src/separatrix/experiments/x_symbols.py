"""Equality by next characters with few symbols and with many: what S's recurrent models may have found easy.

To copy a string a model has to hold it, and to tell which of its symbols comes next. Of many symbols the
second is hard by itself: each is seen seldom, and half of all answers, those before the separator, are right
without any of it. S says that there are 1,024; ours of its recurrent models are then far behind its numbers.
"""

from __future__ import annotations

from typing import Final

from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import OURS, Cell, Panel, Study
from separatrix.experiments.protocols import S_MODELS, Settings, named, s_model, s_protocol, s_shape
from separatrix.experiments.s_equality import quick_rates_of
from separatrix.tasks import task

__all__ = ["x_symbols"]

_LAYERS: Final = 2
_WIDTH: Final = 64
"""Those of S's figure."""
_PAPERS: Final = 1024
_QUICK_STEPS: Final = 15_000


@EXPERIMENTS.register("x-symbols")
def x_symbols(settings: Settings) -> Study:
    """The six models of S's figure at three of its lengths and at a shorter one; columns are symbols."""
    lengths = settings.of(smoke=(4,), quick=(20, 100), paper=(20, 100, 200, 400))
    symbols = settings.of(smoke=(2, 8), quick=(2, _PAPERS), paper=(2, 16, 128, _PAPERS))
    return Study(
        name="x-symbols",
        title="Equality by next characters, by the number of symbols",
        work=None,
        where=OURS,
        claim="To copy a string is to hold it and to tell its symbols apart. Looked for is how much longer "
        "each model takes to learn that where there are more symbols.",
        budget=settings.budget,
        panels=tuple(_panel(settings, n, symbols) for n in lengths),
    )


def _panel(settings: Settings, n: int, symbols: tuple[int, ...]) -> Panel:
    layers, width = s_shape(settings, _LAYERS, _WIDTH)
    cells = []
    for label in S_MODELS:
        rates = quick_rates_of("ncp", label)
        protocol = s_protocol(settings, label, width=width, quick_steps=_QUICK_STEPS, quick_rates=rates)
        for count in symbols:
            # The paper's number is the task's own, so that runs of S's figure count here too.
            asked = task("equality", n=n, form="ncp", alphabet=0 if count == _PAPERS else count)
            config = s_model(label, layers=layers, width=width, task=asked.name)
            cells.append(
                Cell(row=named(label, layers, width), column=count, jobs=(protocol.job(asked, config),))
            )
    return Panel(
        name=f"n-{n}", title=f"Next characters at N = {n}", column_name="symbols", cells=tuple(cells)
    )
