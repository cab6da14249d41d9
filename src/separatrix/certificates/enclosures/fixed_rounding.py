"""Fixed point: rounding is monotone and known, so the ends of a result are the rounded ends.

Nothing is lost but the correlation between operands. In attention a second bound brings part of it back: the
weights are masses over their sum up to a step each, so the output is near a mean of the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
from flint import fmpq

from separatrix.certificates.enclosures.boxes import (
    ONE,
    ZERO,
    Box,
    Ends,
    as_ends,
    as_rational,
    exp_ends,
    matrix_product,
    products,
    quotients,
)
from separatrix.certificates.enclosures.key_groups import (
    Attended,
    KeyGroup,
    Masses,
    gaps,
    highest,
    require_groups,
)
from separatrix.certificates.enclosures.rounding import Rounding, rows_of
from separatrix.precision.fixed import FixedPoint

__all__ = ["FixedRounding"]

FARTHEST = 64  # beyond, an uncertain largest logit leaves nothing to learn from masses relative to another


@final
@dataclass(frozen=True, kw_only=True)
class FixedRounding(Rounding):
    """Any fixed-point system whose rounding is monotone and leaves its own numbers alone.

    `most_down` and `most_up` say how many steps a rounding can move a number, before clamping.
    """

    system: FixedPoint
    most_down: Fraction
    most_up: Fraction

    def error_model(self) -> tuple[str, ...]:
        """Where the system rounds."""
        return (
            f"Numbers are {self.system}: results are exact, then rounded and clamped as that system does.",
            "An affine map and an inner product round once, after the exact sum with its bias.",
            "Softmax subtracts the largest logit; each difference, exp and quotient is rounded, and the sum.",
            "Attention rounds every product of a weight and a value, adds the products exactly and clamps.",
        )

    @property
    def step(self) -> fmpq:
        """The distance between neighbours."""
        return fmpq(1, self.system.one)

    @property
    def largest(self) -> fmpq:
        """The largest number."""
        return fmpq(self.system.limit, self.system.one)

    def round(self, value: fmpq) -> fmpq:
        """One exact number, rounded and clamped."""
        steps = value * self.system.one
        whole = int(steps.p) if steps.q == 1 else self.system.round_fraction(as_rational(steps))
        return fmpq(max(-self.system.limit, min(self.system.limit, whole)), self.system.one)

    def encode(self, values: Box) -> Box:
        """Rounded and clamped."""
        return values.monotone(self.round)

    def add(self, left: Box, right: Box) -> Box:
        """Exact but for clamping."""
        return self.encode(left + right)

    def multiply(self, left: Box, right: Box) -> Box:
        """The exact product, rounded."""
        return self.encode(products(left, right))

    def divide(self, left: Box, right: Box) -> Box:
        """The exact quotient, rounded."""
        return self.encode(quotients(left, right))

    def exp(self, box: Box) -> Box:
        """The true e^x, rounded."""
        return box.monotone(self._exp)

    def _exp(self, argument: fmpq) -> fmpq:
        """e^x is irrational unless x is 0, so with enough digits both its bounds round alike.

        Far below 0 they need not be computed: e^x lies between 0 and a bound that may round to 0 too.
        """
        digits = self.system.limit.bit_length() + 1
        if argument > digits:
            return self.largest
        low, high = (ZERO, exp_ends(fmpq(-digits))[1]) if argument < -digits else exp_ends(argument, digits)
        while self.round(low) != self.round(high):
            digits *= 2
            low, high = exp_ends(argument, digits)
        return self.round(low)

    def affine(self, x: Box, weights: Box, bias: Box | None = None) -> Box:
        """The exact affine map, rounded once."""
        image = matrix_product(rows_of(x), weights)
        image = image if bias is None else image + bias
        return self.encode(image).reshape(*x.shape[:-1], weights.shape[0])

    def dot(self, left: Box, right: Box) -> Box:
        """The exact inner product, rounded once."""
        return self.encode(products(left, right).sum(-1))

    def attend(self, groups: Sequence[KeyGroup]) -> Attended:
        """Several enclosures of the sum of rounded products, and what they have in common, clamped.

        Key by key: each weight between rounded quotients, each product between rounded products, times the
        number of keys. That is exact where logits and counts are known. As a mean: the rounded weights are
        near true ones, which add up to 1 (or to more, where the sum of exps was clamped).
        """
        present = require_groups(groups)
        exps = [(self._exp(self.round(low)), self._exp(self.round(high))) for low, high in gaps(present)]
        masses = Masses(
            low=tuple(group.least * low for group, (low, _) in zip(present, exps, strict=True)),
            high=tuple(group.most * high for group, (_, high) in zip(present, exps, strict=True)),
            leads=tuple(high == ONE for _, high in exps),
        )
        weights = [self._weight(group, masses, place, exps[place]) for place, group in enumerate(present)]
        sums = [_times(group, low, high) for group, (low, high) in zip(present, weights, strict=True)]
        single = [
            self._sum_of_products(group, weight) for group, weight in zip(present, weights, strict=True)
        ]
        keys = Box(as_ends(sum(each.low for each in single)), as_ends(sum(each.high for each in single)))
        low, high = keys.low, keys.high
        bottom, top = highest(present)
        further = [self._masses_from_afar(present)] if 0 < top - bottom <= FARTHEST else []
        for bounds in (masses, *further):
            near, near_sums = self._near_mean(present, bounds)
            low, high = np.maximum(low, near.low), np.minimum(high, near.high)
            sums = [(max(a[0], b[0]), min(a[1], b[1])) for a, b in zip(sums, near_sums, strict=True)]
        inside = Box(low, high).mapped(self._up_to_step, self._down_to_step)
        return Attended.of(groups, self.encode(inside), sums)

    def _masses_from_afar(self, groups: Sequence[KeyGroup]) -> Masses:
        """Masses relative to a fixed logit instead of the largest, which need not be known.

        All exps are those of the real numbers times e^(reference - largest), then off by a rounding, and
        raised to e^-(largest number) where a difference is clamped.
        """
        reference, top = highest(groups)
        lift = exp_ends(top - reference)[1]
        down, up = (amount * lift for amount in self._slack())
        clamped = exp_ends(-self.largest)[1] * lift
        low, high = [], []
        for group, (gap, _) in zip(groups, gaps(groups), strict=True):
            least, most = group.logit.scalar
            low.append(group.least * max(exp_ends(least - reference)[0] - down, ZERO))
            most_each = exp_ends(most - reference)[1] + up + (clamped if gap < -self.largest else ZERO)
            high.append(group.most * most_each)
        leads = tuple(group.logit.scalar[1] >= reference for group in groups)
        return Masses(low=tuple(low), high=tuple(high), leads=leads)

    def _slack(self) -> tuple[fmpq, fmpq]:
        """How far a rounding moves a number down and up."""
        moves = (self.most_down, self.most_up)
        down, up = (self.step * fmpq(move.numerator, move.denominator) for move in moves)
        return down, up

    def _weight(
        self, group: KeyGroup, masses: Masses, place: int, exps: tuple[fmpq, fmpq]
    ) -> tuple[fmpq, fmpq]:
        """One key's weight: its exp over the clamped sum of its own and all the others'."""
        low, high = exps
        fewest = masses.least_rest(place) + max(group.least - 1, 0) * low
        most = masses.most_total - high
        return self.round(low / self._sum(low + most)), self.round(high / self._sum(high + fewest))

    def _sum(self, exact: fmpq) -> fmpq:
        """A sum of exps: at least the largest of them, which is 1, and clamped."""
        return min(max(exact, ONE), self.largest)

    def _sum_of_products(self, group: KeyGroup, weight: tuple[fmpq, fmpq]) -> Box:
        each = self.multiply(Box.between(*weight), group.value)
        few, many = each.scaled(group.least), each.scaled(group.most)
        return Box(as_ends(np.minimum(few.low, many.low)), as_ends(np.maximum(few.high, many.high)))

    def _near_mean(self, groups: Sequence[KeyGroup], masses: Masses) -> tuple[Box, list[tuple[fmpq, fmpq]]]:
        """The mean of the values, moved by what clamping the sum and rounding weights and products can do.

        A weight that rounds to 0 loses no more than itself, and one that is rounded up to a step had at least
        the part of it below `most_up`, so a group's weights never move by more than its share, times a
        constant; a group of very many keys with a tiny share stays tiny.
        """
        mean = masses.mean(Box.stack([group.value for group in groups]))
        excess = max(ONE, masses.most_total / self.largest)
        stretched = mean.scaled(excess)
        low, high = np.minimum(mean.low, stretched.low), np.maximum(mean.high, stretched.high)
        sums = []
        down, up = self._slack()
        for place, (group, (least, most)) in enumerate(zip(groups, masses.shares(), strict=True)):
            share = max(most, masses.high[place] / self.largest)
            nonzero = min(fmpq(group.most), share / (self.step - up)) if up < self.step else fmpq(group.most)
            lost = min(group.most * down, share)
            gained = nonzero * up
            sums.append((max(least - lost, ZERO), share + gained))
            moved = products(Box.between(-lost, ZERO), group.value) + products(
                Box.between(ZERO, gained), group.value
            )
            rounded = nonzero * np.where(_whole(group.value), as_ends(ZERO), as_ends(ONE))
            low, high = low + moved.low - rounded * down, high + moved.high + rounded * up
        return Box(low, high), sums

    def _up_to_step(self, value: fmpq) -> fmpq:
        """A sum of numbers of the system is a whole number of steps."""
        return fmpq((value * self.system.one).ceil(), self.system.one)

    def _down_to_step(self, value: fmpq) -> fmpq:
        return fmpq((value * self.system.one).floor(), self.system.one)


def _times(group: KeyGroup, low: fmpq, high: fmpq) -> tuple[fmpq, fmpq]:
    return group.least * low, group.most * high


def _whole(value: Box) -> Ends:
    """Where a value is one known integer: a weight times it needs no rounding."""
    known = [low == high and low.q == 1 for low, high in zip(value.low, value.high, strict=True)]
    return np.array(known, dtype=object).astype(bool)
