"""Whole numbers that bounds are made of, computed exactly at any size.

A state that tells K cases apart has at least ⌈log K⌉ bits. K is often a power with a long exponent, so it is
never written out: the leading digits of both a lower and an upper bound of it are carried along.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import log2
from typing import Final, NamedTuple

from separatrix.communication.reductions.nearest_neighbour import lexicode

__all__ = [
    "Blocks",
    "best_blocks",
    "best_hubs",
    "bits_for",
    "bits_for_counts",
    "ceil_log",
    "floor_log",
    "least_base",
    "levels",
    "peak",
    "points_apart",
]


_WRITTEN_OUT: Final = 1 << 10


def bits_for(base: int, power: int = 1) -> int:
    """⌈log base^power⌉: the bits of a state, or of a message, that tells base^power cases apart."""
    if base < 2 or power < 1:
        return 0
    if base & (base - 1) == 0:
        return power * (base.bit_length() - 1)
    return _bit_length(base, power)


def floor_log(base: int, power: int = 1) -> int:
    """⌊log base^power⌋."""
    if base < 2 or power < 1:
        return 0
    if base & (base - 1) == 0:
        return power * (base.bit_length() - 1)
    return _bit_length(base, power) - 1


def ceil_log(number: int) -> int:
    """⌈log number⌉: the bits that name one of so many."""
    return (number - 1).bit_length()


@lru_cache(maxsize=1024)
def _bit_length(base: int, power: int) -> int:
    """The binary digits of base^power, for a base that is no power of two.

    Squaring and multiplying, with as many leading digits of a lower and an upper bound as are kept. If the
    two disagree on the length, twice as many are kept; once all are, they are equal.
    """
    kept = 64 + 2 * power.bit_length()
    while True:
        low = high = 1
        cut = 0
        for digit in bin(power)[2:]:
            low, high, cut = low * low, high * high, 2 * cut
            if digit == "1":
                low, high = low * base, high * base
            spare = max(0, high.bit_length() - kept)
            low, high, cut = low >> spare, -(-high >> spare), cut + spare
        if low.bit_length() == high.bit_length():
            return low.bit_length() + cut
        kept *= 2


def bits_for_counts(total: int, kinds: int) -> int:
    """⌈log K⌉, K the number of ways in which counts of so many kinds add up to the total.

    K is the binomial coefficient of total + kinds − 1 over kinds − 1. A large one is enclosed by way of the
    gamma function, and written out only if the enclosure meets a power of two.
    """
    from flint import arb, ctx, fmpz  # noqa: PLC0415  not on every machine that lists bounds

    above, below = total + kinds - 1, min(kinds - 1, total)
    if below > _WRITTEN_OUT:
        with ctx.workprec(192):
            logarithm = (
                arb(above + 1).lgamma() - arb(below + 1).lgamma() - arb(above - below + 1).lgamma()
            ) / arb.const_log2()
            rounded = logarithm.ceil().unique_fmpz()
        if rounded is not None:
            return int(rounded)
    return int((fmpz.bin_uiui(above, below) - 1).bit_length())


class Blocks(NamedTuple):
    """How a sequence of tokens holds an INDEX string: `keys`, each followed by one of `symbols`."""

    keys: int
    symbols: int

    @property
    def bits(self) -> int:
        """What it takes to remember the string."""
        return bits_for(self.symbols, self.keys)


@lru_cache(maxsize=4096)
def best_blocks(length: int, width: int, tokens: int) -> Blocks:
    """The division of the tokens into markers and symbols at which blocks of a key and a symbol hold most.

    A key is a marker and then width − 1 symbols: with M markers there are M·(tokens − M)^(width − 1) keys,
    and a sequence has room for ⌊length/(width + 1)⌋ blocks. One more marker than there are blocks would only
    take a symbol away.
    """
    most = length // (width + 1)

    def divided(markers: int) -> Blocks:
        symbols = tokens - markers
        return Blocks(keys=min(most, markers * symbols ** (width - 1)), symbols=symbols)

    if most < 1 or tokens < 3:
        return Blocks(keys=0, symbols=1)
    if width == 1:  # M·log(tokens − M) is concave in M, and the search may be long
        return divided(peak(lambda m: m * log2(tokens - m), 1, min(most, tokens - 2)))
    best = Blocks(keys=0, symbols=1)
    for markers in range(1, tokens - 1):
        found = divided(markers)
        if found.keys * log2(found.symbols) > best.keys * log2(best.symbols):
            best = found
        if found.keys == most:
            break
    return best


@lru_cache(maxsize=4096)
def best_hubs(n: int) -> int:
    """The number k of hubs at which (n − k − 1)·log k is largest: concave in k, so climbed by halving."""
    return peak(lambda hubs: (n - hubs - 1) * log2(hubs), 2, max(2, n - 2))


def peak(height: Callable[[int], float], low: int, high: int) -> int:
    """Where a concave function of whole numbers from `low` to `high` is highest."""
    while low < high:
        middle = (low + high) // 2
        if height(middle) < height(middle + 1):
            low = middle + 1
        else:
            high = middle
    return low


def least_base(count: int, power: int) -> int:
    """The least whole number from 2 whose power is at least `count`: c-gram's own choice of an alphabet."""
    low, high = 2, max(2, count)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle**power < count else (low, middle)
    return low


@lru_cache(maxsize=256)
def levels(dimension: int, grid: int) -> int:
    """How many values of sparse averaging's grid can be chosen with any two at least ½ apart.

    The coordinates go in groups; those of a group are equal, so that levels `stride` steps apart differ by
    stride·step·√group.
    """
    places = 0
    while dimension * grid**2 > 4**places:
        places += 1
    best = 1
    for group in range(1, dimension + 1):
        stride = 1
        while 4 * stride**2 * group < 4**places:
            stride += 1
        best = max(best, (2 * grid // stride + 1) ** (dimension // group))
    return best


@lru_cache(maxsize=256)
def points_apart(dimension: int, gap: int) -> int:
    """A number of vertices of the hypercube that exist with any two at least `gap` coordinates apart.

    Short greedy codes, each bit repeated r times.
    """
    codes = (len(lexicode(min(dimension // r, 16), -(-gap // r))) for r in range(1, min(gap, dimension) + 1))
    return max(codes, default=1 << min(dimension, 16))
