"""The LSTM's recurrence where cells are few: one kernel for all time steps.

Up to 64 cells the recurrent weights fit into the registers of one program, and so do h and c of its examples.
Nothing then has to leave the program between two steps, and no launch stands between them either. What a step
reads from memory is asked for one step before.

Operands of products are as they come in, bfloat16 or float32; sums, gates and c are float32.
"""

# Triton's language has values without Python types and tuples that grow.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, assignment"

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["MOST_CELLS", "backward", "forward", "tanh"]

MOST_CELLS: Final = 64
_ROWS: Final = 16
_WARPS: Final = 8


def forward(inward: Tensor, weight: Tensor, h: Tensor, c: Tensor, gates: Tensor, *, kept: bool) -> None:
    """Fill h, and if `kept` the open gates and c of every step."""
    members, batch, length, width = h.shape
    if not h.numel():
        return
    with torch.cuda.device_of(h):  # type: ignore[no-untyped-call]
        _forward[triton.cdiv(batch, _ROWS), members](
            inward,
            weight,
            h,
            c,
            gates,
            batch,
            length,
            width,
            kept=kept,
            rows=_ROWS,
            wide=max(16, triton.next_power_of_2(width)),
            num_warps=_WARPS,
        )


def backward(outer: Tensor, weight: Tensor, c: Tensor, gates: Tensor, slopes: Tensor) -> None:
    """Fill the gradients of all gates."""
    members, batch, length, width = outer.shape
    if not outer.numel():
        return
    with torch.cuda.device_of(outer):  # type: ignore[no-untyped-call]
        _backward[triton.cdiv(batch, _ROWS), members](
            outer,
            weight,
            c,
            gates,
            slopes,
            batch,
            length,
            width,
            rows=_ROWS,
            wide=max(16, triton.next_power_of_2(width)),
            num_warps=_WARPS,
        )


@triton.jit
def tanh(x):
    """Near 0 by its series, where 1 − e^(−2x) would lose its digits."""
    square = x * x
    near = x * (
        1 - square * (0.33333334 - square * (0.13333334 - square * (0.053968254 - square * 0.021869488)))
    )
    shrunk = tl.exp(-2 * tl.abs(x))
    far = (1 - shrunk) / (1 + shrunk)
    return tl.where(tl.abs(x) < 0.25, near, tl.where(x < 0, -far, far))


@triton.jit
def _places(batch, length, width, rows: tl.constexpr, wide: tl.constexpr):
    """A program's member, where its examples' first numbers are in h and in the gates, and which it has."""
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    unit = tl.arange(0, wide)
    member = tl.program_id(1).to(tl.int64)
    inside = (row < batch)[:, None] & (unit < width)[None, :]
    place = (member * batch + row) * length
    own = place[:, None] * width + unit[None, :]
    return member, own, place[:, None] * (4 * width) + unit[None, :], inside


@triton.jit
def _until(inside, step, length):
    """What is inside, as long as there are steps."""
    return inside & (step + tl.zeros(inside.shape, dtype=tl.int32) < length)


@triton.jit
def _four(at, apart, mask):
    """A number of each gate."""
    found = ()
    for gate in tl.static_range(4):
        found += (tl.load(at + gate * apart, mask=mask, other=0.0),)
    return found


@triton.jit
def _matrices(weight, member, width, wide: tl.constexpr, turned: tl.constexpr):
    """The four gates' recurrent matrices, (cell before, cell), or turned over."""
    first, second = tl.arange(0, wide)[:, None], tl.arange(0, wide)[None, :]
    if turned:
        before, after = second, first
    else:
        before, after = first, second
    at = weight + member * 4 * width * width + before * (4 * width) + after
    return _four(at, width, (before < width) & (after < width))


