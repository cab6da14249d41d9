"""The selective scan on a GPU: a warp walks through time with the states of a few channels in its registers.

A warp holds a tile (state, channel) of one example; neighbouring threads hold neighbouring channels. Time
goes in chunks of `steps`, unrolled, with all that a chunk reads asked for at its start. The forward pass
stores the state at the beginning of each chunk; the backward pass takes the chunks from the last to the
first, forms the states of one again and then goes back through it. Gradients of `write` and `read` are sums
over channels and that of `rate` is one over examples and time: each warp writes its part and PyTorch adds the
parts in a fixed order, so that two runs give the same bytes.
"""

# Kernels are in Triton's language, whose values have no Python types and whose tuples grow.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, assignment, var-annotated"

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any, Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from separatrix.models.kernels.selective_scan import LOG2_E, Channels, Rates, States

__all__ = ["Blocks", "blocks_for", "scan"]

_TILE: Final = 512


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """How the work is cut.

    `steps` is the length of a chunk; the forward pass reads `ahead` chunks at once. Then the channels of a
    program, and its warps, in each pass.
    """

    steps: int
    ahead: int
    forward_channels: int
    forward_warps: int
    backward_channels: int
    backward_warps: int


def blocks_for(channels: int, state: int) -> Blocks:
    """A tile of 512 states, 16 for each thread: all that the backward pass keeps then fits the registers."""
    block = min(max(1, _TILE // triton.next_power_of_2(state)), triton.next_power_of_2(channels))
    return Blocks(
        steps=4,
        ahead=2,
        forward_channels=block,
        forward_warps=1,
        backward_channels=block,
        backward_warps=1,
    )


@triton.jit
def _read(start, now, length, column, width):
    """A row of a (length, width) array as float32, zeros outside."""
    place = now * width + column
    return tl.load(start + place, mask=(column < width) & (place < length * width), other=0.0).to(tl.float32)


@triton.jit
def _write(start, now, length, column, width, row):
    place = now * width + column
    tl.store(start + place, row, mask=(column < width) & (place < length * width))


@triton.jit
def _forward(
    x_at,
    delta_at,
    rate_at,
    write_at,
    read_at,
    y_at,
    borders_at,
    batch,
    length,
    channels,
    state,
    states: tl.constexpr,
    block: tl.constexpr,
    steps: tl.constexpr,
    ahead: tl.constexpr,
    keep: tl.constexpr,
):
    blocks = tl.cdiv(channels, block)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    channel = tl.program_id(0) % blocks * block + tl.arange(0, block)
    number = tl.arange(0, states)
    tile = number[:, None] * channels + channel[None, :]
    inside = (number < state)[:, None] & (channel < channels)[None, :]
    rate = tl.load(rate_at + row // batch * state * channels + tile, mask=inside, other=0.0)
    x_at += row * length * channels
    delta_at += row * length * channels
    y_at += row * length * channels
    write_at += row * length * state
    read_at += row * length * state
    borders_at += row * tl.cdiv(length, steps) * state * channels
    h = tl.zeros([states, block], dtype=tl.float32)
    for first in range(0, length, steps * ahead):
        xs, deltas, writes, reads = (), (), (), ()
        for step in tl.static_range(steps * ahead):
            # Behind the end δ is 0: the state stays as it is.
            xs += (_read(x_at, first + step, length, channel, channels),)
            deltas += (_read(delta_at, first + step, length, channel, channels),)
            writes += (_read(write_at, first + step, length, number, state),)
            reads += (_read(read_at, first + step, length, number, state),)
        for step in tl.static_range(steps * ahead):
            if keep and step % steps == 0:
                place = (first + step) // steps * state * channels + tile
                within = inside & (place < tl.cdiv(length, steps) * state * channels)
                tl.store(borders_at + place, h, mask=within)
            decay = tl.exp2(deltas[step][None, :] * rate)
            h = decay * h + (deltas[step] * xs[step])[None, :] * writes[step][:, None]
            y = tl.sum(h * reads[step][:, None], axis=0)
            _write(y_at, first + step, length, channel, channels, y)


@triton.jit
def _backward(
    x_at,
    delta_at,
    rate_at,
    write_at,
    read_at,
    borders_at,
    y_grad_at,
    x_grad_at,
    delta_grad_at,
    rate_grad_at,
    write_grad_at,
    read_grad_at,
    batch,
    length,
    channels,
    state,
    ln_2,
    states: tl.constexpr,
    block: tl.constexpr,
    steps: tl.constexpr,
):
    blocks = tl.cdiv(channels, block)
    rows = tl.num_programs(0) // blocks
    row = (tl.program_id(0) // blocks).to(tl.int64)
    part = tl.program_id(0) % blocks
    channel = part * block + tl.arange(0, block)
    number = tl.arange(0, states)
    tile = number[:, None] * channels + channel[None, :]
    inside = (number < state)[:, None] & (channel < channels)[None, :]
    rate = tl.load(rate_at + row // batch * state * channels + tile, mask=inside, other=0.0)
    x_at += row * length * channels
    delta_at += row * length * channels
    y_grad_at += row * length * channels
    x_grad_at += row * length * channels
    delta_grad_at += row * length * channels
    write_at += row * length * state
    read_at += row * length * state
    write_grad_at += (part * rows + row) * length * state
    read_grad_at += (part * rows + row) * length * state
    chunks = tl.cdiv(length, steps)
    borders_at += row * chunks * state * channels
    behind = tl.zeros([states, block], dtype=tl.float32)  # decay_{t+1} times the gradient of h_{t+1}
    rate_grad = tl.zeros([states, block], dtype=tl.float32)
    for turn in range(chunks):
        chunk = chunks - 1 - turn
        first = chunk * steps
        h = tl.load(borders_at + chunk * state * channels + tile, mask=inside, other=0.0)
        xs, deltas, y_grads, writes, reads = (), (), (), (), ()
        for step in tl.static_range(steps):
            xs += (_read(x_at, first + step, length, channel, channels),)
            deltas += (_read(delta_at, first + step, length, channel, channels),)
            y_grads += (_read(y_grad_at, first + step, length, channel, channels),)
            writes += (_read(write_at, first + step, length, number, state),)
            reads += (_read(read_at, first + step, length, number, state),)
        decays, befores = (), ()
        for step in tl.static_range(steps):
            decay = tl.exp2(deltas[step][None, :] * rate)
            decays += (decay,)
            befores += (h,)
            h = decay * h + (deltas[step] * xs[step])[None, :] * writes[step][:, None]
            read_grad = tl.sum(h * y_grads[step][None, :], axis=1)
            _write(read_grad_at, first + step, length, number, state, read_grad)
        for step in tl.static_range(steps - 1, -1, -1):
            x, delta = xs[step], deltas[step]
            h_grad = behind + y_grads[step][None, :] * reads[step][:, None]
            write_grad = tl.sum(h_grad * (delta * x)[None, :], axis=1)
            _write(write_grad_at, first + step, length, number, state, write_grad)
            input_grad = tl.sum(h_grad * writes[step][:, None], axis=0)
            _write(x_grad_at, first + step, length, channel, channels, delta * input_grad)
            behind = decays[step] * h_grad
            exponent_grad = behind * befores[step]  # up to the factor ln 2
            rate_grad += exponent_grad * delta[None, :]
            delta_grad = x * input_grad + ln_2 * tl.sum(exponent_grad * rate, axis=0)
            _write(delta_grad_at, first + step, length, channel, channels, delta_grad)
    tl.store(rate_grad_at + row * state * channels + tile, ln_2 * rate_grad, mask=inside)


def scan(
    x: Channels, delta: Channels, rate: Rates, write: States, read: States, *, blocks: Blocks | None = None
) -> Channels:
    """y at every position, in the type of x; sums and exponentials are float32."""
    members, batch, length, channels = x.shape
    rows, state = members * batch, rate.shape[-1]
    y, _ = _scan(
        x.reshape(rows, length, channels),
        delta.reshape(rows, length, channels),
        (rate.float() * LOG2_E).transpose(1, 2),
        write.reshape(rows, length, state),
        read.reshape(rows, length, state),
        list(astuple(blocks or blocks_for(channels, state))),
        torch.is_grad_enabled(),
    )
    return y.view(x.shape)  # type: ignore[no-any-return]


@torch.library.custom_op("separatrix::selective_scan", mutates_args=())
def _scan(
    x: Tensor, delta: Tensor, rate: Tensor, write: Tensor, read: Tensor, cut: list[int], keep: bool
) -> tuple[Tensor, Tensor]:
    """y, and the states at the beginning of each chunk where they are to be kept.

    Rates are those of powers of 2, (member, state, channel); so are the states, the channel last.
    """
    x, delta, rate, write, read = (part.contiguous() for part in (x, delta, rate, write, read))
    steps, ahead, block, warps, _, _ = cut
    rows, length, channels = x.shape
    state = rate.shape[1]
    y, borders = _outputs(x, rate, steps, keep)
    if x.numel():
        _forward[rows * triton.cdiv(channels, block),](
            x,
            delta,
            rate,
            write,
            read,
            y,
            borders,
            rows // rate.shape[0],
            length,
            channels,
            state,
            states=triton.next_power_of_2(state),
            block=block,
            steps=steps,
            ahead=ahead,
            keep=keep,
            num_warps=warps,
        )
    return y, borders


def _outputs(x: Tensor, rate: Tensor, steps: int, keep: bool) -> tuple[Tensor, Tensor]:
    rows, length, channels = x.shape
    chunks = -(-length // steps) if keep else 0
    borders = x.new_empty((rows, chunks, rate.shape[1], channels), dtype=torch.float32)
    return x.new_empty(x.shape), borders


@_scan.register_fake
def _(
    x: Tensor, delta: Tensor, rate: Tensor, write: Tensor, read: Tensor, cut: list[int], keep: bool
) -> tuple[Tensor, Tensor]:
    return _outputs(x, rate, cut[0], keep)


@torch.library.custom_op("separatrix::selective_scan_gradients", mutates_args=())
def _gradients(
    y_grad: Tensor,
    borders: Tensor,
    x: Tensor,
    delta: Tensor,
    rate: Tensor,
    write: Tensor,
    read: Tensor,
    cut: list[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of all five."""
    parts = (part.contiguous() for part in (y_grad, x, delta, rate, write, read))
    y_grad, x, delta, rate, write, read = parts
    steps, _, _, _, block, warps = cut
    rows, length, channels = x.shape
    members, state, _ = rate.shape
    blocks = triton.cdiv(channels, block)
    x_grad, delta_grad = torch.empty_like(x), torch.empty_like(delta)
    make = rate.new_empty if x.numel() else rate.new_zeros
    rate_parts = make(members, rows // members, state, channels)
    state_parts = make(2, blocks, rows, length, state)
    if x.numel():
        _backward[rows * blocks,](
            x,
            delta,
            rate,
            write,
            read,
            borders,
            y_grad,
            x_grad,
            delta_grad,
            rate_parts,
            state_parts[0],
            state_parts[1],
            rows // members,
            length,
            channels,
            state,
            1 / LOG2_E,
            states=triton.next_power_of_2(state),
            block=block,
            steps=steps,
            num_warps=warps,
        )
    write_grad, read_grad = state_parts.sum(1)
    return (
        x_grad,
        delta_grad,
        rate_parts.sum(1),
        write_grad.to(write.dtype),
        read_grad.to(read.dtype, copy=True),
    )


@_gradients.register_fake
def _(
    y_grad: Tensor,
    borders: Tensor,
    x: Tensor,
    delta: Tensor,
    rate: Tensor,
    write: Tensor,
    read: Tensor,
    cut: list[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    x_grad, delta_grad, rate_grad, write_grad, read_grad = (
        part.new_empty(part.shape) for part in (x, delta, rate, write, read)
    )
    return x_grad, delta_grad, rate_grad, write_grad, read_grad


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.cut = inputs[5]
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1], *inputs[:5])


def _back(ctx: Any, y_grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if y_grad is None:
        return (None,) * 7
    return *_gradients(y_grad, *ctx.saved_tensors, ctx.cut), None, None


_scan.register_autograd(_back, setup_context=_save)
