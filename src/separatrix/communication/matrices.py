"""The communication matrix, and what one message costs.

Decisions are held as bits, eight entries a byte, and a promise as a second set of bits that says which pairs
are inputs; problems with more answers are held as small integers. A matrix is built from blocks of rows, so
that nothing is ever held unpacked. `HELD_BYTES` is the limit: 2^32 bits, such as two strings of 16 bits
each. Beyond it `one_way` still goes through the rows of a problem one block after another.

>>> from separatrix.communication.problems import Equality
>>> matrix = matrix_of(Equality(n=3))
>>> matrix.dense()[:2]
array([[1, 0, 0, 0, 0, 0, 0, 0],
       [0, 1, 0, 0, 0, 0, 0, 0]], dtype=int8)
>>> one_way(matrix)
OneWay(at_least=8, at_most=8)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from jaxtyping import Bool, Int, Shaped, UInt8

from separatrix.communication.entries import UNDEFINED, Entries, ProblemEntries, entry_type
from separatrix.communication.problems import Problem
from separatrix.errors import InvalidInput, TooLarge

__all__ = [
    "DENSE_ENTRIES",
    "HELD_BYTES",
    "CommunicationMatrix",
    "OneWay",
    "first_of_each",
    "matrix_of",
    "one_way",
    "whole_rows",
]

HELD_BYTES: Final = 1 << 29
"""What a matrix may take in memory."""
DENSE_ENTRIES: Final = 1 << 26
"""What may be unpacked at once."""
_COMPARED: Final = 1 << 33
_MOST_CONTRADICTING: Final = 1 << 12
"""Bytes and rows that are compared two by two in a promise problem, at most."""
_CLIQUES: Final = 16


@final
class CommunicationMatrix(Entries):
    """Entries in memory.

    `bits` has a row of bytes for each row, the first column the highest bit, for decisions; else `symbols`
    has a small integer for each entry. `defined` has the same shape as `bits` and is None for a total
    function. Undefined entries are 0 in `bits` and `UNDEFINED` in `symbols`.
    """

    def __init__(
        self,
        *,
        columns: int,
        values: int,
        title: str = "a matrix",
        bits: UInt8[np.ndarray, "row byte"] | None = None,
        defined: UInt8[np.ndarray, "row byte"] | None = None,
        symbols: Int[np.ndarray, "row column"] | None = None,
        source: Entries | None = None,
    ) -> None:
        if (bits is None) == (symbols is None) or (bits is None and defined is not None):
            raise InvalidInput("A matrix is given either as bits, for decisions, or as symbols.")
        self.bits, self.defined, self.symbols = bits, defined, symbols
        self._columns, self._values, self._title, self._source = columns, values, title, source

    @classmethod
    def of(cls, entries: Entries, *, watch: Callable[[int], None] | None = None) -> CommunicationMatrix:
        """All entries of a table, gone through in blocks; `watch` is told how many rows are filled."""
        if isinstance(entries, CommunicationMatrix):
            return entries
        rows, columns, values = entries.rows, entries.columns, entries.values
        wide = -(-columns // 8) if values == 2 else columns * entry_type(values).itemsize
        needed = rows * wide * (1 if entries.total or values > 2 else 2)
        if needed > HELD_BYTES:
            raise TooLarge(
                f"The matrix of {entries.title} has {rows:,} × {columns:,} entries and takes "
                f"{needed >> 20:,} MiB packed; at most {HELD_BYTES >> 20} are held. Choose a smaller n."
            )
        if values > 2:
            symbols = np.empty((rows, columns), dtype=entry_type(values))
            for low, block in entries.blocks():
                symbols[low : low + len(block)] = block
                if watch is not None:
                    watch(low + len(block))
            return cls(columns=columns, values=values, title=entries.title, symbols=symbols, source=entries)
        bits = np.empty((rows, wide), dtype=np.uint8)
        defined = None if entries.total else np.empty_like(bits)
        for low, block in entries.blocks():
            bits[low : low + len(block)] = np.packbits(block == 1, axis=1)
            if defined is not None:
                defined[low : low + len(block)] = np.packbits(block != UNDEFINED, axis=1)
            if watch is not None:
                watch(low + len(block))
        return cls(columns=columns, values=2, title=entries.title, bits=bits, defined=defined, source=entries)

    @classmethod
    def of_values(
        cls, values: Int[np.ndarray, "row column"], *, title: str = "a matrix"
    ) -> CommunicationMatrix:
        """A matrix that is written down: numbers from 0, and `UNDEFINED` where no input is."""
        array = np.asarray(values)
        if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "biu":
            raise InvalidInput(
                "A matrix has two axes, at least one row and one column, and whole numbers as entries; "
                f"got {array.dtype} of shape {array.shape}."
            )
        if array.dtype.kind != "b" and int(array.min()) < UNDEFINED:
            raise InvalidInput(f"Entries are numbers from 0, or −1 for undefined; got {int(array.min())}.")
        count = max(2, int(array.max()) + 1)
        kind = entry_type(count)
        if count > 2:
            return cls(columns=array.shape[1], values=count, title=title, symbols=array.astype(kind))
        total = array.dtype.kind == "b" or bool((array >= 0).all())
        return cls(
            columns=array.shape[1],
            values=2,
            title=title,
            bits=np.packbits(array == 1, axis=1),
            defined=None if total else np.packbits(array >= 0, axis=1),
        )

    @property
    def title(self) -> str:
        """The problem in a few words."""
        return self._title

    @property
    def rows(self) -> int:
        """Alice's strings."""
        return len(self.held)

    @property
    def columns(self) -> int:
        """Bob's strings."""
        return self._columns

    @property
    def values(self) -> int:
        """How many answers there may be."""
        return self._values

    @property
    def total(self) -> bool:
        """Whether every pair is an input."""
        return self.defined is None if self.symbols is None else bool((self.symbols >= 0).all())

    @property
    def held(self) -> np.ndarray:
        """`bits` or `symbols`, whichever there is."""
        held = self.bits if self.symbols is None else self.symbols
        assert held is not None
        return held

    def at(
        self, rows: Int[np.ndarray, "row"], columns: Int[np.ndarray, "column"]
    ) -> Int[np.ndarray, "row column"]:
        """The entries where these rows and these columns cross."""
        if self.symbols is not None:
            chosen: np.ndarray = self.symbols[np.ix_(rows, columns)]
            return chosen
        assert self.bits is not None
        entries = _unpacked(self.bits, rows, columns)
        if self.defined is not None:
            entries[_unpacked(self.defined, rows, columns) == 0] = UNDEFINED
        return entries

    def entry(self, row: int, column: int) -> int | None:
        """One answer; None where the pair is no input."""
        value = int(self.at(np.array([row]), np.array([column]))[0, 0])
        return None if value == UNDEFINED else value

    def dense(self) -> Int[np.ndarray, "row column"]:
        """All entries as integers, if they are few enough."""
        if self.rows * self.columns > DENSE_ENTRIES:
            raise TooLarge(
                f"{self.title} has {self.rows:,} × {self.columns:,} entries; at most {DENSE_ENTRIES:,} are "
                "unpacked at once. Choose a smaller n, or go through `blocks()`."
            )
        return self.at(np.arange(self.rows), np.arange(self.columns))

    def distinct_places(self) -> tuple[Int[np.ndarray, "kept_row"], Int[np.ndarray, "kept_column"]]:
        """The rows and the columns that repeat no earlier one."""
        rows = _rows_known_apart(self)
        if len(rows) * self.columns > DENSE_ENTRIES:
            raise TooLarge(
                f"{self.title} has {len(rows):,} different rows of {self.columns:,} entries; at most "
                f"{DENSE_ENTRIES:,} entries are unpacked at once. Choose a smaller n."
            )
        return rows, first_of_each(self.at(rows, np.arange(self.columns)).T)

    def distinct(self) -> CommunicationMatrix:
        """Rows and columns that repeat earlier ones left out: communication costs the same.

        What is left stands in its old order, and keeps its texts.
        """
        return CommunicationMatrix.of(_Part(self, *self.distinct_places()))

    def transposed(self) -> CommunicationMatrix:
        """Alice and Bob changed over."""
        return CommunicationMatrix.of(_Transposed(self))

    def row_text(self, row: int) -> str:
        """What Alice holds; the row's number where nothing else is known."""
        return str(row) if self._source is None else self._source.row_text(row)

    def column_text(self, column: int) -> str:
        """What Bob holds; the column's number where nothing else is known."""
        return str(column) if self._source is None else self._source.column_text(column)