@triton.jit
def _forward(
    inward,
    weight,
    h,
    c,
    gates,
    batch,
    length,
    width,
    kept: tl.constexpr,
    rows: tl.constexpr,
    wide: tl.constexpr,
):
    """All steps of one member's block of examples."""
    member, own, gate, inside = _places(batch, length, width, rows, wide)
    to = _matrices(weight, member, width, wide, False)
    h_at, c_at, gates_at, inward_at = h + own, c + own, gates + gate, inward + gate
    seen = tl.zeros((rows, wide), dtype=inward.dtype.element_ty)
    memory = tl.zeros((rows, wide), dtype=tl.float32)
    given = _four(inward_at, width, inside)
    for t in range(length):
        now = given
        inward_at += 4 * width
        given = _four(inward_at, width, _until(inside, t + 1, length))
        enter = tl.sigmoid(tl.dot(seen, to[0], now[0].to(tl.float32), input_precision="tf32x3"))
        forget = tl.sigmoid(tl.dot(seen, to[1], now[1].to(tl.float32), input_precision="tf32x3"))
        candidate = tanh(tl.dot(seen, to[2], now[2].to(tl.float32), input_precision="tf32x3"))
        leave = tl.sigmoid(tl.dot(seen, to[3], now[3].to(tl.float32), input_precision="tf32x3"))
        memory = forget * memory + enter * candidate
        seen = (leave * tanh(memory)).to(inward.dtype.element_ty)
        tl.store(h_at, seen, mask=inside)
        h_at += width
        if kept:
            tl.store(c_at, memory, mask=inside)
            tl.store(gates_at, enter, mask=inside)
            tl.store(gates_at + width, forget, mask=inside)
            tl.store(gates_at + 2 * width, candidate, mask=inside)
            tl.store(gates_at + 3 * width, leave, mask=inside)
            c_at += width
            gates_at += 4 * width


@triton.jit
def _backward(
    outer,
    weight,
    c,
    gates,
    slopes,
    batch,
    length,
    width,
    rows: tl.constexpr,
    wide: tl.constexpr,
):
    """The gradients of all gates of one member's block of examples, from the last step to the first."""
    kind: tl.constexpr = slopes.dtype.element_ty
    member, own, gate, inside = _places(batch, length, width, rows, wide)
    back = _matrices(weight, member, width, wide, True)
    own += (length - 1) * width
    gate += (length - 1) * 4 * width
    outer_at, c_at, gates_at, slopes_at = outer + own, c + own, gates + gate, slopes + gate
    to_enter = tl.zeros((rows, wide), dtype=kind)
    to_forget, to_candidate, to_leave = to_enter, to_enter, to_enter
    to_c = tl.zeros((rows, wide), dtype=tl.float32)
    given, opened = tl.load(outer_at, mask=inside, other=0.0), _four(gates_at, width, inside)
    after = tl.load(c_at, mask=inside, other=0.0)
    for step in range(length):
        is_later = _until(inside, step + 1, length)
        c_at -= width
        before = tl.load(c_at, mask=is_later, other=0.0)
        to_h = given.to(tl.float32)
        enter, forget = opened[0].to(tl.float32), opened[1].to(tl.float32)
        candidate, leave = opened[2].to(tl.float32), opened[3].to(tl.float32)
        outer_at -= width
        gates_at -= 4 * width
        given, opened = tl.load(outer_at, mask=is_later, other=0.0), _four(gates_at, width, is_later)
        to_h = tl.dot(to_enter, back[0], to_h, input_precision="tf32x3")
        to_h = tl.dot(to_forget, back[1], to_h, input_precision="tf32x3")
        to_h = tl.dot(to_candidate, back[2], to_h, input_precision="tf32x3")
        to_h = tl.dot(to_leave, back[3], to_h, input_precision="tf32x3")
        bent = tanh(after)
        here = to_c + to_h * leave * (1 - bent * bent)
        to_c = here * forget
        to_enter = (here * candidate * enter * (1 - enter)).to(kind)
        to_forget = (here * before * forget * (1 - forget)).to(kind)
        to_candidate = (here * enter * (1 - candidate * candidate)).to(kind)
        to_leave = (to_h * bent * leave * (1 - leave)).to(kind)
        tl.store(slopes_at, to_enter, mask=inside)
        tl.store(slopes_at + width, to_forget, mask=inside)
        tl.store(slopes_at + 2 * width, to_candidate, mask=inside)
        tl.store(slopes_at + 3 * width, to_leave, mask=inside)
        slopes_at -= 4 * width
        after = before
