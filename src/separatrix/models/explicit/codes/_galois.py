"""The field of 2^m elements and the generator polynomials of BCH codes over it.

Elements and polynomials over {0, 1} are whole numbers: bit i is the coefficient of x^i, adding is xor.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

__all__ = ["LARGEST_DEGREE", "PRIMITIVE", "SMALLEST_DEGREE", "generator_polynomial", "powers", "remainder"]

PRIMITIVE = {3: 0b1011, 4: 0b10011, 5: 0b100101, 6: 0b1000011, 7: 0b10001001, 8: 0b100011101}
"""For each m a polynomial of degree m whose root α has all 2^m − 1 non-zero elements as its powers."""

SMALLEST_DEGREE, LARGEST_DEGREE = min(PRIMITIVE), max(PRIMITIVE)


@lru_cache(maxsize=16)
def powers(degree: int) -> tuple[int, ...]:
    """α^0, α^1, … α^(2^m − 2)."""
    elements = [1]
    while len(elements) < (1 << degree) - 1:
        shifted = elements[-1] << 1
        elements.append(shifted ^ PRIMITIVE[degree] if shifted >> degree else shifted)
    return tuple(elements)


@lru_cache(maxsize=512)
def generator_polynomial(degree: int, designed: int) -> int:
    """The polynomial of least degree over {0, 1} with the roots α, α², … α^(designed − 1).

    Squaring permutes the roots of a polynomial over {0, 1}, so with α^i come α^2i, α^4i, …; the product of
    x − root over all of these has its coefficients in {0, 1}.
    """
    order = (1 << degree) - 1
    exponents: set[int] = set()
    for exponent in range(1, designed):
        conjugate = exponent % order
        while conjugate not in exponents:
            exponents.add(conjugate)
            conjugate = 2 * conjugate % order
    return _from_roots(degree, exponents)


def _from_roots(degree: int, exponents: Iterable[int]) -> int:
    """Π (x − α^e), multiplied out in the field; every coefficient ends as 0 or 1."""
    elements = powers(degree)
    logarithm = {element: exponent for exponent, element in enumerate(elements)}
    coefficients = [1]
    for root in exponents:
        scaled = [elements[(logarithm[c] + root) % len(elements)] if c else 0 for c in coefficients]
        coefficients = [a ^ b for a, b in zip([0, *coefficients], [*scaled, 0], strict=True)]
    assert set(coefficients) <= {0, 1}, "the roots of a polynomial over {0, 1} come with their squares"
    return sum(c << place for place, c in enumerate(coefficients))


def remainder(polynomial: int, divisor: int) -> int:
    """What is left of one polynomial over {0, 1} after dividing by another."""
    size = divisor.bit_length()
    while polynomial.bit_length() >= size:
        polynomial ^= divisor << (polynomial.bit_length() - size)
    return polynomial
