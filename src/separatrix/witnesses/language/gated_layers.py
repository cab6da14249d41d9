"""Layers in W's form: heads or memories, and a feed-forward map with one gated hidden layer."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import torch

from separatrix.models.explicit.linear import Affine, FeedForward
from separatrix.models.explicit.recurrence import RecurrentLayer
from separatrix.witnesses.language.forms import Linear, constant, joined, zeros
from separatrix.witnesses.language.operations import Gadget, Memory
from separatrix.witnesses.language.placing import Epoch, rows_of, tensor, vector

__all__ = ["gated_feed_forward", "recurrent_layer"]


def gated_feed_forward(gadgets: Sequence[Gadget], epoch: Epoch) -> FeedForward:
    """g: all units side by side, ReLU(W1 x + b1) ⊗ (W2 x + b2), then W3 and b3 from the gadgets' mixes."""
    fresh = {gadget.result for gadget in gadgets}
    for gadget in gadgets:
        early = fresh.intersection(gadget.reads())
        assert not early, f"{gadget} reads {min(field.name for field in early)} of the same layer"
    units = [unit for gadget in gadgets for unit in gadget.units]
    last, offset = zeros(epoch.width, len(units)), [Fraction(0)] * epoch.width
    first = 0
    for gadget in gadgets:
        rows = slice(epoch.places[gadget.result], epoch.places[gadget.result] + gadget.result.dim)
        last[rows, first : first + len(gadget.units)] = gadget.mix
        offset[rows] = gadget.offset
        first += len(gadget.units)
    return FeedForward(
        kind="reglu",
        maps=(
            _affine(joined(unit.form for unit in units), epoch),
            _affine(joined(constant([1]) if unit.gate is None else unit.gate for unit in units), epoch),
            Affine(matrix=tensor(last), bias=vector(offset)),
        ),
    )


def recurrent_layer(memories: Sequence[Memory], gadgets: Sequence[Gadget], epoch: Epoch) -> RecurrentLayer:
    """All memories as one recurrence, block by block."""
    size = sum(memory.feed.out for memory in memories)
    transition, feed, output = zeros(size, size), zeros(size, epoch.width), zeros(epoch.width, size)
    first = 0
    for memory in memories:
        here = slice(first, first + memory.feed.out)
        assert not memory.feed.has_offset, "a constant is fed by the field that is 1 everywhere"
        transition[here, here] = memory.transition
        feed[here] = rows_of(memory.feed, epoch)
        start = epoch.places[memory.result]
        output[start : start + memory.result.dim, here] = memory.output
        first += memory.feed.out
    return RecurrentLayer(
        transition=tensor(transition) if size else torch.zeros(0, 0, dtype=torch.float64),
        feed=tensor(feed),
        output=tensor(output),
        feed_forward=gated_feed_forward(gadgets, epoch) if gadgets else None,
    )


def _affine(form: Linear, epoch: Epoch) -> Affine:
    matrix = rows_of(form, epoch) if form.out else np.empty((0, epoch.width), dtype=object)
    return Affine(matrix=tensor(matrix), bias=vector(form.offset))
