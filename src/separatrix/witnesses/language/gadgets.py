"""Feed-forward gadgets: small exact functions made of ReLU units.

Each takes the forms it reads and gives the units that compute it, what it means for ideal values, and the
obligation under which the two agree. Thresholds sit so that a quarter of the distance between the values to
be told apart is borne as noise on either side.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from separatrix.witnesses.language.forms import Exact, Field, Linear, Matrix, Term, as_linear, constant, zeros
from separatrix.witnesses.language.operations import Gadget, Obligation, Undecided, Unit

__all__ = ["copied", "differs", "either", "indicator", "lookup", "step", "truth_table"]

_ZERO, _ONE = Fraction(0), Fraction(1)


def step(result: Callable[[int], Field], term: Term, *, off: Exact, on: Exact) -> Gadget:
    """0 where a number is at most `off`, 1 where it is at least `on`, coordinate by coordinate."""
    form = as_linear(term)
    low, high = Fraction(off), Fraction(on)
    assert low < high, "a step goes up"
    quarter = (high - low) / 4
    start, end = low + quarter, high - quarter
    units = tuple(Unit(form=form[row] - edge) for row in range(form.out) for edge in (start, end))
    mix = zeros(form.out, 2 * form.out)
    for row in range(form.out):
        mix[row, 2 * row], mix[row, 2 * row + 1] = 1 / (end - start), -1 / (end - start)

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        return tuple(_decided(value, low, high) for value in values[0])

    return Gadget(
        result=result(form.out),
        inputs=(form,),
        units=units,
        mix=mix,
        offset=(_ZERO,) * form.out,
        tolerance=quarter,
        meaning=meaning,
        obligation=_noise(quarter, f"{form} stays near what is at most {low} or at least {high}"),
        text=f"1 if {form} ≥ {high}, 0 if ≤ {low}",
    )


def differs(result: Callable[[int], Field], first: Term, second: Term, *, apart: Exact) -> Gadget:
    """Whether two numbers that are equal or `apart` from each other differ, coordinate by coordinate.

    clip(d) + clip(−d), where clip goes from 0 to 1 between a quarter and three quarters of the distance.
    """
    form = as_linear(first) - second
    distance = Fraction(apart)
    quarter = distance / 4
    units = tuple(
        Unit(form=sign * form[row] - edge)
        for row in range(form.out)
        for sign in (1, -1)
        for edge in (quarter, 3 * quarter)
    )
    mix = zeros(form.out, 4 * form.out)
    for row in range(form.out):
        for side in (0, 2):
            mix[row, 4 * row + side] = 1 / (2 * quarter)
            mix[row, 4 * row + side + 1] = -1 / (2 * quarter)

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        return tuple(_decided(abs(value), _ZERO, distance) for value in values[0])

    return Gadget(
        result=result(form.out),
        inputs=(form,),
        units=units,
        mix=mix,
        offset=(_ZERO,) * form.out,
        tolerance=quarter,
        meaning=meaning,
        obligation=_noise(quarter, f"{form} stays near 0 or ±{distance}"),
        text=f"1 where {form} is not 0",
    )


def truth_table(
    result: Callable[[int], Field], bits: Sequence[Term], table: Sequence[Exact] | Term
) -> Gadget:
    """The entry of a table of 2^k values in {0, 1} that k bits point to; the first bit counts most.

    The table is fixed, or a field of 2^k bits. One unit for each row: it is 1 for the row that the bits
    spell if its entry is 1, else 0. Bits must be exact.
    """
    forms = [as_linear(bit) for bit in bits]
    k = len(forms)
    entries = as_linear(table) if isinstance(table, Field | Linear) else None
    values_of = () if isinstance(table, Field | Linear | int | Fraction) else tuple(map(Fraction, table))
    units = []
    for row, spelled in enumerate(itertools.product((0, 1), repeat=k)):
        literals = (form if bit else 1 - form for form, bit in zip(forms, spelled, strict=True))
        agreeing = sum(literals, start=constant([0]))
        if entries is not None:
            units.append(Unit(form=agreeing + entries[row] - k))
        elif values_of[row]:
            units.append(Unit(form=agreeing - (k - 1)))

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        if any(bit[0] not in (0, 1) for bit in values[:k]):
            raise Undecided
        row = sum(int(bit[0]) << (k - 1 - i) for i, bit in enumerate(values[:k]))
        return (values_of[row] if entries is None else values[k][row],)

    mix: Matrix = np.array([[_ONE] * len(units)], dtype=object).reshape(1, len(units))
    return Gadget(
        result=result(1),
        inputs=tuple(forms) if entries is None else (*forms, entries),
        units=tuple(units),
        mix=mix,
        offset=(_ZERO,),
        tolerance=_ZERO,
        meaning=meaning,
        obligation=_exact("its bits are exactly 0 or 1"),
        text=f"the entry of a table of {2**k} that ({', '.join(map(str, forms))}) names",
    )


def either(result: Callable[[int], Field], bits: Term) -> Gadget:
    """Whether any of some exact bits is 1: min(1, sum)."""
    form = as_linear(bits)
    whole = sum((form[row] for row in range(1, form.out)), start=form[0])

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        return (min(_ONE, sum(values[0], _ZERO)),)

    return Gadget(
        result=result(1),
        inputs=(form,),
        units=(Unit(form=whole), Unit(form=whole - 1)),
        mix=np.array([[_ONE, -_ONE]], dtype=object),
        offset=(_ZERO,),
        tolerance=_ZERO,
        meaning=meaning,
        obligation=_exact("its bits are exactly 0 or 1"),
        text=f"1 if any of {form} is",
    )


def indicator(result: Callable[[int], Field], number: Term, value: Exact, *, noise: bool = False) -> Gadget:
    """Whether a whole number equals a given one: a tent of width 1 on either side, cut off at 1.

    With `noise` the tent has a flat top, so that the number may be off by a quarter.
    """
    form = as_linear(number) - value
    quarter = Fraction(1, 4)
    if noise:
        edges, slopes = (-3 * quarter, -quarter, quarter, 3 * quarter), (2, -2, -2, 2)
    else:
        edges, slopes = (-_ONE, _ZERO, _ONE), (1, -2, 1)  # type: ignore[assignment]

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        if values[0][0].denominator != 1:
            raise Undecided
        return (Fraction(int(values[0][0] == 0)),)

    return Gadget(
        result=result(1),
        inputs=(form,),
        units=tuple(Unit(form=form - edge) for edge in edges),
        mix=np.array([[Fraction(slope) for slope in slopes]], dtype=object),
        offset=(_ZERO,),
        tolerance=quarter if noise else _ZERO,
        meaning=meaning,
        obligation=_exact(f"{form} is a whole number"),
        text=f"1 if {form} is 0",
    )


def lookup(result: Callable[[int], Field], number: Term, table: Sequence[Exact]) -> Gadget:
    """The entry of a table that an exact whole number from 0 names: a broken line through all entries."""
    form = as_linear(number)
    entries = [Fraction(value) for value in table]
    slopes = [after - before for before, after in itertools.pairwise(entries)]
    bends = [(0, slopes[0])] if slopes else []
    bends += [(i, slopes[i] - slopes[i - 1]) for i in range(1, len(slopes))]
    bends = [(place, bend) for place, bend in bends if bend]

    def meaning(values: Sequence[tuple[Fraction, ...]]) -> tuple[Fraction, ...]:
        place = values[0][0]
        if place.denominator != 1 or not 0 <= place < len(entries):
            raise Undecided
        return (entries[int(place)],)

    return Gadget(
        result=result(1),
        inputs=(form,),
        units=tuple(Unit(form=form - place) for place, _ in bends),
        mix=np.array([[bend for _, bend in bends]], dtype=object).reshape(1, len(bends)),
        offset=(entries[0],),
        tolerance=_ZERO,
        meaning=meaning,
        obligation=_exact(f"{form} is a whole number from 0 to {len(entries) - 1}"),
        text=f"the entry of a table of {len(entries)} that {form} names",
    )


def copied(result: Callable[[int], Field], term: Term) -> Gadget:
    """The number itself, as ReLU(x) − ReLU(−x)."""
    form = as_linear(term)
    mix = zeros(form.out, 2 * form.out)
    for row in range(form.out):
        mix[row, 2 * row], mix[row, 2 * row + 1] = _ONE, -_ONE
    return Gadget(
        result=result(form.out),
        inputs=(form,),
        units=tuple(Unit(form=sign * form[row]) for row in range(form.out) for sign in (1, -1)),
        mix=mix,
        offset=(_ZERO,) * form.out,
        tolerance=_ZERO,
        meaning=lambda values: values[0],
        obligation=_exact("nothing is asked"),
        text=f"{form}",
    )


def _decided(value: Fraction, low: Fraction, high: Fraction) -> Fraction:
    if low < value < high:
        raise Undecided
    return Fraction(int(value >= high))


def _noise(quarter: Fraction, statement: str) -> Obligation:
    return Obligation(name="noise", statement=statement, relation="<=", threshold=quarter, unit="error")


def _exact(statement: str) -> Obligation:
    return Obligation(name="exact", statement=statement, relation="==", threshold=_ZERO, unit="error")
