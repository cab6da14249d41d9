"""Fixed point: S's p-bit numbers, rounded down, and W's, rounded to nearest.

A number is held as the whole number of steps it lies from 0, in as many int64 limbs as the range needs, so
every operation is exact before its one rounding, on CPU and GPU alike.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.precision.exponential import EXP_ERROR, exp_bounds, exp_lower, reach_below
from separatrix.precision.integers import Integers, ceil_log2, where
from separatrix.precision.system import (
    Numbers,
    NumberSystem,
    RoundingPoints,
    Values,
    as_fraction,
    as_tensor_or_array,
    checked_mask,
    refuse_empty_axis,
    refuse_misfit,
    refuse_nonfinite,
    refuse_zero,
)

__all__ = ["FixedDown", "FixedNearest"]

WIDEST = 400  # bits; up to here every intermediate result fits the limbs and the float64 estimates
EXP_GUARD = 30  # bits below the step: about one exp in 2^25 is left to the host
WEIGHT_GUARD = 60  # as much for a whole softmax, whose error grows with its length
PRODUCTS_AT_ONCE = 1 << 21


class FixedPoint(NumberSystem):
    """Multiples of 1/one between -limit/one and limit/one; the leaves say which, and how to round."""

    @property
    @abstractmethod
    def one(self) -> int:
        """Steps in the number 1."""

    @property
    @abstractmethod
    def limit(self) -> int:
        """Steps in the largest number."""

    @abstractmethod
    def round_fraction(self, value: Fraction) -> int:
        """An exact number of steps rounded to a whole one, before clamping."""

    @abstractmethod
    def _round(
        self, dividend: Integers, divisor: Integers | int, *, quotient_bits: int | None = None
    ) -> Integers:
        """The same for a tensor of quotients with positive divisors."""

    @property
    def largest(self) -> Fraction:
        """limit/one."""
        return Fraction(self.limit, self.one)

    @property
    def smallest(self) -> Fraction:
        """1/one."""
        return Fraction(1, self.one)

    def encode(self, values: Values, *, device: torch.device | str | None = None) -> Numbers:
        """Rounded as the system rounds, then clamped; infinity and NaN are refused."""
        values = as_tensor_or_array(values)
        if isinstance(values, Tensor):
            tensor = values if device is None else values.to(device)
            if tensor.is_floating_point():
                return self._clip(self._from_float(tensor.to(torch.float64)))
            return self._clip(Integers.of(tensor.to(torch.int64), 63) * self.one)
        steps = [self.round_fraction(as_fraction(value) * self.one) for value in values.reshape(-1)]
        clipped = [max(-self.limit, min(self.limit, step)) for step in steps]
        place = None if device is None else torch.device(device)
        return self._clip(Integers.from_ints(clipped, values.shape, device=place))

    def _from_float(self, values: Float[Tensor, "*shape"]) -> Integers:
        """Whole and fractional part apart, each an exact integer in units of 2^-places.

        A fraction too small to matter but for its sign is replaced by one unit of that sign; any other float
        has its 53 bits above 2^-places.
        """
        refuse_nonfinite(values)
        whole_steps = self._whole_steps(values)
        if whole_steps is not None:
            return whole_steps
        places = self.one.bit_length() + 60
        size = ceil_log2(self.limit // self.one + 1)
        bounded = values.clamp(-(2.0**size), 2.0**size)
        whole = bounded.trunc()
        rest = bounded - whole
        negligible = rest.abs() < 2.0 ** (60 - 3 - places)
        rest = torch.where(negligible, rest.sign(), rest * 2.0**places)
        exact = (Integers.from_float(whole, size) << places) + Integers.from_float(rest, places)
        return self._round(exact * self.one, 1 << places)

    def _whole_steps(self, values: Float[Tensor, "*shape"]) -> Integers | None:
        """Numbers that need no rounding, as codes and most weights do; None unless all of them are such.

        The product with `one` is exact in float64 if that is a power of two, or if the values are whole and
        the product stays below 2^53.
        """
        if values.numel() == 0:
            return None
        steps = values * float(self.one)
        largest = max(float(steps.abs().max()), 1.0)
        doubling = self.one & (self.one - 1) == 0
        exact = steps == steps.round() if doubling else values == values.round()
        if largest >= 2.0**52 or not bool(exact.all()):
            return None
        return Integers.of(steps.to(torch.int64), ceil_log2(int(largest) + 1))

    def decode(self, numbers: Numbers) -> NDArray[np.object_]:
        """Steps over steps in 1."""
        exact = [Fraction(step, self.one) for step in self._read(numbers).to_ints()]
        array = np.empty(len(exact), dtype=object)
        array[:] = exact
        return array.reshape(numbers.shape)

    def decode_float64(self, numbers: Numbers) -> Float[Tensor, "*shape"]:
        """Exact if the steps fit in 53 bits and `one` is a power of two; else within a relative 2^-48."""
        return self._read(numbers).to_float() / float(self.one)

    def add(self, left: Numbers, right: Numbers) -> Numbers:
        """Exact but for clamping. On non-negative numbers addition stays associative, clamping included."""
        return self._clip(self._read(left) + self._read(right))

    def subtract(self, left: Numbers, right: Numbers) -> Numbers:
        """Exact but for clamping."""
        return self._clip(self._read(left) - self._read(right))

    def negate(self, numbers: Numbers) -> Numbers:
        """Exact: the range is symmetric."""
        return self._wrap(-self._read(numbers))

    def multiply(self, left: Numbers, right: Numbers) -> Numbers:
        """The product of two, rounded."""
        return self._clip(self._round(self._read(left) * self._read(right), self.one))

    def divide(self, left: Numbers, right: Numbers) -> Numbers:
        """The quotient of two, rounded; a divisor of 0 is refused."""
        dividend, divisor = self._read(left), self._read(right)
        refuse_zero(divisor.equals(0).any())
        flip = divisor.negative()
        dividend, divisor = where(flip, -dividend, dividend), where(flip, -divisor, divisor)
        return self._clip(self._round(dividend * self.one, divisor))

    def exp(self, numbers: Numbers) -> Numbers:
        """The true e^x rounded as the system rounds: never off by a step, on any device."""
        return self._clip(self._exp(self._read(numbers), top=reach_below(self.limit // self.one + 1)))

    def _exp(self, steps: Integers, *, top: int) -> Integers:
        """Rounded exps of numbers that matter up to `top` only: beyond it, e^top stands for all.

        For x² <= step/4, e^x exceeds 1 + x by at most x² <= step/4, so it rounds to 1 + x either way; that
        settles 0 and its neighbours, which guard bits would not. What they leave open (about one element in
        2^25) goes to the host, where precision grows until it is decided.
        """
        bounded = steps.clamp(-reach_below(self.one << EXP_GUARD) * self.one, top * self.one)
        lower = exp_lower(bounded, denominator=self.one, scale=self.one << EXP_GUARD, top=top)
        result = self._round(lower, 1 << EXP_GUARD)
        open_ = ~result.equals(self._round(lower + EXP_ERROR, 1 << EXP_GUARD))
        near = math.isqrt(self.one // 4)
        linear = steps.less(near + 1) & ~steps.less(-near)
        result = where(linear, (bounded + self.one).bounded(result.bits), result)
        open_ = open_ & ~linear
        if not bool(open_.any()):
            return result
        known: dict[int, int] = {}
        arguments = bounded.each(lambda limb: limb[open_]).to_ints()
        for step in set(arguments):
            known[step] = self._true_exp(step)
        return result.put(open_, [known[step] for step in arguments])

    def _true_exp(self, step: int) -> int:
        bits = 2 * EXP_GUARD + self.limit.bit_length()
        while True:
            low, high = exp_bounds(Fraction(step, self.one), bits)
            answer = self.round_fraction(Fraction(low * self.one, 1 << bits))
            if answer == self.round_fraction(Fraction(high * self.one, 1 << bits)):
                return answer
            bits *= 2

    def relu(self, numbers: Numbers) -> Numbers:
        """Exact."""
        steps = self._read(numbers)
        return self._wrap(where(steps.negative(), Integers.constant(0, steps.device), steps))

    def compare(self, left: Numbers, right: Numbers) -> Int[Tensor, "*shape"]:
        """-1, 0 or 1."""
        first, second = self._read(left), self._read(right)
        return second.less(first).to(torch.int64) - first.less(second).to(torch.int64)

    def max(self, numbers: Numbers, axis: int) -> Numbers:
        """The largest along an axis."""
        place = self.argmax(numbers, axis).unsqueeze(axis)
        return numbers.each(lambda part: torch.take_along_dim(part, place, axis).squeeze(axis))

    def argmax(self, numbers: Numbers, axis: int) -> Int[Tensor, "*rest"]:
        """The first place of the largest along an axis."""
        refuse_empty_axis("A maximum", numbers.shape, axis)
        return self._read(numbers).maxima(axis).to(torch.int64).argmax(axis)

    def where(self, condition: Bool[Tensor, "*shape"], left: Numbers, right: Numbers) -> Numbers:
        """Left where the condition holds, right elsewhere."""
        return self._wrap(where(condition, self._read(left), self._read(right)))

    def sum(self, numbers: Numbers, axis: int) -> Numbers:
        """Exact but for one clamping at the end; for numbers >= 0, as if clamped after each addition."""
        return self._clip(self._read(numbers).sum(axis))

    def matmul(
        self, left: Numbers, right: Numbers, *, rounding: RoundingPoints = RoundingPoints.LAST_STEP
    ) -> Numbers:
        """`LAST_STEP` rounds the exact sum of products; `EVERY_STEP` rounds each product, then the sum."""
        refuse_misfit(left.shape, right.shape)
        first, second = self._read(left), self._read(right)
        if rounding is RoundingPoints.LAST_STEP:
            return self._clip(self._round(first.matmul(second), self.one))
        return self._clip(self._sum_of_rounded_products(first, second))

    def _sum_of_rounded_products(self, first: Integers, second: Integers) -> Integers:
        """Chunk by chunk along the inner axis; no rounded product exceeds `limit`, so no part of their sum
        exceeds inner · limit, however many chunks there are.
        """
        first = first.each(lambda limb: limb[..., :, :, None])
        second = second.each(lambda limb: limb[..., None, :, :])
        inner = first.shape[-2]
        batch = np.broadcast_shapes(first.shape[:-3], second.shape[:-3])
        step = max(PRODUCTS_AT_ONCE // max(math.prod(batch) * first.shape[-3] * second.shape[-1], 1), 1)
        bits = ceil_log2(self.limit) + ceil_log2(max(inner, 1))
        total = Integers.constant(0, first.device)
        for start in range(0, max(inner, 1), step):
            cut = slice(start, start + step)
            rows = first.each(lambda limb, cut=cut: limb[..., cut, :])  # type: ignore[misc]
            columns = second.each(lambda limb, cut=cut: limb[..., cut, :])  # type: ignore[misc]
            products = self._limited(self._round(rows * columns, self.one))
            total = (total + products.sum(-2)).bounded(bits)
        return total

    def softmax(
        self,
        logits: Numbers,
        *,
        mask: Bool[Tensor, "*shape"] | None = None,
        rounding: RoundingPoints = RoundingPoints.EVERY_STEP,
    ) -> Numbers:
        """At `EVERY_STEP` losing exps can round to 0 before the sum, and weights be exactly 0 and 1.

        The sum is clamped like any number: where more than `largest` logits tie, each weight is 1/largest.
        """
        refuse_empty_axis("A softmax", logits.shape, -1)
        steps = self._read(logits)
        mask = checked_mask(mask, logits.shape)
        zero = Integers.constant(0, steps.device)
        considered = (
            steps if mask is None else where(mask, steps, Integers.constant(-self.limit, steps.device))
        )
        gaps = considered - self._read(self.max(self._wrap(considered), -1)[..., None])
        if rounding is RoundingPoints.LAST_STEP:
            return self._clip(self._true_weights(gaps, mask))
        exps = self._exp(self._limited(gaps), top=0).bounded(ceil_log2(self.one))
        exps = exps if mask is None else where(mask, exps, zero)
        total = self._limited(exps.sum(-1)).each(lambda limb: limb.unsqueeze(-1))
        return self._clip(self._round(exps * self.one, total, quotient_bits=ceil_log2(self.one)))

    def _true_weights(self, gaps: Integers, mask: Bool[Tensor, "*shape"] | None) -> Integers:
        """Each e^gap / Σ e^gap rounded once, from bounds of both; the rare open element goes to the host.

        Unless every gap is 0, a weight is irrational (Lindemann–Weierstrass), hence strictly below its upper
        bound a/b, and rounds no higher than (4a - 1)/(4b), which no rounding boundary parts from a/b.
        """
        scale = self.one << WEIGHT_GUARD
        zero = Integers.constant(0, gaps.device)
        exact = gaps.equals(0)
        kept = torch.ones_like(exact) if mask is None else mask
        lower = exp_lower(gaps, denominator=self.one, scale=scale, top=0)
        lower = where(kept, where(exact, Integers.constant(scale, gaps.device), lower), zero)
        error = Integers.of((kept & ~exact).to(torch.int64) * EXP_ERROR, ceil_log2(EXP_ERROR))
        total = lower.sum(-1).each(lambda limb: limb.unsqueeze(-1))
        spread = error.sum(-1).each(lambda limb: limb.unsqueeze(-1))
        bits = ceil_log2(self.one) + 1
        low = self._round(lower * self.one, total + spread, quotient_bits=bits)
        high = self._round(((lower + error) * self.one << 2) - 1, total << 2, quotient_bits=bits)
        low = where(kept, low, zero)
        open_ = ~low.equals(high) & kept & ~spread.equals(0)
        if not bool(open_.any()):
            return low
        length = open_.shape[-1]
        flat, keep = gaps.to_ints(), kept.reshape(-1).tolist()
        answers = []
        for place in open_.reshape(-1).nonzero()[:, 0].tolist():
            row = range(place - place % length, place - place % length + length)
            answers.append(self._true_weight(flat[place], [flat[i] for i in row if keep[i]]))
        return low.put(open_, answers)

    def _true_weight(self, gap: int, row: list[int]) -> int:
        bits = 2 * WEIGHT_GUARD + self.limit.bit_length()
        while True:
            bounds = {each: exp_bounds(Fraction(each, self.one), bits) for each in {*row}}
            least, most = (sum(bounds[each][side] for each in row) for side in (0, 1))
            answer = self.round_fraction(Fraction(bounds[gap][0] * self.one, most))
            if answer == self.round_fraction(Fraction(4 * bounds[gap][1] * self.one - 1, 4 * least)):
                return answer
            bits *= 2

    def _read(self, numbers: Numbers) -> Integers:
        return Integers(self.parts_of(numbers), ceil_log2(self.limit))

    def _limited(self, steps: Integers) -> Integers:
        return steps.clamp(-self.limit, self.limit).bounded(ceil_log2(self.limit))

    def _clip(self, steps: Integers) -> Numbers:
        return self._wrap(self._limited(steps))

    def _wrap(self, steps: Integers) -> Numbers:
        limbs = steps.bounded(ceil_log2(self.limit)).limbs
        return Numbers(self, limbs)


def _refuse_broken(owner: str, **parameters: object) -> None:
    for name, value in parameters.items():
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise InvalidInput(
                f"{owner} need {name} to be a whole number; got {name}={value!r}. Pass an int."
            )


@final
@dataclass(frozen=True, kw_only=True)
class FixedDown(FixedPoint):
    """S's numbers (arXiv 2406.09347, App. B.2): multiples of N^-K in [-N^K, N^K], rounded down.

    Down is towards minus infinity, for negative numbers too: z becomes the largest multiple of N^-K that is
    at most z. So half a step below 0 becomes -N^-K, and (-a)·b may differ from -(a·b) by a step. The paper
    clamps what exceeds N^K to N^K and is silent about the other end; here what is below becomes -N^K.
    """

    n: int
    k: int

    def __post_init__(self) -> None:
        _refuse_broken("S's numbers", n=self.n, k=self.k)
        if self.n < 2 or self.k < 1:
            raise InvalidInput(
                f"S's numbers need n >= 2 and k >= 1; got n={self.n}, k={self.k}. "
                "Take the length of the longest input as n."
            )
        # Bounded before the power is taken, so that a huge k cannot hang.
        if 2 * self.k * math.log2(self.n) > WIDEST:
            raise InvalidInput(
                f"S's numbers are held up to 2·k·log2(n) = {WIDEST}; got n={self.n}, k={self.k}. "
                "Take a smaller k."
            )

    @property
    def one(self) -> int:
        """N^K."""
        return int(int(self.n) ** int(self.k))

    @property
    def limit(self) -> int:
        """N^2K."""
        return int(int(self.n) ** (2 * int(self.k)))

    @property
    def bits(self) -> int:
        """ceil(log2(2 N^2K + 1)), the sign included: bits enough for the 2 N^2K + 1 numbers of the set."""
        return (2 * self.limit).bit_length()

    def round_fraction(self, value: Fraction) -> int:
        """Towards minus infinity."""
        return math.floor(value)

    def _round(
        self, dividend: Integers, divisor: Integers | int, *, quotient_bits: int | None = None
    ) -> Integers:
        return dividend.divmod(divisor, quotient_bits=quotient_bits)[0]


@final
@dataclass(frozen=True, kw_only=True)
class FixedNearest(FixedPoint):
    """W's numbers (arXiv 2402.18510): (2 b_p - 1) Σ_{i<p} b_i 2^((p-1)/2 - i), p odd, rounded to nearest.

    One bit for the sign and p - 1 for the magnitude: the step is 2^-((p-1)/2), the largest number
    2^((p-1)/2) less one step, and 0 has two spellings. The paper does not say where a number half-way between
    two others goes; here it goes to the even multiple of the step, as in IEEE 754.
    """

    p: int

    def __post_init__(self) -> None:
        _refuse_broken("W's numbers", p=self.p)
        if self.p < 3 or self.p % 2 == 0 or self.p > WIDEST:
            raise InvalidInput(
                f"W's numbers need an odd p from 3 to {WIDEST - 1}; got p={self.p}. "
                f"Try {min(max(self.p | 1, 3), WIDEST - 1)}."
            )

    @property
    def one(self) -> int:
        """2^((p-1)/2)."""
        return 1 << (int(self.p) - 1) // 2

    @property
    def limit(self) -> int:
        """2^(p-1) - 1."""
        return (1 << (int(self.p) - 1)) - 1

    @property
    def bits(self) -> int:
        """The sign and p - 1 binary digits."""
        return self.p

    def round_fraction(self, value: Fraction) -> int:
        """To nearest, ties to even."""
        return round(value)

    def _round(
        self, dividend: Integers, divisor: Integers | int, *, quotient_bits: int | None = None
    ) -> Integers:
        bits = None if quotient_bits is None else quotient_bits + 1
        halves = (dividend << 1) + divisor
        double = divisor * 2 if isinstance(divisor, int) else divisor << 1
        quotient, remainder = halves.divmod(double, quotient_bits=bits)
        upward_tie = remainder.equals(0) & quotient.odd()
        return quotient - Integers((upward_tie.to(torch.int64),), 0)
