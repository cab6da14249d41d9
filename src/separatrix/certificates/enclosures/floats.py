"""One width of floats in exact rationals: rounding, flushing, exp, and how far a sum can be off."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from flint import fmpq

from separatrix.certificates.enclosures.boxes import ONE, ZERO, Box, exps, power_of_two
from separatrix.certificates.enclosures.rounding import Unbounded

__all__ = ["FloatFormat"]

HALF = fmpq(1, 2)


@final
@dataclass(frozen=True)
class FloatFormat:
    """`digits` of a significand, the leading one included; the smallest positive float is 2^least."""

    name: str
    digits: int
    least: int
    top: int
    """Every finite float is below 2^top."""

    @property
    def least_normal(self) -> int:
        """The exponent of the least normal float."""
        return self.least + self.digits - 1

    @cached_property
    def unit(self) -> fmpq:
        """u: a rounding moves a normal number by at most this part of it."""
        return power_of_two(-self.digits)

    @cached_property
    def tiny(self) -> fmpq:
        """The least normal float: below it, a result may be off by as much."""
        return power_of_two(self.least_normal)

    @cached_property
    def largest(self) -> fmpq:
        """The largest finite float."""
        return power_of_two(self.top) - power_of_two(self.top - self.digits)

    def _spacing(self, value: fmpq) -> fmpq:
        """Between the floats around a number that is not 0."""
        size = abs(value)
        exponent = size.p.bit_length() - size.q.bit_length()  # 2^exponent within a factor of 2
        if size < power_of_two(exponent):
            exponent -= 1
        return power_of_two(max(exponent - self.digits + 1, self.least))

    def nearest(self, value: fmpq) -> fmpq:
        """The nearest float, ties to even."""
        if value == 0:
            return value
        spacing = self._spacing(value)
        steps = value / spacing
        if steps.q == 1:
            return value
        whole = (steps + HALF).floor()
        tie = steps.q == 2
        return fmpq(whole - (whole % 2) if tie else whole) * spacing

    def above(self, value: fmpq) -> fmpq:
        """The least float that is not below the value."""
        if value == 0:
            return value
        spacing = self._spacing(value)
        return fmpq((value / spacing).ceil()) * spacing

    def below(self, value: fmpq) -> fmpq:
        """The largest float that is not above the value."""
        return -self.above(-value)

    def rounded(self, real: Box) -> Box:
        """One rounded operation whose exact result lies in `real`."""
        image = real.monotone(self.nearest)
        self.refuse_overflow(image)
        return self.read(image)

    def read(self, box: Box) -> Box:
        """Floats as operands or results: subnormal ones count as they are, or as 0."""
        rising = (box.low > 0) & (box.low < self.tiny)
        falling = (box.high < 0) & (box.high > -self.tiny)
        if not np.any(rising) and not np.any(falling):
            return box
        return box.mapped(
            lambda low: ZERO if 0 < low < self.tiny else low,
            lambda high: ZERO if -self.tiny < high < 0 else high,
        )

    def refuse_overflow(self, box: Box) -> None:
        """Infinity is not enclosed."""
        if np.any(box.high > self.largest) or np.any(box.low < -self.largest):
            raise Unbounded(
                f"A result may overflow {self.name}, which ends at 2^{self.top}; no enclosure can be given. "
                "Scale the operands down or use wider floats."
            )

    def exp(self, box: Box) -> Box:
        """2 ulp are at most 4u of a normal value, and twice the smallest float of a subnormal one."""
        true = exps(self.read(box))
        image = true.mapped(self.least_exp, self.most_exp)
        self.refuse_overflow(image)
        return image

    def least_exp(self, true: fmpq) -> fmpq:
        """The least that may be computed where e^x is this much: 0 where it may be flushed."""
        least = true * (ONE - 4 * self.unit)
        return self.above(least) if least >= 2 * self.tiny else ZERO

    def most_exp(self, true: fmpq) -> fmpq:
        """The most that may be computed there."""
        return self.below(true * (ONE + 4 * self.unit) + power_of_two(self.least + 1))

    def growth(self, terms: int) -> fmpq:
        """c with |computed - real| <= c · Σ|products| for a sum of so many products, apart from underflow.

        nu/(1 - nu) while that is at most 1 (every term takes part in at most n roundings). Beyond, every
        rounding of a sum a + b errs by at most min(|a|, |b|, u|a + b|), and by induction over the tree of
        additions the errors add up to at most (2n - 1)u · Σ|products|: where one side's sizes are below u
        times the other's, the first two bounds give it, else the third. With fused multiply-add the leaf is
        exact and the same steps hold. Flushing a result r to 0 is adding the further term -r, so at most 3n
        terms take part.
        """
        scaled = terms * self.unit
        return scaled / (ONE - scaled) if 2 * scaled <= ONE else 6 * scaled
