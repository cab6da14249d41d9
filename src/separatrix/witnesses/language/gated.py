"""Gadgets of W's gated feed-forward map: sums of units ReLU(form)·gate, exact on whole numbers.

Whatever is multiplied stands in the gate, so a condition costs as many units as without a factor. A condition
on a whole number is made of ReLUs with whole slopes that bend at whole numbers; where the number's own range
says that it never lies beyond the bend on one side, the units of that side are left out. A gadget with one
unit is exact for any factor. In one with more, the units must cancel exactly: factors are whole numbers, and
the products of number and factor stay below 2^53 in float64, or within the range of the fixed point.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

from separatrix.errors import InvalidInput
from separatrix.witnesses.language.forms import Exact, Field, Linear, Term, as_linear, constant, zeros
from separatrix.witnesses.language.operations import Gadget, Obligation, Undecided, Unit
from separatrix.witnesses.language.program import LayerScript

__all__ = ["interval", "linear_map", "product", "table", "threshold", "when"]

Bends = list[tuple[Linear, int]]
"""Forms under a ReLU, each with its slope."""
Meaning = Callable[[Sequence[tuple[Fraction, ...]]], tuple[Fraction, ...]]


def product(layer: LayerScript, name: str, first: Term, second: Term, low: Exact, high: Exact) -> Field:
    """first·second, where `first` is one number and `second` one or several.

    ReLU(x)·y − ReLU(−x)·y = x·y. The second unit is left out where the range of x says that x ≥ 0, the first
    one where x ≤ 0.
    """
    factor = as_linear(first)
    least, most = _range(factor)
    bends: Bends = ([(factor, 1)] if most > 0 else []) + ([(-factor, -1)] if least < 0 else [])

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        return tuple(values[0][0] * value for value in values[1])

    return _gated(
        layer, name, factor, bends, second, meaning, (low, high), f"({factor})·({as_linear(second)})"
    )


def linear_map(layer: LayerScript, name: str, term: Term, low: Exact, high: Exact) -> Field:
    """A form as a field: ReLU(1)·form, one unit for each number."""
    form = as_linear(term)

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        return values[1]

    return _gated(layer, name, constant([1]), [(constant([1]), 1)], form, meaning, (low, high), f"{form}")


def when(
    layer: LayerScript,
    name: str,
    number: Term,
    equals: int,
    then: Term,
    low: Exact,
    high: Exact,
) -> Field:
    """[number = equals]·then for a whole number: a tent of three units, or one at the end of its range.

    With u = number − equals: ReLU(u + 1) − 2·ReLU(u) + ReLU(u − 1) is 1 at u = 0 and 0 at every other whole
    number. If u ≤ 0 always, ReLU(u + 1) is all of it, and if u ≥ 0 always, ReLU(1 − u).
    """
    return _conditional(layer, name, number, (equals, equals), then, (low, high))


def threshold(
    layer: LayerScript,
    name: str,
    number: Term,
    at_least: int,
    low: Exact = 0,
    high: Exact = 1,
    *,
    then: Term = 1,
) -> Field:
    """[number ≥ at_least]·then for a whole number: ReLU(u + 1) − ReLU(u) with u = number − at_least."""
    return _conditional(layer, name, number, (at_least, None), then, (low, high))


def interval(
    layer: LayerScript,
    name: str,
    number: Term,
    least: int,
    most: int,
    low: Exact = 0,
    high: Exact = 1,
    *,
    then: Term = 1,
) -> Field:
    """[least ≤ number ≤ most]·then for a whole number: one threshold less another."""
    if least > most:
        raise InvalidInput(f"An interval goes up; got {least} to {most}. Swap them.")
    return _conditional(layer, name, number, (least, most), then, (low, high))


def table(
    layer: LayerScript,
    name: str,
    numbers: Sequence[Term],
    entries: Callable[..., Exact | Sequence[Exact]],
    *,
    sizes: Sequence[int],
) -> Field:
    """entries(x₁, …, x_k) for whole numbers 0 ≤ x_i < sizes[i], with Π sizes − 1 units at most.

    The numbers are the digits of one whole number, sum = ((x₁·s₂ + x₂)·s₃ + x₃)…, and a broken line goes
    through all entries. An entry may be several numbers; the units are the same for all of them, and a unit
    is left out where no line bends.
    """
    forms = [as_linear(number) for number in numbers]
    if len(forms) != len(sizes) or not forms or min(sizes) < 1:
        raise InvalidInput(
            f"A table has a size of at least 1 for each of its numbers; got {len(forms)} numbers and the "
            f"sizes {list(sizes)}. Give one for each."
        )
    digits = forms[0]
    for form, size in zip(forms[1:], sizes[1:], strict=True):
        digits = size * digits + form
    rows = [_entry(entries(*key)) for key in itertools.product(*map(range, sizes))]
    units, columns = [], []
    slopes = [
        [after - before for before, after in zip(*pair, strict=True)] for pair in itertools.pairwise(rows)
    ]
    level = [Fraction(0)] * len(rows[0])
    for place, (before, after) in enumerate(itertools.pairwise([level, *(slopes or [level])])):
        bend = [b - a for a, b in zip(before, after, strict=True)]
        if any(bend) or (place == 0 and not any(map(any, slopes))):  # a map has a unit, if a flat one
            units.append(Unit(form=digits - place))
            columns.append(bend)
    mix = zeros(len(rows[0]), len(units))
    for column, bend in enumerate(columns):
        mix[:, column] = bend

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        place = 0
        for (digit,), size in zip(values, sizes, strict=True):
            if digit.denominator != 1 or not 0 <= digit < size:
                raise Undecided
            place = place * size + int(digit)
        return rows[place]

    def make(result: Callable[[int], Field]) -> Gadget:
        return Gadget(
            result=result(len(rows[0])),
            inputs=tuple(forms),
            units=tuple(units),
            mix=mix,
            offset=rows[0],
            tolerance=Fraction(0),
            meaning=meaning,
            obligation=_exact(f"each of {', '.join(map(str, forms))} is a whole number in its range"),
            text=f"the entry of a table of {len(rows)} at ({', '.join(map(str, forms))})",
        )

    low = min(value for row in rows for value in row)
    return layer.gadget(make, name, low, max(value for row in rows for value in row))


def _conditional(
    layer: LayerScript,
    name: str,
    number: Term,
    within: tuple[int, int | None],
    then: Term,
    ends: tuple[Exact, Exact],
) -> Field:
    """[least ≤ number ≤ most]·then, with the units that the range of the number asks for."""
    form = as_linear(number)
    least, most = within
    lowest, highest = _range(form)
    rises = lowest < least
    falls = most is not None and highest > most
    bends: Bends = []
    if rises and highest <= least:
        bends = [(form - (least - 1), 1)]
    elif falls and most is not None and not rises and lowest >= most:
        bends = [(most + 1 - form, 1)]
    else:
        corners: dict[int, int] = {}
        if rises:
            corners = {least - 1: 1, least: -1}
        if falls and most is not None:
            corners[most] = corners.get(most, 0) - 1
            corners[most + 1] = corners.get(most + 1, 0) + 1
        bends = [(form - corner, slope) for corner, slope in sorted(corners.items())]
        if not rises:
            bends.append((constant([1]), 1))

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        value = values[0][0]
        if value.denominator != 1:
            raise Undecided
        holds = least <= value and (most is None or value <= most)
        return values[1] if holds else (Fraction(0),) * len(values[1])

    shown = f"{least} ≤ {form}" + ("" if most is None else f" ≤ {most}")
    if least == most:
        shown = f"{form} = {least}"
    return _gated(layer, name, form, bends, then, meaning, ends, f"{as_linear(then)} if {shown}, else 0")


def _gated(
    layer: LayerScript,
    name: str,
    number: Linear,
    bends: Bends,
    gate: Term,
    meaning: Meaning,
    ends: tuple[Exact, Exact],
    text: str,
) -> Field:
    """Σ slope·ReLU(bend)·gate, for every number of the gate."""
    assert number.out == 1, "a condition is on one number, and a factor is one"
    gates = as_linear(gate)
    bends = bends or [(constant([0]), 1)]  # a map has a unit, if one that is always 0
    plain = not gates.parts and gates.offset == (Fraction(1),)
    units = [
        Unit(form=form, gate=None if plain else gates[row]) for row in range(gates.out) for form, _ in bends
    ]
    mix = zeros(gates.out, len(units))
    for row in range(gates.out):
        for column, (_, slope) in enumerate(bends):
            mix[row, row * len(bends) + column] = Fraction(slope)

    def make(result: Callable[[int], Field]) -> Gadget:
        return Gadget(
            result=result(gates.out),
            inputs=(number, gates),
            units=tuple(units),
            mix=mix,
            offset=(Fraction(0),) * gates.out,
            tolerance=Fraction(0),
            meaning=meaning,
            obligation=_exact(f"{number} is exact"),
            text=text,
        )

    return layer.gadget(make, name, ends[0], ends[1])


def _range(form: Linear) -> tuple[Fraction, Fraction]:
    """Where a number lies; one that attention wrote may be a little outside."""
    low, high = form.bounds()[0]
    if any(part.noisy for part in form.parts):
        return low - 1, high + 1
    return low, high


def _entry(value: Exact | Sequence[Exact]) -> tuple[Fraction, ...]:
    if isinstance(value, int | Fraction):
        return (Fraction(value),)
    return tuple(Fraction(each) for each in value)


def _exact(statement: str) -> Obligation:
    return Obligation(name="exact", statement=statement, relation="==", threshold=Fraction(0), unit="error")
