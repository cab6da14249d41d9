"""Gradient-guided search: which single change of a token would lower the margin most, to first order?

A token enters a model as a row of a table. The gradient of the margin with respect to what came out of the
table at a position, times the difference of two rows, estimates what exchanging one token for the other does
(HotFlip, Ebrahimi et al., 2018). The best estimates of all positions and tokens are then tried exactly, one
change at a time and many at once. Inputs of real numbers have a gradient themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final, NamedTuple, final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from separatrix.certificates.attacks.domains import Domain
from separatrix.certificates.attacks.hunts import Attack, Hunt
from separatrix.certificates.attacks.subjects import labelled, margins_of
from separatrix.models.fnn import FeedForwardNet, TokenTable
from separatrix.models.population import Population
from separatrix.models.stack import Frame, Reading
from separatrix.tasks import Labels, Reals, Task

__all__ = ["GradientSearch", "Options", "estimates"]

_STARTS: Final = 64
_ESTIMATES: Final = 1 << 24
_SAMPLED: Final = 16
_SINGLE: Final = 24
_RENAMED: Final = 8
_RENAMED_WORK: Final = 1 << 5
_OPTIONS_OF_REALS: Final = 64
_FIRST_SAMPLE: Final = 2 << 40

Rows = Shaped[Tensor, "batch pos *width"]


@final
class GradientSearch(Attack):
    """Many starts side by side, each going where the margin falls most; one that is stuck starts anew."""

    name: ClassVar[str] = "gradient search"

    def run(self, hunt: Hunt) -> str | None:
        """A round is one gradient for every start, and all its candidates judged."""
        guide = hunt.subject.guide
        if guide is None or not _has_gradient(guide, hunt.task):
            return "this model has no gradient to follow"
        options = Options.of(hunt.domain)
        size = max(1, min(_STARTS, hunt.subject.at_once, _ESTIMATES // options.changes))
        used, number = size, 0
        rows, margins = _starts(hunt, size, 0)
        while hunt.goes_on(number):
            estimated = estimates(guide, hunt.task, rows, options)
            candidates = _candidates(rows, estimated, options, hunt.domain)
            judged = hunt.judge(candidates.flatten(0, 1)).view(candidates.shape[:2])
            least, which = judged.min(1)
            better = least < margins
            rows = torch.where(
                better.view(-1, *[1] * (rows.dim() - 1)), candidates[torch.arange(size), which], rows
            )
            margins = torch.minimum(least, margins)
            anew = (~better | (margins <= 0)).nonzero().squeeze(1)
            if len(anew):
                rows[anew], margins[anew] = _starts(hunt, len(anew), used)
                used += len(anew)
            number += 1
        return f"rounds: {number}, starts: {used}"


def _starts(hunt: Hunt, count: int, used: int) -> tuple[Rows, Float[Tensor, "batch"]]:
    """The samples that the model is least sure of, of several for each start; those that fail are found."""
    several = count * _SAMPLED
    rows = hunt.task.sample(several, seed=hunt.seed, start=_FIRST_SAMPLE + used * _SAMPLED).inputs
    margins = hunt.judge(rows)
    margins = torch.where(margins > 0, margins, torch.inf)
    best = margins.argsort(stable=True)[:count]
    return rows[best], margins[best]


class Options(NamedTuple):
    """What may stand at each position: tokens that samples have there, or whole rows of real numbers."""

    values: Shaped[Tensor, "option *pos_width"]
    """Token numbers, the same for all positions; or rows of real inputs."""
    allowed: Shaped[Tensor, "pos option"]

    @property
    def changes(self) -> int:
        """Changes of one input."""
        return self.allowed.numel()

    @classmethod
    def of(cls, domain: Domain) -> Options:
        """Those of a task's samples; never padding."""
        space, pool = domain.task.input_space, domain.pool
        if isinstance(space, Reals):
            values = pool[:: max(1, len(pool) // _OPTIONS_OF_REALS)]
            return cls(values, torch.ones(pool.shape[1], len(values), dtype=torch.bool))
        allowed = torch.zeros(pool.shape[1], space.size, dtype=torch.bool)
        allowed.scatter_(1, pool.mT, True)
        if space.pad is not None:
            allowed[:, space.pad] = False
        return cls(torch.arange(space.size), allowed)

    def placed(self, rows: Rows, place: Int[Tensor, "batch"], option: Int[Tensor, "batch"]) -> Rows:
        """The rows with one position changed in each."""
        found = rows.clone()
        number = torch.arange(len(rows))
        found[number, place] = self.values[option] if rows.dim() == 2 else self.values[option, place]
        return found

    def chosen(self, rows: Rows, option: Int[Tensor, "batch pos"]) -> Rows:
        """These options at all positions."""
        if rows.dim() == 2:
            return self.values[option]
        return self.values[option, torch.arange(rows.shape[1])]


def estimates(
    population: Population, task: Task, rows: Rows, options: Options
) -> Float[Tensor, "batch pos option"]:
    """How much the least margin of each row would change, to first order; infinite where it may not."""
    labels = task.solve(rows)
    home = next(population.parameters()).device
    if isinstance(task.input_space, Reals):
        leaf = rows.detach().clone().to(home).requires_grad_()
        (gradient,) = torch.autograd.grad(_least(population, task, leaf, labels), leaf)
        values = options.values.to(home)
        changed = torch.einsum("bpw,opw->bpo", gradient, values)
        now = (gradient * leaf.detach()).sum(-1)
    else:
        reading = _reading(population)
        assert reading is not None
        held = _Held()
        hook = reading.register_forward_hook(held)
        try:
            least = _least(population, task, rows.to(home), labels)
        finally:
            hook.remove()
        (wide,) = torch.autograd.grad(least, held.stream)
        gradient = wide.squeeze(0)
        table = _table(reading)
        changed = gradient @ table.mT
        now = changed.gather(2, rows.to(home).unsqueeze(2)).squeeze(2)
    found = (changed - now.unsqueeze(2)).detach().cpu().double()
    return found.masked_fill(~options.allowed, torch.inf).nan_to_num(nan=torch.inf, posinf=torch.inf)


class _Held:
    """Cuts the graph behind the table, so that what comes out of it is a leaf."""

    stream: Tensor

    def __call__(self, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        self.stream = output.detach().requires_grad_()
        return self.stream


def _least(population: Population, task: Task, inputs: Tensor, labels: Labels) -> Float[Tensor, ""]:
    """The sum over the rows of the least margin of each."""
    at, due, targets = labelled(labels, task.asking.most)
    home = inputs.device
    with torch.enable_grad():
        scores = population(inputs.unsqueeze(0), at.to(home).unsqueeze(0)).squeeze(0)
        margins, _ = margins_of(scores, scores.argmax(-1), targets.to(home), task.target_space)
        least = margins.masked_fill(~due.to(home), torch.inf).amin(1)
        total: Float[Tensor, ""] = least[least.isfinite()].sum()
    return total


def _candidates(
    rows: Rows, estimated: Float[Tensor, "batch pos option"], options: Options, domain: Domain
) -> Shaped[Tensor, "batch candidate pos *width"]:
    """The most promising single changes of each row, then the best of 2, 4, 8, … positions together.

    And of tokens, one exchanged for another wherever it stands: a key that is asked for must stand twice.
    """
    length, kinds = estimated.shape[1:]
    single = min(_SINGLE, length * kinds)
    flat = estimated.flatten(1).topk(single, dim=1, largest=False).indices
    found = [
        domain.changed(rows, options.placed(rows, flat[:, number] // kinds, flat[:, number] % kinds))
        for number in range(single)
    ]
    if rows.dim() == 2 and rows.numel() * length * kinds <= _ESTIMATES * _RENAMED_WORK:
        found += [domain.changed(rows, renamed) for renamed in _renamings(rows, estimated)]
    gains, choices = estimated.min(2)
    rank = gains.argsort(1).argsort(1)
    best = options.chosen(rows, choices)
    for power in range(1, length.bit_length() + 1):
        moved = (rank < 1 << power) & (gains < 0)
        moved = moved.view(*moved.shape, *[1] * (rows.dim() - 2))
        found.append(domain.changed(rows, torch.where(moved, best, rows)))
    return torch.stack(found, dim=1)


def _renamings(
    rows: Int[Tensor, "batch pos"], estimated: Float[Tensor, "batch pos option"]
) -> Iterator[Int[Tensor, "batch pos"]]:
    """The most promising exchanges of all places of a token that stands at several."""
    kinds = estimated.shape[2]
    same = rows.unsqueeze(1) == rows.unsqueeze(2)
    barred = estimated.isinf()
    summed = same.double() @ estimated.masked_fill(barred, 0)
    barred = (same.double() @ barred.double()) > 0
    alone = same.sum(2) == 1
    summed = summed.masked_fill(barred | alone.unsqueeze(2), torch.inf)
    flat = summed.flatten(1).topk(min(_RENAMED, summed.shape[1] * kinds), dim=1, largest=False).indices
    for place, option in zip((flat // kinds).unbind(1), (flat % kinds).unbind(1), strict=True):
        old = rows.gather(1, place.unsqueeze(1))
        yield torch.where(rows == old, option.unsqueeze(1), rows)


def _has_gradient(population: Population, task: Task) -> bool:
    return isinstance(task.input_space, Reals) or _reading(population) is not None


def _reading(population: Population) -> Reading | TokenTable | None:
    """The module that turns tokens into the stream."""
    if isinstance(population, Frame | FeedForwardNet):
        return population.reading
    return None


def _table(reading: Reading | TokenTable) -> Float[Tensor, "token width"]:
    table = reading.table
    assert table is not None
    return table[0]
