"""In how many words does a given word occur? It depends only on how the given word overlaps itself.

The overlaps of a word q of length L are the shifts k < L with q[k:] = q[:L−k]; as a set of bits they are its
autocorrelation. With C(z) = Σ z^k over these shifts, the words over A letters without q have the generating
function C(z) / (z^L + (1 − Az)·C(z)) (Guibas and Odlyzko, String overlaps, pattern matching, and
nontransitive games, 1981).
"""

from __future__ import annotations

from functools import lru_cache

__all__ = ["occurrences"]


def occurrences(length: int, alphabet: int, within: int) -> int:
    """Pairs of a word of this length and a word of length `within` in which it occurs."""
    total: int = alphabet**within
    return sum(
        population * (total - _avoiding(shifts, length, alphabet, within))
        for shifts, population in _populations(length, alphabet).items()
    )


@lru_cache(maxsize=64)
def _populations(length: int, alphabet: int) -> dict[int, int]:
    """How many words have each autocorrelation: a bit for each shift, shift 0 lowest.

    Two letters show every autocorrelation there is. The words with all the overlaps of one autocorrelation
    are free in as many letters as the overlaps leave classes of places; take away those with more overlaps.
    """
    words = range(1 << (length - 1)) if alphabet > 1 else (0,)
    known = {_autocorrelation(word, length) for word in words}
    populations: dict[int, int] = {}
    for shifts in sorted(known, key=int.bit_count, reverse=True):
        more = sum(count for other, count in populations.items() if shifts & other == shifts)
        populations[shifts] = alphabet ** _free_letters(shifts, length) - more
    return populations


def _autocorrelation(word: int, length: int) -> int:
    """The shifts at which a word of two letters, written in bits, overlaps itself."""
    overlaps = (shift for shift in range(length) if word >> shift == word & ((1 << (length - shift)) - 1))
    return sum(1 << shift for shift in overlaps)


def _free_letters(shifts: int, length: int) -> int:
    """Classes of places that the overlaps force to hold the same letter."""
    leader = list(range(length))
    for shift in range(1, length):
        if shifts >> shift & 1:
            for place in range(length - shift):
                old, new = leader[place + shift], leader[place]
                leader = [new if other == old else other for other in leader]
    return len(set(leader))


def _avoiding(shifts: int, length: int, alphabet: int, within: int) -> int:
    """Words of length `within` without a given word of this autocorrelation.

    The denominator z^L + (1 − Az)·C(z) is a linear recurrence of order L whose first L terms are the powers
    of A; its far terms are reached through x^within modulo the characteristic polynomial.
    """
    overlap = [shifts >> shift & 1 for shift in range(length)] + [0]
    recurrence = [alphabet * overlap[shift - 1] - overlap[shift] for shift in range(1, length + 1)]
    recurrence[-1] -= 1
    remainder = [1] + [0] * (length - 1)
    for bit in f"{within:b}":
        remainder = _reduced(_square(remainder), recurrence)
        if bit == "1":
            remainder = _reduced([0, *remainder], recurrence)
    return sum(coefficient * alphabet**power for power, coefficient in enumerate(remainder))


def _square(polynomial: list[int]) -> list[int]:
    """The square of a polynomial, constant term first; each mixed product is taken once."""
    square = [0] * (2 * len(polynomial) - 1)
    for low, first in enumerate(polynomial):
        square[2 * low] += first * first
        for high in range(low + 1, len(polynomial)):
            square[low + high] += 2 * first * polynomial[high]
    return square


def _reduced(polynomial: list[int], recurrence: list[int]) -> list[int]:
    """The remainder by x^L − r₁x^(L−1) − … − r_L."""
    order = len(recurrence)
    for top in range(len(polynomial) - 1, order - 1, -1):
        for back, factor in enumerate(recurrence, start=1):
            polynomial[top - back] += polynomial[top] * factor
    return polynomial[:order]
