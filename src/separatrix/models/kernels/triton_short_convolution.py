"""The short convolution on a GPU, with its gradients, as operations that a compiler takes as they are.

A program walks through a span of one example's positions with a block of channels, and keeps the last values
of each in registers: u is read once, and nothing is read again but a few rows where spans meet. The rows of a
chunk of `steps` are asked for one chunk before they are needed. The backward pass walks the same way: it
forms the sums z of the forward pass again, and the gradient of z at t completes that of u at t − k + 1. The
gradients of the weights add up in registers; each program writes its own and PyTorch adds them in a fixed
order, so that two runs give the same bytes.
"""

# Triton's language has values without Python types and tuples that grow.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, assignment, var-annotated"

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any, Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from separatrix.models.kernels.short_convolution import Channels, Shift, Window
from separatrix.models.kernels.triton_lanes import LOG2_E

__all__ = ["Cut", "convolved", "cut_for"]

_LANES: Final = 32
_LONGEST_SPAN: Final = 256
_MANY_PLACES: Final = 8  # a longer window fills the registers of a lane that has one channel


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How the work is cut: positions of a program and of a chunk, channels of a lane, warps of a program.

    The backward pass gets `registers` for each lane, or with 0 as many as the compiler likes. The cut may
    depend on everything but the number of members: the order of sums is that of a member alone.
    """

    span: int
    steps: int
    lane_channels: int
    warps: int
    registers: int

    @property
    def block(self) -> int:
        """Channels of a program."""
        return _LANES * self.lane_channels * self.warps


def cut_for(length: int, conv: int) -> Cut:
    """Spans of the same length, and as many channels for a lane as its registers hold."""
    span = -(-length // -(-length // _LONGEST_SPAN)) if length else 1
    if conv > _MANY_PLACES:
        return Cut(span=span, steps=1, lane_channels=1, warps=1, registers=0)
    return Cut(span=span, steps=4, lane_channels=4, warps=1, registers=0)


def convolved(u: Channels, weights: Window, bias: Shift, *, cut: Cut | None = None) -> Channels:
    """y at every position, in the type of u; sums are float32."""
    members, batch, length, channels = u.shape
    cut = cut or cut_for(length, weights.shape[1])
    rows = u.reshape(members * batch, length, channels)
    return _convolve(rows, weights.float(), bias.float(), list(astuple(cut))).view(u.shape)  # type: ignore[no-any-return]


def _in_rows(x: Tensor) -> Tensor:
    """Rows may stand apart, as halves of wider ones do; channels stand side by side."""
    return x if x.stride(2) == 1 else x.contiguous()


def _cut(numbers: list[int]) -> Cut:
    span, steps, lane_channels, warps, registers = numbers
    return Cut(span=span, steps=steps, lane_channels=lane_channels, warps=warps, registers=registers)


@torch.library.custom_op("separatrix::short_convolution", mutates_args=())
def _convolve(u: Tensor, weights: Tensor, bias: Tensor, numbers: list[int]) -> Tensor:
    """y of (row, pos, channel), where a member's rows stand together."""
    u, weights, bias = _in_rows(u), weights.contiguous(), bias.contiguous()
    rows, length, channels = u.shape
    members, conv, _ = weights.shape
    cut = _cut(numbers)
    y = u.new_empty(u.shape)
    if u.numel():
        _forward[rows * triton.cdiv(length, cut.span) * triton.cdiv(channels, cut.block),](
            u,
            weights,
            bias,
            y,
            rows // members,
            length,
            channels,
            u.stride(0),
            u.stride(1),
            cut.span,
            conv=conv,
            steps=cut.steps,
            block=cut.block,
            num_warps=cut.warps,
        )
    return y


@_convolve.register_fake
def _(u: Tensor, weights: Tensor, bias: Tensor, numbers: list[int]) -> Tensor:
    return u.new_empty(u.shape)


