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
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.certificates.one_layer.contexts import Contexts
from separatrix.certificates.one_layer.form import OneLayer
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
    directions, offsets = required.directions.to(device), required.offsets.to(device)
    chosen = rivals[: effort.rivals].to(device).repeat(effort.starts)
    draws = torch.Generator(device="cpu").manual_seed((seed * 1_000_003 + number) & (2**63 - 1))
    best = _descended(form, contexts, number, directions[chosen], offsets[chosen], effort, draws)
    options, leads = best
    rank = leads.argsort()[: max(1, effort.starts)]
    found = Worst(math.inf, options[0])
    for row in rank.tolist():
        worst = _polished(form, contexts, number, options[row], directions, offsets, effort.polish)
        found = worst if worst.lead < found.lead else found
    return found


def _descended(
    form: OneLayer,
    contexts: Contexts,
    number: int,
    directions: Float[Tensor, "row out"],
    offsets: Float[Tensor, "row"],
    effort: Effort,
    draws: torch.Generator,
) -> tuple[Int[Tensor, "row pos"], Float[Tensor, "row"]]:
    tables = contexts.tables
    shape = (len(directions), *tables.weights.shape[1:])
    noise = torch.rand(shape, generator=draws, dtype=torch.float64).to(tables.weights.device)
    quiet = torch.arange(len(directions), device=noise.device) < len(directions) // effort.starts
    costs = noise.masked_fill(quiet[:, None, None], 0)
    if bool(quiet.any()):  # the first start of every rival is at the middle of the region
        weights = contexts.allowed[number].double()
        share = weights / weights.sum(1, keepdim=True)
        below = torch.einsum("to,hto->h", share, tables.weights).expand(len(directions), -1)
        above = torch.einsum("to,htop->hp", share, tables.weights.unsqueeze(3) * tables.values)
        slope = _slopes(form, contexts, above.expand(len(directions), -1, -1), below, directions, offsets)[1]
        costs = torch.where(quiet[:, None, None], slope, costs)
    _, options = contexts.minimum(number, costs)
    if effort.starts > 1:  # the second start is the worst of those with one option all over
        rows = slice(len(directions) // effort.starts, 2 * (len(directions) // effort.starts))
        options[rows] = _uniform(form, contexts, number, directions[rows], offsets[rows])
    best, least = options, torch.full((len(directions),), math.inf, dtype=torch.float64, device=noise.device)
    for step in range(effort.steps):
        above, below = tables.sums(options)
        leads, slopes = _slopes(form, contexts, above, below, directions, offsets)
        better = leads < least
        best, least = torch.where(better.unsqueeze(1), options, best), torch.minimum(least, leads)
        if step >= effort.steps // 3:  # all at once may overshoot: some positions stay as they were at best
            stay = (torch.rand(options.shape, generator=draws) < 0.5).to(best.device)
            keep = torch.nn.functional.one_hot(best, slopes.shape[2]).bool() & stay.unsqueeze(2)
            slopes = slopes.masked_fill(keep, -1e30)
        _, options = contexts.minimum(number, slopes)
    return best, least


def _uniform(
    form: OneLayer,
    contexts: Contexts,
    number: int,
    directions: Float[Tensor, "row out"],
    offsets: Float[Tensor, "row"],
) -> Int[Tensor, "row pos"]:
    """For every row the worst input of those that have one option wherever they may."""
    positions, options = contexts.tables.weights.shape[1:]
    liked = torch.eye(options, dtype=torch.float64, device=directions.device)
    _, every = contexts.minimum(number, -liked.unsqueeze(1).expand(-1, positions, -1))
    above, below = contexts.tables.sums(every)
    leads = form.tail(contexts.tables.stream(above, below)) @ directions.T + offsets
    return every[leads.argmin(0)]


def _slopes(
    form: OneLayer,
    contexts: Contexts,
    above: Float[Tensor, "row head part"],
    below: Float[Tensor, "row head"],
    directions: Float[Tensor, "row out"],
    offsets: Float[Tensor, "row"],
) -> tuple[Float[Tensor, "row"], Float[Tensor, "row pos option"]]:
    """The leads, and what each option at each position adds to them to first order."""
    tables = contexts.tables
    with torch.enable_grad():
        numerators, denominators = (each.detach().clone().requires_grad_() for each in (above, below))
        outputs = form.tail(tables.stream(numerators, denominators))
        leads = (outputs * directions).sum(1) + offsets
        by_above, by_below = torch.autograd.grad(leads.sum(), [numerators, denominators])
    costs = torch.einsum("rhp,htop->rhto", by_above, tables.values) + by_below[:, :, None, None]
    return leads.detach(), (costs * tables.weights).sum(1)


def _polished(
    form: OneLayer,
    contexts: Contexts,
    number: int,
    options: Int[Tensor, "pos"],
    directions: Float[Tensor, "rival out"],
    offsets: Float[Tensor, "rival"],
    most: int,
) -> Worst:
    """Change one position at a time to what is worst for the model; an order of options is left as it is."""
    tables, region = contexts.tables, contexts.regions[number]
    lead = float(_least_leads(form, contexts, options.unsqueeze(0), directions, offsets)[0])
    if region.order is not None:
        return Worst(lead, options)
    here = torch.arange(tables.positions, device=options.device)
    for _ in range(most):
        place, option = _likely(form, contexts, number, options, directions, offsets)
        above, below = tables.sums(options.unsqueeze(0))
        own = tables.weights[:, here, options]
        mine = own.unsqueeze(2) * tables.values[:, here, options]
        new = tables.weights[:, place, option]
        theirs = new.unsqueeze(2) * tables.values[:, place, option]
        changed_below = below + (new - own[:, place]).T
        changed_above = above + (theirs - mine[:, place]).transpose(0, 1)
        leads = _leads(form, tables.stream(changed_above, changed_below), directions, offsets)
        worst = int(leads.argmin())
        if not float(leads[worst]) < lead - 1e-12:
            break
        lead = float(leads[worst])
        options = options.clone()
        options[place[worst]] = option[worst]
    return Worst(lead, options)


def _likely(
    form: OneLayer,
    contexts: Contexts,
    number: int,
    options: Int[Tensor, "pos"],
    directions: Float[Tensor, "rival out"],
    offsets: Float[Tensor, "rival"],
) -> tuple[Int[Tensor, "change"], Int[Tensor, "change"]]:
    """The changes of one position that are worst for the model to first order: where, and to what."""
    above, below = contexts.tables.sums(options.unsqueeze(0))
    outputs = form.tail(contexts.tables.stream(above, below))[0]
    rival = (directions @ outputs + offsets).argmin()
    _, slopes = _slopes(form, contexts, above, below, directions[rival].unsqueeze(0), offsets[rival])
    gains = slopes[0] - slopes[0].gather(1, options.unsqueeze(1))
    gains = gains.masked_fill(~contexts.allowed[number], math.inf).flatten()
    chosen = gains.topk(min(_CHANGES_AT_ONCE, int(contexts.allowed[number].sum())), largest=False).indices
    count = contexts.allowed.shape[2]
    return torch.div(chosen, count, rounding_mode="floor"), chosen % count


def _least_leads(
    form: OneLayer,
    contexts: Contexts,
    options: Int[Tensor, "row pos"],
    directions: Float[Tensor, "rival out"],
    offsets: Float[Tensor, "rival"],
) -> Float[Tensor, "row"]:
    above, below = contexts.tables.sums(options)
    return _leads(form, contexts.tables.stream(above, below), directions, offsets)


def _leads(
    form: OneLayer,
    stream: Float[Tensor, "row width"],
    directions: Float[Tensor, "rival out"],
    offsets: Float[Tensor, "rival"],
) -> Float[Tensor, "row"]:
    """The least lead over any rival, row by row."""
    parts = torch.split(stream, _ROWS_AT_ONCE)
    return torch.cat([(form.tail(rows) @ directions.T + offsets).amin(1) for rows in parts])
