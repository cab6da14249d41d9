"""Coordinates of a stream over the circumstances they depend on, and over no others.

What a position holds may depend on its place, its token, its depth and so on, but each coordinate depends on
few of these. A coordinate is a box with one axis for every circumstance, of length 1 where it does not
matter; maps combine coordinates by broadcasting. Reading thousands of places through a map that ignores the
place costs as much as reading one, and a weight that should not be there shows as an axis that should not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch
from flint import fmpq
from jaxtyping import Float
from torch import Tensor

from separatrix.certificates.enclosures import Box, Rounding
from separatrix.certificates.enclosures.boxes import ZERO, Ends, as_ends
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.inputs import TokenInputs
from separatrix.models.explicit.linear import FeedForward

__all__ = ["Coordinates", "affine", "collapsed", "embedded", "feed_forward", "stacked", "sums"]

Coordinates: TypeAlias = list[Box]
"""A box for each coordinate, all with the same number of axes."""

_SHORT = 2.0**20


def embedded(rounding: Rounding, inputs: TokenInputs, *, length: int, axes: int) -> Coordinates:
    """The first vectors of every token at every place: axis 0 is the place, axis 1 the token."""
    _require_exact(inputs)
    tokens = sum(each.count for each in inputs.classes)
    rows = torch.arange(tokens)[:, None].expand(tokens, length)
    places = torch.arange(length).expand(tokens, length)
    vectors = inputs.embed(rows, places, torch.full((tokens,), length))
    found = []
    for coordinate in range(inputs.width):
        plane = vectors[:, :, coordinate].T
        if bool((plane == plane[:1]).all()):
            plane = plane[:1]
        if bool((plane == plane[:, :1]).all()):
            plane = plane[:, :1]
        box = rounding.encode(Box.exact(plane.contiguous()))
        found.append(box.reshape(*plane.shape, *[1] * (axes - 2)))
    return found


def _require_exact(inputs: TokenInputs) -> None:
    """Every coordinate is a short sum or a single product, so that float64 leaves no choice of its value."""
    for each in inputs.classes:
        if each.placed is not None or len(inputs.appended):
            raise NotProved("This proof is about tokens and places without blocks or elements of their own.")
        matrices = list(each.tracks.values())
        for tensor in (each.bias[:, None], each.matrix, *matrices):
            scaled = tensor * _SHORT
            if bool((scaled != scaled.round()).any()) or bool((tensor.abs() >= _SHORT).any()):
                raise NotProved(
                    "An entry of the input map is too fine or too large for its sums to be exact."
                )
        known = (each.bias != 0) | (each.matrix != 0).any(1)
        terms = known.long() + sum((matrix != 0).sum(1) for matrix in matrices)
        if bool((terms > 1).any()):
            raise NotProved("A coordinate of the input map is a sum of several kinds of features.")


def affine(
    rounding: Rounding,
    x: Coordinates,
    matrix: Float[Tensor, "out inner"],
    bias: Float[Tensor, "out"] | None = None,
) -> Coordinates:
    """W x + b, every row over the axes of what it reads."""
    weights = rounding.encode(Box.exact(matrix))
    constants = rounding.encode(Box.exact(torch.zeros(len(matrix)) if bias is None else bias))
    if not weights.is_point or not constants.is_point:
        raise NotProved("A weight is so small that the arithmetic may or may not flush it to 0.")
    axes = len(x[0].shape)
    found = []
    for row in range(matrix.shape[0]):
        read = [column for column in range(matrix.shape[1]) if weights.low[row, column] != 0]
        if not read:
            found.append(constants[row].reshape(*[1] * axes))
            continue
        inner = stacked([x[column] for column in read])
        image = rounding.affine(inner, weights[row : row + 1, read], constants[row : row + 1])
        image = image.reshape(*inner.shape[:-1])
        if _adds_up(inner, weights.low[row, read], constants.low[row]):
            image = image.monotone(lambda end: max(end, ZERO))
        found.append(collapsed(image))
    return found


def _adds_up(inner: Box, weights: Ends, constant: fmpq) -> bool:
    """Whether no term of a sum can be negative: rounded or not, in any order, no partial sum is then."""
    return bool(np.all(weights >= 0) and constant >= 0 and np.all(inner.low >= 0))


def feed_forward(rounding: Rounding, psi: FeedForward, y: Coordinates, *, residual: bool) -> Coordinates:
    """ψ(y), or y + ψ(y)."""
    if psi.kind != "relu":
        raise NotProved("This proof is about feed-forward maps of ReLUs.")
    image = y
    for each in psi.maps[:-1]:
        image = [rounding.relu(box) for box in affine(rounding, image, each.matrix, each.bias)]
    image = affine(rounding, image, psi.maps[-1].matrix, psi.maps[-1].bias)
    return sums(rounding, y, image) if residual else image


def sums(rounding: Rounding, left: Coordinates, right: Coordinates) -> Coordinates:
    """The residual."""
    found = []
    for first, second in zip(left, right, strict=True):
        shape = np.broadcast_shapes(first.shape, second.shape)
        found.append(collapsed(rounding.add(first.broadcast(shape), second.broadcast(shape))))
    return found


def stacked(boxes: Sequence[Box]) -> Box:
    """Coordinates side by side along a last axis, over all the axes that any of them has."""
    shape = np.broadcast_shapes(*(box.shape for box in boxes))
    return Box.stack([box.broadcast(shape) for box in boxes], axis=-1)


def collapsed(box: Box) -> Box:
    """Without the axes along which nothing changes."""
    for axis, size in enumerate(box.shape):
        if size > 1 and _constant(box.low, axis) and _constant(box.high, axis):
            box = box.each(lambda ends, axis=axis: np.take(ends, [0], axis=axis))  # type: ignore[misc]
    return box


def _constant(ends: Ends, axis: int) -> bool:
    return bool(np.all(as_ends(ends == np.take(ends, [0], axis=axis))))
