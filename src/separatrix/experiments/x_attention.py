"""Attention variants: the same witness with another way from logits to shares, and models trained with each.

The theorems are about softmax. What their weights rest on is less: that a head gives almost all its weight
to the places with the largest logit, evenly. Here every witness with attention runs with the same weights
under six kinds of attention, and its answers are counted.

Trained are the kinds that have a gradient: softmax, sparsemax and linear attention. Average-hard attention is
trained with softmax's gradient in place of the one it lacks. Leftmost and last differ from it only where two
scores are equal to the last bit, which trained ones are not, and are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.attention_variants import VARIANTS, with_attention
from separatrix.experiments.cells import OURS, Cell, Measured, Panel, Series, Study
from separatrix.experiments.plain_witnesses import (
    Inputs,
    Plain,
    count_right,
    inputs_asked,
    plain_witnesses,
    tried,
)
from separatrix.experiments.protocols import S_MODELS, Settings, named, s_protocol, s_shape
from separatrix.models import model
from separatrix.tasks import Task, task

__all__ = ["x_attention"]

_SMOKE_ROWS: Final = ("S-T1: index-lookup", "R-qSA: q-sparse-averaging", "UP-TF1: dyck, linear size")
_FAMILIES: Final = ("transformer", "third-order")
_KINDS: Final[tuple[Inputs, ...]] = ("random", "worst")
_ONE_PLACE: Final = frozenset({"leftmost", "last"})
_TRAINED: Final = ("softmax", "sparsemax", "average-hard", "linear")
_WIDTH: Final = 64
_QUICK_STEPS: Final = 8_000


@EXPERIMENTS.register("x-attention")
def x_attention(settings: Settings) -> Study:
    """Witnesses on random and on worst inputs, and models in training."""
    (n,) = settings.of(smoke=(6,), quick=(16,), paper=(16,))
    (count,) = settings.of(smoke=(8,), quick=(64,), paper=(256,))
    rows = [plain for plain in plain_witnesses(n) if _attends(plain)]
    if settings.small:
        rows = [plain for plain in rows if plain.row in _SMOKE_ROWS]
    return Study(
        name="x-attention",
        title="Other attention, the same weights",
        work=None,
        where=OURS,
        claim="The theorems' weights are for softmax. Looked for is which of them stay right where the "
        "largest logit takes all, where the largest share evenly, with sparsemax and with linear attention; "
        "and what the same kinds of attention learn.",
        budget=settings.budget,
        panels=(
            *(_witnesses(kind, rows, n=n, count=count) for kind in _KINDS),
            _trained(
                settings,
                name="index-lookup",
                title="Trained: index lookup, one layer",
                layers=1,
                columns=settings.of(smoke=(4,), quick=(10, 20, 50), paper=(10, 20, 50, 100, 200)),
                asked=lambda n: task("index-lookup", n=n, alphabet=8 if settings.small else 64),
            ),
            _trained(
                settings,
                name="dyck",
                title="Trained: Dyck-(2,2), two layers",
                layers=2,
                columns=settings.of(smoke=(4,), quick=(20,), paper=(20, 50, 100, 200)),
                asked=lambda n: task("dyck", n=n),
            ),
        ),
    )


def _attends(plain: Plain) -> bool:
    """Transformers, of order two and three; a graph unit and a hybrid are made of other parts too."""
    return plain.entry.family.startswith(_FAMILIES) and plain.entry.theorem != "R-G"


def _witnesses(kind: Inputs, rows: list[Plain], *, n: int, count: int) -> Panel:
    cells = []
    for plain in rows:
        series = Series(
            question={
                "experiment": "x-attention",
                "witness": plain.fields,
                "attention": list(VARIANTS),
                "inputs": inputs_asked(kind, count),
            },
            measure=partial(_measured, plain, kind, count),
        )
        cells += [Cell(row=plain.row, column=place, series=series) for place in range(len(VARIANTS))]
    return Panel(
        name=f"witnesses-{kind}",
        title=f"Witnesses, {kind} inputs, N = {n}",
        cells=tuple(cells),
        column_name="attention",
        column_labels=VARIANTS,
        wide=True,
    )


def _trained(
    settings: Settings,
    *,
    name: str,
    title: str,
    layers: int,
    columns: Sequence[int],
    asked: Callable[[int], Task],
) -> Panel:
    """The same Transformer with each kind of attention; linear attention is a model of its own."""
    depth, width = s_shape(settings, layers, _WIDTH)
    cells = []
    for attention in _TRAINED:
        label = "LinTF" if attention == "linear" else "TF"
        given = {} if attention in ("linear", "softmax") else {"attention": attention}
        config = model(S_MODELS[label], layers=depth, width=width, **given)
        protocol = s_protocol(settings, label, width=width, quick_steps=_QUICK_STEPS)
        row = f"{named('TF', depth, width)}: {attention}"
        cells += [Cell(row=row, column=n, jobs=(protocol.job(asked(n), config),)) for n in columns]
    return Panel(name=name, title=title, cells=tuple(cells), curves_at=columns[-1])


def _measured(plain: Plain, kind: Inputs, count: int) -> dict[int, Measured]:
    """Right answers with each kind of attention, and why not all are right where they are not."""
    model, rows = plain.witness.model, tried(plain.task, kind, count)
    found = {}
    for place, variant in enumerate(VARIANTS):
        begun = time.perf_counter()
        right = count_right(with_attention(model, variant), plain.task, rows)
        found[place] = Measured(right=right, examples=len(rows), seconds=time.perf_counter() - begun)
    named = dict(zip(VARIANTS, found.values(), strict=True))
    return {place: replace(one, note=_why(VARIANTS[place], named)) for place, one in found.items()}


def _why(variant: str, found: Mapping[str, Measured]) -> str:
    """In a line why weights that are right with softmax are not with this; nothing where they are."""
    one = found[variant]
    if one.right == one.examples:
        return ""
    averaged = found["average-hard"]
    if variant in _ONE_PLACE and averaged.right == averaged.examples:
        return "what is asked for is a mean over several largest logits, and one place alone is not it"
    if variant == "linear":
        return "shares in proportion to φ(q)·φ(k) leave weight on every place"
    return "what counts is how far logits lie apart, and not only which are largest"
