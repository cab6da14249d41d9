"""Evolution of inputs: change those that the model is least sure of, keep what makes it less sure still.

It asks nothing of the model but its margins, so it serves for every model. What it changes stays an input of
the task: values come from samples at the same place, and the task refuses the rest.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Final, final

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from separatrix.certificates.attacks.domains import Domain
from separatrix.certificates.attacks.hunts import Attack, Hunt
from separatrix.randomness import Draws

__all__ = ["Evolution", "crossed", "mutated"]

_PARENTS: Final = 128
_PATIENCE: Final = 24
_FIRST_SAMPLE: Final = 1 << 40
"""Samples of other purposes, those of training among them, have smaller numbers."""

_FIRST_STRANGER: Final = 5 << 40

Rows = Shaped[Tensor, "batch pos *width"]


@final
class Evolution(Attack):
    """Mutations and crossovers under selection by margin, begun anew when nothing gets better."""

    name: ClassVar[str] = "evolution"

    def run(self, hunt: Hunt) -> str | None:
        """Each round doubles the parents by children and keeps the better half of all."""
        size = max(2, min(_PARENTS, hunt.subject.at_once))
        parents, margins = _fresh(hunt, size, 0)
        best, waited, restarts, number = float(margins.amin()), 0, 0, 0
        while hunt.goes_on(number):
            draws = hunt.draws(size, start=number * size)
            chosen = _chosen(margins, draws)
            mates = parents[draws.integers("mate", (), size)]
            mixed = crossed(parents[chosen], mates, hunt.domain, draws)
            children = torch.where(
                _wide(draws.integers("crossed", (), 4) == 0, mixed), mixed, parents[chosen]
            )
            children = mutated(children, hunt.domain, draws)
            # Newcomers, so that a task whose inputs bear no change is still searched.
            strangers = max(1, size // 8)
            children[-strangers:] = _samples(hunt, strangers, _FIRST_STRANGER + number * strangers)
            everyone = torch.cat([parents, children])
            judged = torch.cat([margins, hunt.judge(children)])
            # What has failed is kept by the hunt; a search that stays there would find it over and over.
            alive = torch.where(judged > 0, judged, torch.inf)
            kept = _distinct(everyone, alive).argsort(stable=True)[:size]
            parents, margins = everyone[kept], alive[kept]
            number += 1
            waited = 0 if float(margins.amin()) < best else waited + 1
            best = min(best, float(margins.amin()))
            if waited >= _PATIENCE or not bool(margins.isfinite().any()):
                restarts += 1
                parents, margins = _fresh(hunt, size, restarts)
                best, waited = float(margins.amin()), 0
        return f"rounds: {number}, starts: {restarts + 1}"


def _fresh(hunt: Hunt, size: int, restart: int) -> tuple[Rows, Tensor]:
    """Parents from nothing: half samples of the task, half of its longest inputs; failures are dead."""
    rows = _samples(hunt, size, _FIRST_SAMPLE + restart * size)
    margins = hunt.judge(rows)
    return rows, torch.where(margins > 0, margins, torch.inf)


def _samples(hunt: Hunt, size: int, start: int) -> Rows:
    half = size // 2
    own = hunt.task.sample(size - half, seed=hunt.seed, start=start).inputs
    if not half:
        return own
    full = hunt.task.full_length().sample(half, seed=hunt.seed, start=start + size - half).inputs
    return torch.cat([own, full])


def _chosen(margins: Shaped[Tensor, "batch"], draws: Draws) -> Int[Tensor, "batch"]:
    """For each place the better of two random parents."""
    pair = draws.integers("parents", (2,), len(margins))
    return pair.gather(1, margins[pair].argmin(1, keepdim=True)).squeeze(1)


def _distinct(rows: Rows, margins: Shaped[Tensor, "batch"]) -> Shaped[Tensor, "batch"]:
    """The margins, infinite for a row that an earlier one equals: copies would crowd out the rest."""
    seen: set[bytes] = set()
    found = margins.clone()
    for number, row in enumerate(rows):
        key = row.numpy().tobytes()
        if key in seen:
            found[number] = torch.inf
        seen.add(key)
    return found


def crossed(first: Rows, second: Rows, domain: Domain, draws: Draws) -> Rows:
    """A stretch of positions, or each position by a coin, from the second parent."""
    length = first.shape[1]
    ends = draws.integers("stretch", (2,), length + 1).sort(dim=1).values
    place = torch.arange(length)
    stretch = (place >= ends[:, :1]) & (place < ends[:, 1:])
    by_coin = draws.coins("by coin", (length,))
    taken = torch.where(draws.coins("kind of cross", ()).unsqueeze(1), stretch, by_coin)
    return domain.changed(first, torch.where(_wide(taken, first), second, first))


def mutated(rows: Rows, domain: Domain, draws: Draws) -> Rows:
    """Every row changed in one of several ways, each row in its own."""
    again = dataclasses.replace(draws, stream=f"{draws.stream}/again")
    ways = (
        _points(rows, domain, draws),
        _points(rows, domain, again),
        _renamed(rows, domain, draws),
        _copied(rows, draws, back=False),
        _copied(rows, draws, back=True),
        _mirrored(rows, domain, draws),
    )
    way = draws.integers("way", (), len(ways))
    found = rows
    for number, candidate in enumerate(ways):
        found = torch.where(_wide(way == number, rows), candidate, found)
    return domain.changed(rows, found)


def _points(rows: Rows, domain: Domain, draws: Draws) -> Rows:
    """Some numbers, mostly few, replaced by what samples have at their places."""
    cells, pool = rows.flatten(1), domain.pool.flatten(1)
    count = cells.shape[1]
    level = draws.integers("how many", (), count.bit_length())
    drawn = draws.integers("where", (count,), 1 << 30)
    chosen = drawn < ((1 << 30) // (1 << level)).unsqueeze(1)
    one = draws.integers("at least", (1,), count)
    chosen = torch.where((level == count.bit_length() - 1).unsqueeze(1), False, chosen).scatter(1, one, True)
    if rows.dim() == 3:  # whole positions as often as single numbers
        by_position = chosen.view(rows.shape).any(2, keepdim=True).expand(rows.shape).flatten(1)
        chosen = torch.where(draws.coins("whole positions", ()).unsqueeze(1), by_position, chosen)
    together = draws.coins("from one sample", ()).unsqueeze(1)
    sources = torch.where(
        together,
        draws.integers("sample", (1,), len(pool)),
        draws.integers("samples", (count,), len(pool)),
    )
    return torch.where(chosen, pool.gather(0, sources), cells).view(rows.shape)


def _renamed(rows: Rows, domain: Domain, draws: Draws) -> Rows:
    """One value replaced by another wherever it stands."""
    cells, pool = rows.flatten(1), domain.pool.flatten(1)
    place = draws.integers("renamed place", (1,), cells.shape[1])
    old = cells.gather(1, place)
    new = pool[draws.integers("renamed sample", (), len(pool))].gather(1, place)
    return torch.where(cells == old, new, cells).view(rows.shape)


def _copied(rows: Rows, draws: Draws, *, back: bool) -> Rows:
    """A few neighbouring positions written over others; with `back`, both change places."""
    length = rows.shape[1]
    span = 1 << draws.integers("span", (), min(3, length.bit_length())).unsqueeze(1)
    ends = draws.integers("spans", (2,), length)
    place = torch.arange(length).expand(len(rows), -1)
    source, goal = ends[:, :1], ends[:, 1:]
    index = place.clone()
    there = (place >= goal) & (place < goal + span)
    index = torch.where(there, (place - goal + source).clamp(max=length - 1), index)
    if back:
        here = (place >= source) & (place < source + span) & ~there
        index = torch.where(here, (place - source + goal).clamp(max=length - 1), index)
    return torch.gather(rows, 1, _wide(index, rows).expand(rows.shape))


def _mirrored(rows: Rows, domain: Domain, draws: Draws) -> Rows:
    """In a square of numbers, as of a graph, one number and its mirror image; else one point."""
    if rows.dim() == 2 or rows.shape[1] != rows.shape[2]:
        return _points(rows, domain, draws)
    size = rows.shape[1]
    place = draws.integers("mirrored", (2,), size)
    number = torch.arange(len(rows))
    first, second = place.unbind(1)
    new = domain.pool[draws.integers("mirrored sample", (), len(domain.pool)), first, second]
    found = rows.clone()
    found[number, first, second] = new
    found[number, second, first] = new
    return found


def _wide(values: Bool[Tensor, "batch *pos"], rows: Rows) -> Tensor:
    """With as many axes as the rows."""
    return values.view(*values.shape, *[1] * (rows.dim() - values.dim()))
