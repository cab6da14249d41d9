"""Rows of each member's table, with a gradient that is the same in every run.

The gradient of a table sums, for each row, what came back from wherever the row was used. Adding one by one
in whatever order they arrive is slow where few rows are used often, as with small vocabularies, and rounds
differently each time. On a GPU it is a matrix product instead: a matrix of zeros and ones, row × use, times
what came back.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["table_rows"]

_MOST_ROWS = 4096
_PARTS = 8
"""Uses are summed in so many parts first, since one long sum a member leaves most of the card idle."""


def table_rows(
    table: Float[Tensor, "member rows width"], index: Int[Tensor, "member *lead"]
) -> Float[Tensor, "member *lead width"]:
    """Each member's own rows of its own table."""
    if table.is_cuda and table.shape[1] <= _MOST_ROWS:
        return _Rows.apply(table, index)  # type: ignore[no-any-return, no-untyped-call]
    return _gathered(table, index)


def _gathered(
    table: Float[Tensor, "member rows width"], index: Int[Tensor, "member *lead"]
) -> Float[Tensor, "member *lead width"]:
    members, rows, width = table.shape
    offset = torch.arange(members, device=index.device).view(-1, *[1] * (index.dim() - 1)) * rows
    return F.embedding(index + offset, table.reshape(members * rows, width))


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.rows, ctx.reduced = table.shape[1], torch.is_autocast_enabled("cuda")
        return _gathered(table, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        (gradient,) = gradients
        members, width = index.shape[0], gradient.shape[-1]
        parts = members * math.gcd(math.prod(index.shape[1:]), _PARTS)
        kind = torch.bfloat16 if ctx.reduced else gradient.dtype
        uses = index.reshape(parts, 1, -1) == torch.arange(ctx.rows, device=index.device).view(1, -1, 1)
        summed = torch.bmm(uses.to(kind), gradient.reshape(parts, -1, width).to(kind))
        whole = summed.to(gradient.dtype).view(members, -1, ctx.rows, width).sum(1)
        return whole, None
