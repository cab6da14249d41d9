"""The LSTM's recurrence on a GPU: one kernel launch a time step, for all members at once.

Few cells have a kernel for all steps together, in `triton_lstm_whole`; this is for more of them. A step needs
all of h before it, so steps follow one another and each costs a launch. Captured in a CUDA graph that is a
few microseconds, which all members share: a program takes one member, a block of examples and one of hidden
units, multiplies h_{t−1} with the columns of its units' four gates, and ends the step for them. Backwards
likewise, and the weights' gradient is one matrix product behind the last step.

Operands of products are as they come in, bfloat16 or float32; sums, gates and c are float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.kernels import triton_lstm_whole as whole
from separatrix.models.kernels.lstm_scan import join, needs_gradient, weight_gradient
from separatrix.models.kernels.triton_lstm_whole import tanh

__all__ = ["Blocks", "blocks_for", "scan"]

_INTERPRETED: Final[bool] = triton.knobs.runtime.interpret  # decided when the kernels below are made


def scan(
    inward: Float[Tensor, "member batch pos gates"], weight: Float[Tensor, "member width gates"]
) -> Float[Tensor, "member batch pos width"]:
    """h at every position, in the type of `inward`, which is also that of `weight`."""
    if not (inward.is_cuda or _INTERPRETED):
        raise InvalidInput(f"backend=triton computes on a CUDA device; these numbers are on {inward.device}.")
    if inward.dtype not in {torch.float32, torch.bfloat16, torch.float16}:
        raise InvalidInput(f"backend=triton computes in float32 and in 16 bits; got {inward.dtype}.")
    kept = needs_gradient(inward, weight)
    h: Tensor = _forward(inward.contiguous(), weight.contiguous(), kept)[0]
    return h


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """What one program takes: examples, hidden units, and the terms of a product that it loads at a time."""

    rows: int
    units: int
    terms: int
    warps: int
    stages: int


def blocks_for(batch: int, width: int, kind: torch.dtype, *, backward: bool) -> Blocks:
    """Blocks of which seven members of 64 examples and width 256 make 112, about one a multiprocessor.

    They depend on nothing but one member's shape, so that its numbers are the same among any neighbours.
    """
    rows = min(64, max(16, triton.next_power_of_2(batch)))
    wide = triton.next_power_of_2(width)
    most = 64 if kind == torch.float32 else 128
    terms = min(most, max(16, 4 * wide if backward else wide))
    return Blocks(rows=rows, units=16, terms=terms, warps=4, stages=4 if backward else 3)


@triton.jit(do_not_specialize=["t"])  # type: ignore[untyped-decorator]
def _forward_step(  # type: ignore[no-untyped-def]
    inward,
    columns,
    h,
    c,
    gates,
    t,
    batch,
    length,
    width,
    kept: tl.constexpr,
    rows: tl.constexpr,
    units: tl.constexpr,
    terms: tl.constexpr,
    precision: tl.constexpr,
):
    """One step of one member's block of examples and units; `columns` are W's, one after another."""
    unit = tl.program_id(0) * units + tl.arange(0, units)
    row = tl.program_id(1) * rows + tl.arange(0, rows)
    member = tl.program_id(2).to(tl.int64)
    is_row, is_unit = row < batch, unit < width
    inside = is_row[:, None] & is_unit[None, :]
    place = (member * batch + row) * length + t
    own = place[:, None] * width + unit[None, :]
    gate = place[:, None] * (4 * width) + unit[None, :]
    # Without a backward there is one c an example, and each step's takes the place of the last.
    if kept:
        c_now, c_before = own, own - width
    else:
        c_now = (member * batch + row)[:, None] * width + unit[None, :]
        c_before = c_now
    is_later = is_row & (t + tl.zeros_like(row) > 0)

    # Asked for here and used behind the products, so that the way from memory is covered by them.
    enter_in = tl.load(inward + gate, mask=inside, other=0.0)
    forget_in = tl.load(inward + gate + width, mask=inside, other=0.0)
    candidate_in = tl.load(inward + gate + 2 * width, mask=inside, other=0.0)
    leave_in = tl.load(inward + gate + 3 * width, mask=inside, other=0.0)
    before = tl.load(c + c_before, mask=is_later[:, None] & is_unit[None, :], other=0.0)

    enter = tl.zeros((rows, units), dtype=tl.float32)
    forget = tl.zeros((rows, units), dtype=tl.float32)
    candidate = tl.zeros((rows, units), dtype=tl.float32)
    leave = tl.zeros((rows, units), dtype=tl.float32)
    column = (member * 4 * width + unit) * width
    for start in range(0, width, terms):
        term = start + tl.arange(0, terms)
        is_term = term < width
        known = tl.load(
            h + (place - 1)[:, None] * width + term[None, :],
            mask=is_later[:, None] & is_term[None, :],
            other=0.0,
        )
        at = columns + column[:, None] + term[None, :]
        wanted = is_unit[:, None] & is_term[None, :]
        to_enter = tl.load(at, mask=wanted, other=0.0)
        to_forget = tl.load(at + width * width, mask=wanted, other=0.0)
        to_candidate = tl.load(at + 2 * width * width, mask=wanted, other=0.0)
        to_leave = tl.load(at + 3 * width * width, mask=wanted, other=0.0)
        enter = tl.dot(known, tl.trans(to_enter), enter, input_precision=precision)
        forget = tl.dot(known, tl.trans(to_forget), forget, input_precision=precision)
        candidate = tl.dot(known, tl.trans(to_candidate), candidate, input_precision=precision)
        leave = tl.dot(known, tl.trans(to_leave), leave, input_precision=precision)

    enter = tl.sigmoid(enter + enter_in.to(tl.float32))
    forget = tl.sigmoid(forget + forget_in.to(tl.float32))
    candidate = tanh(candidate + candidate_in.to(tl.float32))
    leave = tl.sigmoid(leave + leave_in.to(tl.float32))
    after = forget * before + enter * candidate
    tl.store(c + c_now, after, mask=inside)
    tl.store(h + own, leave * tanh(after), mask=inside)
    if kept:
        tl.store(gates + gate, enter, mask=inside)
        tl.store(gates + gate + width, forget, mask=inside)
        tl.store(gates + gate + 2 * width, candidate, mask=inside)
        tl.store(gates + gate + 3 * width, leave, mask=inside)


@triton.jit(do_not_specialize=["t"])  # type: ignore[untyped-decorator]
def _backward_step(  # type: ignore[no-untyped-def]
    outer,
    weight,
    c,
    gates,
    to_c,
    slopes,
    t,
    batch,
    length,
    width,
    rows: tl.constexpr,
    units: tl.constexpr,
    terms: tl.constexpr,
    precision: tl.constexpr,
):
    """The gradient of one step's gates from that of the step behind it; `to_c` is carried along."""
    unit = tl.program_id(0) * units + tl.arange(0, units)
    row = tl.program_id(1) * rows + tl.arange(0, rows)
    member = tl.program_id(2).to(tl.int64)
    is_row, is_unit = row < batch, unit < width
    inside = is_row[:, None] & is_unit[None, :]
    place = (member * batch + row) * length + t
    own = place[:, None] * width + unit[None, :]
    gate = place[:, None] * (4 * width) + unit[None, :]
    carried = (member * batch + row)[:, None] * width + unit[None, :]
    moment = t + tl.zeros_like(row)
    is_later, is_earlier = is_row & (moment > 0), is_row & (moment + 1 < length)

    from_outside = tl.load(outer + own, mask=inside, other=0.0)
    enter = tl.load(gates + gate, mask=inside, other=0.0).to(tl.float32)
    forget = tl.load(gates + gate + width, mask=inside, other=0.0).to(tl.float32)
    candidate = tl.load(gates + gate + 2 * width, mask=inside, other=0.0).to(tl.float32)
    leave = tl.load(gates + gate + 3 * width, mask=inside, other=0.0).to(tl.float32)
    after = tl.load(c + own, mask=inside, other=0.0)
    before = tl.load(c + own - width, mask=is_later[:, None] & is_unit[None, :], other=0.0)
    from_c = tl.load(to_c + carried, mask=is_earlier[:, None] & is_unit[None, :], other=0.0)

    to_h = tl.zeros((rows, units), dtype=tl.float32)
    for start in range(0, 4 * width, terms):
        term = start + tl.arange(0, terms)
        is_term = term < 4 * width
        slope = tl.load(
            slopes + (place + 1)[:, None] * (4 * width) + term[None, :],
            mask=is_earlier[:, None] & is_term[None, :],
            other=0.0,
        )
        back = tl.load(
            weight + (member * width + unit)[:, None] * (4 * width) + term[None, :],
            mask=is_unit[:, None] & is_term[None, :],
            other=0.0,
        )
        to_h = tl.dot(slope, tl.trans(back), to_h, input_precision=precision)

    to_h += from_outside.to(tl.float32)
    bent = tanh(after)
    here = from_c + to_h * leave * (1 - bent * bent)
    tl.store(to_c + carried, here * forget, mask=inside)
    tl.store(slopes + gate, here * candidate * enter * (1 - enter), mask=inside)
    tl.store(slopes + gate + width, here * before * forget * (1 - forget), mask=inside)
    tl.store(slopes + gate + 2 * width, here * enter * (1 - candidate * candidate), mask=inside)
    tl.store(slopes + gate + 3 * width, to_h * bent * leave * (1 - leave), mask=inside)


