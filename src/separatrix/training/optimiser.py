"""Adam for many members at once: each with its own learning rate, schedule, decay and count of steps.

Everything is a tensor on the device with one entry for each member, so that nothing is asked of the host
between steps. A member whose loss or gradient is no finite number is retired there and then: its weights
stay as they were, and the others never notice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from separatrix.training.packing import Packed
from separatrix.training.recipes import SCHEDULES, Member, Schedule

__all__ = ["OptimiserState", "Rates", "update"]

_BETAS = (0.9, 0.999)
_EPSILON = 1e-8
_LAST_PART = 0.2
"""The share of the steps after the warm-up in which a rate that had stayed falls."""


@dataclass(kw_only=True)
class Rates:
    """The settings of each slot's member, on the device; a slot that gets another member is overwritten."""

    lr: Float64[Tensor, "member"]
    decay: Float64[Tensor, "member"]
    schedule: Int[Tensor, "member"]
    warmup: Float64[Tensor, "member"]
    seed: Int[Tensor, "member"]
    steps: int

    @classmethod
    def of(cls, members: Sequence[Member], *, steps: int, device: torch.device) -> Rates:
        """The settings of these members."""

        def column(values: list[float]) -> Float64[Tensor, "member"]:
            return torch.tensor(values, dtype=torch.float64, device=device)

        return cls(
            lr=column([member.lr for member in members]),
            decay=column([member.weight_decay for member in members]),
            schedule=torch.tensor([SCHEDULES.index(member.schedule) for member in members], device=device),
            warmup=column([float(member.warmup) for member in members]),
            seed=torch.tensor([member.seed for member in members], device=device),
            steps=steps,
        )

    def put(self, slot: int, member: Member) -> None:
        """Give a slot to another member."""
        other = Rates.of([member], steps=self.steps, device=self.lr.device)
        for field in fields(self):
            if field.name != "steps":
                getattr(self, field.name)[slot] = getattr(other, field.name)[0]

    def at(self, step: Int[Tensor, "member"]) -> Float64[Tensor, "member"]:
        """Each member's learning rate at its own step, counted from 0.

        It rises in equal steps through the warm-up, reaching its height at the last of them; then it stays,
        or falls to zero along half a cosine, or stays and falls to zero along a straight line at the end.
        """
        now = step.double()
        rising = torch.clamp((now + 1) / self.warmup.clamp(min=1), max=1)
        share = torch.clamp((now - self.warmup) / (self.steps - self.warmup).clamp(min=1), min=0, max=1)
        along_cosine = 0.5 * (1 + torch.cos(math.pi * share))
        at_the_end = torch.clamp((1 - share) / _LAST_PART, max=1)
        height = torch.where(self._is("cosine"), along_cosine, torch.where(self._is("wsd"), at_the_end, 1))
        return self.lr * rising * height

    def _is(self, schedule: Schedule) -> Bool[Tensor, "member"]:
        return self.schedule == SCHEDULES.index(schedule)


@dataclass(kw_only=True)
class OptimiserState:
    """What Adam keeps, and each member's count of steps and whether it still learns."""

    mean: Float[Tensor, "member parameter"]
    square: Float[Tensor, "member parameter"]
    step: Int[Tensor, "member"]
    alive: Bool[Tensor, "member"]
    retired: Bool[Tensor, "member"]

    @classmethod
    def fresh(cls, packed: Packed) -> OptimiserState:
        """Before the first step."""
        members, device = packed.values.shape[0], packed.values.device
        return cls(
            mean=torch.zeros_like(packed.values),
            square=torch.zeros_like(packed.values),
            step=torch.zeros(members, dtype=torch.int64, device=device),
            alive=torch.ones(members, dtype=torch.bool, device=device),
            retired=torch.zeros(members, dtype=torch.bool, device=device),
        )

    def clear(self, slot: int) -> None:
        """Begin anew in this slot."""
        for values in (self.mean, self.square, self.step, self.retired):
            values[slot] = 0
        self.alive[slot] = True


@torch.no_grad()
def update(
    packed: Packed,
    state: OptimiserState,
    rates: Rates,
    losses: Float[Tensor, "member"],
    gradients: Float[Tensor, "member parameter"],
    *,
    clip: float,
) -> None:
    """One step of every member that still learns, in place."""
    length = gradients.square().sum(1).sqrt()
    finite = torch.isfinite(length) & torch.isfinite(losses)
    learns = state.alive & finite
    shrink = torch.clamp(clip / (length + 1e-6), max=1) if clip else torch.ones_like(length)
    # What a retired member computes may be no number at all, and nought times that is none either.
    gradient = torch.where(learns.unsqueeze(1), gradients * shrink.unsqueeze(1), 0)

    first, second = _BETAS
    taken = (state.step + 1).double()
    rate = rates.at(state.step)
    column = learns.unsqueeze(1)
    mean = torch.where(column, first * state.mean + (1 - first) * gradient, state.mean)
    square = torch.where(column, second * state.square + (1 - second) * gradient.square(), state.square)
    scale = _like(rate / (1 - first**taken), packed.values)
    root = _like((1 - second**taken).sqrt(), packed.values)
    move = scale * mean / (square.sqrt() / root + _EPSILON)
    fade = _like(rate * rates.decay, packed.values) * packed.decays * packed.values
    packed.values.sub_(torch.where(column, move + fade, 0))
    state.mean.copy_(mean)
    state.square.copy_(square)
    state.step.add_(learns)
    state.retired.logical_or_(state.alive & ~finite)
    state.alive.copy_(learns)


def _like(column: Float64[Tensor, "member"], values: Float[Tensor, "member parameter"]) -> Tensor:
    return column.to(values.dtype).unsqueeze(1)
