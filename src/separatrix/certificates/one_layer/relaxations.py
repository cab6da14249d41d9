"""Activations between two planes: what a unit of the feed-forward map lies between on an interval.

The slope is that of the chord. How far the function leaves that line is looked up on a grid, and between two
points of the grid it cannot go farther than its second derivative lets it. GELU (by tanh) and SiLU have
second derivatives below 1.2 everywhere; ReLU lies on its line except for its corner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.certificates.one_layer.contexts import UNIT
from separatrix.certificates.one_layer.form import Activation, activated

__all__ = ["CURVATURE", "STEEPEST", "Interval", "Planes", "image", "planes"]

CURVATURE: Final = 1.2
"""Above |f''| of every activation."""
STEEPEST: Final = 1.2
"""Above |f'| of every activation."""
_CELLS: Final = 48


class Interval(NamedTuple):
    """Bounds from below and above, unit by unit."""

    low: Float[Tensor, "*lead unit"]
    high: Float[Tensor, "*lead unit"]


@final
@dataclass(frozen=True, eq=False)
class Planes:
    """gate · x + value · y + rest, below the unit (`lower`) and above it (`upper`)."""

    lower_gate: Float[Tensor, "*lead unit"]
    lower_value: Float[Tensor, "*lead unit"]
    lower_rest: Float[Tensor, "*lead unit"]
    upper_gate: Float[Tensor, "*lead unit"]
    upper_value: Float[Tensor, "*lead unit"]
    upper_rest: Float[Tensor, "*lead unit"]


class _Lines(NamedTuple):
    """slope · x + low ≤ f(x) ≤ slope · x + high, and f itself between `least` and `most`."""

    slope: Tensor
    low: Tensor
    high: Tensor
    least: Tensor
    most: Tensor


def _lines(kind: Activation, at: Interval) -> _Lines:
    wide = (at.high - at.low).clamp_min(0)
    first, last = activated(kind, at.low), activated(kind, at.high)
    slope = torch.where(wide > 1e-6, (last - first) / wide.clamp_min(1e-6), torch.full_like(wide, 0.5))
    slope = slope.clamp(-STEEPEST, STEEPEST)
    if kind == "relu":  # convex, and straight but for its corner: its ends and the corner decide
        corner = torch.zeros_like(wide).clamp(at.low, at.high)
        points = torch.stack([at.low, corner, at.high], -1)
        between = 0.0
    else:
        steps = torch.linspace(0, 1, _CELLS + 1, dtype=wide.dtype, device=wide.device)
        points = at.low.unsqueeze(-1) + wide.unsqueeze(-1) * steps
        between = CURVATURE / 8 / _CELLS**2
    heights = activated(kind, points)
    off = heights - slope.unsqueeze(-1) * points
    # An activation is computed to a few units in the last place of its argument's size.
    slack = between * wide.square() + 64 * UNIT * (1 + at.low.abs() + at.high.abs())
    return _Lines(
        slope,
        off.amin(-1) - slack,
        off.amax(-1) + slack,
        heights.amin(-1) - slack,
        heights.amax(-1) + slack,
    )


def image(kind: Activation, gate: Interval, value: Interval | None) -> Interval:
    """What a unit may be."""
    lines = _lines(kind, gate)
    if value is None:
        return Interval(lines.least, lines.most)
    ends = torch.stack([a * b for a in (lines.least, lines.most) for b in value])
    slack = 4 * UNIT * ends.abs().amax(0)
    return Interval(ends.amin(0) - slack, ends.amax(0) + slack)


def planes(kind: Activation, gate: Interval, value: Interval | None) -> Planes:
    """Planes below and above every unit; for a gated one, McCormick's with the activation's own lines in."""
    lines = _lines(kind, gate)
    if value is None:
        zero = torch.zeros_like(lines.slope)
        return Planes(lines.slope, zero, lines.low, lines.slope, zero, lines.high)
    lower = _product(lines, gate, value, sign=1.0)
    upper = _product(lines, gate, value, sign=-1.0)
    return Planes(*lower, *upper)


def _product(lines: _Lines, gate: Interval, value: Interval, *, sign: float) -> tuple[Tensor, Tensor, Tensor]:
    """Below a·y (above it for sign −1), a being the activation: the better of two planes in the middle."""
    middle = (gate.low + gate.high) / 2, (value.low + value.high) / 2
    found = []
    for a, y in (
        ((lines.least, value.low), (lines.most, value.high))
        if sign > 0
        else ((lines.most, value.low), (lines.least, value.high))
    ):
        # a·v ≥ a₀ v + y₀ a − a₀ y₀, and a itself is replaced by the line on its safe side.
        safe = torch.where((y >= 0) == (sign > 0), lines.low, lines.high)
        rest = y * safe - a * y
        rest = rest - sign * 8 * UNIT * (y.abs() * safe.abs() + (a * y).abs())
        found.append((y * lines.slope, a, rest))
    heights = [g * middle[0] + v * middle[1] + rest for g, v, rest in found]
    first = (heights[0] >= heights[1]) if sign > 0 else (heights[0] <= heights[1])
    gate_part, value_part, rest_part = (
        torch.where(first, one, other) for one, other in zip(*found, strict=True)
    )
    return gate_part, value_part, rest_part


def tail_slack(terms: int) -> float:
    """The part of its terms' sizes that a sum of so many rounded products may be off by."""
    return 4 * (terms + 16) * UNIT
