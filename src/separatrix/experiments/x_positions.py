"""Linear attention that is told the number of each position, and that is not.

A sum has no order. With a table of positions index lookup is a matter of comparing numbers, for which one
layer is enough; without it a model has to count, layer upon layer, before it can look anything up. S's own
linear Transformer is not described; on index lookup one with a table is far better than it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import OURS, Cell, Panel, Study
from separatrix.experiments.protocols import Settings, named, s_model, s_protocol, s_shape
from separatrix.models.linear_transformer import LinearTransformer
from separatrix.tasks import Task, task

__all__ = ["x_positions"]

_LOOKUP: Final = ((2, 64), (6, 256))
_EQUALITY: Final = ((2, 64), (2, 256))
"""A small one, and the one of S's figures."""
_LABEL: Final = "LinTF"
_QUICK_STEPS: Final = 6_000


@EXPERIMENTS.register("x-positions")
def x_positions(settings: Settings) -> Study:
    """Two sizes of linear Transformers, each with a table of positions and without, on two tasks of S."""
    columns = settings.of(smoke=(8,), quick=(20, 50, 100), paper=(20, 50, 100, 200))
    lookup = [task("index-lookup", n=n, alphabet=8 if settings.small else 64) for n in columns]
    equality = [task("equality", n=n, form="random") for n in columns]
    return Study(
        name="x-positions",
        title="Linear attention without positions",
        work=None,
        where=OURS,
        claim="What linear attention remembers is a sum, and a sum has no order. Looked for is how much of "
        "what it learns it owes to a table that tells each position its number.",
        budget=settings.budget,
        panels=(
            _panel(settings, "index-lookup", "Index lookup", lookup, _LOOKUP),
            _panel(settings, "eq-random", "Equality, random negatives", equality, _EQUALITY),
        ),
    )


def _panel(
    settings: Settings, name: str, title: str, asked: list[Task], sizes: tuple[tuple[int, int], ...]
) -> Panel:
    cells = []
    for layers, width in dict.fromkeys(s_shape(settings, *size) for size in sizes):
        protocol = s_protocol(settings, _LABEL, width=width, quick_steps=_QUICK_STEPS)
        row = named(_LABEL, layers, width)
        for one in asked:
            config = s_model(_LABEL, layers=layers, width=width, task=one.name)
            assert isinstance(config, LinearTransformer.Config)
            placed, free = replace(config, positions="learned"), replace(config, positions="none")
            cells += [
                Cell(row=row, column=one.n, jobs=(protocol.job(one, placed),)),
                Cell(row=f"{row}, no positions", column=one.n, jobs=(protocol.job(one, free),)),
            ]
    return Panel(name=name, title=title, cells=tuple(cells), curves_at=asked[0].n)
