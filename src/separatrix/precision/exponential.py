"""e^x for exact fractions x, between bounds that can be made as tight as a rounding needs.

Two routes: `exp_bounds` on the host, in Python integers, as tight as asked; and `exp_lower` on tensors,
within `EXP_ERROR` units of a scale that the caller chooses so fine that it decides almost every element.
e^x is irrational for every rational x other than 0, so it never lies on a rounding boundary, and asking for
more bits decides every case in the end.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import torch

from separatrix.precision.integers import LIMB, Integers

__all__ = ["EXP_ERROR", "exp_bounds", "exp_lower", "reach_below"]

EXP_ERROR = 32
CHUNK = 14
CHUNK_SIZE = 1 << CHUNK


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers low <= 2^bits · e^x <= high with high - low <= 2."""
    if x == 0:
        return 1 << bits, 1 << bits
    if x < -reach_below(1 << bits):
        return 0, 1
    working = bits + 32
    while True:
        low, high = _exp_interval(x, working)
        drop = working - bits
        low, high = low >> drop, -(-high >> drop)
        if high - low <= 2:
            return low, high
        working *= 2


def _exp_interval(x: Fraction, working: int) -> tuple[int, int]:
    """Bounds of 2^working · e^x by Taylor's series at |x| / 2^halvings < 1/2, then squaring back."""
    one = 1 << working
    magnitude = abs(x)
    halvings = max((magnitude.numerator // magnitude.denominator).bit_length() + 1, 1)
    small_low = (magnitude.numerator << working) // (magnitude.denominator << halvings)
    low = high = one
    low_term = high_term = one
    order = 0
    while high_term > 1:
        order += 1
        low_term = (low_term * small_low >> working) // order
        high_term = -((-high_term * (small_low + 1) >> working) // order)
        low, high = low + low_term, high + high_term
    # The terms left out shrink at least by half each, so together they are at most the last one counted.
    high += high_term
    for _ in range(halvings):
        low, high = low * low >> working, -(-high * high >> working)
    if x < 0:
        low, high = (one << working) // high, -(-(one << working) // low)
    return low, high


def reach_below(scale: int) -> int:
    """A whole number r with scale · e^-r < 1: below -r, nothing of the exponential is left."""
    return scale.bit_length() * 7 // 10 + 1  # ln 2 < 7/10


def exp_lower(units: Integers, *, denominator: int, scale: int, top: int) -> Integers:
    """Y with Y <= scale · e^(units/denominator) < Y + EXP_ERROR, for units <= top · denominator.

    With x + reach = j + a/2^14 + b/2^28 + rho, all parts non-negative and rho < 2^-28,

        scale · e^x = (scale · e^(j - reach)) · e^(a/2^14) · e^(b/2^28) · e^rho:

    three tables and a short Taylor series, every step rounded down, so Y is a lower bound. In fractions of F
    bits the relative errors, as multiples of 2^-F, are at most 3 for x in binary, 2 for each of the two
    fractional tables, 3 for the series and 2 for the two products; scale · e^top <= 2^F, so together they
    come to 12 units and a little. The whole-part table errs by less than 2, enlarged at most e-fold, and the
    last product by 1. The sum is below 20. Arguments below -reach are raised to it: there 0 is within 1.
    """
    reach = reach_below(scale)
    largest = exp_bounds(Fraction(top), 0)[1] * scale
    fraction = LIMB * max(-(-(largest.bit_length() + 2) // LIMB), 2) - 2
    device = units.device
    shifted = units.clamp(-reach * denominator, top * denominator) + reach * denominator
    # A reciprocal of so many bits errs by less than one unit of 2^-fraction over the whole range.
    extra = ((reach + top) * denominator).bit_length()
    binary = (shifted * ((1 << (fraction + extra)) // denominator)) >> extra
    binary = binary.bounded(fraction + (reach + top).bit_length())
    whole = (binary >> fraction).limbs[0]
    coarse = binary.field(fraction - CHUNK, CHUNK)
    fine = binary.field(fraction - 2 * CHUNK, CHUNK)
    rho = binary.low_bits(fraction - 2 * CHUNK)

    factor = _fraction_table(fraction, CHUNK, device).take(coarse)
    factor = _product(factor, _fraction_table(fraction, 2 * CHUNK, device).take(fine), fraction)
    factor = _product(factor, _series(rho, fraction), fraction)
    start = _whole_table(scale, reach, top, device).take(whole)
    return ((start * factor) >> fraction).bounded(largest.bit_length())


def _product(left: Integers, right: Integers, fraction: int) -> Integers:
    """Both below 4 in units of 2^-fraction, and so is their product."""
    return ((left * right) >> fraction).bounded(fraction + 2)


def _series(rho: Integers, fraction: int) -> Integers:
    """Lower bound of e^rho for 0 <= rho < 2^-28, by Horner's rule; the terms left out are below one unit."""
    coefficients = [1 << fraction]
    while coefficients[-1] >> (2 * CHUNK * (len(coefficients) - 1)):
        coefficients.append(coefficients[-1] // len(coefficients))
    total = Integers.constant(coefficients[-1], rho.device)
    for coefficient in reversed(coefficients[:-1]):
        total = (((rho * total) >> fraction) + coefficient).bounded(fraction + 1)
    return total


@lru_cache(maxsize=16)
def _whole_table(scale: int, reach: int, top: int, device: torch.device) -> Integers:
    """Lower bounds, within 2, of scale · e^j for j in [-reach, top]."""
    bits = scale.bit_length() + 2
    values = [(exp_bounds(Fraction(j), bits)[0] * scale) >> bits for j in range(-reach, top + 1)]
    return Integers.from_ints(values, (len(values),), device=device)


@lru_cache(maxsize=16)
def _fraction_table(fraction: int, places: int, device: torch.device) -> Integers:
    """Lower bounds, within 2, of 2^fraction · e^(c / 2^places) for c in [0, 2^14)."""
    spare = 40  # 2^14 products, each rounded down, lose less than 2^20 of the 2^40 units to spare
    step = exp_bounds(Fraction(1, 1 << places), fraction + spare)[0]
    value, values = 1 << (fraction + spare), []
    for _ in range(CHUNK_SIZE):
        values.append(value >> spare)
        value = (value * step) >> (fraction + spare)
    return Integers.from_ints(values, (CHUNK_SIZE,), bits=fraction + 2, device=device)
