"""The selective scan's two kernels: a warp walks through time with the states of a few channels in registers.

A warp has all states of a few channels of one example; `triton_lanes` says how its lanes share them. Time
goes in chunks of `steps`, unrolled; the rows of a chunk are asked for one chunk before they are needed. The
forward pass stores the state at the beginning of each chunk; the backward pass takes the chunks from the last
to the first, forms the states of one again and then goes back through it.

With `whole` no channel, state or step of a warp lies outside the arrays, and nothing is masked.
"""

# Triton's language has values without Python types and tuples that grow.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, assignment, var-annotated"

from __future__ import annotations

import triton
import triton.language as tl

from separatrix.models.kernels.triton_lanes import (
    LN_2,
    LOG2_E,
    asked,
    asked_numbers,
    channel_places,
    folded,
    keep_state,
    kept,
    merged,
    number_places,
    softplus,
    spread,
    spread_numbers,
    store,
    tile,
    unpacked,
)

__all__ = ["backward", "forward"]


@triton.jit
def forward(  # noqa: PLR0915
    x_at,
    raw_at,
    bias_at,
    rate_at,
    both_at,
    skip_at,
    y_at,
    borders_at,
    batch,
    length,
    channels,
    state,
    lane_states: tl.constexpr,
    lane_channels: tl.constexpr,
    state_lanes: tl.constexpr,
    state_bits: tl.constexpr,
    early_bits: tl.constexpr,
    steps: tl.constexpr,
    whole: tl.constexpr,
    keep: tl.constexpr,
):
    """y, and with `keep` the state at the beginning of each chunk."""
    columns: tl.constexpr = 32 // state_lanes
    size: tl.constexpr = lane_states * lane_channels
    block: tl.constexpr = columns * lane_channels
    blocks = tl.cdiv(channels, block)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    part = tl.program_id(0) % blocks
    lane = tl.arange(0, 32)
    own, first_owner, channel_sources = channel_places(lane, lane_channels, state_lanes)
    own += part * block
    has = own < channels
    numbers, numbers_inside, _, number_sources = number_places(
        lane, state, lane_states, state_lanes, early_bits
    )
    member = row // batch
    bias = tl.load(bias_at + member * channels + own, mask=has, other=0.0)
    skip = tl.load(skip_at + member * channels + own, mask=has, other=0.0)
    rate_at += member * channels * state
    pointers, inside = tile(
        rate_at, part * block, channels, state, lane, lane_states, lane_channels, state_lanes, early_bits
    )
    rate, h = (), ()
    for place in tl.static_range(size):
        rate += (tl.load(pointers[place], mask=inside[place], other=0.0) * LOG2_E,)
        h += (tl.zeros([32], dtype=tl.float32),)
    x_at += row * length * channels
    raw_at += row * length * channels
    y_at += row * length * channels
    both_at += row * length * 2 * state
    borders_at += (row * tl.cdiv(length, steps) * blocks + part) * size * 32
    xs = asked(x_at, 0, length, channels, own, has, 0.0, steps, whole)
    # Behind the end, and in a channel that is none, the step is 0: the state stays as it is.
    raws = asked(raw_at, 0, length, channels, own, has, float("-inf"), steps, whole)
    boths = asked_numbers(both_at, 0, length, 2 * state, numbers, numbers_inside, steps, whole)
    for first in range(0, length, steps):
        xs_now, raws_now, boths_now = xs, raws, boths
        xs = asked(x_at, first + steps, length, channels, own, has, 0.0, steps, whole)
        raws = asked(raw_at, first + steps, length, channels, own, has, float("-inf"), steps, whole)
        boths = asked_numbers(
            both_at, first + steps, length, 2 * state, numbers, numbers_inside, steps, whole
        )
        if keep:
            keep_state(borders_at + first // steps * blocks * size * 32, h)
        for step in tl.static_range(steps):
            x = xs_now[step].to(tl.float32)
            delta = softplus(raws_now[step].to(tl.float32) + bias)[0]
            deltas = spread(delta, channel_sources)
            inputs = spread(delta * x, channel_sources)
            writes = spread_numbers(boths_now, step, 0, number_sources, lane_states)
            reads = spread_numbers(boths_now, step, 1, number_sources, lane_states)
            after, sums = (), ()
            for i in tl.static_range(lane_states):
                total = ()
                for j in tl.static_range(lane_channels):
                    carried = tl.exp2(deltas[j] * rate[i * lane_channels + j]) * h[i * lane_channels + j]
                    now = tl.fma(inputs[j], writes[i], carried)
                    after += (now,)
                    if i == 0:
                        total += (now * reads[i],)
                    else:
                        total += (tl.fma(now, reads[i], sums[j]),)
                sums = total
            h = after
            y = tl.fma(skip, x, folded(sums, lane, lane_channels, 16, state_bits)[0])
            target = (first + step) * channels + own
            store(y_at + target, y, has & first_owner & (target < length * channels), whole)


@triton.jit
def _formed(h, deltas, inputs, y_slopes, writes, rate):
    """A step's states; its decays, the part of the states that is carried over, and sums for C's gradient."""
    after, decays, carried, sums = (), (), (), ()
    for i in tl.static_range(len(writes)):
        total = tl.zeros([32], dtype=tl.float32)
        for j in tl.static_range(len(deltas)):
            decay = tl.exp2(deltas[j] * rate[i * len(deltas) + j])
            old = decay * h[i * len(deltas) + j]
            now = tl.fma(inputs[j], writes[i], old)
            total = tl.fma(now, y_slopes[j], total)
            after += (now,)
            decays += (decay,)
            carried += (old,)
        sums += (total,)
    return after, decays, carried, sums


@triton.jit
def _gone_back(behind, rate_grad, decays, carried, deltas, inputs, y_slopes, writes, reads, rate):
    """Back through a step: what goes on to the step before it, the gradient of the rates so far, and sums.

    The sums are those for the gradients of δx and of δ, up to the factor ln 2, and of B.
    """
    before, rates, input_sums, exponent_sums, write_sums = (), (), (), (), ()
    for i in tl.static_range(len(writes)):
        total = tl.zeros([32], dtype=tl.float32)
        input_now, exponent_now = (), ()
        for j in tl.static_range(len(deltas)):
            h_grad = tl.fma(y_slopes[j], reads[i], behind[i * len(deltas) + j])
            total = tl.fma(h_grad, inputs[j], total)
            before += (decays[i * len(deltas) + j] * h_grad,)
            exponent_grad = h_grad * carried[i * len(deltas) + j]
            rates += (tl.fma(exponent_grad, deltas[j], rate_grad[i * len(deltas) + j]),)
            if i == 0:
                input_now += (h_grad * writes[i],)
                exponent_now += (exponent_grad * rate[i * len(deltas) + j],)
            else:
                input_now += (tl.fma(h_grad, writes[i], input_sums[j]),)
                exponent_now += (tl.fma(exponent_grad, rate[i * len(deltas) + j], exponent_sums[j]),)
        input_sums, exponent_sums = input_now, exponent_now
        write_sums += (total,)
    return before, rates, input_sums, exponent_sums, write_sums


@triton.jit
def backward(  # noqa: PLR0915
    x_at,
    raw_at,
    bias_at,
    rate_at,
    both_at,
    skip_at,
    borders_at,
    y_grad_at,
    x_grad_at,
    raw_grad_at,
    bias_grad_at,
    rate_grad_at,
    both_grad_at,
    skip_grad_at,
    batch,
    length,
    channels,
    state,
    lane_states: tl.constexpr,
    lane_channels: tl.constexpr,
    state_lanes: tl.constexpr,
    state_bits: tl.constexpr,
    early_bits: tl.constexpr,
    steps: tl.constexpr,
    whole: tl.constexpr,
    early: tl.constexpr,
):
    """The gradients, those of B and C and of the weights in parts."""
    columns: tl.constexpr = 32 // state_lanes
    size: tl.constexpr = lane_states * lane_channels
    block: tl.constexpr = columns * lane_channels
    rest: tl.constexpr = 2 * (lane_states >> early_bits)  # sums over channels that the last bits divide
    blocks = tl.cdiv(channels, block)
    rows = tl.num_programs(0) // blocks
    row = (tl.program_id(0) // blocks).to(tl.int64)
    part = tl.program_id(0) % blocks
    lane = tl.arange(0, 32)
    own, first_owner, channel_sources = channel_places(lane, lane_channels, state_lanes)
    own += part * block
    has = own < channels
    numbers, numbers_inside, first_of_numbers, number_sources = number_places(
        lane, state, lane_states, state_lanes, early_bits
    )
    member = row // batch
    bias = tl.load(bias_at + member * channels + own, mask=has, other=0.0)
    skip = tl.load(skip_at + member * channels + own, mask=has, other=0.0)
    rate_at += member * channels * state
    pointers, inside = tile(
        rate_at, part * block, channels, state, lane, lane_states, lane_channels, state_lanes, early_bits
    )
    # `behind` is decay_{t+1} times the gradient of h_{t+1}.
    rate, rate_grad, behind = (), (), ()
    for place in tl.static_range(size):
        rate += (tl.load(pointers[place], mask=inside[place], other=0.0) * LOG2_E,)
        rate_grad += (tl.zeros([32], dtype=tl.float32),)
        behind += (tl.zeros([32], dtype=tl.float32),)
    bias_grad = tl.zeros([32], dtype=tl.float32)
    skip_grad = tl.zeros([32], dtype=tl.float32)
    x_at += row * length * channels
    raw_at += row * length * channels
    y_grad_at += row * length * channels
    x_grad_at += row * length * channels
    raw_grad_at += row * length * channels
    both_at += row * length * 2 * state
    both_grad_at += (part * rows + row) * length * 2 * state
    chunks = tl.cdiv(length, steps)
    words: tl.constexpr = size * 16 if borders_at.dtype.element_ty == tl.int32 else size * 32
    borders_at += (row * chunks * blocks + part) * words
    last = (chunks - 1) * steps
    xs = asked(x_at, last, length, channels, own, has, 0.0, steps, whole)
    raws = asked(raw_at, last, length, channels, own, has, float("-inf"), steps, whole)
    y_grads = asked(y_grad_at, last, length, channels, own, has, 0.0, steps, whole)
    boths = asked_numbers(both_at, last, length, 2 * state, numbers, numbers_inside, steps, whole)
    border = kept(borders_at + (chunks - 1) * blocks * words, size)
    for turn in range(chunks):
        first = (chunks - 1 - turn) * steps
        xs_now, raws_now, y_grads_now, boths_now = xs, raws, y_grads, boths
        if not early:
            border = kept(borders_at + (chunks - 1 - turn) * blocks * words, size)
        h = unpacked(border)
        xs = asked(x_at, first - steps, length, channels, own, has, 0.0, steps, whole)
        raws = asked(raw_at, first - steps, length, channels, own, has, float("-inf"), steps, whole)
        y_grads = asked(y_grad_at, first - steps, length, channels, own, has, 0.0, steps, whole)
        boths = asked_numbers(
            both_at, first - steps, length, 2 * state, numbers, numbers_inside, steps, whole
        )
        if early:
            before_it = tl.maximum(chunks - 2 - turn, 0)
            border = kept(borders_at + before_it * blocks * words, size)
        formed, rows_of = (), ()
        for step in tl.static_range(steps):
            delta, slope = softplus(raws_now[step].to(tl.float32) + bias)
            x, y_grad = xs_now[step].to(tl.float32), y_grads_now[step].to(tl.float32)
            deltas, inputs = spread(delta, channel_sources), spread(delta * x, channel_sources)
            y_slopes = spread(y_grad, channel_sources)
            writes = spread_numbers(boths_now, step, 0, number_sources, lane_states)
            h, decays, carried, sums = _formed(h, deltas, inputs, y_slopes, writes, rate)
            read_grad = folded(sums, lane, lane_states, columns // 2, early_bits)
            formed += ((decays, carried, read_grad),)
            rows_of += ((x, y_grad, delta, slope, deltas, inputs, y_slopes, writes),)
        for step in tl.static_range(steps - 1, -1, -1):
            x, y_grad, delta, slope, deltas, inputs, y_slopes, writes = rows_of[step]
            decays, carried, read_grad = formed[step]
            reads = spread_numbers(boths_now, step, 1, number_sources, lane_states)
            behind, rate_grad, input_sums, exponent_sums, write_sums = _gone_back(
                behind, rate_grad, decays, carried, deltas, inputs, y_slopes, writes, reads, rate
            )
            write_grad = folded(write_sums, lane, lane_states, columns // 2, early_bits)
            in_turn = ()
            for place in tl.static_range(len(write_grad)):
                in_turn += (write_grad[place], read_grad[place])
            both_grad = merged(in_turn, lane, rest, columns >> (early_bits + 1), 5 - state_bits - early_bits)
            for slot in tl.static_range(len(numbers)):
                spot = (first + step) * 2 * state + numbers[slot]
                mask = numbers_inside[slot] & first_of_numbers & (spot < length * 2 * state)
                store(both_grad_at + spot, both_grad[slot], mask, whole)
            input_grad = folded(input_sums, lane, lane_channels, 16, state_bits)[0]
            delta_grad = LN_2 * folded(exponent_sums, lane, lane_channels, 16, state_bits)[0]
            raw_grad = tl.fma(x, input_grad, delta_grad) * slope
            bias_grad += raw_grad
            skip_grad = tl.fma(x, y_grad, skip_grad)
            target = (first + step) * channels + own
            mask = has & first_owner & (target < length * channels)
            store(x_grad_at + target, tl.fma(delta, input_grad, skip * y_grad), mask, whole)
            store(raw_grad_at + target, raw_grad, mask, whole)
    tl.store(bias_grad_at + row * channels + own, bias_grad, mask=has & first_owner)
    tl.store(skip_grad_at + row * channels + own, skip_grad, mask=has & first_owner)
    rate_grad_at += row * channels * state
    pointers, inside = tile(
        rate_grad_at, part * block, channels, state, lane, lane_states, lane_channels, state_lanes, early_bits
    )
    for place in tl.static_range(size):
        tl.store(pointers[place], rate_grad[place], mask=inside[place])
