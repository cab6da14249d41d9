"""Costs of class scores on a GPU, with their gradient, as operations that a compiler takes as they are.

A program holds all scores of a few rows: their highest, the sum of exponentials and whether another class
comes before the target's are found in registers. The gradient is formed from the scores again and the kept
logarithm of that sum.
"""

# Triton's language has values without Python types.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from typing import Any, Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from separatrix.errors import InvalidInput

__all__ = ["class_costs"]

_AT_ONCE: Final = 4096
"""Scores of a program."""
_WARPS: Final = 4


def class_costs(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Costs in float32, and which are right."""
    if scores.dtype == torch.float64:
        raise InvalidInput(f"backend=triton computes in float32 and in 16 bits; got {scores.dtype}.")
    flat = scores.reshape(-1, scores.shape[-1])
    costs, right, _ = _judged(flat, targets.reshape(-1))
    return costs.view(targets.shape), right.view(targets.shape)


def _in_rows(scores: Tensor) -> Tensor:
    """Rows may stand apart, as those of a wider matrix do; classes stand side by side."""
    return scores if scores.stride(1) == 1 else scores.contiguous()


def _blocks(rows: int, classes: int) -> tuple[int, int, int]:
    """Rows and classes of a program, and how many programs there are."""
    wide = triton.next_power_of_2(classes)
    high = max(1, _AT_ONCE // wide)
    return high, wide, triton.cdiv(rows, high)


@torch.library.custom_op("separatrix::class_costs", mutates_args=())
def _judged(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Costs, which are right, and log Σ exp of each row's scores."""
    scores, targets = _in_rows(scores), targets.contiguous()
    rows, classes = scores.shape
    costs, logs = (scores.new_empty(rows, dtype=torch.float32) for _ in range(2))
    right = scores.new_empty(rows, dtype=torch.bool)
    high, wide, programs = _blocks(rows, classes)
    if rows:
        with torch.cuda.device_of(scores):  # type: ignore[no-untyped-call]
            _forward[programs,](
                scores,
                targets,
                costs,
                right,
                logs,
                rows,
                classes,
                scores.stride(0),
                high=high,
                wide=wide,
                num_warps=_WARPS,
            )
    return costs, right, logs


@_judged.register_fake
def _(scores: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    costs = scores.new_empty(scores.shape[0], dtype=torch.float32)
    return costs, torch.empty_like(costs, dtype=torch.bool), torch.empty_like(costs)


@torch.library.custom_op("separatrix::class_cost_slopes", mutates_args=())
def _slopes(outer: Tensor, scores: Tensor, targets: Tensor, logs: Tensor) -> Tensor:
    """The gradient of the scores, one row behind another: whoever goes on with it would copy it else."""
    outer, scores, targets = outer.contiguous(), _in_rows(scores), targets.contiguous()
    rows, classes = scores.shape
    found = scores.new_empty(scores.shape)
    high, wide, programs = _blocks(rows, classes)
    if rows:
        with torch.cuda.device_of(scores):  # type: ignore[no-untyped-call]
            _backward[programs,](
                outer,
                scores,
                targets,
                logs,
                found,
                rows,
                classes,
                scores.stride(0),
                high=high,
                wide=wide,
                num_warps=_WARPS,
            )
    return found


@_slopes.register_fake
def _(outer: Tensor, scores: Tensor, targets: Tensor, logs: Tensor) -> Tensor:
    return scores.new_empty(scores.shape)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1], output[2])
    ctx.save_for_backward(*inputs, output[2])


def _back(ctx: Any, outer: Tensor | None, *_: None) -> tuple[Tensor | None, None]:
    return None if outer is None else _slopes(outer, *ctx.saved_tensors), None


_judged.register_autograd(_back, setup_context=_save)


@triton.jit
def _rows_of(scores_at, targets_at, rows, classes, apart, high: tl.constexpr, wide: tl.constexpr):
    """A program's rows, where its scores are, which of them there are, the scores and each row's target."""
    row = tl.program_id(0).to(tl.int64) * high + tl.arange(0, high)
    kind = tl.arange(0, wide)
    inside = (row < rows)[:, None] & (kind < classes)[None, :]
    scores = tl.load(scores_at + row[:, None] * apart + kind[None, :], mask=inside, other=-float("inf"))
    target = tl.load(targets_at + row, mask=row < rows, other=0).to(tl.int32)
    return row, kind, inside, scores.to(tl.float32), target


@triton.jit
def _forward(
    scores_at,
    targets_at,
    costs_at,
    right_at,
    logs_at,
    rows,
    classes,
    apart,
    high: tl.constexpr,
    wide: tl.constexpr,
):
    row, kind, inside, scores, target = _rows_of(scores_at, targets_at, rows, classes, apart, high, wide)
    highest = tl.max(scores, axis=1)
    exponentials = tl.where(inside, tl.exp(scores - highest[:, None]), 0.0)
    log = highest + tl.log(tl.sum(exponentials, axis=1))
    own = tl.sum(tl.where(kind[None, :] == target[:, None], scores, 0.0), axis=1)
    own = tl.where((target >= 0) & (target < classes), own, float("nan"))
    cost = log - own
    # Said of what stays behind the target's and not of what is ahead, so that what is no number is ahead.
    behind = (scores < own[:, None]) | ((scores == own[:, None]) & (kind[None, :] >= target[:, None]))
    ahead = tl.max((inside & (behind == 0)).to(tl.int32), axis=1)
    tl.store(costs_at + row, cost, mask=row < rows)
    tl.store(right_at + row, (ahead == 0) & (tl.abs(cost) >= 0), mask=row < rows)
    tl.store(logs_at + row, log, mask=row < rows)


@triton.jit
def _backward(
    outer_at,
    scores_at,
    targets_at,
    logs_at,
    found_at,
    rows,
    classes,
    apart,
    high: tl.constexpr,
    wide: tl.constexpr,
):
    row, kind, inside, scores, target = _rows_of(scores_at, targets_at, rows, classes, apart, high, wide)
    log = tl.load(logs_at + row, mask=row < rows, other=0.0)
    outer = tl.load(outer_at + row, mask=row < rows, other=0.0)
    is_target = (kind[None, :] == target[:, None]).to(tl.float32)
    slope = outer[:, None] * (tl.exp(scores - log[:, None]) - is_target)
    tl.store(found_at + row[:, None] * classes + kind[None, :], slope, mask=inside)
