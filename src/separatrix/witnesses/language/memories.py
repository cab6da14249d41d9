"""What linear recurrences recite and remember, on top of the shift register and the running sum.

A linear recurrence cannot choose what to keep: it multiplies its state by one matrix and adds a form of the
token. So what is to be kept is picked by a gated map in a layer before, which leaves 0 everywhere else, and
the recurrence only has to add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from separatrix.errors import InvalidInput
from separatrix.witnesses.language.forms import Exact, Field, Linear, Term, as_linear, joined
from separatrix.witnesses.language.gated import when
from separatrix.witnesses.language.program import LayerScript, Program

__all__ = ["at_positions", "recite", "remember", "remember_positions"]


def recite(
    layer: LayerScript,
    name: str,
    start: Term,
    sequence: Sequence[Exact | Sequence[Exact]],
    *,
    again: bool = False,
) -> Field:
    """A fixed sequence: its first entry at the token where `start` is 1, and so on; then 0, or all again.

    The state is a unit vector that moves on by one coordinate with every token; the output is the matrix of
    all entries, a number or a vector each. `start` is 0 or 1 and never 1 again while the sequence runs: two
    that overlap are added up. With `again` the last coordinate moves to the first, and `start` is 1 once.
    """
    entries = [(each,) if isinstance(each, int | Fraction) else tuple(each) for each in sequence]
    if not entries or len({len(entry) for entry in entries}) != 1:
        raise InvalidInput(
            f"A sequence to recite has an entry, and all of one size; got sizes {[len(e) for e in entries]}."
        )
    size = len(entries)
    transition = [[int(row == column + 1) for column in range(size)] for row in range(size)]
    transition[0][size - 1] = int(again)
    numbers = [value for entry in entries for value in entry]
    return layer.linear(
        name,
        transition=transition,
        feed=joined([start, *([0] * (size - 1))]),
        output=[list(row) for row in zip(*entries, strict=True)],
        low=min(0, *numbers),
        high=max(0, *numbers),
    )


def remember_positions(
    program: Program, name: str, place: Term, term: Term, positions: Sequence[int]
) -> list[Linear]:
    """What a form was where `place` was each of these whole numbers, 0 until then: two recurrent layers."""
    with program.recurrent_layer() as layer:
        picked = at_positions(layer, f"{name} at", place, term, positions)
    with program.recurrent_layer() as layer:
        return remember(layer, name, picked)


def at_positions(
    layer: LayerScript, name: str, place: Term, term: Term, positions: Sequence[int]
) -> list[Field]:
    """A form where `place` is one of these whole numbers, a field for each of them; elsewhere 0."""
    form = as_linear(term)
    low, high = _range(form)
    return [when(layer, f"{name} {where}", place, where, form, low, high) for where in positions]


def remember(layer: LayerScript, name: str, picked: Sequence[Field]) -> list[Linear]:
    """Each picked field from its position on, 0 before: a running sum in which one term differs from 0.

    Made with `at_positions` in a layer before.
    """
    form = joined(picked)
    low, high = _range(form)
    kept = layer.running_sum(name, form, low=low, high=high)
    found, start = [], 0
    for field in picked:
        found.append(kept[start : start + field.dim])
        start += field.dim
    return found


def _range(form: Linear) -> tuple[Fraction, Fraction]:
    """Where its numbers lie, with 0."""
    bounds = form.bounds()
    return min(Fraction(0), *(low for low, _ in bounds)), max(Fraction(0), *(high for _, high in bounds))
