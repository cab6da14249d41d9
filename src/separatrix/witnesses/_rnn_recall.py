"""Readouts that find a key among stored ones and let the bits through that belong to it."""

from __future__ import annotations

import math

from separatrix.models.explicit.recurrent import ReadoutLayer
from separatrix.models.explicit.recurrent_maps import Coordinates, same, spread, summed
from separatrix.witnesses._rnn_blocks import ONE, MapWriter, layer, lower, ones, vector

__all__ = ["first_match_readout", "matching_key_readout", "pick_sum"]


def pick_sum(picked: Coordinates, cells: int, digits: int) -> ReadoutLayer:
    """2·Σ_j pick_{j,i} − 1: the digits −1 and 1 of the one cell that was picked."""
    spelled = Coordinates.of(digits=digits)
    total = MapWriter(spelled, picked).add("digits", "pick", 2 * ONE, outer=summed(cells), inner=same(digits))
    return layer(total, vector(spelled, digits=-1))


def _differences(
    state: Coordinates, *, keys: str, query: str, cells: int, digits: int, carried: str
) -> tuple[Coordinates, ReadoutLayer]:
    """ReLU(key − query) and ReLU(query − key) of every bit, in sum |key − query|; and what is kept.

    Bits are 0 or 1, so ReLU carries them unchanged.
    """
    rows = Coordinates.of(over=cells * digits, under=cells * digits, kept=state.numbers(carried))
    writer = MapWriter(rows, state)
    for name, sign in (("over", 1), ("under", -1)):
        writer.each(name, keys, sign)
        writer.add(name, query, -sign * ONE, outer=spread(cells), inner=same(digits))
    writer.each("kept", carried)
    return rows, layer(writer, vector(rows))


def matching_key_readout(
    state: Coordinates, pairs: int, key_digits: int, value_digits: int
) -> tuple[ReadoutLayer, ...]:
    """ReLU(value_{j,i} − Σ|key_j − asked|), added up over j: keys differ, so at most one term is not 0."""
    differing, first = _differences(
        state, keys="keys", query="asked", cells=pairs, digits=key_digits, carried="values"
    )
    picked = Coordinates.of(pick=pairs * value_digits)
    pick = MapWriter(picked, differing).each("pick", "kept")
    for side in ("over", "under"):
        pick.add("pick", side, -ones(1, key_digits), outer=same(pairs), inner=spread(value_digits))
    return first, layer(pick, vector(picked)), pick_sum(picked, pairs, value_digits)


def first_match_readout(state: Coordinates, cells: int, digits: int) -> tuple[ReadoutLayer, ...]:
    """The cell behind the first one that equals the register `last`.

    equal_j = ReLU(1 − Σ|cell_j − last|) is 1 or 0, and first_j = ReLU(equal_j − Σ_{i<j} equal_i) is 1 at the
    first match only. The inner sum is taken in two parts, over whole groups of about √cells and within the
    group, so that no matrix has more than about `cells` entries. ReLU(cell_{j+1} + first_j − 1) picks the
    answer. A cell that was never written may equal the register, but it lies behind the first match.
    """
    group = math.isqrt(cells - 1) + 1
    groups = -(-cells // group)
    kept = cells * digits
    differing, first = _differences(
        state, keys="cells", query="last", cells=cells, digits=digits, carried="cells"
    )
    equal = Coordinates.of(equal=groups * group, kept=kept)
    match = MapWriter(equal, differing).each("kept", "kept")
    for side in ("over", "under"):
        match.add("equal", side, -ones(1, digits), outer=same(cells))
    match_bias = vector(equal)
    match_bias[equal.start("equal") : equal.start("equal") + cells] = 1

    counted = Coordinates.of(equal=groups * group, group=groups, kept=kept)
    count = MapWriter(counted, equal).each("equal", "equal").each("kept", "kept")
    count.add("group", "equal", ones(1, group), outer=same(groups))

    leading = Coordinates.of(first=groups * group, kept=kept)
    lead = MapWriter(leading, counted).each("first", "equal").each("kept", "kept")
    lead.add("first", "equal", -lower(group, diagonal=False), outer=same(groups))
    lead.add("first", "group", -lower(groups, diagonal=False), inner=spread(group))

    behind = cells - 1
    picked = Coordinates.of(pick=behind * digits)
    pick = MapWriter(picked, leading)
    pick.add("pick", "kept", ONE, inner=same(behind * digits), skip=(0, digits))
    pick.add("pick", "first", ONE, outer=same(behind), inner=spread(digits))
    return (
        first,
        layer(match, match_bias),
        layer(count, vector(counted)),
        layer(lead, vector(leading)),
        layer(pick, vector(picked, pick=-1)),
        pick_sum(picked, behind, digits),
    )
