"""Where examples come from: the task itself, or a shorter form of it in the words of the longer."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.randomness import Band
from separatrix.tasks.interface import Batch, Task, WordTask
from separatrix.training.found import Found
from separatrix.training.recipes import Curriculum

__all__ = ["Source", "sources"]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A task that is sampled from a step on, and the numbers that its tokens have in the task itself."""

    task: Task
    begins: int = 0
    tokens: Int[Tensor, "token"] | None = None
    found: Found | None = None
    """Where a share of every batch comes from instead."""

    def draw(
        self,
        seeds: Int[Tensor, "member"],
        steps: Int[Tensor, "member"],
        *,
        batch: int,
        band: Band | None = None,
        mirrored: bool = False,
    ) -> Batch:
        """`batch` examples for each member, one after another: its own, at its own step."""
        lengths: dict[str, Any] = {} if band is None else {"band": band}
        lengths |= {"mirrored": True} if mirrored else {}
        rows = len(seeds) * batch
        place = torch.arange(batch, device=seeds.device)
        numbers = steps.unsqueeze(1) * batch + place
        drawn = self.task.sample(
            rows,
            seed=seeds.repeat_interleave(batch, output_size=rows),
            start=numbers.flatten(),
            device=seeds.device,
            **lengths,  # which a task need not know of that has one
        )
        if self.tokens is not None:
            drawn = dataclasses.replace(drawn, inputs=self.tokens[drawn.inputs])
        return drawn if self.found is None else self.found.mixed(drawn, seeds, numbers)


def sources(task: Task, curriculum: Curriculum | None, *, device: torch.device) -> tuple[Source, ...]:
    """The stages of training in order; without a curriculum there is one."""
    if curriculum is None:
        return (Source(task=task),)
    if not isinstance(task, WordTask):
        raise InvalidInput(f"A curriculum needs a task on words; {task.name} has none.")
    found = []
    for begins, n in curriculum.sizes(task.n):
        if n == task.n:
            found.append(Source(task=task, begins=begins))
            continue
        short = _shorter(task, n)
        own, full = short.vocabulary, task.vocabulary
        numbers = [full.token(own.word(token)) for token in range(own.size)]
        found.append(Source(task=short, begins=begins, tokens=torch.tensor(numbers, device=device)))
    return tuple(found)


def _shorter(task: WordTask, n: int) -> WordTask:
    try:
        short = dataclasses.replace(task, n=n)
    except InvalidInput as refusal:
        raise InvalidInput(
            f"The curriculum comes to n={n}, which this task does not have: {refusal}"
        ) from None
    if short.target_space != task.target_space:
        raise InvalidInput(
            f"The answers of {task.name} change with n, so short inputs teach another task; "
            "train without a curriculum."
        )
    return short
