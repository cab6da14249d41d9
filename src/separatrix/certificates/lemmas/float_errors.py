"""How far sums of products of floats may lie from the exact ones, for operands known only by size.

The bound for arbitrary operands is that of `FloatFormat.growth`. It is 0 where every operand is known to be a
multiple of a power of two, so that all products are multiples of one, and no partial sum is too long for a
significand. That must be asked of the operands themselves: a box can have short ends and long insides.
"""

from __future__ import annotations

import numpy as np
from flint import fmpq
from numpy.typing import NDArray

from separatrix.certificates.enclosures.boxes import ONE, ZERO, Ends, power_of_two
from separatrix.certificates.enclosures.float_rounding import FloatRounding

__all__ = ["LARGEST", "UNKNOWN", "fineness", "summing_error"]

UNKNOWN = -(1 << 40)
"""The fineness of numbers of which nothing but the size is known."""
LARGEST = 1 << 40
"""The fineness of 0, a multiple of every power of two."""


def fineness(numbers: Ends) -> NDArray[np.int64]:
    """The exponent of the largest power of two that divides each dyadic number; UNKNOWN for others."""
    found = np.empty(numbers.shape, dtype=np.int64)
    flat = found.reshape(-1)
    for place, number in enumerate(numbers.reshape(-1)):
        whole, below = int(number.p), int(number.q)
        if whole == 0:
            flat[place] = LARGEST
        elif below & (below - 1):
            flat[place] = UNKNOWN
        else:
            flat[place] = (whole & -whole).bit_length() - below.bit_length()
    return found


def summing_error(
    rounding: FloatRounding,
    left: Ends,
    right: Ends,
    left_fineness: NDArray[np.int64],
    right_fineness: NDArray[np.int64],
) -> fmpq:
    """The most that a computed Σ a_i·b_i is off, in any order, where |a_i| ≤ left_i and |b_i| ≤ right_i."""
    form = rounding.form
    present = [place for place, (a, b) in enumerate(zip(left, right, strict=True)) if a and b]
    if not present:
        return ZERO
    size = sum((left[place] * right[place] for place in present), start=ZERO)
    unit = min(int(left_fineness[place] + right_fineness[place]) for place in present)
    coarse = min(int(min(left_fineness[place], right_fineness[place])) for place in present)
    if min(unit, coarse) >= form.least_normal and size <= power_of_two(min(unit, 1 << 20) + form.digits):
        return ZERO
    count = len(present)
    growth = form.growth(count)
    return growth * size + (ONE + growth) * (2 * count) * form.tiny