def matrix_of(problem: Problem | Entries) -> CommunicationMatrix:
    """The matrix of a problem, packed."""
    return CommunicationMatrix.of(ProblemEntries(problem) if isinstance(problem, Problem) else problem)


@final
@dataclass(frozen=True)
class OneWay:
    """How many different messages Alice must have, if she sends one and Bob then answers.

    For a total function that is the number of different rows, and both numbers are equal: two rows that
    differ in a column must not share a message, and equal rows may. Under a promise rows that never
    contradict each other may share one, but such sharing is not transitive, and the exact number is the
    chromatic number of the graph of contradictions. Then `at_least` is the size of a clique in it, found
    greedily, and `at_most` the colours of a greedy colouring.
    """

    at_least: int
    at_most: int

    @property
    def exact(self) -> bool:
        """Whether the number of messages is known."""
        return self.at_least == self.at_most

    @property
    def bits(self) -> int:
        """Bits that every one-way protocol needs in the worst case."""
        return (self.at_least - 1).bit_length()

    @property
    def bits_enough(self) -> int:
        """Bits with which some one-way protocol gets by."""
        return (self.at_most - 1).bit_length()


def one_way(problem: Problem | Entries) -> OneWay:
    """The messages that one-way protocols from Alice to Bob need.

    A matrix in memory is compared byte by byte. A problem that is not held is streamed, and each row is
    known by 128 bits of a cryptographic hash: different hashes prove different rows, so the count is a
    lower bound in any case.
    """
    entries = ProblemEntries(problem) if isinstance(problem, Problem) else problem
    if entries.total:
        count = _distinct_rows(entries)
        return OneWay(count, count)
    matrix = CommunicationMatrix.of(entries)
    contradict = _contradictions(matrix, _rows_known_apart(matrix))
    return OneWay(_clique(contradict), _colours(contradict))