@torch.library.custom_op("separatrix::lstm_scan_triton", mutates_args=())
def _forward(inward: Tensor, weight: Tensor, kept: bool) -> tuple[Tensor, Tensor, Tensor]:
    """h, and if `kept` the open gates and the c of every step."""
    members, batch, length, wide = inward.shape
    width = wide // 4
    h = inward.new_empty(members, batch, length, width)
    c = inward.new_empty(members, batch, length if kept else 1, width, dtype=torch.float32)
    gates = torch.empty_like(inward) if kept else inward.new_empty(0)
    if width <= whole.MOST_CELLS:
        whole.forward(inward, weight, h, c, gates, kept=kept)
        return h, gates, c if kept else c.new_empty(0)
    columns = weight.transpose(1, 2).contiguous()
    blocks = blocks_for(batch, width, inward.dtype, backward=False)
    grid = triton.cdiv(width, blocks.units), triton.cdiv(batch, blocks.rows), members
    for t in range(length):
        _forward_step[grid](
            inward,
            columns,
            h,
            c,
            gates,
            t,
            batch,
            length,
            width,
            kept=kept,
            rows=blocks.rows,
            units=blocks.units,
            terms=blocks.terms,
            precision="tf32x3",
            num_warps=blocks.warps,
            num_stages=blocks.stages,
        )
    return h, gates, c if kept else c.new_empty(0)


