"""The rows and columns of the grand table: tasks with their parameters, families with what is counted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from separatrix.atlas.grand_table_suffices import PARAMETERS, SIZE, STATE
from separatrix.communication.bounds.counts import levels, points_apart
from separatrix.communication.bounds.interface import number, text, whole
from separatrix.evidence import TaskSpec
from separatrix.tasks import TASKS
from separatrix.tasks.specs import defaults_of
from separatrix.theorems import FAMILIES

__all__ = ["COLUMNS", "FIRST_LAYER", "Column", "Domain", "domain_of", "names_of", "spec_at"]

FIRST_LAYER: Final = "first-layer width × p"
_OWN: Final[Mapping[str, Mapping[str, Any]]] = {"mqar": {"vocabulary_size": 1 << 17}}
"""Parameters that say more than the defaults: so many words are keys up to a length worth showing."""
_EVEN: Final = ("dyck", "equality", "disjointness", "mqar")


@final
@dataclass(frozen=True, kw_only=True)
class Column:
    """A family, the group it stands in, and the bits that are counted of its models."""

    family: str
    group: str
    quantity: str


_GROUPS: Final = (
    (
        "Transformers",
        SIZE,
        ("transformer-1", "transformer-2", "transformer-3", "transformer", "transformer-cot"),
    ),
    ("wider attention", SIZE, ("graph-transformer", "third-order")),
    ("network", FIRST_LAYER, ("fnn",)),
    ("recurrent models", STATE, ("rnn", "linear-rnn", "linear-rnn-cot", "linear-rnn+retrieval")),
    ("hybrids", PARAMETERS, ("hybrid", "hybrid-cot")),
)
COLUMNS: Final = tuple(
    Column(family=family, group=group, quantity=quantity)
    for group, quantity, families in _GROUPS
    for family in families
)
assert {column.family for column in COLUMNS} == set(FAMILIES), "every family has its column"


@final
@dataclass(frozen=True, kw_only=True)
class Domain:
    """The lengths for which a task has inputs at all."""

    even: bool = False
    most: int | None = None

    def holds(self, n: int) -> bool:
        """Whether there are inputs of this length."""
        return not (self.even and n % 2) and (self.most is None or n <= self.most)

    def __str__(self) -> str:
        parts = ("even n", "") if self.even else ("", "")
        upto = "" if self.most is None else f"n ≤ {self.most:,}"
        return ", ".join(part for part in (parts[0], upto) if part)


def domain_of(task: str) -> Domain:
    """Where the task of a row has inputs; a limit is one of its parameters' and not of this software's."""
    own = spec_at(task, 16)
    most = whole(own, "vocabulary_size") if task == "mqar" else None
    return Domain(even=task in _EVEN, most=most)


def spec_at(task: str, n: int) -> TaskSpec:
    """The task of a row at a length, also where no such task can be made."""
    return TaskSpec(name=task, params={**defaults_of(TASKS.get(task)), **_OWN.get(task, {}), "n": n})


def names_of(spec: TaskSpec) -> dict[str, int]:
    """The parameters of a task under the names that formulas use, with those it leaves open filled in."""
    names: dict[str, int] = {}
    match spec.name:
        case "index-lookup" | "counting":
            names["alphabet"] = whole(spec, "alphabet")
        case "associative-recall":
            names["values"] = whole(spec, "values") or 64
        case "mqar":
            names["labels"] = whole(spec, "vocabulary_size") // 2
        case "nearest-neighbour":
            dimension = whole(spec, "dimension")
            gap = math.ceil(number(spec, "margin") * dimension / 2)
            names["labels"] = whole(spec, "labels")
            names["places"] = points_apart(dimension, gap) - 1
        case "dyck":
            types, depth = whole(spec, "types"), whole(spec, "depth")
            names["types"] = types
            # Every second depth at the widest cut, and the dead prefixes.
            names["states"] = sum(types**deep for deep in range(depth, -1, -2)) + 1
        case "equality":
            names["alphabet"] = whole(spec, "alphabet") or (2 if text(spec, "form") == "random" else 1024)
        case "q-sparse-averaging":
            names["q"], names["d"] = whole(spec, "q"), whole(spec, "d")
            names["levels"] = levels(whole(spec, "d"), whole(spec, "grid"))
        case "c-gram":
            names["c"] = whole(spec, "c")
    return names
