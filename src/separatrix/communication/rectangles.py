"""Bounds by rectangles: a distribution under which every rectangle with one answer is light.

The leaves of a protocol are such rectangles and cover everything, so if none weighs more than w there are at
least 1/w of them. Two forms stand here. `rectangle_bound` weighs the rectangles of each answer by themselves.
`discrepancy` weighs with signs, one answer against the other, over all rectangles; it says less about
deterministic protocols but holds for randomised ones too.

A distribution is given as whole numbers, a weight for each pair of inputs; what counts is a weight's share of
their sum. Nothing is rounded but the spectral bound, which carries its error.

>>> import numpy as np
>>> rectangle_bound(np.eye(8, dtype=np.int64)).bits
4
>>> hadamard = np.array([[0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 1], [0, 1, 1, 0]])
>>> found = discrepancy(hadamard)
>>> found.at_most, found.bits
(Fraction(5, 16), 2)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
from jaxtyping import Bool, Float, Int

from separatrix.communication.ranks import as_entries
from separatrix.errors import InvalidInput, TooLarge

__all__ = [
    "Discrepancy",
    "Rectangle",
    "RectangleBound",
    "discrepancy",
    "largest_rectangle",
    "rectangle_bound",
    "spectral_discrepancy",
]

_MOST_WORK: Final = 1 << 35
"""Products in going through all sets of lines: a minute's work."""
_BLOCK: Final = 1 << 18
"""Sums that are held at a time."""
_MOST_WEIGHT: Final = 1 << 50
"""The sum of all weights: whatever is added up of them is a whole number that float64 holds exactly."""
_MOST_SPECTRAL: Final = 1 << 12


