"""Cosine and sine of z/M of a turn, rounded to the nearest float64, with the same bits on every device.

The libraries' own functions differ in the last bits from device to device and bring no proof. Here a number
is a pair of floats, high + low, that carries about 100 bits, and only additions, products and quotients of
float64 are used, which IEEE 754 fixes to the bit.

How wrong can it be? The angle is reduced to [0, π/4] in whole numbers, without error. A product of pairs is
off by less than 2^-100 of its value, a sum by less than 2^-103, the quotient s/M by less than 2^-101, and
the first term left out of either series is below 2^-110 of the result. Errors made inside the series shrink
by x² / 2 < 1/3 at each step outwards, so both pairs are within 2^-96 of the true value, relatively. The
high part is the float64 nearest to its pair; so it is the nearest to the true value as well, except where
that lies within 2^-96 of the middle between two floats, and then it is the other one of the two. Since no
value exceeds 1, where floats are 2^-53 apart or closer, the error is below 2^-54 + 2^-96.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["TURN_ERROR", "Pair", "cos_sin_of_turns", "cos_sin_pairs"]

TURN_ERROR = Fraction(1, 2**53)
"""More than the error of any cosine or sine made here."""

_PI = Fraction(31415926535897932384626433832795028841971693993751, 10**49)
_LOW_BITS = 27
# Entries worked on at once: some thirty temporaries then stay in a core's cache.
_CHUNK = 1 << 13

Entries = Float[Tensor, "*shape"]


class Pair(NamedTuple):
    """The number high + low, where low is at most half a unit in the last place of high."""

    high: Entries
    low: Entries


def _constant(value: Fraction) -> tuple[float, float]:
    high = float(value)
    return high, float(value - Fraction(high))


_QUARTER_PI = _constant(_PI / 4)
_SINE = tuple(_constant(Fraction((-1) ** j, math.factorial(2 * j + 1))) for j in range(14))
_COSINE = tuple(_constant(Fraction((-1) ** j, math.factorial(2 * j))) for j in range(15))


def cos_sin_of_turns(
    numbers: Int[Tensor, "*shape"], modulus: int
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Cosine and sine of 2π·z/M for each z with 0 ≤ z < M ≤ 2^40."""
    flat = numbers.flatten()
    parts = [cos_sin_pairs(part, modulus) for part in torch.split(flat, _CHUNK)]
    cosine = torch.cat([cosine.high for cosine, _ in parts])
    sine = torch.cat([sine.high for _, sine in parts])
    return cosine.view(numbers.shape), sine.view(numbers.shape)


def cos_sin_pairs(numbers: Int[Tensor, "flat"], modulus: int) -> tuple[Pair, Pair]:
    """The same as pairs, before the low parts are dropped.

    The angle is (octant + rest/M)·π/4. Odd octants are measured from their far end, which mirrors them onto
    even ones; then cosine and sine change places in the octants 1, 2, 5, 6, and have the usual signs.
    """
    octant = (8 * numbers) // modulus
    rest = 8 * numbers - octant * modulus
    rest = torch.where(octant % 2 == 1, modulus - rest, rest)
    angle = _times_constant(_quotient(rest.to(torch.float64), float(modulus)), _QUARTER_PI)
    square = _times(angle, angle)
    near = _series(square, _COSINE)
    far = _times(_series(square, _SINE), angle)
    swapped = ((octant + 1) // 2) % 2 == 1
    left = ((octant + 2) // 4) % 2 == 1
    below = octant >= 4
    return _choose(swapped, far, near, negative=left), _choose(swapped, near, far, negative=below)


def _choose(swapped: Tensor, one: Pair, other: Pair, *, negative: Tensor) -> Pair:
    high = torch.where(swapped, one.high, other.high)
    low = torch.where(swapped, one.low, other.low)
    # 0 − x and not −x: the sine of 0 and of half a turn is +0 alike.
    return Pair(torch.where(negative, 0 - high, high), torch.where(negative, 0 - low, low))


def _series(square: Pair, coefficients: tuple[tuple[float, float], ...]) -> Pair:
    """Σ c_j · square^j by Horner; every partial sum is smaller than the coefficient added next."""
    high, low = coefficients[-1]
    total = Pair(torch.full_like(square.high, high), torch.full_like(square.high, low))
    for high, low in reversed(coefficients[:-1]):
        term = _times(total, square)
        leading = term.high + high
        total = _joined(leading, (term.high - (leading - high)) + (term.low + low))
    return total


def _joined(large: Entries, small: Entries) -> Pair:
    """large + small without error, where |large| ≥ |small|."""
    high = large + small
    return Pair(high, small - (high - large))


def _head(entries: Entries) -> Entries:
    """The upper 26 bits of each entry: products of two heads, or of a head and a rest, are exact."""
    return (entries.view(torch.int64) & -(1 << _LOW_BITS)).view(torch.float64)


def _product(left: Entries, right: Entries) -> Pair:
    """left · right; the sums are exact in this order (Dekker, 1971), the last product but for 2^-103."""
    left_head, right_head = _head(left), _head(right)
    left_rest, right_rest = left - left_head, right - right_head
    high = left * right
    low = left_head * right_head - high
    low = low + left_head * right_rest
    low = low + left_rest * right_head
    return Pair(high, low + left_rest * right_rest)


def _times(left: Pair, right: Pair) -> Pair:
    high, low = _product(left.high, right.high)
    return _joined(high, low + (left.high * right.low + left.low * right.high))


def _times_constant(left: Pair, constant: tuple[float, float]) -> Pair:
    return _times(left, Pair(*(torch.full_like(left.high, part) for part in constant)))


def _quotient(numerator: Entries, denominator: float) -> Pair:
    """numerator / denominator, both whole and below 2^53: what the rounded quotient misses, divided again."""
    high = numerator / denominator
    back = _product(high, torch.full_like(high, denominator))
    return _joined(high, ((numerator - back.high) - back.low) / denominator)
