"""Which task a construction is measured on: its own defaults, but for what it asks or what N needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from separatrix.tasks import Task, task
from separatrix.witnesses import Entry

__all__ = ["label", "task_for"]

Parameters = Callable[[int], Mapping[str, Any]]

_SETTINGS: Mapping[tuple[str, str], Parameters] = {
    ("S-T1", "index-lookup"): lambda n: {"alphabet": 64},
    ("UP-RNN", "index-lookup"): lambda n: {"alphabet": 2},
    ("S-T6", "equality"): lambda n: {"form": "one", "alphabet": 64},
    ("S-L5", "equality"): lambda n: {"form": "one", "alphabet": 64},
    ("S-T7", "mqar"): lambda n: {"vocabulary_size": 2 * n},
    ("R-M3", "match3"): lambda n: {"distinct": False},
    ("R-G", "cycle5"): lambda n: {"distinct": False},
}
"""By theorem and task: alphabets that stay the same, keys enough for every N, and no distinct positions
where the unit cannot tell them apart."""

_OF_VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "last-output": {"variant": "last", "distinct": False},
    "local": {"variant": "local"},
    "next characters": {"form": "next"},
}


def task_for(entry: Entry, n: int) -> Task:
    """The task of this size."""
    settings = _SETTINGS.get((entry.theorem, entry.task))
    chosen = {} if settings is None else settings(n)
    return task(entry.task, n=n, **chosen, **_OF_VARIANTS.get(entry.variant, {}))


def label(entry: Entry) -> str:
    """Theorem, task and variant."""
    return f"{entry.theorem} {entry.task}" + (f", {entry.variant}" if entry.variant else "")
