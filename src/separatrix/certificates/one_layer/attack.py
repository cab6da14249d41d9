"""The worst inputs of a region, looked for with the tables that the bounds use.

A model's lead over a rival is a smooth function of the heads' sums, and a sum is a choice at every position.
So its gradient says which option is worst at each position, all positions choose at once, and the gradient is
taken anew (Frank and Wolfe's step, without the averaging that tokens do not allow). The best input of a few
starts is then polished: of the inputs that differ at one position, those first that the gradient likes, the
worst is taken, until none is worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from separatrix.certificates.one_layer.contexts import Contexts
from separatrix.certificates.one_layer.form import OneLayer
from separatrix.certificates.one_layer.tables import Tables
from separatrix.certificates.questions import Requirements

__all__ = ["Effort", "Worst", "worst_input"]

_ROWS_AT_ONCE: Final = 4096
_CHANGES_AT_ONCE: Final = 256


@final
@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long an attack goes on: rivals and starts for each, steps of a start, changes of one position."""

    rivals: int = 12
    starts: int = 4
    steps: int = 12
    polish: int = 24

    def times(self, factor: int) -> Effort:
        """So many times as long."""
        return replace(self, starts=self.starts * factor, polish=self.polish * factor)


@final
@dataclass(frozen=True, eq=False)
class Worst:
    """The least lead that was found, and the options that have it."""

    lead: float
    options: Int[Tensor, "pos"]


def worst_input(
    form: OneLayer,
    contexts: Contexts,
    number: int,
    required: Requirements,
    *,
    rivals: Int[Tensor, "rival"],
    effort: Effort,
    seed: int = 0,
) -> Worst:
    """The input of a region at which the least lead over one of these rivals is least, of those looked at."""
    device = contexts.tables.weights.device
    region = _Aimed(form, contexts, number, required.directions.to(device), required.offsets.to(device))
    draws = torch.Generator(device="cpu").manual_seed((seed * 1_000_003 + number) & (2**63 - 1))
    chosen = rivals[: effort.rivals].to(device).repeat(effort.starts)
    options, leads = region.at(chosen).descended(effort, draws)
    found = Worst(math.inf, options[0])
    for row in leads.argsort()[: effort.starts].tolist():
        worst = region.polished(options[row], effort.polish)
        found = worst if worst.lead < found.lead else found
    return found


