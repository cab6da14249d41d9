"""The gradient of a table's rows on a GPU, as an operation that a compiler takes as it is.

A program takes a block of rows and one of columns, walks through a part of the uses, and forms the matrix of
zeros and ones that says which use is of which row where it multiplies with it: in its registers. What came
back is read once for each block of rows, and the parts are added in a fixed order, so that two runs give the
same bytes.
"""

# Triton's language has values without Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["summed_uses"]

_MOST_ROWS: Final = 128
_MOST_COLUMNS: Final = 64
_AT_ONCE: Final = 64
_PROGRAMS: Final = 64
"""So many of a member, or as near as parts of the uses make it: a few members fill a card."""
_MOST_PARTS: Final = 32


@torch.library.custom_op("separatrix::summed_uses", mutates_args=())
def summed_uses(gradient: Tensor, index: Tensor, rows: int, low: bool) -> Tensor:
    """Of (member, use, width) and (member, use), the sums over each row's uses; `low` rounds to bfloat16."""
    gradient, index = gradient.contiguous(), index.contiguous()
    members, uses, width = gradient.shape
    if not rows * width:
        return gradient.new_zeros(members, rows, width)
    row_block = min(_MOST_ROWS, max(16, triton.next_power_of_2(rows)))
    column_block = min(_MOST_COLUMNS, max(16, triton.next_power_of_2(width)))
    column_blocks = triton.cdiv(width, column_block)
    blocks = triton.cdiv(rows, row_block) * column_blocks
    # By one member's shape alone, so that the order of its sums is the same among any neighbours.
    parts = max(1, min(_MOST_PARTS, _PROGRAMS // blocks, triton.cdiv(uses, 2 * _AT_ONCE)))
    found = gradient.new_empty(members, parts, rows, width)
    if found.numel():
        with torch.cuda.device_of(gradient):  # type: ignore[no-untyped-call]
            _sums[parts, blocks, members](
                gradient,
                index,
                found,
                uses,
                rows,
                width,
                triton.cdiv(uses, parts),
                column_blocks,
                low=low,
                row_block=row_block,
                column_block=column_block,
                at_once=_AT_ONCE,
                num_warps=4,
            )
    return found.sum(1)


@summed_uses.register_fake
def _(gradient: Tensor, index: Tensor, rows: int, low: bool) -> Tensor:
    members, _, width = gradient.shape
    return gradient.new_empty(members, rows, width)


@triton.jit
def _sums(
    gradient_at,
    index_at,
    found_at,
    uses,
    rows,
    width,
    part_uses,
    column_blocks,
    low: tl.constexpr,
    row_block: tl.constexpr,
    column_block: tl.constexpr,
    at_once: tl.constexpr,
):
    """A block of rows and columns of one member, over one part of the uses."""
    part = tl.program_id(0)
    row = tl.program_id(1) // column_blocks * row_block + tl.arange(0, row_block)
    column = tl.program_id(1) % column_blocks * column_block + tl.arange(0, column_block)
    member = tl.program_id(2).to(tl.int64)
    index_at += member * uses
    gradient_at += member * uses * width
    end = tl.minimum(uses, (part + 1) * part_uses)
    total = tl.zeros((row_block, column_block), dtype=tl.float32)
    for start in range(part * part_uses, end, at_once):
        use = start + tl.arange(0, at_once)
        name = tl.load(index_at + use, mask=use < end, other=-1).to(tl.int32)
        came = tl.load(
            gradient_at + use.to(tl.int64)[:, None] * width + column[None, :],
            mask=(use < end)[:, None] & (column < width)[None, :],
            other=0.0,
        )
        if low:
            came = came.to(tl.bfloat16)
        is_use = (row[:, None] == name[None, :]).to(came.dtype)
        total = tl.dot(is_use, came, total, input_precision="ieee")
    found_at += (member * tl.num_programs(0) + part) * rows * width
    tl.store(
        found_at + row[:, None] * width + column[None, :],
        total,
        mask=(row < rows)[:, None] & (column < width)[None, :],
    )
