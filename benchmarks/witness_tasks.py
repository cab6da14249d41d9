"""Which task a construction is measured on: its own defaults, but for what it asks or what N needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from separatrix.tasks import Task, task
from separatrix.witnesses import Entry

__all__ = ["asked", "example_for", "label", "task_for"]

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

_EXAMPLES: Mapping[tuple[str, str, str], Mapping[str, Any]] = {
    ("S-T1", "index-lookup", ""): {"n": 1024},
    ("S-E", "dyck", ""): {"n": 64},
    ("S-E", "dyck", "sigmoid-type activations"): {"n": 64},
    ("S-E-cited", "dyck", "next characters"): {"n": 64},
    ("S-E-cited", "dyck", ""): {"n": 64},
    ("S-T6", "equality", ""): {"n": 1024},
    ("S-T13", "sparse-threshold", ""): {"n": 256, "k": 3},
    ("S-T13", "disjointness", ""): {"n": 256},
    ("S-L5", "equality", "any balanced partition"): {"n": 64},
    ("S-T7", "nearest-neighbour", ""): {"n": 64},
    ("S-T7", "mqar", ""): {"n": 64, "vocabulary_size": 128},
    ("S-T7", "associative-recall", ""): {"n": 64},
    ("R-qSA", "q-sparse-averaging", ""): {"n": 16, "q": 2},
    ("R-M2", "match2", ""): {"n": 64, "modulus": 128},
    ("R-M3", "match3", ""): {"n": 16, "modulus": 64},
    ("R-M3′", "match3", "last-output"): {"n": 32, "modulus": 64},
    ("R-M3′", "match3", "local"): {"n": 32, "modulus": 64},
    ("R-G", "cycle3", "graph unit of order 3"): {"n": 16},
    ("R-G", "cycle5", "graph unit of order 5"): {"n": 6},
    ("UP-M3", "match3", ""): {"n": 8, "modulus": 16},
    ("UP-RNN", "index-lookup", ""): {"n": 64},
    ("UP-RNN", "associative-recall", ""): {"n": 16},
    ("UP-RNN", "mqar", ""): {"n": 16, "vocabulary_size": 64},
    ("UP-RNN", "equality", ""): {"n": 64},
    ("UP-TF1", "dyck", "linear size"): {"n": 32},
    ("UP-TF1", "equality", "linear size"): {"n": 32},
    ("UP-TF1", "disjointness", "linear size"): {"n": 32},
    ("W-4.1", "turing", ""): {"n": 4},
    ("W-4.6", "index-lookup", ""): {"n": 5, "alphabet": 3},
    ("W-4.6", "associative-recall", ""): {"n": 4, "form": "sequence", "alphabet": 3},
    ("W-4.6", "c-gram", ""): {"n": 5, "alphabet": 3},
    ("W-4.6", "counting", ""): {"n": 5, "alphabet": 3},
    ("W-4.7", "is-tree", ""): {"n": 4},
    ("W-4.7", "is-tree", "every n"): {"n": 4},
    ("W-4.8", "dyck", ""): {"n": 4},
    ("W-5.2", "index-lookup", ""): {"n": 4, "alphabet": 3},
    ("W-5.2", "associative-recall", ""): {"n": 4, "form": "sequence", "alphabet": 3},
    ("W-5.2", "c-gram", ""): {"n": 4, "alphabet": 3},
    ("W-5.2", "counting", ""): {"n": 4, "alphabet": 3},
    ("W-5.3", "is-tree", ""): {"n": 4},
    ("W-5.4", "turing", ""): {"n": 4},
    ("W-5.6", "index-lookup", ""): {"n": 5, "alphabet": 3},
    ("W-5.6", "associative-recall", ""): {"n": 4, "form": "sequence", "alphabet": 3},
    ("W-5.6", "c-gram", ""): {"n": 5, "alphabet": 3},
    ("W-5.6", "counting", ""): {"n": 5, "alphabet": 3},
    ("W-5.7", "is-tree", ""): {"n": 4},
    ("W-5.8", "turing", ""): {"n": 4},
}
"""By theorem, task and variant: sizes at which a witness is certified in about a second."""


def asked(entry: Entry) -> dict[str, Any]:
    """The parameters that a construction asks of its task."""
    return {name: value for name, value in entry.takes.items() if value is not None}


def task_for(entry: Entry, n: int) -> Task:
    """The task of this size."""
    settings = _SETTINGS.get((entry.theorem, entry.task))
    return task(entry.task, **{"n": n, **({} if settings is None else settings(n)), **asked(entry)})


def example_for(entry: Entry) -> Task:
    """The task at which a witness is shown."""
    return task(entry.task, **{**_EXAMPLES[entry.theorem, entry.task, entry.variant], **asked(entry)})


def label(entry: Entry) -> str:
    """Theorem, task and variant."""
    return f"{entry.theorem} {entry.task}" + (f", {entry.variant}" if entry.variant else "")
