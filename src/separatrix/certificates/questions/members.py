"""The inputs of a region one by one, for regions that have few."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.certificates.questions.interface import Automaton, Region

__all__ = ["count_of", "members_of"]


def count_of(region: Region) -> int:
    """How many inputs a region has."""
    order, allowed = _walked(region), region.allowed
    ways = [1] + [0] * (len(order.accepts) - 1)
    after = order.after.tolist()
    for row in allowed.tolist():
        new = [0] * len(ways)
        for state, many in enumerate(ways):
            if many:
                for option, open_here in enumerate(row):
                    if open_here and after[state][option] >= 0:
                        new[after[state][option]] += many
        ways = new
    return sum(many for many, last in zip(ways, order.accepts.tolist(), strict=True) if last)


def members_of(region: Region) -> Int[Tensor, "member pos"]:
    """The options of every input, in order; only of a region that has few."""
    order, allowed = _walked(region), region.allowed
    alive = _alive(order, allowed)
    found = torch.zeros(1, 0, dtype=torch.int64)
    states = torch.zeros(1, dtype=torch.int64)
    for place, row in enumerate(allowed):
        options = row.nonzero().squeeze(1)
        after = order.after[states][:, options]  # member option
        kept = (after >= 0) & alive[place + 1][after.clamp_min(0)]
        member, option = kept.nonzero(as_tuple=True)
        found = torch.cat([found[member], options[option].unsqueeze(1)], 1)
        states = after[member, option]
    return found


def _walked(region: Region) -> Automaton:
    """The region's automaton; one with a single state where any options may come together."""
    if region.order is not None:
        return region.order
    options = region.allowed.shape[1]
    return Automaton(torch.zeros(1, options, dtype=torch.int64), torch.ones(1, dtype=torch.bool))


def _alive(order: Automaton, allowed: Bool[Tensor, "pos option"]) -> list[Bool[Tensor, "state"]]:
    """For every position, from which states before it an input can still be completed."""
    alive = [order.accepts]
    for row in allowed.flip(0):
        leads = (order.after >= 0) & alive[0][order.after.clamp_min(0)] & row
        alive.insert(0, leads.any(1))
    return alive
