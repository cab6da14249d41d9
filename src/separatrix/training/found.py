"""What was found against members while they learn: inputs kept for each of them, and drawn from again.

The shapes never change, so a recorded step goes on drawing from the same memory whatever is put there.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks.interface import Batch, Task

__all__ = ["Found"]

_STREAM = "against"


@dataclass(frozen=True, kw_only=True)
class Found:
    """The newest inputs that were found against each member, with their right answers."""

    inputs: Shaped[Tensor, "member kept pos *width"]
    targets: Shaped[Tensor, "member kept pos *target_width"]
    mask: Bool[Tensor, "member kept pos"]
    lengths: Int[Tensor, "member kept"]
    count: Int[Tensor, "member"]
    """How many were ever put in; the oldest make room for the newest."""
    share: float
    """Of a batch, what is drawn from here once there is anything."""

    @classmethod
    def nothing(cls, task: Task, *, members: int, kept: int, share: float, device: torch.device) -> Found:
        """Room for so many inputs of each member, and none in it."""
        like = task.sample(1, seed=0, device=device)

        def room(values: Shaped[Tensor, "1 *shape"]) -> Shaped[Tensor, "member kept *shape"]:
            return values.new_zeros(members, kept, *values.shape[1:])

        return cls(
            inputs=room(like.inputs),
            targets=room(like.targets),
            mask=room(like.mask),
            lengths=room(like.lengths),
            count=torch.zeros(members, dtype=torch.int64, device=device),
            share=share,
        )

    @property
    def kept(self) -> int:
        """Most inputs of a member."""
        return self.lengths.shape[1]

    def tensors(self) -> dict[str, Tensor]:
        """All that changes, one row for each member."""
        names = ("inputs", "targets", "mask", "lengths", "count")
        return {name: getattr(self, name) for name in names}

    def clear(self, member: int) -> None:
        """Forget what was found against whoever sat here."""
        self.count[member] = 0
        for values in (self.inputs, self.targets, self.mask, self.lengths):
            values[member] = 0

    def put(self, member: int, batch: Batch) -> None:
        """Keep these; of more than there is room for, the first."""
        new = min(len(batch.lengths), self.kept)
        places = (self.count[member] + torch.arange(new, device=self.count.device)) % self.kept
        for mine, theirs in (
            (self.inputs, batch.inputs),
            (self.targets, batch.targets),
            (self.mask, batch.mask),
            (self.lengths, batch.lengths),
        ):
            mine[member, places] = theirs[:new].to(mine.device)
        self.count[member] += new

    def rows(self, batch: int) -> int:
        """How many examples of a batch come from here."""
        return max(1, min(batch - 1, round(self.share * batch)))

    def mixed(
        self, drawn: Batch, seeds: Int[Tensor, "member"], numbers: Int[Tensor, "member batch"]
    ) -> Batch:
        """The same batches with the first examples of each member replaced, where anything was found.

        Which is drawn depends on the member's seed and the example's number, as everything that is drawn.
        """
        members, batch = numbers.shape
        first = self.rows(batch)
        held = self.count.clamp(1, self.kept)
        draws = Draws(
            seed=seeds.repeat_interleave(first, output_size=members * first),
            stream=_STREAM,
            batch=members * first,
            start=numbers[:, :first].flatten(),
            device=seeds.device,
        )
        bound = held.repeat_interleave(first, output_size=members * first)
        picks = draws.integers("which", (), bound).view(members, first)
        places = (picks + torch.arange(members, device=seeds.device).unsqueeze(1) * self.kept).flatten()
        some = self.count > 0

        def replaced(
            stored: Shaped[Tensor, "member kept *shape"], own: Shaped[Tensor, "rows *shape"]
        ) -> Shaped[Tensor, "rows *shape"]:
            mine = own.view(members, batch, *own.shape[1:])
            theirs = stored.flatten(0, 1)[places].view(members, first, *own.shape[1:])
            chosen = torch.where(some.view(-1, *[1] * own.dim()), theirs, mine[:, :first])
            return torch.cat([chosen, mine[:, first:]], dim=1).flatten(0, 1)

        return dataclasses.replace(
            drawn,
            inputs=replaced(self.inputs, drawn.inputs),
            targets=replaced(self.targets, drawn.targets),
            mask=replaced(self.mask, drawn.mask),
            lengths=replaced(self.lengths, drawn.lengths),
        )
