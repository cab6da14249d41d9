"""Computed numbers near ideal ones: how far rounding, and weights that are not quite right, lead away.

Enclosures forget how numbers belong together, and that is fatal where a logit is a cosine of a sum of angles
or a unit counts to an exact whole number. Here each computed number has an ideal partner, a known function of
the input, and what is followed is a bound on the ideal's size and a bound on the distance between the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from flint import fmpq
from jaxtyping import Float
from torch import Tensor

from separatrix.certificates.enclosures import Box, Rounding, rounding_of
from separatrix.certificates.enclosures.boxes import Ends, as_ends
from separatrix.certificates.enclosures.fixed_rounding import FixedRounding
from separatrix.certificates.enclosures.float_rounding import FloatRounding
from separatrix.certificates.enclosures.real_rounding import RealRounding
from separatrix.certificates.lemmas.coded import weights
from separatrix.certificates.refusals import NotProved
from separatrix.precision import Float64

__all__ = [
    "FLOAT64",
    "Near",
    "exact",
    "near_affine",
    "near_dot",
    "near_product",
    "near_sum",
    "slip",
    "stored",
    "whole",
    "zeros",
]

_ZERO: Final = fmpq(0)
FLOAT64: Final = rounding_of(Float64())
"""The arithmetic in which input maps make vectors, before they enter any other."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Near:
    """|ideal| ≤ size and |computed − ideal| ≤ off, element by element."""

    size: Ends
    off: Ends

    @property
    def reach(self) -> Ends:
        """How large the computed numbers can be."""
        return as_ends(self.size + self.off)

    def encoded(self, rounding: Rounding) -> Near:
        """Rounded into the arithmetic."""
        return Near(size=self.size, off=as_ends(self.off + slip(rounding, self.reach, _ones(self.size))))


def exact(tensor: Float[Tensor, "..."]) -> Ends:
    """The numbers of a tensor, as fractions."""
    return Box.exact(tensor).low


def stored(rounding: Rounding, tensor: Float[Tensor, "..."]) -> Ends:
    """The same as the arithmetic holds them."""
    box = weights(rounding, tensor)
    if not box.is_point:
        raise NotProved("A weight is so small that the arithmetic may or may not flush it to 0.")
    return box.low


def zeros(*shape: int) -> Ends:
    """Exact zeros."""
    return as_ends(np.full(shape, _ZERO, dtype=object))


def near_affine(
    rounding: Rounding,
    x: Near,
    matrix: Float[Tensor, "out inner"],
    bias: Float[Tensor, "out"] | None = None,
    *,
    ideal: Float[Tensor, "out inner"] | None = None,
    ideal_bias: Float[Tensor, "out"] | None = None,
) -> Near:
    """W x + b beside the ideal W* x* + b*, which is the stored map itself unless another is given.

    Only entries are visited that are not 0 in both.
    """
    wanted = matrix if ideal is None else ideal
    shift = torch.zeros(matrix.shape[0], dtype=torch.float64) if bias is None else bias
    wanted_shift = shift if ideal_bias is None else ideal_bias
    rows, columns = ((matrix != 0) | (wanted != 0)).nonzero(as_tuple=True)
    held, meant = stored(rounding, matrix[rows, columns]), exact(wanted[rows, columns])
    held_shift, meant_shift = stored(rounding, shift), exact(wanted_shift)
    flushed = _flushed(rounding)
    size, computed = as_ends(np.abs(meant_shift)), as_ends(np.abs(held_shift))
    distance = as_ends(np.abs(held_shift - meant_shift))
    terms = as_ends(np.array([int(each != 0) for each in held_shift], dtype=object))
    for row, column, have, want in zip(rows.tolist(), columns.tolist(), held, meant, strict=True):
        reach = x.size[column] + x.off[column] + flushed
        size[row] += abs(want) * x.size[column]
        computed[row] += abs(have) * reach
        distance[row] += abs(have - want) * reach + abs(want) * (x.off[column] + flushed)
        terms[row] += int(have != 0)
    return Near(size=size, off=as_ends(distance + slip(rounding, computed, terms)))


def near_product(rounding: Rounding, left: Near, right: Near) -> Near:
    """Element by element."""
    size = left.size * right.size
    return Near(
        size=as_ends(size),
        off=as_ends(
            _product_off(rounding, left, right) + slip(rounding, _reach(rounding, left, right), _ones(size))
        ),
    )


def near_sum(rounding: Rounding, left: Near, right: Near) -> Near:
    """Element by element; adding an exact 0 changes nothing."""
    lone = (left.reach == 0) | (right.reach == 0)
    rounded = slip(rounding, as_ends(left.reach + right.reach), as_ends(2 * _ones(left.size)))
    off = left.off + right.off + np.where(lone, zeros(*left.size.shape), rounded)
    return Near(size=as_ends(left.size + right.size), off=as_ends(off))


def whole(rounding: Rounding, most: int) -> Near:
    """A whole number of at most this size, as the arithmetic holds it."""
    size = as_ends(np.array([fmpq(most)], dtype=object))
    exact_number = Near(size=size, off=zeros(1))
    if isinstance(rounding, FixedRounding) and most <= rounding.largest:
        return exact_number
    if isinstance(rounding, FloatRounding) and most <= 1 << rounding.form.digits:
        return exact_number
    return exact_number.encoded(rounding)


def near_dot(rounding: Rounding, left: Near, right: Near) -> Near:
    """The inner product along the last axis."""
    reach = as_ends(_reach(rounding, left, right).sum(axis=-1) + _ZERO)
    terms = np.full(reach.shape, left.size.shape[-1], dtype=object)
    return Near(
        size=as_ends((left.size * right.size).sum(axis=-1) + _ZERO),
        off=as_ends(_product_off(rounding, left, right).sum(axis=-1) + slip(rounding, reach, terms)),
    )


def _product_off(rounding: Rounding, left: Near, right: Near) -> Ends:
    first, second = left.off + _flushed(rounding), right.off + _flushed(rounding)
    return as_ends(left.size * second + first * right.size + first * second)


def _reach(rounding: Rounding, left: Near, right: Near) -> Ends:
    return as_ends((left.reach + _flushed(rounding)) * (right.reach + _flushed(rounding)))


def slip(rounding: Rounding, sizes: Ends, terms: Ends) -> Ends:
    """How far one computed sum of so many products of these total sizes may lie from the exact sum."""
    if isinstance(rounding, RealRounding):
        return zeros(*sizes.shape)
    if isinstance(rounding, FixedRounding):
        if bool(np.any(sizes > rounding.largest)):
            raise NotProved("A number leaves the range of the arithmetic, where it would be clamped.")
        most = max(rounding.most_down, rounding.most_up)
        return as_ends(zeros(*sizes.shape) + rounding.step * fmpq(most.numerator, most.denominator))
    assert isinstance(rounding, FloatRounding)
    form = rounding.form
    if bool(np.any(4 * sizes > form.largest)):
        raise NotProved("A number may overflow the arithmetic.")
    growth = {int(count): form.growth(int(count)) for count in {*np.asarray(terms).reshape(-1).tolist()}}
    factor = as_ends(np.vectorize(lambda count: growth[int(count)], otypes=[object])(terms))
    return as_ends(factor * sizes + (factor + 1) * terms * (2 * form.tiny))


def _flushed(rounding: Rounding) -> fmpq:
    """A float that is smaller than any normal one may be read as 0."""
    return rounding.form.tiny if isinstance(rounding, FloatRounding) else _ZERO


def _ones(like: Ends) -> Ends:
    return as_ends(np.ones(like.shape, dtype=object))
