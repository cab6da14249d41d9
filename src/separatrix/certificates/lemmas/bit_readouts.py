"""Readouts of a memory of bits: which cell they pick, and that its bits spell the answer.

Layer by layer, from the weights: the first layer reads few bits a row, and is run on all their combinations;
what it gives is bits again, with a meaning. Later layers are linear forms in bits of which it is known how
many can be 1, and a bound of the form says what ReLU makes of it. Each function returns the least lead of the
right answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.certificates.lemmas.integer_maps import (
    Entries,
    Integers,
    Reach,
    assignments,
    bits_of,
    image,
    read_map,
    whole,
)
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.recurrent import Readout, ReadoutLayer
from separatrix.models.explicit.recurrent_maps import Coordinates

__all__ = [
    "addressed_lead",
    "difference_lead",
    "differences",
    "layers_of",
    "matching_key_lead",
    "mismatch_weight",
    "require_rows",
    "spelled_lead",
]

_AT_ONCE: Final = 1 << 18


def addressed_lead(readout: Readout, state: Coordinates, slots: int, reach: Reach) -> int:
    """Two layers. For every address in the register `wanted`, ReLU lets that cell through and no other."""
    first, last = layers_of(readout, 2)
    require_rows(first, pick=state.numbers("cells"))
    entries, wanted = read_map(first.map), state.place("wanted")
    reach.take(np.abs(whole(first.bias)) + entries.reach())
    step = max(_AT_ONCE // entries.height, 1)
    cells = state.place("cells")
    for vector in _combinations(entries, [np.arange(cells.start, cells.stop)], state, ("wanted",)):
        stored = vector[cells].view(slots, -1)
        for low in range(0, slots, step):
            asked = torch.arange(low, min(low + step, slots))
            given = vector.repeat(len(asked), 1)
            given[:, wanted] = bits_of(asked, state.numbers("wanted"))
            picked = stored.new_zeros(len(asked), *stored.shape)
            picked[torch.arange(len(asked)), asked] = stored[asked]
            if not torch.equal(torch.relu(image(first.bias, (first.map, given))), picked.flatten(1)):
                raise NotProved("The readout lets another cell through than the one that is wanted.")
    return spelled_lead(readout, last, slots, reach)


def matching_key_lead(readout: Readout, state: Coordinates, slots: int, reach: Reach) -> int:
    """Three layers. A slot whose key is not the one asked for is silent; else its value passes.

    Of the slots that were written one has the key asked for; in those that were not, the value's bits are 0.
    """
    first, second, last = layers_of(readout, 3)
    differences(first, state, keys="keys", query="asked", carried="values", reach=reach)
    require_rows(second, pick=state.numbers("values"))
    columns, entries, bias = first.map.rows, read_map(second.map), whole(second.bias)
    reach.take(np.abs(bias) + entries.reach())
    kept = _own_weights(entries.apart(columns.place("kept")))
    mismatch = bias + np.maximum(kept, 0) + mismatch_weight(entries, columns, slots)
    if bool((bias > 0).any() or (bias + kept != 1).any() or (mismatch > 0).any()):
        raise NotProved("A value passes though its key is another one, or does not pass though it is right.")
    return spelled_lead(readout, last, slots, reach)


def difference_lead(readout: Readout, state: Coordinates, reach: Reach) -> int:
    """One layer that scores "different" and "equal".

    No weight towards "different" is negative and none towards "equal" is positive, so in any arithmetic whose
    sums are monotone one cell that is 1 is the worst case of cells that are not all 0; there nothing is added
    up but that one weight and the bias.
    """
    (layer,) = layers_of(readout, 1)
    require_rows(layer, different=1, equal=1)
    bias, entries = whole(layer.bias), read_map(layer.map)
    cells = entries.apart(state.place("cells"))
    if readout.scores is not None or len(cells.rows) < len(entries.rows):
        raise NotProved("The readout scores two classes, from the cells alone.")
    if bool((cells.values * np.where(cells.rows == 0, 1, -1) != cells.sizes).any()):
        raise NotProved("A cell that differs speaks for equality, or against a difference.")
    weights = cells.dense()
    reach.take(np.abs(bias) + np.abs(weights).max(1))
    different = (bias[0] + weights[0]) - (bias[1] + weights[1])
    return min(int(bias[1] - bias[0]), int(different.min()))


def differences(
    layer: ReadoutLayer, state: Coordinates, *, keys: str, query: str, carried: str, reach: Reach
) -> None:
    """Rows `over`, `under` and `kept` hold key ∧ ¬query, ¬key ∧ query and the carried bits, as is run."""
    require_rows(layer, over=state.numbers(keys), under=state.numbers(keys), kept=state.numbers(carried))
    entries = read_map(layer.map)
    reach.take(np.abs(whole(layer.bias)) + entries.reach())
    bits = np.arange(state.numbers(keys))
    own, asked_for = state.start(keys) + bits, state.start(query) + bits % state.numbers(query)
    carries = np.arange(state.place(carried).start, state.place(carried).stop)
    meant = [np.concatenate([own, own, carries]), np.concatenate([asked_for, asked_for, carries])]
    for vector in _combinations(entries, meant, state, ()):
        stored = vector[state.place(keys)]
        asked = vector[state.place(query)].repeat(len(stored) // state.numbers(query))
        kept = vector[state.place(carried)]
        expected = torch.cat([torch.relu(stored - asked), torch.relu(asked - stored), kept])
        if not torch.equal(torch.relu(image(layer.bias, (layer.map, vector.unsqueeze(0))))[0], expected):
            raise NotProved("The readout does not compare the stored bits with those of the register.")


def mismatch_weight(entries: Entries, columns: Coordinates, slots: int) -> Integers:
    """For each row, the most that a difference somewhere in its own slot adds to it; never more than 0.

    Where a digit differs exactly one of `over` and `under` is 1, and rows are equally many a slot.
    """
    digits, per_slot = columns.numbers("over") // slots, entries.height // slots
    most = np.zeros((2, entries.height, digits), dtype=np.int64)
    for side, name in enumerate(("over", "under")):
        part = entries.apart(columns.place(name))
        if bool((part.rows // per_slot != part.columns // digits).any()) or bool((part.values > 0).any()):
            raise NotProved("A difference is read from another slot, or speaks for a match.")
        most[side, part.rows, part.columns % digits] = part.values
    return np.asarray(most.max(axis=(0, 2)))


def spelled_lead(readout: Readout, layer: ReadoutLayer, slots: int, reach: Reach) -> int:
    """The least lead of the class that the bits of one slot spell, when all other slots give 0.

    Digit i must be positive if bit i is 1 and negative if it is 0, whatever the other bits are; a class that
    differs in digit i then has at least 2·|digit i| less.
    """
    scores, bias, entries = readout.scores, whole(layer.bias), read_map(layer.map)
    if scores is None or entries.breadth != slots * scores.digits:
        raise NotProved("The readout does not spell its answer in the digits of one cell.")
    shape = (scores.digits, slots, scores.digits)
    weights, sizes = entries.dense().reshape(shape), np.zeros(shape, dtype=np.int64)
    sizes.reshape(scores.digits, -1)[entries.rows, entries.columns] = entries.sizes
    own = np.diagonal(weights, axis1=0, axis2=2).T
    others = np.minimum(weights, 0).sum(2), np.maximum(weights, 0).sum(2)
    if_one = bias[:, None] + own + others[0] - np.minimum(own, 0)
    if_zero = bias[:, None] + others[1] - np.maximum(own, 0)
    terms = np.abs(bias)[:, None] + sizes.sum(2)
    reach.take(terms.sum(0))
    return 2 * int(min(if_one.min(), (-if_zero).min()))


def layers_of(readout: Readout, count: int) -> tuple[ReadoutLayer, ...]:
    """All layers, if there are so many."""
    if len(readout.layers) != count:
        raise NotProved(f"This proof is about readouts of {count} layers.")
    return readout.layers


def require_rows(layer: ReadoutLayer, **numbers: int) -> None:
    """The layer's rows are these fields in this order; 0 for any number of coordinates."""
    found = {field.name: field.numbers for field in layer.map.rows.fields}
    if list(found) != list(numbers) or any(0 < numbers[name] != found[name] for name in found):
        raise NotProved(
            f"A layer of the readout has other rows than {', '.join(numbers)} of the right sizes."
        )


def _combinations(
    entries: Entries, meant: Sequence[Integers], state: Coordinates, known: tuple[str, ...]
) -> list[Float[Tensor, "state"]]:
    """Bits of the state that show each row all of what it reads and of what it is meant to read."""
    rows = np.arange(entries.height)
    pairs = (entries.reads(), *((rows, columns) for columns in meant))
    reading, read = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return assignments(reading, read, state, known)


def _own_weights(entries: Entries) -> Integers:
    """The weight of column j in row j, where no row reads another column."""
    if entries.height != entries.breadth or bool((entries.rows != entries.columns).any()):
        raise NotProved("A unit of the readout reads another bit than its own.")
    weights = np.zeros(entries.height, dtype=np.int64)
    weights[entries.rows] = entries.values
    return weights
