"""The readout that finds the first cell equal to a register and picks the one behind it."""

from __future__ import annotations

import numpy as np

from separatrix.certificates.lemmas.bit_readouts import (
    differences,
    layers_of,
    mismatch_weight,
    require_rows,
    spelled_lead,
)
from separatrix.certificates.lemmas.integer_maps import Entries, Integers, Reach, composed, read_map, whole
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.recurrent import Readout, ReadoutLayer
from separatrix.models.explicit.recurrent_maps import Coordinates

__all__ = ["first_match_lead"]


def first_match_lead(readout: Readout, state: Coordinates, slots: int, reach: Reach) -> int:
    """Six layers: where cells differ from `last`, which are equal, how many were so far, the first, the next.

    Behind the second layer there are bits: "cell j equals the register", one a cell, and the cells. Cells
    behind the last one written may be equal too, but they lie behind the first match.
    """
    first, second, third, fourth, fifth, last = layers_of(readout, 6)
    width = state.numbers("cells")
    differences(first, state, keys="cells", query="last", carried="cells", reach=reach)
    require_rows(second, equal=0, kept=width)
    require_rows(third, equal=0, group=0, kept=width)
    require_rows(fourth, first=0, kept=width)
    require_rows(fifth, pick=width // slots * (slots - 1))
    _equal_cells(second, first.map.rows, slots, reach)
    _first_of_them(third, fourth, second.map.rows, slots, reach)
    _behind_it(fifth, fourth.map.rows, width // slots, reach)
    return spelled_lead(readout, last, slots - 1, reach)


def _equal_cells(layer: ReadoutLayer, columns: Coordinates, slots: int, reach: Reach) -> None:
    """`equal` is 1 at a match and 0 else, and 0 where there is no cell; `kept` stays as it is."""
    entries, bias, rows = read_map(layer.map), whole(layer.bias), layer.map.rows
    reach.take(np.abs(bias) + entries.reach())
    kept, found = rows.place("kept"), rows.place("equal")
    _require_same(entries.among(kept), bias[kept], columns.start("kept"))
    cells, spare = entries.among(slice(0, slots)), entries.among(slice(slots, found.stop))
    if found.stop < slots or len(spare.rows) or bool((bias[slots : found.stop] > 0).any()):
        raise NotProved("A match is found where there is no cell.")
    if len(cells.apart(columns.place("kept")).rows):
        raise NotProved("Whether a cell matches depends on more than where it differs.")
    if bool((bias[:slots] != 1).any() or (1 + mismatch_weight(cells, columns, slots) > 0).any()):
        raise NotProved("The readout takes a cell for a match that is none, or overlooks one.")


def _first_of_them(
    counting: ReadoutLayer, leading: ReadoutLayer, columns: Coordinates, slots: int, reach: Reach
) -> None:
    """first_j = ReLU(equal_j − Σ_{i<j} w·equal_i) with weights w ≥ 1: it is 1 at the first match alone.

    The layer that counts is linear on bits, having no negative weight; so both together are one map.
    """
    counts, lead, bias = read_map(counting.map), read_map(leading.map), whole(leading.bias)
    if bool((counts.values != counts.sizes).any()) or bool(whole(counting.bias).any()):
        raise NotProved("What counts matches takes some away.")
    present = np.ones(counts.breadth, dtype=np.int64)
    present[slots : columns.numbers("equal")] = 0  # no cell has these rows: they are 0
    sums = counts.reach(present)
    reach.take(sums)
    reach.take(np.abs(bias) + lead.reach(sums))
    both, rows = composed(lead, counts), leading.map.rows
    kept, first = rows.place("kept"), rows.place("first")
    _require_same(both.among(kept), bias[kept], columns.start("kept"))
    forms = both.among(first)
    if first.stop < slots or len(forms.apart(columns.place("kept")).rows) or bool(bias[first].any()):
        raise NotProved("Which match is the first depends on more than the matches.")
    matrix = forms.apart(slice(0, slots)).dense()
    cells, earlier = matrix[:slots], np.tril(np.ones((slots, slots), dtype=bool), -1)
    right = bool((np.diagonal(cells) == 1).all() and (cells[earlier] <= -1).all())
    if not right or bool(np.triu(cells, 1).any()) or bool((matrix[slots:] > 0).any()):
        raise NotProved("The readout does not tell the first match from later ones.")


def _behind_it(layer: ReadoutLayer, columns: Coordinates, digits: int, reach: Reach) -> None:
    """Row (j, i) gives bit i of cell j + 1 if cell j is the first match, else 0."""
    entries, bias = read_map(layer.map), whole(layer.bias)
    reach.take(np.abs(bias) + entries.reach())
    match, bit = np.zeros_like(bias), np.zeros_like(bias)
    at_match = entries.columns == entries.rows // digits
    at_bit = entries.columns == columns.start("kept") + digits + entries.rows
    if bool((entries.values[~at_match & ~at_bit] != 0).any()):
        raise NotProved("What is picked depends on more than its own cell and the match in front of it.")
    match[entries.rows[at_match]] = entries.values[at_match]
    bit[entries.rows[at_bit]] = entries.values[at_bit]
    silent = np.maximum(np.maximum(bias, bias + match), bias + bit)
    if bool((silent > 0).any() or (bias + match + bit != 1).any()):
        raise NotProved("The readout picks another cell than the one behind the first match.")


def _require_same(entries: Entries, bias: Integers, start: int) -> None:
    """Row j is column start + j and nothing else: bits stay what they are."""
    rows = np.arange(entries.height)
    same = np.array_equal(entries.rows, rows) and np.array_equal(entries.columns, start + rows)
    if not same or bool((entries.values != 1).any() or bias.any()):
        raise NotProved("A layer of the readout changes the bits that it should keep.")
