"""One example of each task to draw: a real sample, small enough to be taken in at a glance."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from jaxtyping import Bool, Shaped
from torch import Tensor

from separatrix.tasks import Batch, Task
from separatrix.tasks.byte_text import answer_text
from separatrix.tasks.interface import example_task

__all__ = ["Example", "example_of"]

_SHOWN: Final[Mapping[str, int]] = MappingProxyType({"dyck": 0, "equality": 0, "disjointness": 1})
"""The last label to look for where one of the two answers shows more than the other."""

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
        """All labels as one text."""
        return answer_text(self.task, self.targets[self.mask])

    @property
    def text(self) -> str:
        """The input as text."""
        return self.task.render(self.row)

    @property
    def changed(self) -> dict[str, object]:
        """The task's parameters where they are not the default."""
        return {
            field.name: getattr(self.task, field.name)
            for field in dataclasses.fields(self.task)
            if field.default is dataclasses.MISSING or getattr(self.task, field.name) != field.default
        }

    @property
    def parameters(self) -> str:
        """The same, as one would type them."""
        return ", ".join(f"{name}={value}" for name, value in self.changed.items())


def example_of(name: str, kind: type[Task], *, seed: int) -> Example:
    """The first of a few samples that shows what there is to see, or the very first.

    That is one with the label in `_SHOWN`, or one whose labels are not all alike.
    """
    task = example_task(kind)
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


def _telling(batch: Batch, number: int, shown: int | None) -> bool:
    labels = batch.targets[number][batch.mask[number]]
    return bool((labels != labels[0]).any()) if shown is None else bool(labels[-1] == shown)
