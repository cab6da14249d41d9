"""Which of a row's numbers are completed to 0 modulo M by others of the row: what match2 and match3 ask.

M is at most 2^30, so no sum leaves an int64. Shapes and the number of steps depend on the shape of the
rows and on M alone.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.tasks.interface import require

__all__ = [
    "LARGEST_MODULUS",
    "even_odds",
    "matches_in_neighbours",
    "matches_in_pairs",
    "matches_in_window",
    "matches_one",
    "require_modulus",
]

LARGEST_MODULUS: Final = 1 << 30
# What one round of counting pair sums may hold, in numbers: 32 MiB of int32, 64 MiB of int64.
_ROOM: Final = 1 << 23
# Rows so short that comparing all with all is quicker than sorting them.
_SHORT: Final = 24


def require_modulus(name: str, given: int, *, least: int) -> None:
    """Refuse a modulus that is neither 0, for automatic, nor usable."""
    require(
        given == 0 or least <= given <= LARGEST_MODULUS,
        f"{name} needs a modulus of {least} to 2^30 here, or 0 for an automatic one; got modulus={given}. "
        f"Try {max(64, least)}.",
    )


def even_odds(completions: int, *, least: int) -> int:
    """The modulus at which a number with so many possible completions has one with probability about ½.

    Among uniform numbers it misses them all with probability about (1 − 1/M)^completions, which is ½ for
    M = completions / ln 2; the next whole number is taken.
    """
    return max(least, math.ceil(completions / math.log(2)))


def matches_one(
    numbers: Int[Tensor, "batch pos"], modulus: int, *, distinct: bool
) -> Bool[Tensor, "batch pos"]:
    """At every i: is there a j with z_i + z_j ≡ 0, j ≠ i if `distinct`?"""
    partners = _occurrences(numbers, -numbers % modulus)
    return partners > (2 * numbers % modulus == 0) if distinct else partners > 0


def matches_in_pairs(
    numbers: Int[Tensor, "batch pos"], modulus: int, *, distinct: bool
) -> Bool[Tensor, "batch pos"]:
    """At every i: are there j, k with z_i + z_j + z_k ≡ 0, all three different if `distinct`?

    The pairs j < k are counted by their sum. With repeats the pairs j = k come on top. Without them a pair
    that holds i itself does not count, and there is one for every k with z_k ≡ −2z_i, other than i.
    """
    wanted = -numbers % modulus
    if not distinct:
        twice = _occurrences(2 * numbers % modulus, wanted)
        return (_pairs(numbers, wanted, modulus, merely_whether=True) > 0) | (twice > 0)
    twice_itself = 3 * numbers % modulus == 0
    with_itself = _occurrences(numbers, -2 * numbers % modulus)
    return _pairs(numbers, wanted, modulus, merely_whether=False) + twice_itself > with_itself


def matches_in_window(
    numbers: Int[Tensor, "batch pos"], modulus: int, *, reach: int, distinct: bool
) -> Bool[Tensor, "batch pos"]:
    """At every i: are there such j, k no more than `reach` places away from i?"""
    count = numbers.shape[1]
    reach = min(reach, count - 1)
    offsets = [offset for offset in range(-reach, reach + 1) if offset or not distinct]
    # Beyond the row's ends stands a number so negative that no sum with it is 0, M or 2M.
    padded = torch.nn.functional.pad(numbers, (reach, reach), value=-8 * modulus)
    neighbours = {offset: padded[:, reach + offset : reach + offset + count] for offset in offsets}
    matched = torch.zeros_like(numbers, dtype=torch.bool)
    for first in offsets:
        partial = numbers + neighbours[first]
        for second in offsets:
            if second > first or (second == first and not distinct):
                total = partial + neighbours[second]
                matched |= (total == 0) | (total == modulus) | (total == 2 * modulus)
    return matched


def matches_in_neighbours(
    numbers: Int[Tensor, "batch pos"], modulus: int, *, distinct: bool
) -> Bool[Tensor, "batch pos"]:
    """At every i: is there a j with z_i + z_j + z_{j+1} ≡ 0, neither j nor j + 1 being i if `distinct`?"""
    sums = (numbers[:, :-1] + numbers[:, 1:]) % modulus
    wanted = -numbers % modulus
    found = _occurrences(sums, wanted)
    with_itself = torch.zeros_like(found)
    if distinct:
        with_itself[:, :-1] += sums == wanted[:, :-1]
        with_itself[:, 1:] += sums == wanted[:, 1:]
    return found > with_itself


def _occurrences(
    numbers: Int[Tensor, "batch pos"], wanted: Int[Tensor, "batch query"]
) -> Int[Tensor, "batch query"]:
    """How often each wanted number stands in its row."""
    if numbers.shape[1] <= _SHORT:
        found = torch.zeros_like(wanted, dtype=torch.uint8)
        for place in range(numbers.shape[1]):
            found += wanted == numbers[:, place : place + 1]
        return found.long()
    ordered = numbers.sort(dim=1).values.contiguous()
    return torch.searchsorted(ordered, wanted, right=True) - torch.searchsorted(ordered, wanted)


def _pairs(
    numbers: Int[Tensor, "batch pos"],
    wanted: Int[Tensor, "batch query"],
    modulus: int,
    *,
    merely_whether: bool,
) -> Int[Tensor, "batch query"]:
    """How many pairs j < k of a row have each wanted sum modulo M, or, if that is enough, 1 for any.

    A table of all residues is quickest while there are not many more of them than pairs; else the sums are
    sorted. Rows are taken a few at a time, to hold memory down.
    """
    count = numbers.shape[1]
    by_table = modulus <= 4 * count * count
    at_once = max(1, _ROOM // (modulus if by_table else count * count))
    parts = []
    for low in range(0, len(numbers), at_once):
        some, sought = numbers[low : low + at_once], wanted[low : low + at_once]
        if by_table:
            table = _pair_table(some, modulus, merely_whether=merely_whether)
            parts.append(table.gather(1, sought))
        else:
            sums = torch.cat([some[:, : count - gap] + some[:, gap:] for gap in range(1, count)], dim=1)
            parts.append(_occurrences(sums % modulus, sought))
    return torch.cat(parts)


def _pair_table(
    numbers: Int[Tensor, "batch pos"], modulus: int, *, merely_whether: bool
) -> Int[Tensor, "batch residue"]:
    kind = torch.uint8 if merely_whether else torch.int32
    table = torch.zeros(len(numbers), modulus, dtype=kind, device=numbers.device)
    ones = torch.ones_like(numbers, dtype=kind)
    count = numbers.shape[1]
    # The pairs whose places differ by `gap` going round: each pair once, but twice at half the way round.
    for gap in range(1, count // 2 + 1):
        pairs = count // 2 if 2 * gap == count else count
        sums = (numbers + numbers.roll(-gap, 1))[:, :pairs]
        sums -= (sums >= modulus) * modulus
        if merely_whether:
            table.scatter_(1, sums, ones[:, :pairs])
        else:
            table.scatter_add_(1, sums, ones[:, :pairs])
    return table