@torch.library.custom_op("separatrix::short_convolution_gradients", mutates_args=())
def _gradients(
    y_grad: Tensor, u: Tensor, weights: Tensor, bias: Tensor, numbers: list[int]
) -> tuple[Tensor, Tensor]:
    """The gradients of u and of the weights, the bias behind them as if it were one more."""
    y_grad, u, weights, bias = _in_rows(y_grad), _in_rows(u), weights.contiguous(), bias.contiguous()
    rows, length, channels = u.shape
    members, conv, _ = weights.shape
    cut = _cut(numbers)
    spans = triton.cdiv(length, cut.span)
    u_grad = u.new_empty(u.shape)
    make = weights.new_empty if u.numel() else weights.new_zeros
    parts = make(members, rows // members * spans, conv + 1, channels)
    if u.numel():
        _backward[rows * spans * triton.cdiv(channels, cut.block),](
            y_grad,
            u,
            weights,
            bias,
            u_grad,
            parts,
            rows // members,
            length,
            channels,
            y_grad.stride(0),
            y_grad.stride(1),
            u.stride(0),
            u.stride(1),
            cut.span,
            conv=conv,
            steps=cut.steps,
            block=cut.block,
            num_warps=cut.warps,
            maxnreg=cut.registers or None,
        )
    return u_grad, parts.sum(1)


@_gradients.register_fake
def _(y_grad: Tensor, u: Tensor, weights: Tensor, bias: Tensor, numbers: list[int]) -> tuple[Tensor, Tensor]:
    members, conv, channels = weights.shape
    return u.new_empty(u.shape), weights.new_empty(members, conv + 1, channels)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *saved, ctx.numbers = inputs
    ctx.save_for_backward(*saved)


def _back(ctx: Any, y_grad: Tensor) -> tuple[Tensor | None, ...]:
    u_grad, all_weights = _gradients(y_grad, *ctx.saved_tensors, ctx.numbers)
    return u_grad, all_weights[:, :-1], all_weights[:, -1], None


_convolve.register_autograd(_back, setup_context=_save)


@triton.jit
def _place(length, channels, span, block: tl.constexpr):
    """Which row, position and channels a program begins with, and its number among all spans of all rows."""
    blocks = tl.cdiv(channels, block)
    spans = tl.cdiv(length, span)
    number = (tl.program_id(0) // blocks).to(tl.int64)
    own = tl.program_id(0) % blocks * block + tl.arange(0, block)
    return number // spans, (number % spans * span).to(tl.int32), own, number


@triton.jit
def _weights(weights_at, bias_at, member, channels, own, conv: tl.constexpr):
    """A block's weights, oldest place first, and biases."""
    has = own < channels
    weights = ()
    for place in tl.static_range(conv):
        weights += (tl.load(weights_at + (member * conv + place) * channels + own, mask=has, other=0.0),)
    return weights, tl.load(bias_at + member * channels + own, mask=has, other=0.0)


@triton.jit
def _inside(own, channels, there):
    """A block's channels that are some, at a position that is one."""
    return own < tl.where(there, channels, 0)


@triton.jit
def _before(start, begin, apart, own, channels, conv: tl.constexpr):
    """The window before a program's first position: as many rows as it has places, zeros where none is."""
    found = ()
    for place in tl.static_range(conv):
        mask = _inside(own, channels, begin >= conv - place)
        found += (tl.load(start + (place - conv) * apart + own, mask=mask, other=0.0).to(tl.float32),)
    return found


@triton.jit
def _asked(start, first, end, apart, own, channels, steps: tl.constexpr):
    """A chunk's rows as they are stored; zeros from `end` on."""
    found = ()
    for step in tl.static_range(steps):
        now = first + step
        mask = _inside(own, channels, now < end)
        found += (tl.load(start + now * apart + own, mask=mask, other=0.0),)
    return found


@triton.jit
def _moved(values, newest):
    """The window one position on."""
    found = ()
    for place in tl.static_range(1, len(values)):
        found += (values[place],)
    found += (newest,)
    return found


@triton.jit
def _weighed(weights, window, total):
    for place in tl.static_range(len(weights)):
        total = tl.fma(weights[place], window[place], total)
    return total


@triton.jit
def _sigmoid(z):
    return 1 / (1 + tl.exp2(-z * LOG2_E))


@triton.jit
def _forward(
    u_at,
    weights_at,
    bias_at,
    y_at,
    batch,
    length,
    channels,
    row_apart,
    apart,
    span,
    conv: tl.constexpr,
    steps: tl.constexpr,
    block: tl.constexpr,
):
    """y of a span; positions are counted from its beginning."""
    row, begin, own, _ = _place(length, channels, span, block)
    weights, bias = _weights(weights_at, bias_at, row // batch, channels, own, conv)
    u_at += row * row_apart + begin.to(tl.int64) * apart
    y_at += (row * length + begin) * channels
    end = tl.minimum(span, length - begin)
    window = _before(u_at, begin, apart, own, channels, conv)
    us = _asked(u_at, 0, end, apart, own, channels, steps)
    for first in range(0, end, steps):
        us_now = us
        us = _asked(u_at, first + steps, end, apart, own, channels, steps)
        for step in tl.static_range(steps):
            window = _moved(window, us_now[step].to(tl.float32))
            z = _weighed(weights, window, bias)
            mask = _inside(own, channels, first + step < end)
            tl.store(y_at + (first + step) * channels + own, z * _sigmoid(z), mask=mask)


@triton.jit
def _backward(
    y_grad_at,
    u_at,
    weights_at,
    bias_at,
    u_grad_at,
    parts_at,
    batch,
    length,
    channels,
    y_row_apart,
    y_apart,
    row_apart,
    apart,
    span,
    conv: tl.constexpr,
    steps: tl.constexpr,
    block: tl.constexpr,
):
    """The gradient of u in a span, for which z's is needed a little further; and the weights' part of it."""
    row, begin, own, number = _place(length, channels, span, block)
    weights, bias = _weights(weights_at, bias_at, row // batch, channels, own, conv)
    u_at += row * row_apart + begin.to(tl.int64) * apart
    y_grad_at += row * y_row_apart + begin.to(tl.int64) * y_apart
    u_grad_at += (row * length + begin) * channels
    end = tl.minimum(span, length - begin)
    high = tl.minimum(span + conv - 1, length - begin)
    window = _before(u_at, begin, apart, own, channels, conv)
    z_grads, weight_grads = (), ()
    for _ in tl.static_range(conv):
        z_grads += (tl.zeros([block], dtype=tl.float32),)
        weight_grads += (tl.zeros([block], dtype=tl.float32),)
    bias_grad = tl.zeros([block], dtype=tl.float32)
    us = _asked(u_at, 0, high, apart, own, channels, steps)
    y_grads = _asked(y_grad_at, 0, high, y_apart, own, channels, steps)
    for first in range(0, end + conv - 1, steps):
        us_now, y_grads_now = us, y_grads
        us = _asked(u_at, first + steps, high, apart, own, channels, steps)
        y_grads = _asked(y_grad_at, first + steps, high, y_apart, own, channels, steps)
        for step in tl.static_range(steps):
            window = _moved(window, us_now[step].to(tl.float32))
            z = _weighed(weights, window, bias)
            share = _sigmoid(z)
            z_grad = y_grads_now[step].to(tl.float32) * share * tl.fma(z, 1 - share, 1.0)
            z_grads = _moved(z_grads, z_grad)
            # What stands behind the span is counted by the program that has it.
            counted = tl.where(first + step < end, z_grad, 0.0)
            bias_grad += counted
            u_grad = tl.zeros([block], dtype=tl.float32)
            totals = ()
            for place in tl.static_range(conv):
                totals += (tl.fma(counted, window[place], weight_grads[place]),)
                u_grad = tl.fma(weights[place], z_grads[conv - 1 - place], u_grad)
            weight_grads = totals
            target = first + step - (conv - 1)
            mask = _inside(own, channels, (target >= 0) & (target < end))
            tl.store(u_grad_at + target * channels + own, u_grad, mask=mask)
    parts_at += number * (conv + 1) * channels
    has = own < channels
    for place in tl.static_range(conv):
        tl.store(parts_at + place * channels + own, weight_grads[place], mask=has)
    tl.store(parts_at + conv * channels + own, bias_grad, mask=has)
