"""Scales: how sharp each head must be, from what reads it and from the arithmetic.

In exact or floating arithmetic the rivals together get the weight S / (1 + S), S = Σ count·e^(−scale·gap),
and that times the spread of the values is the noise. In fixed point the scale is such that the exponential
of every rival is rounded to 0 before the sum, so that there is no noise at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from separatrix.errors import InvalidInput
from separatrix.precision import FixedDown, FixedPoint, NumberSystem, name_of
from separatrix.witnesses.language.forms import Field
from separatrix.witnesses.language.operations import HeadOperation, Rival
from separatrix.witnesses.language.program import Program

__all__ = ["hard_scale", "leak_borne", "least_scale", "scales_of"]

_RESERVE: Final = Fraction(31, 32)  # what rounding may take of the noise that is borne
_GRAIN: Final = Fraction(1, 64)  # scales are multiples of it, so that they are short numbers


def scales_of(program: Program, system: NumberSystem) -> dict[Field, Fraction]:
    """The scale of every head that selects, by the field it writes."""
    found = {}
    for layer in program.layers:
        for head in layer.heads:
            if head.hard:
                found[head.result] = hard_scale(head.rivals, system)
            elif head.selects:
                found[head.result] = least_scale(head.rivals, leak_borne(program, head), system)
                _check_range(program, head, found[head.result], system)
    return found


def leak_borne(program: Program, head: HeadOperation) -> Fraction:
    """The weight that rivals may have together: what its readers bear, over the spread of the values."""
    borne = [] if head.within is None else [head.within]
    for layer in program.layers:
        for gadget in layer.gadgets:
            for form in gadget.inputs:
                gain = form.gain(head.result)
                if gain:
                    noisy = sum(1 for part in form.parts if part.noisy)
                    assert gadget.tolerance or head.within is not None, f"{gadget} asks for exact inputs"
                    if gadget.tolerance:
                        borne.append(gadget.tolerance / (gain * noisy))
    assert borne, f"nothing says how exact {head.result.name} must be"
    return min(borne) / head.value.spread() * _RESERVE


def least_scale(rivals: Sequence[Rival], leak: Fraction, system: NumberSystem) -> Fraction:
    """The least multiple of a small step at which the rivals' weight is at most `leak`."""
    if isinstance(system, FixedPoint):
        return hard_scale(rivals, system)
    gaps = [(float(rival.gap), math.log(rival.count)) for rival in rivals if rival.count]
    if not gaps:
        return Fraction(1)
    assert min(gap for gap, _ in gaps) > 0, "a rival must lie below the target"
    limit = math.log(leak / (1 - leak))
    low, high = 0.0, 1.0
    while _log_mass(gaps, high) > limit:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_mass(gaps, middle) > limit else (low, middle)
    return Fraction(math.floor(high / float(_GRAIN)) + 1) * _GRAIN


def hard_scale(rivals: Sequence[Rival], system: NumberSystem) -> Fraction:
    """The least multiple of a small step at which the exponential of every rival is rounded to 0.

    In floats what underflows may leave a smallest number, which is lost in every sum with an ordinary one.
    """
    gaps = [float(rival.gap) for rival in rivals if rival.count]
    if not gaps:
        return Fraction(1)
    assert min(gaps) > 0, "a rival must lie below the target"
    half = 1 if isinstance(system, FixedDown) else 2
    smallest = system.smallest
    vanishing = math.log(half * smallest.denominator) - math.log(smallest.numerator) + 4 * float(smallest)
    needed = vanishing / min(gaps)
    grain = max(_GRAIN, smallest) if isinstance(system, FixedPoint) else Fraction(1)
    return Fraction(math.floor(needed / float(grain)) + 1) * grain


def _log_mass(gaps: list[tuple[float, float]], scale: float) -> float:
    """ln Σ count·e^(−scale·gap)."""
    terms = [count - scale * gap for gap, count in gaps]
    top = max(terms)
    return top + math.log(sum(math.exp(term - top) for term in terms))


def _check_range(program: Program, head: HeadOperation, scale: Fraction, system: NumberSystem) -> None:
    """A logit beyond the largest number would be clamped, and targets would tie with rivals."""
    largest = float(scale) * sum(query.size() * key.size() for query, key in head.match) * (1 - 1e-9)
    if largest > system.largest:
        raise InvalidInput(
            f"{program.task.name} with n={program.task.n} needs logits up to about {largest:.3g}, and "
            f"{name_of(system)} ends at {float(system.largest):.3g}; take a smaller n or more bits."
        )
