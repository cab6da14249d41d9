"""One example of each task to draw: a real sample, small enough to be taken in at a glance."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from jaxtyping import Bool, Shaped
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.tasks import Batch, Task
from separatrix.tasks.byte_text import ByteTask
from separatrix.tasks.interface import make

__all__ = ["Example", "example_of"]

_SIZES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "index-lookup": {"n": 11, "lengths": "full"},
        "associative-recall": {"n": 10, "keys": 64},
        "mqar": {"n": 14, "vocabulary_size": 64},
        "nearest-neighbour": {"n": 13, "labels": 4, "noise": 3, "lengths": "full"},
        "dyck": {"n": 20},
        "equality": {"n": 24, "form": "one", "alphabet": 26, "lengths": "full"},
        "disjointness": {"n": 26},
        "sparse-threshold": {"n": 10},
        "q-sparse-averaging": {"n": 8, "q": 2, "grid": 2},
        "match2": {"n": 10},
        "match3": {"n": 8, "modulus": 24, "distinct": True},
        "cycle3": {"n": 9},
        "cycle5": {"n": 10, "density": 0.25, "distinct": True},
        "c-gram": {"n": 13},
        "counting": {"n": 26, "alphabet": 7},
        "is-tree": {"n": 12, "form": "cot"},
        "turing": {"n": 5},
        "distractor-qa": {"n": 6, "shots": 0},
        "phone-book": {"n": 8},
    }
)
"""Parameters at which a drawing is legible; everything else keeps its default."""

_SHOWN: Final[Mapping[str, int]] = MappingProxyType({"dyck": 0, "equality": 0, "disjointness": 1})
"""The last label to look for where one of the two answers shows more than the other."""

_LIKELY_N: Final = (12, 16, 8, 4, 32)
"""What to try for a task that is not in the table above: a user's own."""

_CANDIDATES: Final = 64


@dataclass(frozen=True, kw_only=True)
class Example:
    """Example `number` of a task under a seed, with its labels."""

    task: Task
    seed: int
    number: int
    row: Shaped[Tensor, "pos *width"]
    targets: Shaped[Tensor, "pos *target_width"]
    mask: Bool[Tensor, "pos"]
    length: int

    @property
    def labelled(self) -> tuple[int, ...]:
        """The positions that carry a label."""
        return tuple(place for place, marked in enumerate(self.mask.tolist()) if marked)

    @property
    def answers(self) -> tuple[str, ...]:
        """The labels as text, in the order of their positions."""
        return tuple(self.task.render_target(self.targets[place]) for place in self.labelled)

    @property
    def answer_text(self) -> str:
        """All labels as one text; a task on bytes has one label for each."""
        if isinstance(self.task, ByteTask):
            written = bytes(self.targets[self.mask].tolist()).decode("utf-8", "replace")
            return written.removesuffix("\n").removeprefix(" ")
        return " ".join(self.answers)

    @property
    def text(self) -> str:
        """The input as text."""
        return self.task.render(self.row)

    @property
    def parameters(self) -> str:
        """The task's parameters where they are not the default, as one would type them."""
        changed = [
            (field.name, getattr(self.task, field.name))
            for field in dataclasses.fields(self.task)
            if field.default is dataclasses.MISSING or getattr(self.task, field.name) != field.default
        ]
        return ", ".join(f"{name}={value}" for name, value in changed)


def example_of(name: str, kind: type[Task], *, seed: int) -> Example:
    """The first of a few samples that shows what there is to see, or the very first.

    That is one with the label in `_SHOWN`, or one whose labels are not all alike.
    """
    task = _small(name, kind)
    batch = task.sample(_CANDIDATES, seed=seed)
    number = next((i for i in range(_CANDIDATES) if _telling(batch, i, _SHOWN.get(name))), 0)
    return Example(
        task=task,
        seed=seed,
        number=number,
        row=batch.inputs[number],
        targets=batch.targets[number],
        mask=batch.mask[number],
        length=int(batch.lengths[number]),
    )


def _small(name: str, kind: type[Task]) -> Task:
    if name in _SIZES:
        return make(kind, _SIZES[name])
    refusals = []
    for n in _LIKELY_N:
        try:
            return make(kind, {"n": n})
        except InvalidInput as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _telling(batch: Batch, number: int, shown: int | None) -> bool:
    labels = batch.targets[number][batch.mask[number]]
    return bool((labels != labels[0]).any()) if shown is None else bool(labels[-1] == shown)
