"""Reductions from the classic two-party problems to the tasks, one file a task or a pair of them.

`reduction_for(task)` gives the one that its lower bound rests on, `reductions_for(task)` all of them, and
`REDUCTIONS` the kinds by (problem, task, variant).

>>> from separatrix.tasks import task
>>> reduction = reduction_for(task("is-tree", n=16))
>>> reduction.name, reduction.problem.n
('INDEX → is-tree', 14)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from separatrix.communication.reductions.counting import IndexToCounting
from separatrix.communication.reductions.cycle3 import DisjToCycle3
from separatrix.communication.reductions.halves import DisjToDisjointness, EqToEquality
from separatrix.communication.reductions.index_lookup import IndexToLookup
from separatrix.communication.reductions.interface import Reduction
from separatrix.communication.reductions.is_tree import IndexToTree, IndexToTreeByHubs
from separatrix.communication.reductions.match3 import DisjToMatch3
from separatrix.communication.reductions.mqar import DisjToMqar, IndexToMqar
from separatrix.communication.reductions.nearest_neighbour import (
    DisjToNearestNeighbour,
    IndexToNearestNeighbour,
)
from separatrix.communication.reductions.recall import IndexToCGram, IndexToRecall
from separatrix.communication.reductions.sparse_averaging import (
    DisjToSparseAveraging,
    IndexToSparseAveraging,
)
from separatrix.errors import InvalidInput
from separatrix.tasks import Task

__all__ = [
    "REDUCTIONS",
    "DisjToCycle3",
    "DisjToDisjointness",
    "DisjToMatch3",
    "DisjToMqar",
    "DisjToNearestNeighbour",
    "DisjToSparseAveraging",
    "EqToEquality",
    "IndexToCGram",
    "IndexToCounting",
    "IndexToLookup",
    "IndexToMqar",
    "IndexToNearestNeighbour",
    "IndexToRecall",
    "IndexToSparseAveraging",
    "IndexToTree",
    "IndexToTreeByHubs",
    "Reduction",
    "reduction_for",
    "reductions_for",
]

REDUCTIONS: Mapping[tuple[str, str, str], type[Reduction[Any]]] = MappingProxyType(
    {
        (kind.problem_name, kind.task_name, kind.variant): kind
        for kind in (
            IndexToLookup,
            IndexToRecall,
            IndexToCGram,
            IndexToCounting,
            IndexToSparseAveraging,
            IndexToTree,
            IndexToTreeByHubs,
            DisjToMqar,
            IndexToMqar,
            DisjToNearestNeighbour,
            IndexToNearestNeighbour,
            DisjToSparseAveraging,
            DisjToMatch3,
            DisjToCycle3,
            DisjToDisjointness,
            EqToEquality,
        )
    }
)
"""Every kind by (problem, task, variant); the one a paper's proof uses stands first for its task."""


def reductions_for(task: Task, *, problem: str = "") -> tuple[Reduction[Any], ...]:
    """The reductions to this very task that its parameters leave room for, the papers' own first."""
    found: list[Reduction[Any]] = []
    for (problem_name, task_name, _), kind in REDUCTIONS.items():
        if task_name != task.name or problem not in ("", problem_name):
            continue
        try:
            found.append(kind(task=task))
        except InvalidInput:
            continue
    return tuple(found)


def reduction_for(task: Task, *, problem: str = "", variant: str = "") -> Reduction[Any]:
    """The reduction to this task that its lower bound rests on; a refusal says what does not fit."""
    kinds = [
        kind
        for (problem_name, task_name, kind_variant), kind in REDUCTIONS.items()
        if task_name == task.name and problem in ("", problem_name) and kind_variant == variant
    ]
    if not kinds:
        known = ", ".join(
            f"{problem_name} → {task_name}{f' ({kind_variant})' * bool(kind_variant)}"
            for problem_name, task_name, kind_variant in REDUCTIONS
        )
        asked = f"{problem or 'any problem'} → {task.name}{f' ({variant})' * bool(variant)}"
        raise InvalidInput(f"There is no reduction {asked}. Known: {known}.")
    return kinds[0](task=task)
