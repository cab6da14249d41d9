"""Rank of a communication matrix, over the rationals and over GF(2), and the bits that follow from it.

The leaves of a protocol cut the matrix into rectangles with one answer each. The indicator matrix of an
answer, 1 where it is the right one, is therefore the sum of the rectangles that say it, each of rank 1 over
every field. So a protocol has at least as many leaves with an answer as the indicator's rank, and the tree is
at least as deep as the logarithm of all its leaves.

>>> import numpy as np
>>> log_rank(np.eye(8, dtype=np.int64))
LogRank(field='rationals', ranks=(8, 8), bits=4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, final

import flint
import numpy as np
from jaxtyping import Bool, Int, UInt8

from separatrix.communication.entries import MOST_VALUES
from separatrix.errors import InvalidInput, TooLarge

__all__ = [
    "LogRank",
    "as_entries",
    "log_rank",
    "packed_rank",
    "rank_of_numbers",
    "rank_over_gf2",
    "rank_over_rationals",
]

Field = Literal["rationals", "GF(2)"]

_PRIME: Final = (1 << 31) - 1
_MOST_ENTRIES: Final = 1 << 22
"""Entries that are handed to flint; own elimination takes more."""
_MOST_BYTES: Final = 1 << 27
_STRIPE: Final = 8


def as_entries(matrix: Int[np.ndarray, "row column"] | Bool[np.ndarray, "row column"]) -> np.ndarray:
    """The entries as int64: answers from 0, and −1 where a pair is no input."""
    array = np.asarray(matrix)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "biu":
        raise InvalidInput(
            "A communication matrix has two axes, at least one row and one column, and whole numbers; "
            f"got {array.dtype} of shape {array.shape}."
        )
    entries = array.astype(np.int64)
    for entry in (int(array.min()), int(array.max())):
        if not -1 <= entry < MOST_VALUES:
            raise InvalidInput(
                f"Entries are answers from 0 to {MOST_VALUES - 1}, or −1 for none; got {entry}."
            )
    return entries


def rank_over_rationals(matrix: Int[np.ndarray, "row column"]) -> int:
    """The exact rank of a matrix of whole numbers.

    Its rank modulo a prime is never larger. Where that already is the number of different rows or columns,
    as it is for most matrices one meets, nothing is left to prove; else the elimination is done in integers.
    """
    array = np.asarray(matrix)
    if array.ndim != 2 or array.dtype.kind not in "biu":
        raise InvalidInput(f"A rank is that of a matrix of whole numbers; got {array.dtype} {array.shape}.")
    if array.size == 0:
        return 0
    distinct = np.unique(np.unique(array, axis=0), axis=1)
    if distinct.size > _MOST_ENTRIES:
        raise TooLarge(
            f"An exact rank is found for at most {_MOST_ENTRIES:,} different entries; got "
            f"{distinct.shape[0]:,} × {distinct.shape[1]:,}. Choose a smaller n, or take the rank over GF(2)."
        )
    rows, columns = distinct.shape
    numbers = distinct.ravel().tolist()
    modular = int(flint.nmod_mat(rows, columns, [number % _PRIME for number in numbers], _PRIME).rank())
    if modular == min(rows, columns):
        return modular
    return int(flint.fmpz_mat(rows, columns, numbers).rank())


def rank_over_gf2(matrix: Int[np.ndarray, "row column"]) -> int:
    """The rank modulo 2, by elimination on rows of 64-bit words."""
    array = np.asarray(matrix)
    if array.ndim != 2 or array.dtype.kind not in "biu":
        raise InvalidInput(f"A rank is that of a matrix of whole numbers; got {array.dtype} {array.shape}.")
    return packed_rank(np.packbits(array.astype(np.int64) & 1 == 1, axis=1)) if array.size else 0


def packed_rank(bits: UInt8[np.ndarray, "row byte"]) -> int:
    """The rank modulo 2 of rows of bits, eight a byte.

    Eight columns at a time (the method of four Russians): the pivots of a stripe are cleared from each other,
    all 256 sums of them are written down once, and every other row takes the sum that its own eight bits ask
    for. So a row is gone over once a stripe and not once a pivot.
    """
    if bits.size > _MOST_BYTES:
        raise TooLarge(
            f"A rank over GF(2) is found for at most {_MOST_BYTES >> 20} MiB of bits; got {bits.size >> 20}."
        )
    stripes = bits.shape[1]
    wide = np.zeros((len(bits), -(-stripes // 8) * 8), dtype=np.uint8)
    wide[:, :stripes] = bits
    words = wide.view(np.uint64)
    rank = 0
    for stripe in range(stripes):
        if rank == len(words):
            break
        rank += _clear_stripe(wide[rank:], words[rank:], stripe)
    return rank


def _clear_stripe(wide: UInt8[np.ndarray, "row byte"], words: np.ndarray, stripe: int) -> int:
    """Bring the pivots of eight columns to the top and clear these columns below; how many there are."""
    first_word = stripe // 8
    pivots: list[int] = []
    columns: list[int] = []
    for column in range(_STRIPE):
        bit = 0x80 >> column
        done = len(pivots)
        # What a row's bit would be after the pivots so far, without touching the row.
        column_bits = _reduced(wide[done:, stripe], wide[:done, stripe], columns)
        found = np.flatnonzero(column_bits & bit)
        if not len(found):
            continue
        row = done + int(found[0])
        if row != done:
            words[[done, row]] = words[[row, done]]
        for earlier in range(done):
            if wide[done, stripe] & (0x80 >> columns[earlier]):
                words[done, first_word:] ^= words[earlier, first_word:]
        for earlier in range(done):
            if wide[earlier, stripe] & bit:
                words[earlier, first_word:] ^= words[done, first_word:]
        pivots.append(done)
        columns.append(column)
    count = len(pivots)
    if not count:
        return 0
    sums = np.zeros((1 << count, words.shape[1] - first_word), dtype=np.uint64)
    for number in range(count):
        sums[1 << number : 2 << number] = sums[: 1 << number] ^ words[number, first_word:]
    words[count:, first_word:] ^= sums[_selectors(wide[count:, stripe], columns)]
    return count


def _selectors(stripe: UInt8[np.ndarray, "row"], columns: list[int]) -> Int[np.ndarray, "row"]:
    """Which pivots a row must take to clear their columns; each has only its own of these bits."""
    chosen = np.zeros(len(stripe), dtype=np.int64)
    for number, column in enumerate(columns):
        chosen |= ((stripe >> (7 - column)) & 1).astype(np.int64) << number
    return chosen


def _reduced(
    stripe: UInt8[np.ndarray, "row"], pivots: UInt8[np.ndarray, "pivot"], columns: list[int]
) -> UInt8[np.ndarray, "row"]:
    reduced = stripe.copy()
    for pivot, column in zip(pivots, columns, strict=True):
        # The pivots are cleared from each other, so their order does not matter.
        reduced ^= ((stripe >> (7 - column)) & 1) * pivot
    return reduced


def rank_of_numbers(rows: list[int]) -> int:
    """The rank modulo 2 of rows given as numbers, one bit an entry: quick for small matrices."""
    basis: list[int] = []
    for row in rows:
        rest = row
        for pivot in basis:
            rest = min(rest, rest ^ pivot)
        if rest:
            basis.append(rest)
    return len(basis)


@final
@dataclass(frozen=True, kw_only=True)
class LogRank:
    """What the ranks of the answers' indicators say: at least their sum of leaves, and `bits` deep.

    `bits` counts what is exchanged until both parties know the answer.
    """

    field: Field
    ranks: tuple[int, ...]
    bits: int


def log_rank(matrix: Int[np.ndarray, "row column"], *, field: Field = "rationals") -> LogRank:
    """The rank of each answer's indicator and the bound by their sum.

    For a decision these are the ranks of the matrix and of its complement, which differ by at most 1. A
    promise leaves entries free to be anything, and then no rank is a bound.
    """
    entries = as_entries(matrix)
    if int(entries.min()) < 0:
        raise InvalidInput("A rank bounds total functions only; this matrix has pairs that are no input.")
    rank = {"rationals": rank_over_rationals, "GF(2)": rank_over_gf2}[field]
    ranks = tuple(
        rank((entries == value).astype(np.int64)) for value in range(max(2, int(entries.max()) + 1))
    )
    return LogRank(field=field, ranks=ranks, bits=(sum(ranks) - 1).bit_length())
