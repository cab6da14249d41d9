"""Numbering finite sets, so that every input of a small domain can be listed without being stored."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

__all__ = ["arrangement", "arrangements", "digits", "permutation", "split_union", "subset"]


def digits(numbers: Int[Tensor, "batch"], radices: Sequence[int]) -> Int[Tensor, "batch place"]:
    """Mixed-radix digits, the first place most significant: the product of ranges, each element once."""
    places = []
    for radix in reversed(radices):
        places.append(numbers % radix)
        numbers = numbers // radix
    return torch.stack(places[::-1], dim=1) if places else numbers.new_zeros(len(numbers), 0)


def split_union(
    numbers: Int[Tensor, "batch"], sizes: Sequence[int]
) -> tuple[Int[Tensor, "batch"], Int[Tensor, "batch"]]:
    """Which part of a disjoint union a number falls in, and its number within that part."""
    ends = torch.tensor(sizes, dtype=torch.int64, device=numbers.device).cumsum(0)
    part = torch.searchsorted(ends, numbers, right=True)
    return part, numbers - (ends - torch.tensor(sizes, device=numbers.device))[part]


def arrangements(count: int, bound: int) -> int:
    """How many ordered lists of `count` different values below `bound` there are."""
    return math.perm(bound, count)


def arrangement(numbers: Int[Tensor, "batch"], count: int, bound: int) -> Int[Tensor, "batch count"]:
    """The ordered list of `count` different values below `bound` that each number stands for."""
    ranks = digits(numbers, [bound - place for place in range(count)])
    chosen = ranks.new_zeros(len(ranks), 0)
    for place in range(count):
        value = ranks[:, place]
        # The value of rank r among the unchosen: step over each chosen one that does not exceed it.
        for earlier in chosen.sort(dim=1).values.unbind(1):
            value = value + (earlier <= value)
        chosen = torch.cat([chosen, value.unsqueeze(1)], dim=1)
    return chosen


def permutation(numbers: Int[Tensor, "batch"], size: int) -> Int[Tensor, "batch size"]:
    """The permutation of 0 … size − 1 that each number below size! stands for."""
    return arrangement(numbers, size, size)


def subset(numbers: Int[Tensor, "batch"], count: int, bound: int) -> Int[Tensor, "batch count"]:
    """The increasing list of `count` values below `bound` that each number stands for."""
    chosen = []
    remaining, top = numbers, torch.full_like(numbers, bound)
    for place in range(count, 0, -1):
        # The largest v with C(v, place) ≤ remaining, in the combinatorial number system.
        table = torch.tensor([math.comb(value, place) for value in range(bound)], device=numbers.device)
        value = torch.minimum(torch.searchsorted(table, remaining, right=True) - 1, top - 1)
        chosen.append(value)
        remaining, top = remaining - table[value], value
    return torch.stack(chosen[::-1], dim=1) if chosen else numbers.new_zeros(len(numbers), 0)
