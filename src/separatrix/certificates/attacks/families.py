"""Inputs that the separations suggest: where a model that is nearly right is likely to be wrong.

Contexts that are all one symbol but for one place, where what a blunt head lets through adds up; contexts of
two symbols; the instances of INDEX, EQ and DISJ that differ in one place; brackets as deep as they may be,
and one mistake away from that.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, ClassVar, Final, TypeAlias, final

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from separatrix.certificates.attacks.bracket_strings import deep_and_near_miss
from separatrix.certificates.attacks.domains import Domain
from separatrix.certificates.attacks.hunts import Attack, Hunt
from separatrix.certificates.suspects import suspects
from separatrix.communication.problems import Disjointness, Index, Problem
from separatrix.communication.reductions import Reduction, reductions_for
from separatrix.randomness import Draws
from separatrix.tasks import Task
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.index_lookup import IndexLookup

__all__ = ["Brackets", "HardInstances", "NearlyEqual", "Suspects"]

_BY_HAND: Final = 256
_AT_ONCE: Final = 1 << 11
_SWEPT: Final = 1 << 18
_BASES: Final = 32
_DEVIATIONS: Final = 64
_ROUNDS: Final = 16
_STRINGS: Final = 64
_FIRST_SAMPLE: Final = 4 << 40

Rows: TypeAlias = Shaped[Tensor, "batch pos *width"]


@final
class Suspects(Attack):
    """The worst cases that are written by hand for a task."""

    name: ClassVar[str] = "suspects"

    def run(self, hunt: Hunt) -> str | None:
        """All of them, once."""
        rows = suspects(hunt.task, _BY_HAND)
        if rows is None:
            return None
        hunt.judge(rows)
        return ""


@final
class NearlyEqual(Attack):
    """Contexts that are all one symbol, but for one place; and contexts of two symbols."""

    name: ClassVar[str] = "nearly equal contexts"

    def run(self, hunt: Hunt) -> str | None:
        """For index lookup every place, target and other symbol, if they are not too many; else some."""
        if isinstance(hunt.task, IndexLookup):
            for rows in itertools.islice(_all_but_the_target(hunt.task, hunt.seed), hunt.rounds):
                hunt.judge(rows)
        for number in range(_ROUNDS if hunt.rounds is None else min(_ROUNDS, hunt.rounds)):
            draws = hunt.draws(_BASES, start=number * _BASES)
            for rows in _nearly_equal(hunt.task, hunt.domain, draws, number):
                hunt.judge(rows)
        return ""


@final
class HardInstances(Attack):
    """Inputs that lower bounds are made of: strings that differ in one place, and the question about it."""

    name: ClassVar[str] = "hard instances"

    def run(self, hunt: Hunt) -> str | None:
        """Those of every reduction to the task."""
        reductions = reductions_for(hunt.task)
        if not reductions:
            return None
        for number in range(_ROUNDS if hunt.rounds is None else min(_ROUNDS, hunt.rounds)):
            for reduction in reductions:
                draws = hunt.draws(_STRINGS, start=number * _STRINGS)
                hunt.judge(_instances(reduction, draws))
        return ", ".join(reduction.name for reduction in reductions)


@final
class Brackets(Attack):
    """Bracket strings of the greatest depth, and one mistake away from members."""

    name: ClassVar[str] = "deep and near-miss brackets"

    def run(self, hunt: Hunt) -> str | None:
        """Every mistake at every place of a few members."""
        if not isinstance(hunt.task, Dyck):
            return None
        for rows in itertools.islice(deep_and_near_miss(hunt.task, hunt.seed), hunt.rounds):
            hunt.judge(rows)
        return ""


def _all_but_the_target(task: IndexLookup, seed: int) -> Iterator[Int[Tensor, "batch pos"]]:
    """Every symbol is the same but the one that the index names: all such inputs, in a scattered order."""
    symbols = task.alphabet
    total = task.n * symbols * (symbols - 1)
    if not total:
        return
    stride = next(step for step in range(total * 5 // 8 | 1, 2 * total + 2) if math.gcd(step, total) == 1)
    for low in range(0, min(total, _SWEPT), _AT_ONCE):
        count = min(_AT_ONCE, min(total, _SWEPT) - low)
        number = ((torch.arange(low, low + count) + seed % total) * stride) % total
        place, pair = number // (symbols * (symbols - 1)), number % (symbols * (symbols - 1))
        target, other = pair // (symbols - 1), pair % (symbols - 1)
        other = other + (other >= target)
        rows = other.unsqueeze(1).repeat(1, task.length)
        rows.scatter_(1, place.unsqueeze(1), target.unsqueeze(1))
        rows[:, task.n] = symbols + place
        yield rows


def _nearly_equal(task: Task, domain: Domain, draws: Draws, number: int) -> Iterator[Rows]:
    """From samples: one value wherever it may stand, then another at one place; then both, by coins.

    Where a value may stand the samples say, so what is no part of the context stays as it was.
    """
    base = (
        task.full_length().sample(_BASES, seed=int(draws.seed), start=_FIRST_SAMPLE + number * _BASES).inputs
    )
    cells, pool = base.flatten(1), domain.pool.flatten(1)
    place = draws.integers("place", (1,), cells.shape[1])
    value, other = (
        pool[draws.integers(site, (), len(pool))].gather(1, place) for site in ("value", "other value")
    )
    fits = torch.stack([(pool == each).any(0) for each in value]) & torch.stack(
        [(pool == each).any(0) for each in other]
    )
    equal = torch.where(fits, value, cells)
    yield domain.changed(base, equal.view(base.shape))
    for row, where, stray in zip(equal, fits, other, strict=True):
        places = where.nonzero().squeeze(1)
        places = places[:: max(1, len(places) // _DEVIATIONS)]
        if not len(places):
            continue
        changed = row.repeat(len(places), 1).scatter(1, places.unsqueeze(1), stray.expand(len(places), 1))
        rows = changed.view(-1, *base.shape[1:])
        yield domain.changed(row.view(base.shape[1:]).expand_as(rows), rows)
    for rarity in (2, 8):
        strays = draws.integers(f"one in {rarity}", (cells.shape[1],), rarity) == 0
        mixed = torch.where(fits & strays, other, equal)
        yield domain.changed(base, mixed.view(base.shape))


def _instances(reduction: Reduction[Any], draws: Draws) -> Rows:
    """Strings of Alice's, each with a neighbour that differs in one place, and Bob's questions about it."""
    alice = reduction.problem.alice
    first = alice.drawn(draws, "string")
    dense = draws.integers("density", (), 3).unsqueeze(1)
    # A third are sparse and a third dense: random strings are neither.
    rare = draws.integers("rare", (alice.length,), 8) == 0
    first = torch.where((dense == 1) & ~rare, 0, first)
    first = torch.where((dense == 2) & ~rare, alice.symbols - 1, first)
    place = draws.integers("place", (1,), alice.length)
    step = 1 + draws.integers("step", (1,), max(1, alice.symbols - 1))
    second = first.scatter(1, place, (first.gather(1, place) + step) % alice.symbols)
    pairs = [(x, y) for y in _questions(reduction.problem, first, second, place) for x in (first, second)]
    rows = [reduction.inputs(x, y).flatten(0, 1) for x, y in pairs]
    return torch.cat(rows)


def _questions(
    problem: Problem,
    first: Int[Tensor, "batch x"],
    second: Int[Tensor, "batch x"],
    place: Int[Tensor, "batch 1"],
) -> Iterator[Int[Tensor, "batch y"]]:
    """What tells the two apart; for sets also all that the first lacks, and that with one element more."""
    if isinstance(problem, Index):
        yield place
        return
    yield problem.apart(first, second)
    if isinstance(problem, Disjointness):
        rest = 1 - first
        yield rest
        yield rest.scatter(1, place, 1)
