"""Equality by one layer and by two, across widths: what S-T12 and S-T6 say of Transformers, in training."""

from __future__ import annotations

from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import Cell, Panel, Study
from separatrix.experiments.protocols import Settings, s_model, s_protocol
from separatrix.experiments.s_equality import Form, equality_task


@EXPERIMENTS.register("s-eq-depth")
def s_eq_depth(settings: Settings) -> Study:
    """Columns are widths; the length stays the same."""
    return Study(
        name="s-eq-depth",
        title="Equality by one layer and by two",
        work="S",
        where="theorems 6 and 12",
        claim="Two layers of logarithmic width decide equality, one layer needs size linear in N.",
        budget=settings.budget,
        panels=(
            _panel(settings, form="random", title="Eq-random"),
            _panel(settings, form="one", title="Eq-one"),
        ),
    )


def _panel(settings: Settings, *, form: Form, title: str) -> Panel:
    widths = settings.of(smoke=(8, 16), quick=(16, 64, 256), paper=(16, 32, 64, 128, 256, 512))
    n = 8 if settings.small else 100 if settings.budget == "quick" else 200
    asked = equality_task(settings, form=form, n=n)
    return Panel(
        name=f"eq-{form}",
        title=f"{title} at N = {n}, Transformers",
        column_name="width",
        cells=tuple(
            Cell(
                row=f"{layers} layer{'' if layers == 1 else 's'}",
                column=width,
                jobs=(
                    s_protocol(settings, "TF", width=width).job(
                        asked, s_model("TF", layers=layers, width=width, task=asked.name)
                    ),
                ),
            )
            for layers in (1, 2)
            for width in widths
        ),
    )
