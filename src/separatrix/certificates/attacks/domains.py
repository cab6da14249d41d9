"""Which rows are inputs of a task, and what stands where in them.

A search changes inputs and must stay among them. What may stand at a position is read off samples, so the
index stays an index and a separator stays where it is; whether the row as a whole is an input the task says
itself. Lengths are never changed, so every input that is tried has a length that the task samples.
"""

from __future__ import annotations

from typing import Final, final

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.tasks import ChainTask, Task, Tokens
from separatrix.tasks.disjointness import Disjointness
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.match2 import Match2
from separatrix.tasks.match3 import Match3
from separatrix.tasks.sparse_threshold import SparseThreshold

__all__ = ["Domain"]

_POOLED: Final = 1 << 10
_POOLED_NUMBERS: Final = 1 << 22
_FREE: Final = (Disjointness, Match2, Match3, SparseThreshold)


@final
class Domain:
    """The inputs of a task, with samples that say what may stand where."""

    def __init__(self, task: Task, *, seed: int) -> None:
        self.task = task
        space = task.input_space
        self.padding = space.pad if isinstance(space, Tokens) else None
        numbers = task.length * (1 if isinstance(space, Tokens) else space.width)
        half = max(8, min(_POOLED, _POOLED_NUMBERS // numbers) // 2)
        own, full = task.sample(half, seed=seed), task.full_length().sample(half, seed=seed, start=half)
        self.pool: Shaped[Tensor, "sample pos *width"] = torch.cat([own.inputs, full.inputs])

    def settled(
        self, rows: Shaped[Tensor, "batch pos *width"]
    ) -> tuple[Shaped[Tensor, "batch pos *width"], Bool[Tensor, "batch"]]:
        """The rows, a chain of thought replaced by that of their own prompt; and which of them are inputs."""
        task = self.task
        if isinstance(task, ChainTask):
            return self._completed(task, rows)
        if isinstance(task, _FREE) or (isinstance(task, Dyck) and task.form == "recognise"):
            return rows, self._known_words(rows)
        if isinstance(task, IndexLookup):
            return rows, self._known_words(rows) & _looked_up(task, rows)
        return rows, torch.tensor([self._accepted(row) for row in rows], dtype=torch.bool)

    def changed(
        self, rows: Shaped[Tensor, "batch pos *width"], others: Shaped[Tensor, "batch pos *width"]
    ) -> Shaped[Tensor, "batch pos *width"]:
        """The other rows, but with padding where these have it and nowhere else."""
        if self.padding is None:
            return others
        return torch.where((rows == self.padding) | (others == self.padding), rows, others)

    def _known_words(self, rows: Shaped[Tensor, "batch pos"]) -> Bool[Tensor, "batch"]:
        space = self.task.input_space
        assert isinstance(space, Tokens)
        return ((rows >= 0) & (rows < space.size)).all(1)

    def _accepted(self, row: Shaped[Tensor, "pos *width"]) -> bool:
        try:
            self.task.check(row)
        except InvalidInput:
            return False
        return True

    def _completed(
        self, task: ChainTask, rows: Int[Tensor, "batch pos"]
    ) -> tuple[Int[Tensor, "batch pos"], Bool[Tensor, "batch"]]:
        whole, valid = rows.clone(), torch.zeros(len(rows), dtype=torch.bool)
        for number, row in enumerate(rows):
            prompt = row[: task.prompt]
            try:
                task.check_prompt(prompt)
                whole[number] = task.completed(prompt)
            except InvalidInput:
                continue
            valid[number] = True
        return whole, valid


def _looked_up(task: IndexLookup, rows: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch"]:
    """Symbols, then one index that points at one of them, then padding: as the task's own check says it."""
    padding = task.alphabet + task.n
    written = rows != padding
    count = written.sum(1)
    solid = (written.int().diff(dim=1) <= 0).all(1) & (count >= 2)
    symbols = ((rows < task.alphabet).sum(1) == count - 1) & (
        (rows < task.alphabet).int().diff(dim=1) <= 0
    ).all(1)
    last = rows.gather(1, (count - 1).clamp_min(0).unsqueeze(1)).squeeze(1) - task.alphabet
    return solid & symbols & (last >= 0) & (last < count - 1)
