"""Vertices of a hypercube by the number of coordinates in which they differ from a given one."""

from __future__ import annotations

import math
from functools import cache

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.tasks.domains import digits

__all__ = ["beyond", "by_distance", "chances", "sum_of_marked_lists"]


def beyond(dimension: int, distance: int) -> int:
    """How many vertices differ in this many coordinates or more."""
    return sum(math.comb(dimension, far) for far in range(distance, dimension + 1))


def by_distance(dimension: int, device: torch.device) -> Bool[Tensor, "vertex dim"]:
    """In which coordinates each vertex differs, nearest first."""
    vertices = digits(torch.arange(1 << dimension, device=device), [2] * dimension)
    return vertices[vertices.sum(1).argsort(stable=True)].bool()


@cache
def chances(dimension: int, device: str) -> Int[Tensor, "left missing"]:
    """2^32 times the chance that the first of `left` fair coins is heads, if at least `missing` are.

    Where all that are left must be heads it is exactly 2^32. Entries with more missing than left are never
    read.
    """
    table = torch.full((dimension + 1, dimension + 1), 1 << 32, dtype=torch.int64)
    # at_least[r]: how many of the strings of `left` coins have r heads or more.
    at_least = [1]
    for left in range(1, dimension + 1):
        shorter = [*at_least, 0]
        at_least = [1 << left, *(shorter[r - 1] + shorter[r] for r in range(1, left + 1))]
        table[left, 0] = 1 << 31
        for missing in range(1, left + 1):
            table[left, missing] = (shorter[missing - 1] << 32) // at_least[missing]
    return table.to(device)


def sum_of_marked_lists(choices: int, longest: int) -> int:
    """Lists of 1 to `longest` entries, one of them marked and the others chosen: Σ m·choices^(m−1)."""
    if choices == 1:
        return longest * (longest + 1) // 2
    power: int = choices**longest
    return ((longest * choices - longest - 1) * power + 1) // (choices - 1) ** 2
