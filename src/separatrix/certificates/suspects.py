"""Inputs on which a model that is nearly right is likely to be wrong: worst cases by hand, not random ones.

Random inputs are kind to a head that is a little too blunt: what the rivals contribute averages out. Here
all rivals say the opposite of the target, or the one place that matters is hidden among equal ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from separatrix.tasks import Task
from separatrix.tasks.disjointness import Disjointness
from separatrix.tasks.equality import Equality
from separatrix.tasks.index_lookup import IndexLookup

__all__ = ["suspects"]


def suspects(task: Task, most: int) -> Shaped[Tensor, "batch pos *width"] | None:
    """At most so many of them; None for a task of which nothing is known."""
    make = _MADE.get(type(task))
    return None if make is None or most < 1 else make(task, most)


def _places(count: int, most: int) -> list[int]:
    """Powers of two and their neighbours, the ends, and others evenly spread."""
    likely = [0, count - 1, *((1 << k) + d for k in range(count.bit_length()) for d in (-1, 0, 1))]
    spread = range(0, count, max(1, count // max(1, most)))
    return [place for place in dict.fromkeys([*likely, *spread]) if 0 <= place < count][:most]


def _index_lookup(task: Task, most: int) -> Int[Tensor, "batch pos"]:
    """Every symbol but the named one is the opposite of it."""
    assert isinstance(task, IndexLookup)
    places = torch.tensor(_places(task.n, max(1, most // 2)))
    rows = []
    for target, others in ((0, task.alphabet - 1), (task.alphabet - 1, 0)):
        block = torch.full((len(places), task.length), others)
        block.scatter_(1, places.unsqueeze(1), target)
        block[:, task.n] = task.alphabet + places
        rows.append(block)
    return torch.cat(rows)[:most]


def _equality(task: Task, most: int) -> Int[Tensor, "batch pos"]:
    """Equal strings with one symbol changed; and one pair of equal ones."""
    assert isinstance(task, Equality)
    half, last = task.n // 2, task.symbols - 1
    places = torch.tensor(_places(half, most))
    rows = torch.zeros(len(places) + 1, task.length, dtype=torch.int64)
    rows[:, half] = task.symbols
    if task.form != "ncp":
        rows[torch.arange(len(places)), half + 1 + places] = min(1, last)
    return rows[-most:]


def _disjointness(task: Task, most: int) -> Int[Tensor, "batch pos"]:
    """Complementary sets, as full as can be, with one element in common; and one pair without."""
    assert isinstance(task, Disjointness)
    base = task.sample(1, seed=0).inputs[0]
    ones = [place for place, token in enumerate(base.tolist()) if token == 0]
    rows = []
    for place in ones[:most]:
        row = base.clone()
        row[place] = 1
        rows.append(row)
    return torch.stack(rows) if rows else base.unsqueeze(0)


_MADE: Final[Mapping[type[Task], Callable[[Task, int], Tensor]]] = MappingProxyType(
    {IndexLookup: _index_lookup, Equality: _equality, Disjointness: _disjointness}
)
