"""All inputs of a task, cut into regions on which the right answer at one position is the same.

A question is a position that is asked and what stands there. A region of it fixes the right answer and leaves
the rest of the input open: at every position some of the options may stand, independently of one another
unless an automaton says which sequences of options there are. Either way the least value that a sum over
positions takes on a region is found exactly, position by position, and with it everything that the
certificates of one-layer models rest on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from separatrix.errors import InvalidInput

__all__ = ["Automaton", "Least", "Question", "Region", "Requirements"]


class Least(NamedTuple):
    """The least sum over a region, and the options that have it."""

    value: Float[Tensor, "batch"]
    options: Int[Tensor, "batch pos"]


@final
@dataclass(frozen=True, eq=False)
class Automaton:
    """Which sequences of options a region has: those that lead from the first state to one that accepts."""

    after: Int[Tensor, "state option"]
    """The state behind an option; −1 where the option may not come."""
    accepts: Bool[Tensor, "state"]

    def least(self, costs: Float[Tensor, "batch pos option"]) -> Least:
        """The cheapest sequence, from the last position to the first; forbidden options cost infinity."""
        batch, length, options = costs.shape
        states = len(self.accepts)
        dead = self.after < 0
        behind = self.after.clamp_min(0)
        to_go = costs.new_zeros(batch, states).masked_fill(~self.accepts, torch.inf)
        chosen = torch.empty(batch, length, states, dtype=torch.int64, device=costs.device)
        for place in reversed(range(length)):
            whole = costs[:, place].unsqueeze(1) + to_go[:, behind.flatten()].view(batch, states, options)
            to_go, chosen[:, place] = whole.masked_fill(dead, torch.inf).min(2)
        found = torch.empty(batch, length, dtype=torch.int64, device=costs.device)
        state = torch.zeros(batch, dtype=torch.int64, device=costs.device)
        for place in range(length):
            found[:, place] = chosen[:, place].gather(1, state.unsqueeze(1)).squeeze(1)
            state = behind[state, found[:, place]]
        return Least(to_go[:, 0], found)


@final
@dataclass(frozen=True, eq=False)
class Requirements:
    """When an output is right: outputs · directions + offsets > 0, all of them."""

    directions: Float[Tensor, "rival out"]
    offsets: Float[Tensor, "rival"]

    @classmethod
    def of_class(cls, answer: int, classes: int) -> Requirements:
        """The score of the answer is above all others."""
        rivals = [other for other in range(classes) if other != answer]
        directions = torch.zeros(len(rivals), classes, dtype=torch.float64)
        directions[:, answer] = 1
        directions[torch.arange(len(rivals)), rivals] = -1
        return cls(directions, torch.zeros(len(rivals), dtype=torch.float64))

    @classmethod
    def near(cls, target: Float[Tensor, "out"], tolerance: float) -> Requirements:
        """Every coordinate is so near that the Euclidean distance is below the tolerance."""
        width = len(target)
        side = tolerance / width**0.5
        eye = torch.eye(width, dtype=torch.float64)
        wide = target.to(torch.float64)
        return cls(torch.cat([eye, -eye]), torch.cat([side - wide, side + wide]))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Region:
    """Inputs with one right answer to a question."""

    target: str
    """The answer as a person reads it, with what fixes it where that is more."""
    allowed: Bool[Tensor, "pos option"]
    requirements: Requirements
    order: Automaton | None = None

    def __post_init__(self) -> None:
        if not bool(self.allowed.any(1).all()):
            raise InvalidInput("In a region every position has an option; one has none.")

    def least(self, costs: Float[Tensor, "batch pos option"]) -> Least:
        """The least Σ costs[position, option] over the region, and where it is taken."""
        open_costs = costs.masked_fill(~self.allowed, torch.inf)
        if self.order is not None:
            return self.order.least(open_costs)
        value, options = open_costs.min(2)
        return Least(value.sum(1), options)

    def to(self, device: torch.device | str) -> Region:
        """The same region on a device."""
        order = self.order
        if order is not None:
            order = Automaton(order.after.to(device), order.accepts.to(device))
        return Region(
            target=self.target,
            allowed=self.allowed.to(device),
            requirements=self.requirements,
            order=order,
        )

    def upto(self, count: int) -> Region:
        """The beginnings of this length that the region's inputs have: all that a causal model has seen.

        Where an automaton orders the options, one accepts now if it can still come to accept.
        """
        if self.order is None or count == len(self.allowed):
            return replace(self, allowed=self.allowed[:count])
        after, ends = self.order.after, self.order.accepts
        for place in reversed(range(count, len(self.allowed))):
            ends = ((after >= 0) & self.allowed[place] & ends[after.clamp_min(0)]).any(1)
        return replace(self, allowed=self.allowed[:count], order=Automaton(after, ends))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """The inputs that share where an answer is asked for and what stands there, region by region."""

    query: str
    """The question as a person reads it."""
    asked: int
    """The position of the answer."""
    options: Shaped[Tensor, "pos option *width"]
    """What an option is at a position: a token, or a row of reals. Behind the last position is padding."""
    regions: tuple[Region, ...]

    def __post_init__(self) -> None:
        for region in self.regions:
            if region.allowed.shape != self.options.shape[:2]:
                raise InvalidInput("A region says of every option at every position whether it may be.")
            if int(region.allowed[self.asked].sum()) != 1:
                raise InvalidInput("What stands at the position that is asked is one thing in a region.")

    @property
    def length(self) -> int:
        """Positions of an input before its padding."""
        return self.options.shape[0]

    def inputs(self, options: Int[Tensor, "batch pos"]) -> Shaped[Tensor, "batch pos *width"]:
        """The inputs that these options spell, without padding."""
        return self.options[torch.arange(self.length, device=self.options.device), options]