@final
@dataclass(frozen=True, kw_only=True)
class Rectangle:
    """Some rows and some columns, and what they weigh together."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    weight: int


@final
@dataclass(frozen=True, kw_only=True)
class RectangleBound:
    """Leaves that every protocol has, by the heaviest rectangle of each answer, and the bits that follow.

    `bits` counts what is exchanged until both parties know the answer.
    """

    distribution: str
    leaves: int
    bits: int
    heaviest: tuple[Rectangle, ...]


def rectangle_bound(
    matrix: Int[np.ndarray, "row column"],
    *,
    weights: Int[np.ndarray, "row column"] | None = None,
    distribution: str = "",
) -> RectangleBound:
    """At least ⌈weight of an answer / weight of its heaviest rectangle⌉ leaves for each answer.

    Without weights every input counts 1. `distribution` names the weights for whoever reads the result.
    """
    entries, heavy, name = _weighed(matrix, weights, distribution)
    leaves, heaviest = 0, []
    for value in range(int(entries.max()) + 1):
        rectangle = largest_rectangle(entries, value, weights=heavy)
        heaviest.append(rectangle)
        weight = int(heavy[entries == value].sum())
        occurs = bool((entries == value).any())
        leaves += -(-weight // rectangle.weight) if weight else int(occurs)
    return RectangleBound(
        distribution=name, leaves=leaves, bits=(max(1, leaves) - 1).bit_length(), heaviest=tuple(heaviest)
    )


def largest_rectangle(
    matrix: Int[np.ndarray, "row column"], value: int, *, weights: Int[np.ndarray, "row column"] | None = None
) -> Rectangle:
    """The heaviest rectangle in which every input has this answer.

    Undefined pairs may lie in it and weigh nothing. For each set of lines on the shorter side the other side
    takes every line that fits.
    """
    entries, heavy, _ = _weighed(matrix, weights, "")
    fits = (entries == value) | (entries < 0)
    heavy = np.where(entries == value, heavy, 0)
    turned = len(entries) > entries.shape[1]
    if turned:
        fits, heavy = fits.T, heavy.T
    best, chosen = -1, np.zeros(len(fits), dtype=np.bool_)
    misfits, masses = (~fits).astype(np.float64), heavy.astype(np.float64)
    for sets in _sets(*fits.shape):
        totals = ((sets @ masses) * (sets @ misfits == 0)).sum(1)
        place = int(totals.argmax())
        if totals[place] > best:
            best, chosen = int(totals[place]), sets[place] == 1
    others = fits[chosen].all(0)
    rows, columns = (others, chosen) if turned else (chosen, others)
    return Rectangle(rows=_numbers(rows), columns=_numbers(columns), weight=max(0, best))


@final
@dataclass(frozen=True, kw_only=True)
class Discrepancy:
    """How far the two answers can differ in weight within a rectangle, as a share of the whole.

    `at_most` is the discrepancy itself where a `rectangle` that has it is given, else a bound on it.
    """

    distribution: str
    at_most: Fraction
    rectangle: Rectangle | None

    @property
    def bits(self) -> int:
        """Bits of every deterministic protocol: a leaf weighs no more than its own discrepancy."""
        return self.randomised_bits(Fraction(0))

    def randomised_bits(self, error: Fraction | float) -> int:
        """Bits of every protocol with shared randomness that errs with at most this probability.

        For a fixed outcome of the coins the protocol is deterministic. Its answers, right counted as 1 and
        wrong as −1, have an average of 1 − 2·error or more for some outcome, and each of its leaves adds at
        most the discrepancy to that.
        """
        advantage = 1 - 2 * Fraction(error)
        if not 0 < advantage <= 1:
            raise InvalidInput(f"An error is a probability below one half; got {float(error)}. Try 1/3.")
        if self.at_most == 0:
            return 0
        leaves = advantage / self.at_most
        return max(0, (math.ceil(leaves) - 1).bit_length())


def discrepancy(
    matrix: Int[np.ndarray, "row column"],
    *,
    weights: Int[np.ndarray, "row column"] | None = None,
    distribution: str = "",
) -> Discrepancy:
    """The exact discrepancy of a decision, over all sets of lines on the shorter side.

    For a set of rows each column has a signed sum, and the best rectangle takes all positive or all negative
    ones.
    """
    entries, heavy, name = _weighed(matrix, weights, distribution)
    signed = _signed(entries, heavy)
    turned = len(signed) > signed.shape[1]
    signed = (signed.T if turned else signed).astype(np.float64)
    best, chosen, others = -1, np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.bool_)
    for sets in _sets(*signed.shape):
        sums = sets @ signed
        for sign in (1, -1):
            totals = np.maximum(sign * sums, 0).sum(1)
            place = int(totals.argmax())
            if totals[place] > best:
                best, chosen, others = int(totals[place]), sets[place] == 1, sign * sums[place] > 0
    rows, columns = (others, chosen) if turned else (chosen, others)
    return Discrepancy(
        distribution=name,
        at_most=Fraction(best, int(heavy.sum())),
        rectangle=Rectangle(rows=_numbers(rows), columns=_numbers(columns), weight=best),
    )


def spectral_discrepancy(
    matrix: Int[np.ndarray, "row column"],
    *,
    weights: Int[np.ndarray, "row column"] | None = None,
    distribution: str = "",
) -> Discrepancy:
    """A bound on the discrepancy of a larger decision: the largest singular value times √(rows·columns).

    A rectangle's signed weight is 1_A·W·1_B, and the two indicators have norms of at most √rows and √columns.
    The Gram matrix of W is exact in integers; its greatest eigenvalue is found in float64, and 64·n times the
    unit roundoff times the Gram matrix's Frobenius norm is added for the error of that, which is generous for
    a backward stable method.
    """
    entries, heavy, name = _weighed(matrix, weights, distribution)
    signed = _signed(entries, heavy)
    gram = signed @ signed.T if len(signed) <= signed.shape[1] else signed.T @ signed
    if len(gram) > _MOST_SPECTRAL or int(heavy.max()) ** 2 * max(signed.shape) >= 1 << 53:
        raise TooLarge(
            f"The spectral bound takes up to {_MOST_SPECTRAL:,} lines on the shorter side, and weights whose "
            f"squares add up to less than 2^53 in a line; got {signed.shape[0]:,} × {signed.shape[1]:,}."
        )
    top = float(np.linalg.eigvalsh(gram.astype(np.float64))[-1])
    frobenius = float(np.sqrt((gram.astype(np.float64) ** 2).sum()))
    error = 64 * len(gram) * float(np.finfo(np.float64).eps) * frobenius
    square = Fraction(top + error) * signed.size / int(heavy.sum()) ** 2
    return Discrepancy(distribution=name, at_most=min(Fraction(1), _root_above(square)), rectangle=None)


def _root_above(square: Fraction) -> Fraction:
    """A fraction not below the square root, and above it by a part in 2^52 at most."""
    scale = 1 << 60
    return Fraction(math.isqrt(math.ceil(square * scale**2)) + 1, scale)


def _weighed(
    matrix: Int[np.ndarray, "row column"], weights: Int[np.ndarray, "row column"] | None, distribution: str
) -> tuple[np.ndarray, np.ndarray, str]:
    """Entries, weights of the inputs, and the distribution's name."""
    entries = as_entries(matrix)
    if weights is None:
        heavy, name = (entries >= 0).astype(np.int64), "uniform on the inputs"
    else:
        heavy, name = np.asarray(weights), "given weights"
        if heavy.shape != entries.shape or heavy.dtype.kind not in "biu" or int(heavy.min()) < 0:
            raise InvalidInput(
                f"Weights are whole numbers from 0, one for each of {entries.shape[0]} × {entries.shape[1]} "
                f"entries; got {heavy.dtype} of shape {heavy.shape}."
            )
        heavy = np.where(entries >= 0, heavy.astype(np.int64), 0)
    total = sum(map(int, heavy.sum(1)))
    if not 0 < total <= _MOST_WEIGHT:
        raise InvalidInput(f"Weights of inputs add up to a number from 1 to 2^50; got {total}.")
    return entries, heavy, distribution or name


def _signed(entries: Int[np.ndarray, "row column"], heavy: Int[np.ndarray, "row column"]) -> np.ndarray:
    if int(entries.max()) > 1:
        raise InvalidInput(f"Discrepancy is of decisions, with answers 0 and 1; got {int(entries.max())}.")
    return np.where(entries == 1, heavy, -heavy)


def _sets(lines: int, others: int) -> Iterator[Float[np.ndarray, "set line"]]:
    """All sets of lines that are not empty, as rows of zeros and ones."""
    if lines * others << lines > _MOST_WORK:
        raise TooLarge(
            f"Going through the rectangles of {lines:,} × {others:,} entries takes too long: there are "
            f"2^{lines} sets on the shorter side. Choose a smaller n, or take the spectral bound on the "
            "discrepancy."
        )
    size = max(1, _BLOCK // others)
    for low in range(1, 1 << lines, size):
        numbers = np.arange(low, min(1 << lines, low + size))
        yield (numbers[:, None] >> np.arange(lines) & 1).astype(np.float64)


def _numbers(lines: Bool[np.ndarray, "line"]) -> tuple[int, ...]:
    return tuple(np.flatnonzero(lines).tolist())