def first_of_each(array: np.ndarray) -> Int[np.ndarray, "kept"]:
    """Numbers of the rows that repeat no earlier one."""
    return np.sort(np.unique(whole_rows(array), return_index=True)[1])


def whole_rows(array: Shaped[np.ndarray, "row column"]) -> Shaped[np.ndarray, "row"]:
    """Each row as one value, compared byte by byte; numpy sorts such much faster than rows."""
    rows = np.ascontiguousarray(array)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()


def _distinct_rows(entries: Entries) -> int:
    if isinstance(entries, CommunicationMatrix):
        return len(first_of_each(entries.held))
    seen: set[bytes] = set()
    for _, block in entries.blocks():
        packed = np.packbits(block == 1, axis=1) if entries.values == 2 else block
        # Rows that repeat within a block are hashed once.
        for row in packed[first_of_each(packed)]:
            seen.add(hashlib.blake2b(row.tobytes(), digest_size=16).digest())
    return len(seen)


def _rows_known_apart(matrix: CommunicationMatrix) -> Int[np.ndarray, "kept"]:
    """Rows that differ in an answer or in what is defined."""
    held = matrix.held
    return first_of_each(held if matrix.defined is None else np.hstack([held, matrix.defined]))


def _contradictions(
    matrix: CommunicationMatrix, rows: Int[np.ndarray, "kept"]
) -> Bool[np.ndarray, "kept kept"]:
    """Which of these rows answer differently in a column where both are defined."""
    work = len(rows) ** 2 * matrix.held.itemsize * matrix.held.shape[1]
    if work > _COMPARED or len(rows) > _MOST_CONTRADICTING:
        raise TooLarge(
            f"{matrix.title} is a promise problem with {len(rows):,} different rows of {matrix.columns:,} "
            "entries; comparing them two by two takes too long. Choose a smaller n."
        )
    held = matrix.held[rows]
    known = held >= 0 if matrix.defined is None else matrix.defined[rows]
    contradict = np.empty((len(rows), len(rows)), dtype=np.bool_)
    for number, (row, here) in enumerate(zip(held, known, strict=True)):
        differ = held != row if matrix.defined is None else held ^ row
        contradict[number] = (differ & known & here).any(1)
    return contradict


