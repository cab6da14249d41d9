"""One step of a recurrent model, and its readout, on boxes: the operations of the model one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from separatrix.certificates.enclosures import Box, Rounding
from separatrix.certificates.enclosures.boxes import as_ends, power_of_two
from separatrix.certificates.enclosures.float_rounding import FloatRounding
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.models.explicit.recurrent_maps import Block, LinearMap

__all__ = ["advanced", "scored"]


def advanced(rounding: Rounding, model: RecurrentModel, token: Int[Tensor, ""], state: Box) -> Box:
    """What the state can be after one more token, for states in a box (case, state)."""
    update, cases = model.update, state.shape[0]
    vector = Box.exact(model.tokens.rows(token.reshape(1)))
    vectors = vector.broadcast((cases, vector.shape[1]))
    units = _rows(rounding, update.bias, cases)
    units = _added(rounding, update.from_state, units, state)
    units = _added(rounding, update.from_input, units, vectors)
    units = _activated(rounding, update.activation, units)
    after = _rows(rounding, update.offset, cases)
    after = _added(rounding, update.carry, after, state)
    return _added(rounding, update.write, after, units)


def scored(rounding: Rounding, model: RecurrentModel, state: Box) -> Box:
    """What the scores can be, for states in a box (case, state)."""
    numbers, layers = state, model.readout.layers
    for place, layer in enumerate(layers):
        numbers = _added(rounding, layer.map, _rows(rounding, layer.bias, state.shape[0]), numbers)
        numbers = numbers if place == len(layers) - 1 else rounding.relu(numbers)
    digits = model.readout.scores
    if digits is None:
        return numbers
    places = torch.arange(digits.digits)
    signs = ((torch.arange(digits.classes).unsqueeze(1) >> places) & 1) * 2 - 1
    return rounding.affine(numbers, Box.exact(signs))


def _rows(rounding: Rounding, vector: Tensor, cases: int) -> Box:
    encoded = rounding.encode(Box.exact(vector))
    return encoded.broadcast((cases, encoded.shape[0]))


def _added(rounding: Rounding, linear: LinearMap, total: Box, vectors: Box) -> Box:
    """Block by block, each added where it stands."""
    low, high = total.low.copy(), total.high.copy()
    for block in linear.blocks:
        rows = slice(block.row, block.row + block.outputs)
        share = _block(rounding, block, vectors)
        part = rounding.add(Box(low[:, rows], high[:, rows]), share)
        low[:, rows], high[:, rows] = part.low, part.high
    return Box(low, high)


def _block(rounding: Rounding, block: Block, vectors: Box) -> Box:
    cases, (height, breadth) = vectors.shape[0], block.matrix.shape
    outer, inner = block.outer, block.inner
    parts = vectors[:, block.column : block.column + block.inputs]
    parts = parts.reshape(cases, outer.inputs, breadth, inner.inputs)
    if outer.kind == "sum":
        parts = _summed(rounding, parts, 1)
    if inner.kind == "sum":
        parts = _summed(rounding, parts, 3)
    if height == breadth == 1:
        number = block.matrix.item()
        if number == -1:
            parts = -parts
        elif number != 1:
            parts = rounding.multiply(parts, rounding.encode(Box.exact([number])))
    else:
        kept = parts.shape[1], parts.shape[3]
        flat = _turned(parts).reshape(-1, breadth)
        image = rounding.affine(flat, rounding.encode(Box.exact(block.matrix)))
        parts = _turned(image.reshape(cases, *kept, height))
    return parts.broadcast((cases, outer.outputs, height, inner.outputs)).reshape(cases, block.outputs)


def _turned(box: Box) -> Box:
    return box.each(lambda ends: ends.swapaxes(2, 3))


def _summed(rounding: Rounding, parts: Box, axis: int) -> Box:
    moved = parts.each(lambda ends: np.moveaxis(ends, axis, -1))
    ones = Box.exact(np.ones((1, moved.shape[-1]), dtype=np.int64))
    return rounding.affine(moved, ones).each(lambda ends: np.moveaxis(ends, -1, axis))


def _activated(rounding: Rounding, activation: str, numbers: Box) -> Box:
    if activation == "relu":
        return rounding.relu(numbers)
    if activation == "hard-sigmoid":
        ends = Box.exact([3, 6])
        if bool(np.any(rounding.encode(ends).low != ends.low)):
            raise NotProved("The arithmetic does not hold the ends of the hard sigmoid.")
        ramp = rounding.relu(rounding.add(numbers, Box.exact([3])))
        over = rounding.relu(rounding.subtract(ramp, Box.exact([6])))
        plain = rounding.divide(rounding.subtract(ramp, over), Box.exact([6]))
        # Where the ramp is surely past its end or before its start, both differences are known.
        low, high = plain.low.copy(), plain.high.copy()
        # Beyond 2^digits a float less 6 is rounded, and the ramp less that may be anything.
        exact = 1 << rounding.form.digits if isinstance(rounding, FloatRounding) else ramp.high
        full, empty = _array((ramp.low >= 6) & (ramp.high <= exact)), _array(ramp.high <= 0)
        end = rounding.divide(Box.exact([6]), Box.exact([6]))
        low[full], high[full] = end.low[0], end.high[0]
        low[empty], high[empty] = 0 * end.low[0], 0 * end.low[0]
        return Box(low, high)
    if activation == "sigmoid":
        return _rising(rounding, numbers, _logistic)
    if activation == "tanh":
        return _rising(rounding, numbers, _tanh)
    raise NotProved(f"This proof does not know the activation {activation}.")


def _rising(rounding: Rounding, numbers: Box, function: Callable[[Rounding, Box], Box]) -> Box:
    """A computed function of one number, enclosed at the ends of an interval that does not change sign.

    In fixed point every step is monotone in the number on either side of 0, before and after rounding. In
    floats the true function is, and a computed value is off by a few units in the last place at most; both
    ends are widened by more than that.
    """
    if bool(np.any((numbers.low < 0) & (numbers.high > 0))):
        raise NotProved("A unit may be on either side of its threshold.")
    at_low = function(rounding, Box(numbers.low, numbers.low))
    at_high = function(rounding, Box(numbers.high, numbers.high))
    box = Box.union(at_low, at_high)
    if isinstance(rounding, FloatRounding):
        form = rounding.form
        box = box.widened(as_ends(box.magnitude * power_of_two(5 - form.digits) + 32 * form.tiny))
    return box


def _logistic(rounding: Rounding, point: Box) -> Box:
    one, size, negative = Box.exact([1]), Box.exact(np.abs(point.low)), _array(point.low < 0)
    decay = rounding.exp(-size)
    above = rounding.divide(one.broadcast(decay.shape), rounding.add(one, decay))
    below = rounding.divide(decay, rounding.add(one, decay))
    return _chosen(negative, below, above)


def _tanh(rounding: Rounding, point: Box) -> Box:
    one, size, negative = Box.exact([1]), Box.exact(np.abs(point.low)), _array(point.low < 0)
    decay = rounding.exp(-rounding.add(size, size))
    result = rounding.divide(rounding.subtract(one, decay), rounding.add(one, decay))
    return _chosen(negative, -result, result)


def _chosen(condition: NDArray[np.bool_], first: Box, second: Box) -> Box:
    return Box(np.where(condition, first.low, second.low), np.where(condition, first.high, second.high))


def _array(condition: NDArray[Any]) -> NDArray[np.bool_]:
    """Comparisons of object arrays come as objects or as truth values."""
    return np.asarray(condition).astype(bool)
