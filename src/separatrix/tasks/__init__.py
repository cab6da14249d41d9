"""The problems themselves. Each has a file to itself and says exactly what its paper says.

`task("index-lookup", n=64)` makes one; `TASKS` lists them all.
"""

from __future__ import annotations

from typing import Any

from separatrix.registry import Registry
from separatrix.tasks.interface import (
    Asking,
    Batch,
    ChainTask,
    Classes,
    Labels,
    Partition,
    Reals,
    Task,
    Tokens,
    TokenTask,
    Vectors,
    make,
)

__all__ = [
    "TASKS",
    "Asking",
    "Batch",
    "ChainTask",
    "Classes",
    "Labels",
    "Partition",
    "Reals",
    "Task",
    "TokenTask",
    "Tokens",
    "Vectors",
    "task",
]

TASKS: Registry[type[Task]] = Registry(
    "task",
    package=__name__,
    names=(
        "index-lookup",
        "associative-recall",
        "mqar",
        "nearest-neighbour",
        "dyck",
        "equality",
        "disjointness",
        "sparse-threshold",
        "q-sparse-averaging",
        "match2",
        "match3",
        "cycle3",
        "cycle5",
        "c-gram",
        "counting",
        "is-tree",
        "turing",
        "distractor-qa",
        "phone-book",
    ),
)


def task(name: str, **parameters: Any) -> Task:
    """The task of this name with these parameters; a wrong one is answered with what would work."""
    return make(TASKS.get(name), parameters)