@_forward.register_fake
def _(inward: Tensor, weight: Tensor, kept: bool) -> tuple[Tensor, Tensor, Tensor]:
    h = inward.new_empty(*inward.shape[:-1], weight.shape[1])
    if kept:
        return h, torch.empty_like(inward), torch.empty_like(h, dtype=torch.float32)
    return h, inward.new_empty(0), inward.new_empty(0, dtype=torch.float32)


@torch.library.custom_op("separatrix::lstm_scan_triton_backward", mutates_args=())
def _backward(outer: Tensor, weight: Tensor, h: Tensor, gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of `inward` and `weight` from that of h."""
    members, batch, length, width = h.shape
    slopes = torch.empty_like(gates)
    if width <= whole.MOST_CELLS:
        whole.backward(outer, weight, c, gates, slopes)
        return slopes, weight_gradient(h, slopes)
    to_c = c.new_empty(members, batch, width)
    blocks = blocks_for(batch, width, h.dtype, backward=True)
    grid = triton.cdiv(width, blocks.units), triton.cdiv(batch, blocks.rows), members
    for t in reversed(range(length)):
        _backward_step[grid](
            outer,
            weight,
            c,
            gates,
            to_c,
            slopes,
            t,
            batch,
            length,
            width,
            rows=blocks.rows,
            units=blocks.units,
            terms=blocks.terms,
            precision="tf32x3",
            num_warps=blocks.warps,
            num_stages=blocks.stages,
        )
    return slopes, weight_gradient(h, slopes)


@_backward.register_fake
def _(outer: Tensor, weight: Tensor, h: Tensor, gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(gates), torch.empty_like(weight)


join(_forward, _backward)