@final
@dataclass(frozen=True, eq=False)
class _Aimed:
    """A region, and whom the model must lead on it: all rivals, or for each row of a batch one of them."""

    form: OneLayer
    contexts: Contexts
    number: int
    directions: Float[Tensor, "rival out"]
    offsets: Float[Tensor, "rival"]

    @property
    def tables(self) -> Tables:
        """Weights and values of every option."""
        return self.contexts.tables

    @property
    def allowed(self) -> Bool[Tensor, "pos option"]:
        """What may stand where."""
        return self.contexts.allowed[self.number]

    def at(self, rivals: Int[Tensor, "row"]) -> _Aimed:
        """The same with these rivals, which may repeat."""
        return replace(self, directions=self.directions[rivals], offsets=self.offsets[rivals])

    def least(self, costs: Float[Tensor, "row pos option"]) -> Int[Tensor, "row pos"]:
        """The cheapest inputs."""
        return self.contexts.minimum(self.number, costs)[1]

    def leads(
        self, above: Float[Tensor, "row head part"], below: Float[Tensor, "row head"]
    ) -> Float[Tensor, "row rival"]:
        """Over every rival, for inputs with these sums."""
        parts = torch.split(self.tables.stream(above, below), _ROWS_AT_ONCE)
        return torch.cat([self.form.tail(rows) @ self.directions.T + self.offsets for rows in parts])

    def slopes(
        self, above: Float[Tensor, "row head part"], below: Float[Tensor, "row head"]
    ) -> tuple[Float[Tensor, "row"], Float[Tensor, "row pos option"]]:
        """Each row's lead over its own rival, and what each option at each position adds to first order."""
        tables = self.tables
        with torch.enable_grad():
            numerators, denominators = (each.detach().clone().requires_grad_() for each in (above, below))
            outputs = self.form.tail(tables.stream(numerators, denominators))
            leads = (outputs * self.directions).sum(1) + self.offsets
            by_above, by_below = torch.autograd.grad(leads.sum(), [numerators, denominators])
        costs = torch.einsum("rhp,htop->rhto", by_above, tables.values) + by_below[:, :, None, None]
        return leads.detach(), (costs * tables.weights).sum(1)

    def descended(
        self, effort: Effort, draws: torch.Generator
    ) -> tuple[Int[Tensor, "row pos"], Float[Tensor, "row"]]:
        """The worst input of each row on its way, and its lead."""
        rows, each = len(self.directions), len(self.directions) // effort.starts
        shape = (rows, *self.tables.weights.shape[1:])
        costs = torch.rand(shape, generator=draws, dtype=torch.float64).to(self.directions.device)
        # The first start of every rival is at the middle of the region.
        above, below = (sums.expand(rows, *sums.shape) for sums in self.tables.middle(self.allowed))
        costs[:each] = self.slopes(above, below)[1][:each]
        options = self.least(costs)
        if effort.starts > 1:  # the second is the worst input of those with one option all over
            options[each : 2 * each] = self._uniform()[each : 2 * each]
        best, least = options, torch.full_like(self.offsets, math.inf)
        for step in range(effort.steps):
            leads, slopes = self.slopes(*self.tables.sums(options))
            better = leads < least
            best, least = torch.where(better.unsqueeze(1), options, best), torch.minimum(least, leads)
            if step >= effort.steps // 3:  # all at once may overshoot: some stay as they were at best
                stay = (torch.rand(options.shape, generator=draws) < 0.5).to(best.device)
                keep = torch.nn.functional.one_hot(best, slopes.shape[2]).bool() & stay.unsqueeze(2)
                slopes = slopes.masked_fill(keep, -1e30)
            options = self.least(slopes)
        return best, least

    def _uniform(self) -> Int[Tensor, "row pos"]:
        """For every row the worst input of those that have one option wherever they may."""
        positions, options = self.allowed.shape
        liked = torch.eye(options, dtype=torch.float64, device=self.directions.device)
        every = self.least(-liked.unsqueeze(1).expand(-1, positions, -1))
        return every[self.leads(*self.tables.sums(every)).argmin(0)]

    def polished(self, options: Int[Tensor, "pos"], most: int) -> Worst:
        """Change one position at a time to what is worst for the model; an order is left as it is."""
        tables = self.tables
        lead = float(self.leads(*tables.sums(options.unsqueeze(0))).min())
        if self.contexts.regions[self.number].order is not None:
            return Worst(lead, options)
        here = torch.arange(tables.positions, device=options.device)
        for _ in range(most):
            above, below = tables.sums(options.unsqueeze(0))
            place, option = self._likely(options, above, below)
            own = tables.weights[:, here, options]
            mine = own.unsqueeze(2) * tables.values[:, here, options]
            new = tables.weights[:, place, option]
            theirs = new.unsqueeze(2) * tables.values[:, place, option]
            changed_below = below + (new - own[:, place]).T
            changed_above = above + (theirs - mine[:, place]).transpose(0, 1)
            leads = self.leads(changed_above, changed_below).amin(1)
            worst = int(leads.argmin())
            if not float(leads[worst]) < lead - 1e-12:
                break
            lead = float(leads[worst])
            options = options.clone()
            options[place[worst]] = option[worst]
        return Worst(lead, options)

    def _likely(
        self,
        options: Int[Tensor, "pos"],
        above: Float[Tensor, "1 head part"],
        below: Float[Tensor, "1 head"],
    ) -> tuple[Int[Tensor, "change"], Int[Tensor, "change"]]:
        """The changes of one position that are worst for the model to first order: where, and to what."""
        nearest = self.leads(above, below).argmin(1)
        slopes = self.at(nearest).slopes(above, below)[1][0]
        gains = slopes - slopes.gather(1, options.unsqueeze(1))
        gains = gains.masked_fill(~self.allowed, math.inf).flatten()
        count = min(_CHANGES_AT_ONCE, int(self.allowed.sum()))
        chosen = gains.topk(count, largest=False).indices
        letters = self.allowed.shape[1]
        return torch.div(chosen, letters, rounding_mode="floor"), chosen % letters
