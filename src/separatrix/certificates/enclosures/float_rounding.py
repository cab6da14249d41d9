"""IEEE floats: every operation rounds to nearest, sums are taken in any order, exp is within 2 ulp.

u is the unit roundoff, 2^-24 or 2^-53, and `tiny` the least normal number. Results and operands below `tiny`
may be flushed to 0, as some devices do, or not. A single operation is monotone, so its result lies between
the rounded ends; how far a sum can be off is `FloatFormat.growth`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from flint import fmpq, fmpz
from numpy.typing import NDArray

from separatrix.certificates.enclosures.boxes import (
    ONE,
    ZERO,
    Box,
    Ends,
    as_ends,
    matrix_product,
    power_of_two,
    products,
    quotients,
)
from separatrix.certificates.enclosures.float_attention import attend_in_floats
from separatrix.certificates.enclosures.floats import FloatFormat
from separatrix.certificates.enclosures.key_groups import Attended, KeyGroup
from separatrix.certificates.enclosures.rounding import Rounding, Unbounded, rows_of

__all__ = ["FloatRounding"]

NO_FACTOR = 1 << 40  # 0 is a multiple of every power of two
AT_ONCE = 1 << 22


@final
@dataclass(frozen=True, kw_only=True)
class FloatRounding(Rounding):
    """One width of IEEE floats."""

    form: FloatFormat

    def error_model(self) -> tuple[str, ...]:
        """What is assumed of the floats."""
        return (
            f"Numbers are IEEE 754 {self.form.name}; +, -, ×, ÷ and conversions round to nearest even.",
            "Sums and inner products are taken in any order, with or without fused multiply-add.",
            "exp is within 2 units in the last place of the true value.",
            "Subnormal operands and results may be flushed to 0, or not.",
            "Nothing overflows: where it might, no enclosure is given.",
        )

    def encode(self, values: Box) -> Box:
        """To nearest; beyond the largest float, that float."""
        largest = self.form.largest
        inside = values.monotone(lambda end: max(-largest, min(largest, end)))
        return self.form.rounded(inside)

    def add(self, left: Box, right: Box) -> Box:
        """One rounding."""
        return self.form.rounded(self.form.read(left) + self.form.read(right))

    def multiply(self, left: Box, right: Box) -> Box:
        """One rounding."""
        return self.form.rounded(products(self.form.read(left), self.form.read(right)))

    def divide(self, left: Box, right: Box) -> Box:
        """One rounding; a divisor that may be flushed to 0 is refused."""
        return self.form.rounded(quotients(self.form.read(left), self.form.read(right)))

    def exp(self, box: Box) -> Box:
        """The true e^x, 2 ulp off at most, flushed or not where it is tiny."""
        return self.form.exp(box)

    def affine(self, x: Box, weights: Box, bias: Box | None = None) -> Box:
        """The products and the bias are the terms of one sum in any order."""
        rows, columns = self.form.read(rows_of(x)), self.form.read(weights)
        if bias is not None:
            one = Box.exact(np.ones((rows.shape[0], 1), dtype=np.int64))
            rows = Box.concatenate([rows, one], 1)
            columns = Box.concatenate([columns, self.form.read(bias).reshape(-1, 1)], 1)
        sizes = matrix_product(Box(rows.magnitude, rows.magnitude), Box(columns.magnitude, columns.magnitude))
        terms = np.asarray(rows.magnitude != 0, np.int64) @ np.asarray(columns.magnitude != 0, np.int64).T
        exact = self._exact_anyway(rows, columns, sizes.low)
        image = self._summed(matrix_product(rows, columns), sizes.low, terms, exact)
        return image.reshape(*x.shape[:-1], weights.shape[0])

    def dot(self, left: Box, right: Box) -> Box:
        """As an affine map of one column, pair by pair."""
        shape = np.broadcast_shapes(left.shape, right.shape)
        first, second = (rows_of(self.form.read(box).broadcast(shape)) for box in (left, right))
        each = products(first, second)
        sizes = as_ends(each.magnitude.sum(axis=-1) + ZERO)
        terms = np.asarray(each.magnitude != 0, np.int64).sum(axis=-1)
        exact = np.zeros(sizes.shape, dtype=bool)
        if first.is_point and second.is_point:
            units = (_factors_of_two(first.low) + _factors_of_two(second.low)).min(axis=-1, initial=NO_FACTOR)
            for place, unit in enumerate(units):
                exact[place] = self._fits(int(unit), sizes[place])
        return self._summed(each.sum(-1), sizes, terms, exact).reshape(*shape[:-1])

    def _summed(self, real: Box, sizes: Ends, terms: NDArray[Any], exact: NDArray[np.bool_]) -> Box:
        """The real sums moved by what summation in any order can add; one term alone is rounded once."""
        single = self.form.rounded(real) if bool((terms <= 1).any()) else real
        factors = {int(count): self.form.growth(int(count)) for count in np.unique(terms)}
        low, high = np.empty(real.shape, dtype=object), np.empty(real.shape, dtype=object)
        for place in np.ndindex(real.shape):
            count = int(terms[place])
            growth, size = factors[count], sizes.item(place)
            if size + growth * size + 4 * count * self.form.tiny > self.form.largest:
                raise Unbounded(
                    f"A sum of {count} products may overflow {self.form.name}: no enclosure "
                    "can be given. Scale the weights down or use wider floats."
                )
            if exact[place]:
                low[place], high[place] = real.low[place], real.high[place]
            elif count <= 1:
                low[place], high[place] = single.low[place], single.high[place]
            else:
                error = growth * size + (ONE + growth) * (2 * count) * self.form.tiny
                low[place] = self.form.above(real.low[place] - error)
                high[place] = self.form.below(real.high[place] + error)
        return Box(low, high).simplified()

    def _exact_anyway(self, rows: Box, columns: Box, sizes: Ends) -> NDArray[np.bool_]:
        """Sums without error: known terms, all multiples of one power of two, none of their sums too long.

        Whatever the order, each partial sum is such a multiple and at most the sum of the sizes, so it has at
        most as many binary digits as a significand.
        """
        known_rows = np.asarray((rows.low == rows.high).all(axis=1), dtype=bool)
        known_columns = np.asarray((columns.low == columns.high).all(axis=1), dtype=bool)
        result: NDArray[np.bool_] = known_rows[:, None] & known_columns[None, :]
        if not result.any():
            return result
        first, second = _factors_of_two(rows.low), _factors_of_two(columns.low)
        chunk = max(1, AT_ONCE // max(second.size, 1))
        for start in range(0, len(first), chunk):
            unit = (first[start : start + chunk, None, :] + second[None, :, :]).min(
                axis=-1, initial=NO_FACTOR
            )
            for row, column in zip(*np.nonzero(result[start : start + chunk]), strict=True):
                fits = self._fits(int(unit[row, column]), sizes[start + row, column])
                result[start + row, column] = fits
        return result

    def _fits(self, unit: int, size: fmpq) -> bool:
        """Whether every multiple of 2^unit up to `size` is a float, and none of them subnormal."""
        return size == 0 or (unit >= self.form.least_normal and size <= power_of_two(unit + self.form.digits))

    def attend(self, groups: Sequence[KeyGroup]) -> Attended:
        """See `float_attention`."""
        return attend_in_floats(self.form, groups)


def _factors_of_two(ends: Ends) -> NDArray[np.int64]:
    """The exponent of the largest power of two that each dyadic number is a multiple of."""
    exponents = np.empty(ends.shape, dtype=np.int64)
    flat = exponents.reshape(-1)
    for place, end in enumerate(ends.reshape(-1)):
        flat[place] = NO_FACTOR if end == 0 else _trailing_zeros(end.p) - (end.q.bit_length() - 1)
    return exponents


def _trailing_zeros(number: fmpz) -> int:
    whole = int(number)
    return (whole & -whole).bit_length() - 1
