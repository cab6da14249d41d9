"""Rows of each member's table, with a gradient that is the same in every run.

The gradient of a table sums, for each row, what came back from wherever the row was used. Adding one by one
in whatever order they arrive is slow where few rows are used often, as with small vocabularies, and rounds
differently each time. On a GPU it is a matrix product instead: a matrix of zeros and ones, row × use, times
what came back. Triton forms the first where it is used; in float64 it is written out.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.kernels.choice import Backend, chosen

__all__ = ["OFFERS", "table_rows"]

OFFERS: tuple[Backend, ...] = ("reference", "parallel", "triton")

_MOST_ROWS = 4096
_PARTS = 8
"""Uses are summed in so many parts first, since one long sum a member leaves most of the card idle."""


def table_rows(
    table: Float[Tensor, "member rows width"],
    index: Int[Tensor, "member *lead"],
    *,
    backend: Backend = "auto",
) -> Float[Tensor, "member *lead width"]:
    """Each member's own rows of its own table; `auto` on a CPU is `reference`, which adds one by one."""
    if backend == "auto":
        few = table.is_cuda and table.shape[1] <= _MOST_ROWS
        backend = chosen(backend, table, offers=OFFERS) if few else "reference"
    if chosen(backend, table, offers=OFFERS) == "reference":
        return _gathered(table, index)
    if backend == "triton" and table.dtype == torch.float64:
        raise InvalidInput(f"backend=triton computes in float32 and in 16 bits; got {table.dtype}.")
    return _Rows.apply(table, index, backend == "triton")  # type: ignore[no-any-return, no-untyped-call]


def _gathered(
    table: Float[Tensor, "member rows width"], index: Int[Tensor, "member *lead"]
) -> Float[Tensor, "member *lead width"]:
    members, rows, width = table.shape
    offset = torch.arange(members, device=index.device).view(-1, *[1] * (index.dim() - 1)) * rows
    return F.embedding(index + offset, table.reshape(members * rows, width))


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, by_triton: bool) -> Tensor:
        ctx.save_for_backward(index)
        ctx.rows, ctx.low = table.shape[1], torch.is_autocast_enabled(table.device.type)
        ctx.by_triton = by_triton
        return _gathered(table, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (index,) = ctx.saved_tensors
        (gradient,) = gradients
        members, width = index.shape[0], gradient.shape[-1]
        if ctx.by_triton:
            from separatrix.models.kernels.triton_table_rows import summed_uses  # noqa: PLC0415

            uses, came = index.reshape(members, -1), gradient.reshape(members, -1, width)
            return summed_uses(came, uses, ctx.rows, ctx.low), None, None
        return _product(gradient, index, ctx.rows, low=ctx.low), None, None


def _product(
    gradient: Float[Tensor, "member *lead width"], index: Int[Tensor, "member *lead"], rows: int, *, low: bool
) -> Float[Tensor, "member rows width"]:
    """The sums over each row's uses as one product, its first factor written out."""
    members, width = index.shape[0], gradient.shape[-1]
    parts = members * math.gcd(math.prod(index.shape[1:]), _PARTS)
    kind = torch.bfloat16 if low else gradient.dtype
    uses = index.reshape(parts, 1, -1) == torch.arange(rows, device=index.device).view(1, -1, 1)
    summed = torch.bmm(uses.to(kind), gradient.reshape(parts, -1, width).to(kind))
    return summed.to(gradient.dtype).view(members, -1, rows, width).sum(1)
