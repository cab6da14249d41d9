"""Bracket strings in whole batches: depths, levels, which bracket closes which, and walks of bounded depth.

A bracket is a number: 2·type for the opening one, 2·type + 1 for the closing one. So `token & 1` tells
whether it closes, `token >> 1` is its type and `token ^ 1` its mirror image. Nothing here keeps a stack:
the brackets of one level alternate between opening and closing, so running sums over one level at a time
do what a stack would. There are at most eight types. Tokens may be integers of any width; the work is
done in narrow ones, because at these sizes memory is what takes time.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.tasks.shaping import positions

__all__ = [
    "balanced_paths",
    "clamped_walk",
    "depths",
    "in_bounded_dyck",
    "levels",
    "narrow",
    "openers",
    "paired_types",
    "path_counts",
    "tops",
]

# Up to here a pass over the string for each level is cheaper than sorting the brackets by level.
_LEVELS_SCANNED = 8


def narrow(length: int) -> torch.dtype:
    """The integers that hold places, depths, and sums of types below 8, in strings of this length."""
    return torch.int16 if length < 1 << 12 else torch.int32


def depths(tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    """How many more brackets were opened than closed, up to and including each position."""
    return _depths(_closings(tokens)).long()


def levels(tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    """The level of each bracket, 1 outermost: the depth after it if it opens, before it if it closes."""
    closings = _closings(tokens)
    return (_depths(closings) + closings).long()


def openers(tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    """Where the pair of each bracket opens: an opening bracket's own place, a closing bracket's partner's.

    Right for strings whose depth never falls below 0 and ends at 0, whatever the types; for others the
    places mean nothing but are places.
    """
    length = tokens.shape[1]
    here = positions(tokens)
    # In the order of (level, place) every opening bracket is followed by its partner.
    keys = levels(tokens).clamp_(0, length).mul_(length).add_(here)
    ordered = keys.sort(dim=1).values[:, : length // 2 * 2] % length
    return here.expand(len(tokens), length).scatter(1, ordered[:, 1::2], ordered[:, ::2])


def tops(tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    """The type of the innermost bracket that is open after each position; where none is, any number below 8.

    For strings whose depth never falls below 0. In the order of (depth, place) the positions of one depth
    d > 0 begin with one that opens a bracket of level d, and that bracket stays the innermost until the next
    position of this depth that opens another.
    """
    length = tokens.shape[1]
    here = positions(tokens)
    ordered = (depths(tokens) * length + here).sort(dim=1).values % length
    opening = (tokens.gather(1, ordered) & 1) == 0
    last = here.expand_as(ordered).masked_fill(~opening, 0).cummax(dim=1).values
    return torch.empty_like(ordered).scatter_(1, ordered, tokens.gather(1, ordered.gather(1, last)) >> 1)


def path_counts(length: int, depth: int) -> list[list[int]]:
    """counts[i][d]: in how many ways the last length − i steps, up or down, lead from depth d back to 0.

    No step leaves the depths from 0 to `depth`.
    """
    deepest = min(depth, length // 2)
    rows = [[1] + [0] * deepest]
    for _ in range(length):
        after = rows[-1]
        rows.append(
            [(after[d + 1] if d < deepest else 0) + (after[d - 1] if d else 0) for d in range(deepest + 1)]
        )
    return rows[::-1]


def balanced_paths(numbers: Int[Tensor, "batch"], *, length: int, depth: int) -> Int[Tensor, "batch pos"]:
    """The balanced walks with these numbers, as 0 for a step up and 1 for one down; up comes first."""
    counts = path_counts(length, depth)
    rest, here = numbers.clone(), torch.zeros_like(numbers)
    steps = []
    for after in counts[1:]:
        upward = torch.tensor([*after[1:], 0], dtype=torch.int64, device=numbers.device)[here]
        down = rest >= upward
        rest = rest - upward * down
        here = here + 1 - 2 * down.long()
        steps.append(down.long())
    return torch.stack(steps, dim=1)


def paired_types(
    fresh: Int[Tensor, "batch pos"], closings: Int[Tensor, "batch pos"], *, types: int, depth: int
) -> Int[Tensor, "batch pos"]:
    """A type below `types` at each bracket, the same for partners, uniform and independent if `fresh` is.

    `closings` has 1 at closing brackets and 0 at opening ones, its depth between 0 and `depth`. The type of
    a pair is the sum, modulo `types`, of the fresh numbers at the opening brackets of its level so far.
    Such sums are as independent as what is summed, and a closing bracket has the same one as its partner.
    """
    deepest = min(depth, closings.shape[1] // 2)
    if deepest > _LEVELS_SCANNED:
        return fresh.gather(1, openers(closings))
    level = _depths(closings) + closings
    starts = fresh * (1 - closings)
    chosen = torch.zeros_like(starts)
    for number in range(1, deepest + 1):
        at_level = _at_level(level, number)
        chosen += (starts * at_level).cumsum(1, dtype=starts.dtype).mul_(at_level)
    # Division of narrow integers is slow enough to be worth going round.
    return chosen.bitwise_and_(types - 1) if types & (types - 1) == 0 else chosen.remainder_(types)


def in_bounded_dyck(tokens: Int[Tensor, "batch pos"], *, depth: int) -> Bool[Tensor, "batch"]:
    """Whether each string is balanced, type by type, and never deeper than `depth`."""
    closings = _closings(tokens)
    profile = _depths(closings)
    deepest = min(depth, tokens.shape[1] // 2)
    fits = (profile.amin(1) >= 0) & (profile.amax(1) <= deepest) & (profile[:, -1] == 0)
    types = tokens.to(closings.dtype) >> 1
    if deepest > _LEVELS_SCANNED:
        clashes = types.gather(1, openers(tokens)) ^ types
    else:
        # Add the types that open and subtract those that close: at each closing bracket of a level the
        # sum is zero, if partners agree, and the first time that they do not, it is not.
        level = profile + closings
        signed = types.mul_(1 - 2 * closings)
        clashes = torch.zeros_like(signed)
        for number in range(1, deepest + 1):
            at_level = _at_level(level, number)
            balance = (signed * at_level).cumsum(1, dtype=signed.dtype)
            clashes += balance.mul_(at_level).mul_(closings).abs_()
    return fits & (clashes.amax(1) == 0)


def clamped_walk(
    steps: Int[Tensor, "batch step"], low: Int[Tensor, "step"], high: Int[Tensor, "step"]
) -> Int[Tensor, "batch step"]:
    """The walk from zero that is clamped at every step: x_i = min(max(x_{i−1} + s_i, low_i), high_i).

    One clamped step is a map x ↦ clamp(x + a, l, h), and two such maps in a row are one again. So the walk
    is cut into about √n blocks: all blocks compose their maps at once, step by step; then the value at each
    block's entry is carried from block to block; then all blocks walk at once. That is 3√n operations in
    place of n, with the same result. Steps are −1, 0 or 1.
    """
    batch, count = steps.shape
    size = math.isqrt(count - 1) + 1
    blocks = -(-count // size)
    spare = blocks * size - count
    step = F.pad(steps, (0, spare)).view(batch, blocks, size).permute(2, 1, 0).contiguous()
    floor, ceiling = (
        F.pad(bound.to(steps.dtype), (0, spare)).view(blocks, size).t().unsqueeze(2) for bound in (low, high)
    )
    shift = torch.zeros_like(step[0])
    bottom, top = torch.full_like(shift, -2 * count), torch.full_like(shift, 2 * count)
    for place in range(size):
        shift = shift + step[place]
        bottom = _clamp(bottom + step[place], floor[place], ceiling[place])
        top = _clamp(top + step[place], floor[place], ceiling[place])
    value = torch.zeros_like(shift[0])
    entries = []
    for block in range(blocks):
        entries.append(value)
        value = _clamp(value + shift[block], bottom[block], top[block])
    values = torch.stack(entries)
    walked = torch.empty_like(step)
    for place in range(size):
        values = _clamp(values + step[place], floor[place], ceiling[place])
        walked[place] = values
    return walked.permute(2, 1, 0).reshape(batch, -1)[:, :count]


def _closings(tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    return tokens.to(narrow(tokens.shape[1])).bitwise_and(1)


def _depths(closings: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    return (1 - 2 * closings).cumsum(1, dtype=closings.dtype)


def _at_level(level: Int[Tensor, "batch pos"], number: int) -> Int[Tensor, "batch pos"]:
    """1 at the brackets of this level, else 0, as the same kind of integers."""
    return level.clone().eq_(number)


def _clamp(values: Tensor, floor: Tensor, ceiling: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(values, floor), ceiling)
