"""Keys that an attention head cannot tell apart, as one group, and the real half of attention's lemma.

A group has a number of keys between `least` and `most`, never written out: 2^60 losers cost as much as one.

Softmax weights are masses over their sum. Bounding the sum of mass times value and the sum of masses apart
would forget that the weights add up to 1; here the extreme of their quotient is found exactly. It is a ratio
of two linear functions of the masses, hence monotone in each of them, hence extreme where every mass is at an
end, and there the groups with the largest values have their largest masses and the others their least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from flint import fmpq

from separatrix.certificates.enclosures.boxes import ONE, ZERO, Box, Ends
from separatrix.errors import InvalidInput

__all__ = ["Attended", "KeyGroup", "Masses", "gaps", "highest", "require_groups"]

MOST_CASES = 8


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class KeyGroup:
    """Between `least` and `most` keys, each with its computed logit and computed value in these boxes."""

    logit: Box
    """One interval."""
    value: Box
    """(width,)"""
    least: int = 1
    most: int = 1
    tied: bool = False
    """Whether all keys of the group are known to have one and the same computed logit."""

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most:
            raise InvalidInput(
                f"A group has 0 <= least <= most keys; got least={self.least}, most={self.most}."
            )
        if self.logit.size != 1 or len(self.value.shape) != 1:
            raise InvalidInput(
                "A group has a logit of one interval and a value of shape (width,); "
                f"got {self.logit.shape} and {self.value.shape}."
            )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Attended:
    """What a head's output can be, and what the weights of each group can add up to."""

    output: Box
    """(width,)"""
    weights: Box
    """(group,): the exact sum of the computed weights of the group's keys."""

    @classmethod
    def of(cls, groups: Sequence[KeyGroup], output: Box, weights: Sequence[tuple[fmpq, fmpq]]) -> Attended:
        """With the weights of those groups that can have keys; the others weigh nothing."""
        remaining = iter(weights)
        every = [next(remaining) if group.most > 0 else (ZERO, ZERO) for group in groups]
        low, high = _row([each for each, _ in every]), _row([each for _, each in every])
        return cls(output=output, weights=Box(low, high).shortened())


def require_groups(groups: Sequence[KeyGroup]) -> list[KeyGroup]:
    """The groups that can have keys, of one width; a softmax is over one key at least."""
    present = [group for group in groups if group.most > 0]
    if not present:
        raise InvalidInput("Attention needs a key to attend to; every group is empty.")
    widths = {group.value.shape for group in groups}
    if len(widths) > 1:
        raise InvalidInput(f"Values of one head have one width; got {sorted(widths)}.")
    return present


def highest(groups: Sequence[KeyGroup]) -> tuple[fmpq, fmpq]:
    """Where the largest logit of all keys lies."""
    ends = [group.logit.scalar for group in groups]
    sure = [low for group, (low, _) in zip(groups, ends, strict=True) if group.least > 0]
    return max(sure) if sure else min(low for low, _ in ends), max(high for _, high in ends)


def gaps(groups: Sequence[KeyGroup]) -> list[tuple[fmpq, fmpq]]:
    """For each group, where its logits lie relative to the largest of all: both ends at most 0.

    A key that is alone in its group, or tied with all of it, falls short of the largest only by what other
    groups exceed it.
    """
    floor, _ = highest(groups)
    ends = [group.logit.scalar for group in groups]
    result = []
    for place, (group, (low, high)) in enumerate(zip(groups, ends, strict=True)):
        rivals = [top for other, (_, top) in enumerate(ends) if other != place]
        if group.most > 1 and not group.tied:
            rivals.append(high)
        result.append((min(ZERO, low - max(rivals)) if rivals else ZERO, min(ZERO, high - floor)))
    return result


@final
@dataclass(frozen=True, kw_only=True)
class Masses:
    """Bounds of each group's sum of exps, all up to one common positive factor.

    The largest logit belongs to a key of a group that `leads`; such a key alone has mass at least `floor`.
    """

    low: tuple[fmpq, ...]
    high: tuple[fmpq, ...]
    leads: tuple[bool, ...]
    floor: fmpq = ONE

    @property
    def most_total(self) -> fmpq:
        """An upper bound of it."""
        return sum(self.high, ZERO)

    def least_rest(self, place: int) -> fmpq:
        """A lower bound of the mass of all other groups together."""
        rest = sum(self.low, ZERO) - self.low[place]
        return rest if self.leads[place] else max(rest, self.floor)

    def shares(self) -> list[tuple[fmpq, fmpq]]:
        """For each group, its part of the total mass."""
        most = self.most_total
        found = []
        for place, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            over, under = high + self.least_rest(place), most - high + low
            found.append((low / under if low else ZERO, min(high / over, ONE) if high else ZERO))
        return found

    def greatest_mean(self, values: Sequence[fmpq]) -> fmpq:
        """The largest that Σ mass · value / Σ mass can be."""
        return max(_greatest_mean(low, self.high, values) for low in self._cases())

    def mean(self, value: Box) -> Box:
        """Around every mass-weighted mean of values: (group, width) → (width,)."""
        low = [-self.greatest_mean([-end for end in column]) for column in value.low.T]
        high = [self.greatest_mean(list(column)) for column in value.high.T]
        return Box(_row(low), _row(high)).shortened()

    def _cases(self) -> list[tuple[fmpq, ...]]:
        """Lower bounds of the masses, by which group has the largest logit.

        One case if that would add little, or if the cases are too many to be worth their time.
        """
        leaders = [place for place, leads in enumerate(self.leads) if leads]
        if sum(self.low, ZERO) >= self.floor or len(leaders) > MOST_CASES:
            return [self.low]
        return [
            tuple(self.floor if place == leader else low for place, low in enumerate(self.low))
            for leader in leaders
        ]


def _row(values: Sequence[fmpq]) -> Ends:
    row = np.empty(len(values), dtype=object)
    row[:] = values
    return row


def _greatest_mean(low: Sequence[fmpq], high: Sequence[fmpq], values: Sequence[fmpq]) -> fmpq:
    """Start from the least masses and raise those of the largest values, while that raises the mean."""
    total = sum(low, ZERO)
    weighted = sum((mass * value for mass, value in zip(low, values, strict=True)), ZERO)
    for place in sorted(range(len(values)), key=lambda index: values[index], reverse=True):
        more = high[place] - low[place]
        if total > 0 and values[place] * total <= weighted:
            break
        total, weighted = total + more, weighted + more * values[place]
    return weighted / total
