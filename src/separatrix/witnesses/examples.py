"""For every witness a task at which it can be shown: small enough to certify in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from separatrix.tasks import TASKS, Task
from separatrix.tasks.interface import make
from separatrix.witnesses.catalogue import Entry

__all__ = ["example_task_of"]

_PARAMETERS: Final[Mapping[tuple[str, str, str], Mapping[str, Any]]] = MappingProxyType(
    {
        ("S-T1", "index-lookup", ""): {"n": 1024},
        ("S-E", "dyck", ""): {"n": 64},
        ("S-E", "dyck", "sigmoid-type activations"): {"n": 64},
        ("S-E-cited", "dyck", "next characters"): {"n": 64, "form": "next"},
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
        ("R-M3′", "match3", "last-output"): {"n": 32, "modulus": 64, "variant": "last"},
        ("R-M3′", "match3", "local"): {"n": 32, "modulus": 64, "variant": "local"},
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
    }
)


def example_task_of(entry: Entry) -> Task:
    """The task."""
    return make(TASKS.get(entry.task), _PARAMETERS[entry.theorem, entry.task, entry.variant])
