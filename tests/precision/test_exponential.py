"""Bounds of the exponential against decimal arithmetic with many more digits."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from separatrix.precision.exponential import EXP_ERROR, exp_bounds, exp_lower, reach_below
from separatrix.precision.integers import Integers


def reference(x: Fraction, bits: int) -> Fraction:
    with localcontext() as context:
        context.prec = 250
        return Fraction((Decimal(x.numerator) / Decimal(x.denominator)).exp()) * (1 << bits)


@pytest.mark.parametrize("bits", [0, 1, 40, 200])
def test_host_bounds_enclose_and_are_tight(bits: int) -> None:
    source = random.Random(bits)
    arguments = [
        Fraction(0),
        Fraction(1),
        Fraction(-1),
        Fraction(1, 3**90),
        Fraction(-1, 2**200),
        Fraction(-170),
    ]
    arguments += [Fraction(source.randint(-(10**9), 10**9), 10**7) for _ in range(30)]
    for x in arguments:
        low, high = exp_bounds(x, bits)
        assert low <= reference(x, bits) <= high
        assert high - low <= 2
    assert exp_bounds(Fraction(0), bits) == (1 << bits, 1 << bits)


def test_far_below_zero_the_bounds_cost_nothing() -> None:
    assert exp_bounds(Fraction(-(10**30)), 300) == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("denominator", [2, 3**7, 10**6, 2**40, 10**18])
@pytest.mark.parametrize(("guard", "top"), [(30, 0), (60, 0), (30, 5), (30, 40)])
def test_tensor_bound_holds_everywhere(denominator: int, guard: int, top: int) -> None:
    source = random.Random(denominator + top)
    scale = denominator << guard
    reach = reach_below(scale)
    steps = [top * denominator, top * denominator - 1, 0, -1, -reach * denominator, -(10**6) * denominator]
    steps += [(j - reach) * denominator + d for j in range(0, reach + top, 3) for d in (-1, 0, 1)]
    steps += [source.randint(-reach * denominator, top * denominator) for _ in range(60)]
    lower = exp_lower(
        Integers.from_ints(steps, (len(steps),)), denominator=denominator, scale=scale, top=top
    ).to_ints()
    for step, bound in zip(steps, lower, strict=True):
        true = reference(Fraction(step, denominator), 0) * scale
        assert bound <= true < bound + EXP_ERROR