def _clique(contradict: Bool[np.ndarray, "row row"]) -> int:
    """The largest of some cliques; each grows by the row that contradicts most of what is still open."""
    best = 1
    degrees = contradict.sum(1)
    for start in np.argsort(-degrees, kind="stable")[:_CLIQUES]:
        open_, size = contradict[start].copy(), 1
        # How many of what is still open each row contradicts: what closes is taken off, once.
        within = degrees - contradict[~open_].sum(0)
        while open_.any():
            size += 1
            chosen = int(np.where(open_, within, -1).argmax())
            closed = open_ & ~contradict[chosen]
            within -= contradict[closed].sum(0)
            open_ &= ~closed
        best = max(best, size)
    return best


def _colours(contradict: Bool[np.ndarray, "row row"]) -> int:
    """One colour after another takes every row it can, those with most contradictions first."""
    left = np.argsort(-contradict.sum(1), kind="stable")
    colours = 0
    while len(left):
        colours += 1
        blocked = np.zeros(len(contradict), dtype=np.bool_)
        rest = []
        for row in left:
            if blocked[row]:
                rest.append(row)
            else:
                blocked |= contradict[row]
        left = np.array(rest, dtype=np.intp)
    return colours


def _unpacked(
    packed: UInt8[np.ndarray, "row byte"], rows: Int[np.ndarray, "row"], columns: Int[np.ndarray, "column"]
) -> Int[np.ndarray, "row column"]:
    whole: np.ndarray
    if 8 * len(columns) >= packed.shape[1]:
        # So many columns that unpacking whole rows is quicker than picking bits.
        whole = np.unpackbits(packed[rows], axis=1).view(np.int8)
        return whole[:, columns]
    shifts = (7 - columns % 8).astype(np.uint8)
    whole = packed[np.ix_(rows, columns // 8)] >> shifts
    return (whole & 1).view(np.int8)


@final
class _Part(Entries):
    """Some rows and some columns of a table."""

    def __init__(self, whole: Entries, rows: np.ndarray, columns: np.ndarray) -> None:
        self._whole, self._rows, self._kept = whole, rows, columns
        self._total = whole.total or bool((whole.at(rows, columns) >= 0).all())

    @property
    def title(self) -> str:
        return self._whole.title

    @property
    def rows(self) -> int:
        return len(self._rows)

    @property
    def columns(self) -> int:
        return len(self._kept)

    @property
    def values(self) -> int:
        return self._whole.values

    @property
    def total(self) -> bool:
        return self._total

    def at(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self._whole.at(self._rows[rows], self._kept[columns])

    def row_text(self, row: int) -> str:
        return self._whole.row_text(int(self._rows[row]))

    def column_text(self, column: int) -> str:
        return self._whole.column_text(int(self._kept[column]))


@final
class _Transposed(Entries):
    """Rows for columns."""

    def __init__(self, whole: Entries) -> None:
        self._whole = whole

    @property
    def title(self) -> str:
        return f"{self._whole.title}, transposed"

    @property
    def rows(self) -> int:
        return self._whole.columns

    @property
    def columns(self) -> int:
        return self._whole.rows

    @property
    def values(self) -> int:
        return self._whole.values

    @property
    def total(self) -> bool:
        return self._whole.total

    def at(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self._whole.at(columns, rows).T

    def row_text(self, row: int) -> str:
        return self._whole.column_text(row)

    def column_text(self, column: int) -> str:
        return self._whole.row_text(column)
