"""The feed-forward map on a box, without forgetting that its units read the same numbers.

A step is the difference of two units; as intervals alone their difference would not be 1 where both are
active, only near it. So every number is also kept as an exact linear function of the map's input plus an
interval: where a unit is surely active or surely 0, the linear part passes, slopes cancel, and what remains
of a step is the constant it should be. Both enclosures hold, so their common part does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from flint import fmpq

from separatrix.certificates.enclosures import Box, Rounding
from separatrix.certificates.enclosures.boxes import Ends, as_ends, matrix_product
from separatrix.certificates.enclosures.fixed_rounding import FixedRounding
from separatrix.certificates.enclosures.float_rounding import FloatRounding
from separatrix.certificates.lemmas.float_errors import UNKNOWN, fineness, summing_error
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.linear import Affine, FeedForward

__all__ = ["feed_forward"]

_ZERO = fmpq(0)


def feed_forward(rounding: Rounding, psi: FeedForward, y: Box, *, residual: bool) -> Box:
    """What is computed for ψ(y), or for y + ψ(y), for every y in a box (case, width)."""
    if psi.kind == "reglu":
        first, second, last = (_Map(rounding, each) for each in psi.maps)
        image = last.box(rounding.multiply(rounding.relu(first.box(y)), second.box(y)))
        return rounding.add(y, image) if residual else image
    maps = [_Map(rounding, each) for each in psi.maps]
    return Box.stack([_case(rounding, maps, y[case], residual=residual) for case in range(y.shape[0])])


@final
class _Map:
    """An affine map with its weights as the arithmetic has them."""

    def __init__(self, rounding: Rounding, each: Affine) -> None:
        self.rounding = rounding
        self.matrix = rounding.encode(Box.exact(each.matrix))
        self.bias = rounding.encode(Box.exact(each.bias))
        if not self.matrix.is_point or not self.bias.is_point:
            raise NotProved("A weight is so small that the arithmetic may or may not flush it to 0.")
        self.whole = _whole(self.matrix.low)

    def box(self, x: Box) -> Box:
        """Plain intervals."""
        return self.rounding.affine(x, self.matrix, self.bias)

    def error(self, x: Box, image: Box) -> Ends:
        """How far a computed W x + b may lie from the exact one, for x in a box (inner,)."""
        if isinstance(self.rounding, FixedRounding):
            step = self.rounding.step
            clamped = np.any(image.magnitude > self.rounding.largest - step)
            # Whole multiples of numbers of the system are numbers of the system: nothing is rounded.
            if self.whole and not clamped:
                return _zeros(image.shape[0])
            spare = np.maximum(image.magnitude - self.rounding.largest, _zeros(image.shape[0]))
            return as_ends(spare + step)
        radius = _zeros(image.shape[0])
        if isinstance(self.rounding, FloatRounding):
            # The bias is one more product, with 1.
            weight = np.concatenate([self.matrix.low, self.bias.low.reshape(-1, 1)], axis=1)
            one = np.array([fmpq(1)], dtype=object)
            size = np.concatenate([x.magnitude, one])
            known = np.where(x.low == x.high, fineness(x.low), UNKNOWN)
            for row, each in enumerate(weight):
                fine = np.concatenate([known, fineness(one)])
                radius[row] = summing_error(self.rounding, size, np.abs(each), fine, fineness(each))
        return radius


@dataclass(frozen=True, eq=False)
class _Form:
    """Numbers slopes·y + rest, with y the input of the whole map, and their plain range."""

    slopes: Ends
    rest: Box
    range: Box

    def mapped(self, each: _Map, y: Box) -> _Form:
        """Through an affine map."""
        slopes = matrix_product(each.matrix, Box(self.slopes.T, self.slopes.T)).low
        rest = matrix_product(self.rest.reshape(1, -1), each.matrix).reshape(-1) + each.bias
        exact = _range(slopes, rest, y)
        rest = rest.widened(each.error(self.range, exact))
        plain = each.box(self.range.reshape(1, -1)).reshape(-1)
        return _Form(slopes, rest, _common(plain, _range(slopes, rest, y)))

    def relu(self) -> _Form:
        """Units that are surely on pass, units that are surely off are 0, others are only known by range."""
        on, off = self.range.low >= 0, self.range.high <= 0
        slopes = self.slopes.copy()
        slopes[~on.astype(bool)] = _ZERO
        low, high = self.rest.low.copy(), self.rest.high.copy()
        undecided = ~on.astype(bool) & ~off.astype(bool)
        low[~on.astype(bool)] = _ZERO
        high[off.astype(bool) & ~on.astype(bool)] = _ZERO
        high[undecided] = self.range.high[undecided]
        clipped = self.range.monotone(lambda end: max(end, _ZERO))
        return _Form(slopes, Box(low, high), clipped)


def _case(rounding: Rounding, maps: list[_Map], y: Box, *, residual: bool) -> Box:
    width = y.shape[0]
    same = as_ends(np.array([[fmpq(int(i == j)) for j in range(width)] for i in range(width)], dtype=object))
    form = _Form(same.reshape(width, width), Box.exact(_zeros(width)), y)
    for each in maps[:-1]:
        form = form.mapped(each, y).relu()
    form = form.mapped(maps[-1], y)
    if not residual:
        return form.range
    plain = rounding.add(y, form.range)
    total = _range(form.slopes + same.reshape(width, width), form.rest, y)
    return _common(plain, rounding.add(total, Box.exact(_zeros(width))))


def _range(slopes: Ends, rest: Box, y: Box) -> Box:
    return matrix_product(y.reshape(1, -1), Box(slopes, slopes)).reshape(-1) + rest


def _common(first: Box, second: Box) -> Box:
    return Box(as_ends(np.maximum(first.low, second.low)), as_ends(np.minimum(first.high, second.high)))


def _whole(numbers: Ends) -> bool:
    return all(number.denominator == 1 for number in numbers.reshape(-1))


def _zeros(*shape: int) -> Ends:
    return as_ends(np.full(shape, _ZERO, dtype=object))
