"""Decayed linear attention on a GPU, forward and backward, in Triton.

One program serves one head of one row (and one block of the values' coordinates): it walks over chunks of
the input with the state S, keys × values, in registers. Within a chunk y = (q kᵀ ∘ D) v + γ^(i+1) q S, with
D_ij = γ^(i−j) for j ≤ i. Backward, one kernel walks in the same order, forms S anew and gives the gradient of
the queries; another walks from the end with the gradient of S and gives those of keys and values. Where a
head's values need several blocks, the gradients of queries and keys are written for each and added up
afterwards: there are no atomic operations, so that the same numbers come out every time.

The sum of a query's weights is what it would read from a value that is 1 everywhere; it is computed beside
the values, with the running sum of keys in the place of S.

Where a row has a second input, the chunk in which it begins carries nothing over: what is within, from its
start, to its end and across it is masked there, and the walks stay as they are.
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.kernels.decayed_attention import WIDEST_KEY

__all__ = ["Plan", "attention", "plan_for"]

_PRECISION = "tf32x3"
"""How float32 numbers are multiplied: as three products of TF32, which keeps some 21 bits."""
_HALF = 2
_LEAST_BLOCK = 16


class Plan(NamedTuple):
    """Positions of a chunk, blocks of keys' and values' coordinates, warps of a program, stages of loads."""

    chunk: int
    block_k: int
    block_v: int
    warps: int
    stages: int


def plan_for(length: int, key_width: int, value_width: int, element_size: int) -> Plan:
    """What fits into the registers: a state of 8192 numbers at most, chunks of 64 in 16 bits and 32 in 32."""
    block_k = max(_LEAST_BLOCK, triton.next_power_of_2(key_width))
    most = max(_LEAST_BLOCK, (8192 if element_size == _HALF else 4096) // block_k)
    block_v = min(max(_LEAST_BLOCK, triton.next_power_of_2(value_width)), most)
    longest = 64 if element_size == _HALF and block_k < WIDEST_KEY else 32
    chunk = min(longest, max(_LEAST_BLOCK, triton.next_power_of_2(length)))
    warps = 8 if block_k * block_v * element_size > 8192 else 4
    return Plan(chunk=chunk, block_k=block_k, block_v=block_v, warps=warps, stages=1 if block_k > 64 else 2)


def attention(
    query: Float[Tensor, "row pos head key"],
    key: Float[Tensor, "row pos head key"],
    value: Float[Tensor, "row pos head value"],
    log_decay: Float[Tensor, "head"] | None,
    *,
    totals: bool,
    begins: Int[Tensor, "row"] | None = None,
) -> tuple[Float[Tensor, "row pos head value"], Float[Tensor, "row pos head"]]:
    """What each query reads, and the sums of weights where `totals` asks for them."""
    if not (value.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"):
        raise InvalidInput(f"backend=triton computes on a CUDA device; these numbers are on {value.device}.")
    if value.dtype not in {torch.float32, torch.bfloat16, torch.float16}:
        raise InvalidInput(f"backend=triton computes in float32 and in 16 bits; got {value.dtype}.")
    if key.shape[-1] > WIDEST_KEY:
        raise InvalidInput(
            f"backend=triton serves heads of at most {WIDEST_KEY} numbers; got {key.shape[-1]}. "
            "Try more heads."
        )
    if log_decay is not None:
        log_decay = log_decay.detach().to(torch.float32) / math.log(2)
    query, key = query.to(value.dtype), key.to(value.dtype)
    begins = None if begins is None else begins.to(torch.int32)
    read, total = _forward(query, key, value, log_decay, begins, totals)
    return read, total


@triton.jit
def _rows(base, place, stride, column, length, width):  # type: ignore[no-untyped-def]
    """The rows of a chunk, with zeros outside the input."""
    inside = (place[:, None] < length) & (column[None, :] < width)
    return tl.load(base + place[:, None] * stride + column[None, :], mask=inside, other=0.0)


@triton.jit
def _keep_rows(base, place, stride, column, length, width, numbers):  # type: ignore[no-untyped-def]
    inside = (place[:, None] < length) & (column[None, :] < width)
    tl.store(base + place[:, None] * stride + column[None, :], numbers, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _powers(rates, head, place, DECAYED: tl.constexpr, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    """γ^(i+1) from a chunk's start, γ^(C−1−j) to its end, γ^C across, and the logarithm they come from."""
    rate = 0.0
    if DECAYED:
        rate = tl.load(rates + head)
    from_start = tl.exp2(rate * (place + 1))
    to_end = tl.exp2(rate * (CHUNK - 1 - place))
    return from_start, to_end, tl.exp2(rate * CHUNK), rate


