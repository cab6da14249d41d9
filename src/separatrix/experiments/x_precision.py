"""How many bits a number needs: every witness that answers at once, computed in fewer and fewer.

A witness is proven for an arithmetic. Here its weights are put into coarser ones, every weight and every
result rounded into p bits, and its answers are counted. At some p they break off; that cliff is the least p
from which on all inputs tried are answered rightly. Weights can also be built for p bits, with scales to
match, which most constructions do only where they can answer for it; and what is proven for p bits holds for
all inputs, where a count holds for those that were tried.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, final

from separatrix.certificates.proofs import proof_for
from separatrix.certificates.searching import Construction, first_proved
from separatrix.errors import InvalidInput
from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import OURS, Cell, Measured, Panel, Series, Study
from separatrix.experiments.plain_witnesses import (
    Inputs,
    Plain,
    count_right,
    inputs_asked,
    plain_witnesses,
    tried,
)
from separatrix.experiments.protocols import Settings
from separatrix.models.explicit import ExplicitModel
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.witnesses import Choices

__all__ = ["cliff_of", "x_precision"]

Weights = Literal["rounded", "rebuilt"]
Numbers = Literal["nearest", "down", "floats"]

_SMOKE_ROWS: Final = ("S-T1: index-lookup", "S-T6: equality", "S-E: dyck", "W-4.6: counting")
_MOST_BITS: Final = 81
_REFUSED: Final = "Where there is no number, the construction gives no weights for so few bits."
_FLOATS: Final = {32: Float32(), 64: Float64()}


@final
@dataclass(frozen=True, kw_only=True)
class _Sweep:
    """A panel: which numbers, whose weights, which inputs, at which length."""

    name: str
    title: str
    numbers: Numbers = "nearest"
    weights: Weights = "rounded"
    inputs: Inputs = "worst"
    longer: bool = False


_SWEEPS: Final = (
    _Sweep(name="random", title="rounded to nearest, random inputs", inputs="random"),
    _Sweep(name="worst", title="rounded to nearest, worst inputs"),
    _Sweep(name="rebuilt", title="built for so many bits, worst inputs", weights="rebuilt"),
    _Sweep(name="down", title="rounded down, worst inputs", numbers="down"),
    _Sweep(name="longer", title="rounded to nearest, worst inputs", longer=True),
    _Sweep(name="floats", title="floats, worst inputs", numbers="floats"),
)


@EXPERIMENTS.register("x-precision")
def x_precision(settings: Settings) -> Study:
    """Every witness without a chain of thought, at one length and some at a longer one."""
    (n,) = settings.of(smoke=(6,), quick=(16,), paper=(16,))
    (longer,) = settings.of(smoke=(8,), quick=(64,), paper=(64,))
    (count,) = settings.of(smoke=(8,), quick=(32,), paper=(128,))
    panels = []
    for sweep in _SWEEPS:
        rows = plain_witnesses(longer, smaller=False) if sweep.longer else plain_witnesses(n)
        if settings.small:
            rows = tuple(plain for plain in rows if plain.row in _SMOKE_ROWS)
        panels.append(_panel(sweep, rows, n=longer if sweep.longer else n, count=count, settings=settings))
    return Study(
        name="x-precision",
        title="Bits a number: where witnesses break off",
        work=None,
        where=OURS,
        claim="Weights that are right in float64 stay right down to some p bits a number and then fail at "
        "once. Looked for is that cliff, on random inputs and on worst ones, for weights that are rounded "
        "and for weights that are built for p bits.",
        budget=settings.budget,
        panels=tuple(panels),
    )


def cliff_of(series: Mapping[int, Measured]) -> int | None:
    """The least column from which on nothing is wrong; None where the last one has something wrong."""
    cliff = None
    for column in sorted(series, reverse=True):
        one = series[column]
        if not one.examples or one.right < one.examples:
            break
        cliff = column
    return cliff


def _panel(sweep: _Sweep, rows: Sequence[Plain], *, n: int, count: int, settings: Settings) -> Panel:
    columns = _columns(sweep.numbers, settings)
    cells = []
    for plain in rows:
        series = Series(
            question={
                "experiment": "x-precision",
                "witness": plain.fields,
                "numbers": sweep.numbers,
                "weights": sweep.weights,
                "bits": list(columns),
                "inputs": inputs_asked(sweep.inputs, count),
            },
            measure=partial(_measured, plain, sweep, columns, count),
        )
        cells += [Cell(row=plain.row, column=p, series=series) for p in columns]
    title = f"{sweep.title[0].upper()}{sweep.title[1:]}, N = {n}"
    said = _REFUSED if sweep.weights == "rebuilt" else ""
    return Panel(name=sweep.name, title=title, cells=tuple(cells), column_name="bits", wide=True, said=said)


def _columns(numbers: Numbers, settings: Settings) -> tuple[int, ...]:
    if numbers == "floats":
        return tuple(_FLOATS)
    least = 3 if numbers == "nearest" else 4
    every = tuple(least + more for more in (*range(0, 48, 2), 54, 62, _MOST_BITS - 3))
    return settings.of(smoke=(least + 2, least + 10, least + 30), quick=every, paper=every)


def _system(numbers: Numbers, bits: int) -> NumberSystem:
    match numbers:
        case "nearest":
            return FixedNearest(p=bits)
        case "down":
            return FixedDown(n=2, k=bits // 2 - 1)
        case _:
            return _FLOATS[bits]


def _measured(plain: Plain, sweep: _Sweep, columns: Sequence[int], count: int) -> dict[int, Measured]:
    """Right answers at every number of bits, each with a note on the whole."""
    rows = tried(plain.task, sweep.inputs, count)
    found = {}
    for bits in columns:
        begun = time.perf_counter()
        model = _model(plain, sweep, bits)
        right = 0 if model is None else count_right(model, plain.task, rows)
        found[bits] = Measured(
            right=right, examples=0 if model is None else len(rows), seconds=time.perf_counter() - begun
        )
    note = _note(found)
    if sweep.weights == "rebuilt":
        note += f"; {_proven(plain)}"
    return {bits: replace(one, note=note) for bits, one in found.items()}


def _model(plain: Plain, sweep: _Sweep, bits: int) -> ExplicitModel | None:
    """The weights in so many bits; None where the construction gives none for them."""
    system = _system(sweep.numbers, bits)
    if sweep.weights == "rounded":
        return plain.witness.model.with_arithmetic(system)
    try:
        return plain.entry.builder()(plain.task, Choices(system=system)).model
    except InvalidInput:
        return None


def _note(found: Mapping[int, Measured]) -> str:
    cliff = cliff_of(found)
    if cliff is None:
        return f"something wrong even at {max(found)} bits"
    fewest = min(bits for bits, one in found.items() if one.examples)
    if cliff > fewest:
        return f"all right from {cliff} bits on"
    what = "tried" if fewest == min(found) else "that give weights"
    return f"all right from {cliff} bits on, the fewest {what}"


def _proven(plain: Plain) -> str:
    prove = proof_for(plain.entry.theorem, plain.task.name, plain.entry.variant)
    if prove is None:
        return "without a proof that could say more"
    construction = Construction(task=plain.task, entry=plain.entry, default=plain.witness)
    witness = first_proved(_ladder(), partial(construction.proved, addresses="binary"), limited=False)
    if witness is None:
        return f"not proven within {_MOST_BITS} bits"
    return f"proven for every input at {witness.arithmetic.bits}"


def _ladder() -> tuple[NumberSystem, ...]:
    return tuple(FixedNearest(p=p) for p in range(3, _MOST_BITS + 1, 2))
