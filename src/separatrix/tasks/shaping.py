"""What samplers share: lengths, labels at one place, ragged rows, and redraws with a bound.

Everything here keeps shapes fixed and never asks the device a question while it captures, so the same code
runs eagerly, compiled, and inside a CUDA graph, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks.interface import Labels

__all__ = ["constant", "labels_at", "lay_out", "positions", "redraw", "uniform_between"]


def positions(like: Shaped[Tensor, "batch pos *width"]) -> Int[Tensor, "1 pos"]:
    """Position numbers from zero, ready to broadcast against the rows."""
    return torch.arange(like.shape[1], device=like.device).unsqueeze(0)


@cache
def constant(values: tuple[int, ...], device: torch.device | str) -> Int[Tensor, "values"]:
    """A small table on the device, made once: a copy from the host cannot be captured in a graph."""
    return torch.tensor(values, dtype=torch.int64, device=device)


def uniform_between(
    draws: Draws, site: str, low: int, high: int | Int[Tensor, "batch"]
) -> Int[Tensor, "batch"]:
    """A whole number for each example, uniform from `low` to `high`, both included."""
    bound = high - low + 1
    shape = () if isinstance(bound, int) else (1,)
    return draws.integers(site, shape, bound).view(-1) + low


def labels_at(place: Int[Tensor, "batch"], target: Int[Tensor, "batch"], *, length: int) -> Labels:
    """One label for each example, at its own place."""
    targets = torch.zeros(len(place), length, dtype=target.dtype, device=place.device)
    column = place.unsqueeze(1)
    mask = torch.zeros_like(targets, dtype=torch.bool).scatter_(1, column, True)
    return Labels(targets=targets.scatter_(1, column, target.unsqueeze(1)), mask=mask)


def lay_out(
    rows: Int[Tensor, "batch wide"],
    segments: Sequence[tuple[Sequence[Int[Tensor, "batch round"]], Bool[Tensor, "batch round"]]],
    *,
    begin: int,
    end: int,
) -> tuple[list[Int[Tensor, "batch round"]], Int[Tensor, "batch"]]:
    """Write rounds of different shape one after another into `rows`, all examples in lockstep.

    Every round may hold each segment, a few tokens that stand together, or not. What is present is written
    from column `begin` on and must end before column `end`. The tokens of absent segments go into the columns
    from `end` on, as many as the longest segment has. Returned are the column where each segment begins
    in each round (`end` where it is absent) and the column behind each row's last token.
    """
    offset = torch.zeros_like(segments[0][1], dtype=torch.int64)
    offsets = []
    for tokens, present in segments:
        offsets.append(offset)
        offset = offset.add(present, alpha=len(tokens))
    after_round = offset.cumsum(1).add_(begin)
    before_round = after_round - offset
    places = []
    for (tokens, present), offset in zip(segments, offsets, strict=True):
        place = torch.where(present, before_round + offset, end)
        places.append(place)
        for step, token in enumerate(tokens):
            rows.scatter_(1, place + step, token)
    return places, after_round[:, -1]


def redraw(
    propose: Callable[[int], Shaped[Tensor, "batch *shape"]],
    accept: Callable[[Shaped[Tensor, "batch *shape"]], Bool[Tensor, "batch"]],
    *,
    attempts: int,
) -> tuple[Shaped[Tensor, "batch *shape"], Bool[Tensor, "batch"]]:
    """The first accepted proposal of each example among `attempts`, and whether there was one.

    Proposal number a is the same whether or not others needed it, so stopping early on a CPU and running
    all attempts on a GPU, where asking would stall the device, give the same bytes.
    """
    chosen = propose(0)
    accepted = accept(chosen)
    for attempt in range(1, attempts):
        if not torch.compiler.is_compiling() and not chosen.is_cuda and bool(accepted.all()):
            break
        candidate = propose(attempt)
        fits = accept(candidate) & ~accepted
        chosen = torch.where(fits.view(-1, *[1] * (chosen.dim() - 1)), candidate, chosen)
        accepted = accepted | fits
    return chosen, accepted
