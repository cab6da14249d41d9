"""Witnesses that answer at once, and the inputs on which a change to them is tried: random and worst ones.

Worst ones are those that attacks on models begin with: contexts that are all one symbol but for one place,
the instances that lower bounds are made of, brackets as deep as they may be. They stand among random ones.
All are the same for every model, so that what is changed in a witness is all that differs between two
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final, Literal, final

import torch
from jaxtyping import Shaped
from torch import Tensor

from separatrix.certificates.attacks.domains import Domain
from separatrix.certificates.attacks.families import Brackets, HardInstances, NearlyEqual, Suspects
from separatrix.certificates.attacks.hunts import Attack, Hunt
from separatrix.certificates.attacks.subjects import Answers, Judged, Subject
from separatrix.certificates.exhaustive import wrong_rows
from separatrix.models.explicit import ExplicitModel
from separatrix.records import JsonObject
from separatrix.tasks import Labels, Task, task
from separatrix.tasks.specs import spec_of
from separatrix.training.evaluation import TEST_EXAMPLES_FROM, TEST_SEED
from separatrix.witnesses import CATALOGUE, Choices, Entry, Witness

__all__ = ["Inputs", "Plain", "count_right", "inputs_asked", "plain_witnesses", "tried"]

Inputs = Literal["random", "worst"]

_WRITES: Final = ("-cot", "+retrieval")
_ATTACKS: Final[tuple[Attack, ...]] = (Suspects(), HardInstances(), Brackets(), NearlyEqual())
_AT_ONCE: Final = 64
_SMALLER: Final[Mapping[str, int]] = MappingProxyType({"cycle3": 8, "cycle5": 5, "mqar": 8, "match3": 8})
"""Tasks whose witnesses take long at the length of the others."""
_SETTINGS: Final[Mapping[str, Mapping[str, object]]] = MappingProxyType(
    {
        "index-lookup": {"alphabet": 8},
        "match3": {"modulus": 16},
        "match2": {"modulus": 64},
        "q-sparse-averaging": {"q": 3},
    }
)


@final
@dataclass(frozen=True, kw_only=True)
class Plain:
    """A construction that needs no writing, and the task it is built for here."""

    entry: Entry
    task: Task

    @property
    def row(self) -> str:
        """The theorem, the task, and what tells it from others of the theorem."""
        variant = f", {self.entry.variant}" if self.entry.variant else ""
        return f"{self.entry.theorem}: {self.entry.task}{variant}"

    @property
    def fields(self) -> JsonObject:
        """What says which it is, as JSON values."""
        return {
            "theorem": self.entry.theorem,
            "family": self.entry.family,
            "variant": self.entry.variant,
            "task": spec_of(self.task).to_fields(),
        }

    @cached_property
    def witness(self) -> Witness:
        """The weights, in float64."""
        return self.entry.builder()(self.task, Choices())


def plain_witnesses(n: int, *, smaller: bool = True) -> tuple[Plain, ...]:
    """Every construction of the catalogue that answers at once, at this length.

    Where that takes long it is built for a smaller one, or left out.
    """
    found = []
    for entry in CATALOGUE:
        slow = entry.task in _SMALLER or (entry.family == "rnn" and entry.theorem == "UP-RNN")
        if entry.family.endswith(_WRITES) or (slow and not smaller):
            continue
        length = min(n, _SMALLER.get(entry.task, n))
        found.append(Plain(entry=entry, task=task(entry.task, n=length, **_parameters(entry, length))))
    return tuple(found)


def _parameters(entry: Entry, n: int) -> dict[str, object]:
    fixed = {name: value for name, value in entry.takes.items() if value is not None}
    settings = {**_SETTINGS.get(entry.task, {}), **fixed}
    if entry.theorem == "S-L5":  # w at the even places, which no head that looks half a string back can use
        settings["alice"] = tuple(range(0, n, 2))
    return settings


def tried(asked: Task, inputs: Inputs, count: int) -> Shaped[Tensor, "batch pos *width"]:
    """So many inputs, the same each time; among the worst at least every other one is random.

    Worst ones alone can all have the same answer, and of some tasks there are few.
    """
    if inputs == "random":
        return asked.full_length().sample(count, seed=TEST_SEED, start=TEST_EXAMPLES_FROM).inputs
    gathered = _Gathering(asked)
    domain = Domain(asked, seed=0)
    for attack in _ATTACKS:
        attack.run(
            Hunt(gathered, domain, attack=attack.name, seed=0, until=math.inf, rounds=1, enough=1 << 30)
        )
    rows: Shaped[Tensor, "batch pos *width"] = torch.unique(torch.cat(gathered.rows), dim=0)
    some = min(count // 2, len(rows))
    # Evenly spaced in the order of their values, so that every kind of them is there.
    worst = rows[torch.arange(some) * len(rows) // max(1, some)]
    return torch.cat([worst, tried(asked, "random", count - some)])


def inputs_asked(inputs: Inputs, count: int) -> JsonObject:
    """Which inputs those are, as JSON values."""
    return {"random": count} if inputs == "random" else {"worst": count // 2, "count": count}


def count_right(model: ExplicitModel, asked: Task, rows: Shaped[Tensor, "batch pos *width"]) -> int:
    """How many inputs a model answers rightly wherever they ask."""
    return sum(int((~wrong_rows(model, asked, part)).sum()) for part in torch.split(rows, _AT_ONCE))


@final
class _Gathering(Subject):
    """No model, but a list: what an attack would have judged is kept."""

    def __init__(self, asked: Task) -> None:
        self.task = asked
        self.rows: list[Shaped[Tensor, "batch pos *width"]] = []

    @property
    def at_once(self) -> int:
        """All that come."""
        return 1 << 20

    def judged(self, rows: Shaped[Tensor, "batch pos *width"], labels: Labels) -> Judged:
        """Those that ask something are kept, and none is wrong."""
        self.rows.append(rows[labels.mask.any(1)])
        none = torch.zeros(len(rows), dtype=torch.bool)
        return Judged(margins=torch.ones(len(rows), dtype=torch.float64), wrong=none)

    def alone(self, row: Shaped[Tensor, "pos *width"], labels: Labels) -> Answers:
        """Nothing is ever wrong here, so nothing is run again."""
        raise AssertionError("a list of inputs answers nothing")
