"""What a warp of the selective scan does with its 32 lanes: who has which numbers, sums from lane to lane.

Every vector is 32 numbers, one for each lane, and a program is one warp. The lanes stand in a grid of
`state_lanes` rows and `columns`; each keeps a rectangle of `lane_states` states × `lane_channels` channels in
its registers. Besides, each lane *owns* one channel and one number or a few of the row (B, C): these it reads
and writes, and spreads them to the lanes that need them.

A sum over states is one over rows of lanes, and each lane has `lane_channels` of them. Added bit by bit, with
each lane going on with half of them, they end in the lanes that own the channels: a channel's number within a
lane is flipped by the bits of the lane's row, so that the half to go on with is the same in all lanes. It is
the same with sums over channels and the bits of a lane's column.
"""

# Triton's language has values without Python types and tuples that grow.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, assignment, var-annotated"

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.models.kernels.selective_scan import LOG2_E as _LOG2_E

__all__ = [
    "LN_2",
    "LOG2_E",
    "asked",
    "asked_numbers",
    "channel_places",
    "folded",
    "keep_state",
    "kept",
    "merged",
    "number_places",
    "softplus",
    "spread",
    "spread_numbers",
    "store",
    "tile",
    "unpacked",
]

LOG2_E = tl.constexpr(_LOG2_E)
LN_2 = tl.constexpr(1 / _LOG2_E)


@triton.jit
def _halved(values, lane, bit: tl.constexpr, half: tl.constexpr):
    """Sums over two lanes that differ in a bit: the one where it is 0 takes the first half of them."""
    high = (lane & bit) != 0
    found = ()
    if half == 0:
        found += (values[0] + tl.gather(values[0], lane ^ bit, 0),)
    for place in tl.static_range(half):
        first, second = values[place], values[place + half]
        sent = tl.gather(tl.where(high, first, second), lane ^ bit, 0)
        found += (tl.where(high, second, first) + sent,)
    return found


@triton.jit
def merged(values, lane, count: tl.constexpr, top: tl.constexpr, levels: tl.constexpr):
    """`count` sums over the lanes that differ in `levels` bits from `top` downward.

    At each bit the sums are divided between the lanes; a single one goes on in both.
    """
    for level in tl.static_range(levels):
        values = _halved(values, lane, top >> level, count >> (level + 1))
    return values


@triton.jit
def folded(values, lane, count: tl.constexpr, top: tl.constexpr, levels: tl.constexpr):
    """As `merged`, where the lane's bits have been flipped in the number of each sum.

    The half of the sums that a lane goes on with then is the first in every lane: nothing is to be chosen.
    """
    for level in tl.static_range(levels):
        values = _added(values, lane ^ (top >> level), count >> (level + 1))
    return values


@triton.jit
def _added(values, other, half: tl.constexpr):
    """The first half of one's own sums, or a single one, and what the other lane has of them."""
    found = ()
    if half == 0:
        found += (values[0] + tl.gather(values[0], other, 0),)
    for place in tl.static_range(half):
        found += (values[place] + tl.gather(values[place + half], other, 0),)
    return found


@triton.jit
def softplus(v):
    """log(1 + e^v) and its slope; 0 and 0 at −∞.

    It is max(v, 0) + log(1 + s) with s = e^−|v|. A polynomial gives log(1 + s) / s to 2e-7: the sum 1 + s
    would lose the last digits of a little s.
    """
    small = tl.exp2(-tl.abs(v) * LOG2_E)
    ratio = tl.fma(small, 0.005232691299170256, -0.029505226761102676)
    ratio = tl.fma(ratio, small, 0.07822593301534653)
    ratio = tl.fma(ratio, small, -0.13663244247436523)
    ratio = tl.fma(ratio, small, 0.19106006622314453)
    ratio = tl.fma(ratio, small, -0.2484298199415207)
    ratio = tl.fma(ratio, small, 0.3331909775733948)
    ratio = tl.fma(ratio, small, -0.4999949336051941)
    ratio = tl.fma(ratio, small, 0.9999999403953552)
    return tl.fma(ratio, small, tl.maximum(v, 0.0)), tl.where(v < 0, small, 1.0) / (1 + small)


@triton.jit
def spread(values, sources):
    """A row from the lanes that own it to those that need it, one vector for each source."""
    found = ()
    for place in tl.static_range(len(sources)):
        found += (tl.gather(values, sources[place], 0),)
    return found


@triton.jit
def spread_numbers(chunk, step: tl.constexpr, kind: tl.constexpr, sources, lane_states: tl.constexpr):
    """B (kind 0) or C (kind 1) of a lane's states at one step of a chunk."""
    found = ()
    for place in tl.static_range(lane_states):
        owned = chunk[(2 * place + kind) % len(chunk)][step].to(tl.float32)
        found += (tl.gather(owned, sources[2 * place + kind], 0),)
    return found


