"""Lines and planes hold the activations between them, on intervals of every size, at points on and off."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest
import torch
from flint import arb, ctx
from torch import Tensor

from separatrix.certificates.one_layer.form import Activation, activated
from separatrix.certificates.one_layer.relaxations import CURVATURE, STEEPEST, Interval, image, planes

KINDS = get_args(Activation)
SIZES = [
    (centre, wide)
    for centre in (0.0, 0.4, -1.5, 6.0, 40.0, 1e6)
    for wide in (0.0, 1e-9, 0.1, 2.0, 9.0, 300.0)
]


def intervals(seed: int) -> Interval:
    dice = torch.Generator().manual_seed(seed)
    centres, wide = (torch.tensor(each, dtype=torch.float64).repeat(40) for each in zip(*SIZES, strict=True))
    centres = centres * torch.randn(centres.shape, generator=dice, dtype=torch.float64)
    centres = centres + 0.3 * torch.randn(centres.shape, generator=dice, dtype=torch.float64)
    wide = wide * torch.rand(wide.shape, generator=dice, dtype=torch.float64)
    return Interval(centres - wide, centres + wide)


def inside(between: Interval, seed: int, count: int = 101) -> Tensor:
    """Both ends, points evenly spaced and random ones."""
    dice = torch.Generator().manual_seed(seed)
    shares = torch.linspace(0, 1, count, dtype=torch.float64).unsqueeze(1).expand(-1, len(between.low))
    random = torch.rand(shares.shape, generator=dice, dtype=torch.float64)
    shares = torch.cat([shares, random, torch.tensor([[0.0], [1.0]]).double().expand(-1, len(between.low))])
    points = between.low + shares * (between.high - between.low)
    return torch.minimum(torch.maximum(points, between.low), between.high)


@pytest.mark.parametrize("kind", KINDS)
def test_lines_hold_the_activation(kind: Activation) -> None:
    gate = intervals(1)
    found, between = planes(kind, gate, None), image(kind, gate, None)
    points = inside(gate, 2)
    heights = activated(kind, points)
    lower, upper = found.lower_gate * points + found.lower_rest, found.upper_gate * points + found.upper_rest
    assert bool((lower <= heights).all())
    assert bool((heights <= upper).all())
    assert bool((between.low <= heights).all())
    assert bool((heights <= between.high).all())
    # And not by far: on a short interval the lines are as near as the curve is straight.
    wide = gate.high - gate.low
    short = (wide < 2) & (gate.low.abs() < 100) if kind != "relu" else (gate.low > 0) | (gate.high < 0)
    near = 0.4 * wide.square() + 1e-11 * (1 + gate.low.abs()) + wide * (wide < 1e-6)
    assert bool(((upper - lower).amax(0) <= near)[short].all())


@pytest.mark.parametrize("kind", KINDS)
def test_planes_hold_a_gated_unit(kind: Activation) -> None:
    gate = intervals(3)
    dice = torch.Generator().manual_seed(4)
    middle = torch.randn(gate.low.shape, generator=dice, dtype=torch.float64) * 3
    wide = (
        torch.rand(gate.low.shape, generator=dice, dtype=torch.float64)
        * torch.tensor([1e-9, 0.5, 8.0]).double()[torch.randint(3, gate.low.shape, generator=dice)]
    )
    value = Interval(middle - wide, middle + wide)
    found, between = planes(kind, gate, value), image(kind, gate, value)
    x, y = inside(gate, 5, 41), inside(value, 6, 41)
    y = y[torch.randperm(len(y), generator=dice)]
    ends = torch.stack([torch.stack([a, b]) for a, b in itertools.product(gate, value)], 1)
    x, y = torch.cat([x, ends[0]]), torch.cat([y, ends[1]])
    heights = activated(kind, x) * y
    room = 1e-14 * (1 + heights.abs())  # the heights are rounded themselves
    assert bool((found.lower_gate * x + found.lower_value * y + found.lower_rest <= heights + room).all())
    assert bool((found.upper_gate * x + found.upper_value * y + found.upper_rest >= heights - room).all())
    assert bool((between.low <= heights + room).all())
    assert bool((between.high >= heights - room).all())


def test_planes_of_short_intervals_are_near() -> None:
    """A product of numbers that hardly vary is known to a part of the product of their ranges."""
    gate = Interval(torch.tensor([0.9]).double(), torch.tensor([1.1]).double())
    value = Interval(torch.tensor([-2.1]).double(), torch.tensor([-1.9]).double())
    found = planes("silu", gate, value)
    x, y = inside(gate, 1), inside(value, 2)
    lower = found.lower_gate * x + found.lower_value * y + found.lower_rest
    upper = found.upper_gate * x + found.upper_value * y + found.upper_rest
    assert float((upper - lower).max()) < 0.15


def curve(kind: str, x: arb) -> list[arb]:
    """Value, first and second derivative on a ball, by series: f(x + h) to the second order in h."""
    if kind == "silu":  # x / (1 + e^-x)
        s = 1 / (1 + (-x).exp())
        first = s * (1 - s)
        second = first * (1 - 2 * s)
        return [x * s, s + x * first, 2 * first + x * second]
    # x (1 + tanh u) / 2 = x s(2u) with u = √(2/π) (x + 0.044715 x³)
    root = (2 / arb.pi()).sqrt()
    cube = arb(44715) / 10**6
    v, v1, v2 = 2 * root * (x + cube * x**3), 2 * root * (1 + 3 * cube * x**2), 2 * root * 6 * cube * x
    s = 1 / (1 + (-v).exp())
    s1 = s * (1 - s)
    s2 = s1 * (1 - 2 * s)
    d1, d2 = s1 * v1, s2 * v1**2 + s1 * v2
    return [x * s, s + x * d1, 2 * d1 + x * d2]


@pytest.mark.parametrize("kind", ["gelu", "silu"])
def test_slope_and_curvature_are_bounded_everywhere(kind: Activation) -> None:
    """On balls that cover [−12, 12]; farther out f' is within 10⁻³ of 0 or 1 and f'' of 0, and both fall."""
    old, ctx.prec = ctx.prec, 80
    try:
        steps = 2400
        for step in range(-steps, steps):
            middle = arb(2 * step + 1) / 2 * 12 / steps
            ball = middle + arb(0, 12 / steps / 2)
            _, slope, bend = curve(kind, ball)
            assert abs(slope) < STEEPEST
            assert abs(bend) < CURVATURE
        for end in (-12, 12):
            _, slope, bend = curve(kind, arb(end))
            assert abs(slope - (end > 0)) < 1e-3
            assert abs(bend) < 1e-3
        x = torch.linspace(-11, 11, 500, dtype=torch.float64)  # the series is the activation's
        known = [float(curve(kind, arb(point))[0].mid()) for point in x.tolist()]
        torch.testing.assert_close(
            activated(kind, x), torch.tensor(known, dtype=torch.float64), rtol=1e-13, atol=1e-13
        )
    finally:
        ctx.prec = old
