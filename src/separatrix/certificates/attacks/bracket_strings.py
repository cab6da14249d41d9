"""Bracket strings that put a recogniser to the test: as deep as may be, and one mistake from a member."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks.brackets import openers
from separatrix.tasks.dyck import Dyck

__all__ = ["deep_and_near_miss"]

_TYPINGS: Final = 4


def deep_and_near_miss(task: Dyck, seed: int) -> Iterator[Int[Tensor, "batch pos"]]:
    """Members along extreme walks, all together; then the neighbours of each."""
    members = _members(task, seed)
    yield members
    for member in members:
        yield _neighbours(task, member)


def _members(task: Dyck, seed: int) -> Int[Tensor, "batch pos"]:
    """Walks that stay on top, fall all the way each time, or stay at the bottom, with types of several kinds.

    All of one type, types in turn, and random ones.
    """
    closings = torch.tensor([_walk(task.n, task.depth, shape) for shape in ("plateau", "teeth", "flat")])
    closings = torch.unique(closings, dim=0)
    opened = (closings == 0).cumsum(1) - 1
    draws = Draws(seed=seed, stream="break/brackets", batch=len(closings) * _TYPINGS)
    random = draws.integers("types", (task.n,), task.types).view(len(closings), _TYPINGS, task.n)
    kinds = [torch.full_like(closings, kind) for kind in {0, task.types - 1}]
    kinds += [opened.clamp_min(0) % task.types, *random.unbind(1)]
    partner = openers(closings)
    rows = [2 * kind.gather(1, partner) + closings for kind in kinds]
    found: Int[Tensor, "batch pos"] = torch.unique(torch.cat(rows), dim=0)
    return found


def _walk(length: int, depth: int, shape: str) -> list[int]:
    """0 for a step up, 1 for a step down."""
    top = min(depth, length // 2)
    if shape == "flat":
        return [0, 1] * (length // 2)
    if shape == "plateau":
        return [0] * top + [1, 0] * (length // 2 - top) + [1] * top
    whole, rest = divmod(length // 2, top)
    return ([0] * top + [1] * top) * whole + [0] * rest + [1] * rest


def _neighbours(task: Dyck, member: Int[Tensor, "pos"]) -> Int[Tensor, "batch pos"]:
    """One bracket turned round, one of another type, two neighbours exchanged, or a pair of another type.

    Exchanging a closing and an opening bracket on top makes a string that is one too deep, and at the bottom
    one that closes what is not open. The last ones are members.
    """
    count = len(member)
    each = torch.arange(count)
    rows = member.repeat(count, 1)
    other = (member + 2) % (2 * task.types)
    partner = openers(member.unsqueeze(0)).squeeze(0)
    turned, typed, paired, exchanged = rows.clone(), rows.clone(), rows.clone(), rows.clone()
    turned[each, each] = member ^ 1
    typed[each, each] = other
    paired[each, each], paired[each, partner] = other, other[partner]
    exchanged[each[:-1], each[:-1]], exchanged[each[:-1], each[1:]] = member[1:], member[:-1]
    found: Int[Tensor, "batch pos"] = torch.unique(torch.cat([turned, typed, exchanged, paired]), dim=0)
    return found