@triton.jit
def channel_places(lane, lane_channels: tl.constexpr, state_lanes: tl.constexpr):
    """A lane's own channel, whether no lane before owns it too, and who owns those it has a share of."""
    columns: tl.constexpr = 32 // state_lanes
    alike: tl.constexpr = state_lanes // lane_channels
    row = lane // columns
    sources = ()
    for place in tl.static_range(lane_channels):
        sources += (lane ^ (place * alike * columns),)
    return row // alike * columns + lane % columns, row % alike == 0, sources


@triton.jit
def _number_flips(lane, lane_states: tl.constexpr, columns: tl.constexpr, early_bits: tl.constexpr):
    """The upper bits of a lane's column, at the upper bits of the number of one of its states."""
    return lane % columns // (columns >> early_bits) * (lane_states >> early_bits)


@triton.jit
def number_places(
    lane, state, lane_states: tl.constexpr, state_lanes: tl.constexpr, early_bits: tl.constexpr
):
    """Where a lane's own numbers of B and C stand in a row that has one behind the other.

    Then which of them are inside, whether this lane is the first to own them, and who owns B and C of its
    states, in turn.
    """
    columns: tl.constexpr = 32 // state_lanes
    needed: tl.constexpr = 2 * lane_states
    count: tl.constexpr = needed // columns if needed > columns else 1
    alike: tl.constexpr = columns // needed if needed < columns else 1
    row, column = lane // columns, lane % columns
    flips = _number_flips(lane, lane_states, columns, early_bits)
    own, inside, sources = (), (), ()
    for slot in tl.static_range(count):
        place = column // alike * count + slot
        number = row * lane_states + place // 2
        own += (place % 2 * state + number,)
        inside += (number < state,)
    for i in tl.static_range(lane_states):
        for kind in tl.static_range(2):
            sources += (row * columns + (2 * (i ^ flips) + kind) // count * alike,)
    return own, inside, column % alike == 0, sources


@triton.jit
def tile(
    start,
    first,
    channels,
    state,
    lane,
    lane_states: tl.constexpr,
    lane_channels: tl.constexpr,
    state_lanes: tl.constexpr,
    early_bits: tl.constexpr,
):
    """Pointers into a (channel, state) array for each number of a lane, and which are inside."""
    columns: tl.constexpr = 32 // state_lanes
    alike: tl.constexpr = state_lanes // lane_channels
    flips = _number_flips(lane, lane_states, columns, early_bits)
    pointers, inside = (), ()
    for i in tl.static_range(lane_states):
        for j in tl.static_range(lane_channels):
            number = lane // columns * lane_states + (i ^ flips)
            channel = first + (j ^ (lane // columns // alike)) * columns + lane % columns
            pointers += (start + channel * state + number,)
            inside += ((number < state) & (channel < channels),)
    return pointers, inside


@triton.jit
def asked(
    start, first, length, width, own, inside, other: tl.constexpr, steps: tl.constexpr, whole: tl.constexpr
):
    """A chunk's rows as they are stored; `other` outside.

    Before the beginning stands no chunk that is used, nor behind the end where all is `whole`: any row does.
    """
    found = ()
    for step in tl.static_range(steps):
        now = tl.maximum(first + step, step)
        if whole:
            now = tl.minimum(now, length - steps + step)
            found += (tl.load(start + now * width + own),)
        else:
            place = now * width + own
            found += (tl.load(start + place, mask=inside & (place < length * width), other=other),)
    return found


@triton.jit
def asked_numbers(start, first, length, width, own, inside, steps: tl.constexpr, whole: tl.constexpr):
    """A chunk's B and C as they are stored."""
    found = ()
    for slot in tl.static_range(len(own)):
        found += (asked(start, first, length, width, own[slot], inside[slot], 0.0, steps, whole),)
    return found


@triton.jit
def store(pointers, values, mask, whole: tl.constexpr):
    """Store where the mask allows it, or everywhere."""
    if whole:
        tl.store(pointers, values)
    else:
        tl.store(pointers, values, mask=mask)


@triton.jit
def keep_state(start, h):
    """Store a state, its numbers in pairs."""
    pair = tl.arange(0, 32)[:, None] * 2 + tl.arange(0, 2)[None, :]
    for place in tl.static_range(len(h) // 2):
        both = tl.join(h[2 * place], h[2 * place + 1]).to(start.dtype.element_ty)
        tl.store(start + place * 64 + pair, both)


@triton.jit
def kept(start, size: tl.constexpr):
    """A state as it is stored, a word of 32 bits for each pair of bf16 numbers."""
    found = ()
    if start.dtype.element_ty == tl.int32:
        for place in tl.static_range(size // 2):
            found += (tl.load(start + place * 32 + tl.arange(0, 32)),)
    else:
        for place in tl.static_range(size):
            found += (tl.load(start + place // 2 * 64 + place % 2 + 2 * tl.arange(0, 32)),)
    return found


@triton.jit
def unpacked(stored):
    """A stored state in float32."""
    found = ()
    for place in tl.static_range(len(stored)):
        if stored[place].dtype == tl.int32:
            found += ((stored[place] << 16).to(tl.float32, bitcast=True),)
            found += ((stored[place] & -65536).to(tl.float32, bitcast=True),)
        else:
            found += (stored[place],)
    return found