@triton.jit  # type: ignore[untyped-decorator]
def _parted(place, start, begin, within, from_start, to_end, whole, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    """The same four where a second input begins within a chunk or behind it; else as they are."""
    second = place >= begin
    crosses = (start < begin) & (begin <= start + CHUNK)
    within = tl.where(second[:, None] == second[None, :], within, 0.0)
    from_start = tl.where(second & crosses, 0.0, from_start)
    to_end = tl.where((second == 0) & crosses, 0.0, to_end)
    return within, from_start, to_end, tl.where(crosses, 0.0, whole)


@triton.jit  # type: ignore[untyped-decorator]
def _forward_kernel(  # type: ignore[no-untyped-def]
    query, key, value, rates, begins, read, total, length, heads,
    query_row, query_pos, query_head, key_row, key_pos, key_head, value_row, value_pos, value_head,
    WIDE_K: tl.constexpr, WIDE_V: tl.constexpr, CHUNK: tl.constexpr,  # noqa: N803
    BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,  # noqa: N803
    DECAYED: tl.constexpr, TOTALS: tl.constexpr, TWO: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row, head, block = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads, tl.program_id(1)
    step, across, along = tl.arange(0, CHUNK), tl.arange(0, BLOCK_K), block * BLOCK_V + tl.arange(0, BLOCK_V)
    query += row * query_row + head * query_head
    key += row * key_row + head * key_head
    value += row * value_row + head * value_head
    read += (row * length * heads + head) * WIDE_V
    total += row * length * heads + head
    from_first, to_last, through, rate = _powers(rates, head, step, DECAYED, CHUNK)
    begin = tl.load(begins + row) if TWO else 0
    inside = tl.where(step[:, None] >= step[None, :], tl.exp2(rate * (step[:, None] - step[None, :])), 0.0)
    state = tl.zeros((BLOCK_K, BLOCK_V), dtype=tl.float32)
    keys = tl.zeros((BLOCK_K,), dtype=tl.float32)
    counted = tl.where(block == 0, length, 0)  # the first block of values answers for the sums of weights
    for start in range(0, length, CHUNK):
        place = start + step
        within, from_start, to_end, whole = inside, from_first, to_last, through
        if TWO:
            within, from_start, to_end, whole = _parted(
                place, start, begin, inside, from_first, to_last, through, CHUNK
            )
        q = _rows(query, place, query_pos, across, length, WIDE_K)
        k = _rows(key, place, key_pos, across, length, WIDE_K)
        v = _rows(value, place, value_pos, along, length, WIDE_V)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * within
        y = tl.dot(q, state.to(q.dtype), input_precision=PRECISION) * from_start[:, None]
        y += tl.dot(scores.to(v.dtype), v, input_precision=PRECISION)
        _keep_rows(read, place, heads * WIDE_V, along, length, WIDE_V, y.to(v.dtype))
        faded = k * to_end[:, None]
        if TOTALS:
            seen = tl.sum(scores, 1) + tl.sum(q * keys[None, :], 1) * from_start
            tl.store(total + place * heads, seen, mask=place < counted)
            keys = keys * whole + tl.sum(faded, 0)
        state = state * whole + tl.dot(tl.trans(faded.to(k.dtype)), v, input_precision=PRECISION)


@triton.jit  # type: ignore[untyped-decorator]
def _query_kernel(  # type: ignore[no-untyped-def]
    key, value, rates, begins, to_read, to_total, to_query, length, heads,
    key_row, key_pos, key_head, value_row, value_pos, value_head, read_row, read_pos, read_head, block_stride,
    WIDE_K: tl.constexpr, WIDE_V: tl.constexpr, CHUNK: tl.constexpr,  # noqa: N803
    BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,  # noqa: N803
    DECAYED: tl.constexpr, TOTALS: tl.constexpr, TWO: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row, head, block = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads, tl.program_id(1)
    step, across, along = tl.arange(0, CHUNK), tl.arange(0, BLOCK_K), block * BLOCK_V + tl.arange(0, BLOCK_V)
    key += row * key_row + head * key_head
    value += row * value_row + head * value_head
    to_read += row * read_row + head * read_head
    to_total += row * length * heads + head
    to_query += block.to(tl.int64) * block_stride + (row * length * heads + head) * WIDE_K
    from_first, to_last, through, rate = _powers(rates, head, step, DECAYED, CHUNK)
    begin = tl.load(begins + row) if TWO else 0
    inside = tl.where(step[:, None] >= step[None, :], tl.exp2(rate * (step[:, None] - step[None, :])), 0.0)
    state = tl.zeros((BLOCK_K, BLOCK_V), dtype=tl.float32)
    keys = tl.zeros((BLOCK_K,), dtype=tl.float32)
    counted = tl.where(block == 0, length, 0)  # the first block of values answers for the sums of weights
    for start in range(0, length, CHUNK):
        place = start + step
        within, from_start, to_end, whole = inside, from_first, to_last, through
        if TWO:
            within, from_start, to_end, whole = _parted(
                place, start, begin, inside, from_first, to_last, through, CHUNK
            )
        k = _rows(key, place, key_pos, across, length, WIDE_K)
        v = _rows(value, place, value_pos, along, length, WIDE_V)
        dy = _rows(to_read, place, read_pos, along, length, WIDE_V)
        weights = tl.dot(dy, tl.trans(v), input_precision=PRECISION)
        faded = k * to_end[:, None]
        dq = tl.dot(dy, tl.trans(state.to(dy.dtype)), input_precision=PRECISION)
        if TOTALS:
            dt = tl.load(to_total + place * heads, mask=place < counted, other=0.0)
            weights += dt[:, None]
            dq += dt[:, None] * keys[None, :]
            keys = keys * whole + tl.sum(faded, 0)
        dq = dq * from_start[:, None] + tl.dot((weights * within).to(k.dtype), k, input_precision=PRECISION)
        _keep_rows(to_query, place, heads * WIDE_K, across, length, WIDE_K, dq.to(to_query.dtype.element_ty))
        state = state * whole + tl.dot(tl.trans(faded.to(k.dtype)), v, input_precision=PRECISION)


@triton.jit  # type: ignore[untyped-decorator]
def _key_value_kernel(  # type: ignore[no-untyped-def]
    query, key, value, rates, begins, to_read, to_total, to_key, to_value, length, heads,
    query_row, query_pos, query_head, key_row, key_pos, key_head, value_row, value_pos, value_head,
    read_row, read_pos, read_head, block_stride,
    WIDE_K: tl.constexpr, WIDE_V: tl.constexpr, CHUNK: tl.constexpr,  # noqa: N803
    BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,  # noqa: N803
    DECAYED: tl.constexpr, TOTALS: tl.constexpr, TWO: tl.constexpr, PRECISION: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row, head, block = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads, tl.program_id(1)
    step, across, along = tl.arange(0, CHUNK), tl.arange(0, BLOCK_K), block * BLOCK_V + tl.arange(0, BLOCK_V)
    query += row * query_row + head * query_head
    key += row * key_row + head * key_head
    value += row * value_row + head * value_head
    to_read += row * read_row + head * read_head
    to_total += row * length * heads + head
    to_key += block.to(tl.int64) * block_stride + (row * length * heads + head) * WIDE_K
    to_value += (row * length * heads + head) * WIDE_V
    from_first, to_last, through, rate = _powers(rates, head, step, DECAYED, CHUNK)
    begin = tl.load(begins + row) if TWO else 0
    # Keys run down and queries across: everything is the transpose of what the other kernels form.
    inside = tl.where(step[:, None] <= step[None, :], tl.exp2(rate * (step[None, :] - step[:, None])), 0.0)
    to_state = tl.zeros((BLOCK_K, BLOCK_V), dtype=tl.float32)
    to_keys = tl.zeros((BLOCK_K,), dtype=tl.float32)
    counted = tl.where(block == 0, length, 0)
    chunks = tl.cdiv(length, CHUNK)
    for done in range(chunks):
        start = (chunks - 1 - done) * CHUNK
        place = start + step
        within, from_start, to_end, whole = inside, from_first, to_last, through
        if TWO:
            within, from_start, to_end, whole = _parted(
                place, start, begin, inside, from_first, to_last, through, CHUNK
            )
        q = _rows(query, place, query_pos, across, length, WIDE_K)
        k = _rows(key, place, key_pos, across, length, WIDE_K)
        v = _rows(value, place, value_pos, along, length, WIDE_V)
        dy = _rows(to_read, place, read_pos, along, length, WIDE_V)
        scores = tl.dot(k, tl.trans(q), input_precision=PRECISION) * within
        dv = tl.dot(k, to_state.to(k.dtype), input_precision=PRECISION) * to_end[:, None]
        dv += tl.dot(scores.to(dy.dtype), dy, input_precision=PRECISION)
        _keep_rows(to_value, place, heads * WIDE_V, along, length, WIDE_V, dv.to(to_value.dtype.element_ty))
        weights = tl.dot(v, tl.trans(dy), input_precision=PRECISION)
        dk = tl.dot(v, tl.trans(to_state.to(v.dtype)), input_precision=PRECISION)
        risen = q * from_start[:, None]
        if TOTALS:
            dt = tl.load(to_total + place * heads, mask=place < counted, other=0.0)
            weights += dt[None, :]
            dk += to_keys[None, :]
            to_keys = to_keys * whole + tl.sum(risen * dt[:, None], 0)
        dk = dk * to_end[:, None] + tl.dot((weights * within).to(q.dtype), q, input_precision=PRECISION)
        _keep_rows(to_key, place, heads * WIDE_K, across, length, WIDE_K, dk.to(to_key.dtype.element_ty))
        to_state = to_state * whole + tl.dot(tl.trans(risen.to(q.dtype)), dy, input_precision=PRECISION)


@torch.library.custom_op("separatrix::decayed_attention", mutates_args=())
def _forward(
    query: Tensor, key: Tensor, value: Tensor, rates: Tensor | None, begins: Tensor | None, totals: bool
) -> tuple[Tensor, Tensor]:
    query, key, value = _dense(query), _dense(key), _dense(value)
    rows, length, heads, wide_v = value.shape
    read = value.new_empty(value.shape)
    total = value.new_empty((rows, length, heads) if totals else (0,), dtype=torch.float32)
    plan = plan_for(length, key.shape[-1], wide_v, value.element_size())
    if read.numel():
        with torch.cuda.device_of(value):  # type: ignore[no-untyped-call]
            _forward_kernel[(rows * heads, triton.cdiv(wide_v, plan.block_v))](
                query, key, value, rates, begins, read, total, length, heads,
                *query.stride()[:3], *key.stride()[:3], *value.stride()[:3],
                WIDE_K=key.shape[-1], WIDE_V=wide_v, CHUNK=plan.chunk, BLOCK_K=plan.block_k,
                BLOCK_V=plan.block_v, DECAYED=rates is not None, TOTALS=totals, TWO=begins is not None,
                PRECISION=_PRECISION, num_warps=plan.warps, num_stages=plan.stages,
            )  # fmt: skip
    return read, total


@_forward.register_fake
def _(
    query: Tensor, key: Tensor, value: Tensor, rates: Tensor | None, begins: Tensor | None, totals: bool
) -> tuple[Tensor, Tensor]:
    shape = value.shape[:3] if totals else (0,)
    return value.new_empty(value.shape), value.new_empty(shape, dtype=torch.float32)


@torch.library.custom_op("separatrix::decayed_attention_backward", mutates_args=())
def _backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rates: Tensor | None,
    begins: Tensor | None,
    to_read: Tensor,
    to_total: Tensor,
    totals: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value, to_read = _dense(query), _dense(key), _dense(value), _dense(to_read)
    to_total = to_total.contiguous()
    rows, length, heads, wide_v = value.shape
    wide_k = key.shape[-1]
    plan = plan_for(length, wide_k, wide_v, value.element_size())
    blocks = triton.cdiv(wide_v, plan.block_v)
    kind = query.dtype if blocks == 1 else torch.float32
    to_query = query.new_empty((blocks, *query.shape), dtype=kind)
    to_key = key.new_empty((blocks, *key.shape), dtype=kind)
    to_value = value.new_empty(value.shape)
    if value.numel():
        with torch.cuda.device_of(value):  # type: ignore[no-untyped-call]
            _query_kernel[(rows * heads, blocks)](
                key, value, rates, begins, to_read, to_total, to_query, length, heads,
                *key.stride()[:3], *value.stride()[:3], *to_read.stride()[:3], to_query.stride(0),
                WIDE_K=wide_k, WIDE_V=wide_v, CHUNK=plan.chunk, BLOCK_K=plan.block_k, BLOCK_V=plan.block_v,
                DECAYED=rates is not None, TOTALS=totals, TWO=begins is not None, PRECISION=_PRECISION,
                num_warps=plan.warps, num_stages=plan.stages,
            )  # fmt: skip
            _key_value_kernel[(rows * heads, blocks)](
                query, key, value, rates, begins, to_read, to_total, to_key, to_value, length, heads,
                *query.stride()[:3], *key.stride()[:3], *value.stride()[:3], *to_read.stride()[:3],
                to_key.stride(0),
                WIDE_K=wide_k, WIDE_V=wide_v, CHUNK=plan.chunk, BLOCK_K=plan.block_k, BLOCK_V=plan.block_v,
                DECAYED=rates is not None, TOTALS=totals, TWO=begins is not None, PRECISION=_PRECISION,
                num_warps=plan.warps, num_stages=plan.stages,
            )  # fmt: skip
    if blocks == 1:
        return to_query.view(query.shape), to_key.view(key.shape), to_value
    return to_query.sum(0).to(query.dtype), to_key.sum(0).to(key.dtype), to_value


@_backward.register_fake
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rates: Tensor | None,
    begins: Tensor | None,
    to_read: Tensor,
    to_total: Tensor,
    totals: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _keep(ctx: torch.autograd.function.FunctionCtx, inputs: tuple[object, ...], output: object) -> None:
    *tensors, totals = inputs
    ctx.save_for_backward(*tensors)  # type: ignore[arg-type]
    ctx.totals = totals  # type: ignore[attr-defined]


def _gradients(
    ctx: torch.autograd.function.FunctionCtx, to_read: Tensor, to_total: Tensor
) -> tuple[object, ...]:
    query, key, value, rates, begins = ctx.saved_tensors  # type: ignore[attr-defined]
    totals = ctx.totals  # type: ignore[attr-defined]
    return *_backward(query, key, value, rates, begins, to_read, to_total, totals), None, None, None


_forward.register_autograd(_gradients, setup_context=_keep)


def _dense(x: Tensor) -> Tensor:
    """The same numbers, those of one head side by side; rows, positions and heads may lie as they will."""
    return x if x.stride(-1) == 1 else x.contiguous()
