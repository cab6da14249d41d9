"""Fooling sets: check one pair by pair, and find a large one.

A fooling set for a value b is a set of pairs (x, y) that all have the answer b, and of any two of which,
(x, y) and (x′, y′), at least one crossing, (x, y′) or (x′, y), has another answer. At the end of a protocol
the pairs of strings that saw the same messages form a rectangle with one answer, so two members never see the
same messages, and a protocol after which both parties know the answer exchanges at least ⌈log2 |S|⌉ bits
(S, definition 1 and fact 4). Under a promise an undefined crossing proves nothing: it may lie in anybody's
rectangle.

>>> from separatrix.communication.problems import Equality
>>> from separatrix.communication.entries import ProblemEntries
>>> equality = ProblemEntries(Equality(n=4))
>>> every = np.arange(16)
>>> print(check_fooling_set(equality, np.stack([every, every], axis=1)))
a fooling set of 16 pairs with the answer 1: at least 4 bits
>>> print(check_fooling_set(equality, np.stack([every, every[::-1]], axis=1)))
no fooling set: members 0 and 1 both cross to the answer 0: (0000, 1110) and (0001, 1111)
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from jaxtyping import Int

from separatrix.communication.entries import UNDEFINED, Entries
from separatrix.errors import InvalidInput

__all__ = ["FoolingCheck", "Violation", "check_fooling_set"]

_BLOCK: Final = 1 << 20
"""Crossings looked at together."""
_CORNER: Final = 64


@final
@dataclass(frozen=True, kw_only=True)
class Violation:
    """Why a set is none: a member with another answer, or two whose crossings both have the answer b."""

    first: int
    second: int | None
    reason: str


@final
@dataclass(frozen=True, kw_only=True)
class FoolingCheck:
    """What came of checking; without a violation all pairs of members were looked at."""

    size: int
    value: int
    violation: Violation | None

    @property
    def holds(self) -> bool:
        """Whether it is a fooling set."""
        return self.violation is None

    @property
    def pairs(self) -> int:
        """Pairs of different members."""
        return self.size * (self.size - 1) // 2

    @property
    def bits(self) -> int:
        """The bits that every protocol exchanges on some input, because of this set."""
        if self.violation is not None:
            raise InvalidInput(f"Only a fooling set bounds anything: {self.violation.reason}.")
        return (self.size - 1).bit_length()

    def __str__(self) -> str:
        if self.violation is not None:
            return f"no fooling set: {self.violation.reason}"
        bits = f"{self.bits} {'bit' if self.bits == 1 else 'bits'}"
        return f"a fooling set of {self.size:,} pairs with the answer {self.value}: at least {bits}"


def check_fooling_set(
    entries: Entries, members: Int[np.ndarray, "member 2"], *, workers: int = 1
) -> FoolingCheck:
    """Check members, each a row and a column, two by two; the first pair that violates is named.

    The value is that of the first member. Members are first looked at one by one, then in pairs in
    lexicographic order. More workers are processes that take blocks of pairs in turn.
    """
    members = _checked(entries, members)
    value = int(entries.at(members[:1, 0], members[:1, 1])[0, 0])
    found = _member_violation(entries, members, value)
    if found is None:
        size = max(1, _BLOCK // len(members))
        starts = [(low, min(len(members), low + size)) for low in range(0, len(members), size)]
        work = _Work(entries, members, value)
        crossed = _in_turn(work, starts) if workers == 1 else _in_processes(work, starts, workers)
        pair = next((pair for pair in crossed if pair is not None), None)
        found = None if pair is None else _described(entries, members, value, pair)
    return FoolingCheck(size=len(members), value=value, violation=found)


@final
@dataclass(frozen=True)
class _Work:
    entries: Entries
    members: Int[np.ndarray, "member 2"]
    value: int

    def first_pair(self, block: tuple[int, int]) -> tuple[int, int] | None:
        """The first pair i < j, i in the block, of which both crossings may have the value.

        Crossings (x_i, y_j) are made for the whole block, the others, (x_j, y_i), only for those j that
        are still under suspicion.
        """
        low, high = block
        rows, columns = self.members[:, 0], self.members[:, 1]
        suspect = self._may(self.entries.at(rows[low:high], columns[low:]))
        later = np.arange(low, len(rows))
        suspect &= later > np.arange(low, high)[:, None]
        left = np.flatnonzero(suspect.any(0))
        if not len(left):
            return None
        suspect = suspect[:, left]
        suspect &= self._may(self.entries.at(rows[low + left], columns[low:high])).T
        pairs = np.argwhere(suspect)
        return None if not len(pairs) else (low + int(pairs[0, 0]), low + int(left[pairs[0, 1]]))

    def _may(self, entries: np.ndarray) -> np.ndarray:
        may: np.ndarray = (entries == self.value) | (entries == UNDEFINED)
        return may


def _in_turn(work: _Work, blocks: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int] | None]:
    # Blocks are small, and threads that wait for each other would cost more than they bring.
    with _one_thread():
        yield from map(work.first_pair, blocks)


def _in_processes(
    work: _Work, blocks: Sequence[tuple[int, int]], workers: int
) -> Iterator[tuple[int, int] | None]:
    if workers < 1:
        raise InvalidInput(f"Checking takes 1 worker or more; got {workers}.")
    # Started afresh: a copy of a process in which torch has threads may hang.
    start = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=start, initializer=_begin, initargs=(work,)) as pool:
        yield from pool.map(_first_pair, blocks)


_given: list[_Work] = []


def _begin(work: _Work) -> None:
    torch.set_num_threads(1)
    _given.append(work)


def _first_pair(block: tuple[int, int]) -> tuple[int, int] | None:
    return _given[0].first_pair(block)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _checked(entries: Entries, members: Int[np.ndarray, "member 2"]) -> Int[np.ndarray, "member 2"]:
    members = np.asarray(members)
    if members.ndim != 2 or members.shape[1] != 2 or not len(members) or members.dtype.kind not in "iu":
        raise InvalidInput(
            "A fooling set has a row number and a column number for each of one or more members; "
            f"got {members.dtype} of shape {members.shape}."
        )
    members = members.astype(np.int64)
    for number, (name, count) in enumerate((("row", entries.rows), ("column", entries.columns))):
        strange = members[(members[:, number] < 0) | (members[:, number] >= count), number]
        if len(strange):
            raise InvalidInput(f"A {name} is numbered from 0 to {count - 1}; got {int(strange[0])}.")
    return members


def _member_violation(entries: Entries, members: Int[np.ndarray, "member 2"], value: int) -> Violation | None:
    for low in range(0, len(members), _CORNER):
        part = members[low : low + _CORNER]
        own = entries.at(part[:, 0], part[:, 1]).diagonal()
        wrong = np.flatnonzero((own != value) | (own == UNDEFINED))
        if len(wrong):
            first = low + int(wrong[0])
            answer = "is no input" if own[wrong[0]] == UNDEFINED else f"has the answer {own[wrong[0]]}"
            expected = "" if first == 0 else f", member 0 has {value}"
            reason = f"member {first} {answer}{expected}: {_text(entries, members[first])}"
            return Violation(first=first, second=None, reason=reason)
    return None


def _described(
    entries: Entries, members: Int[np.ndarray, "member 2"], value: int, pair: tuple[int, int]
) -> Violation:
    first, second = members[pair[0]], members[pair[1]]
    crossings = [_text(entries, np.array([a[0], b[1]])) for a, b in ((first, second), (second, first))]
    possibly = "cross" if entries.total else "cross, or may cross,"
    reason = (
        f"members {pair[0]} and {pair[1]} both {possibly} to the answer {value}: {' and '.join(crossings)}"
    )
    return Violation(first=pair[0], second=pair[1], reason=reason)


def _text(entries: Entries, member: Int[np.ndarray, "2"]) -> str:
    return f"({entries.row_text(int(member[0]))}, {entries.column_text(int(member[1]))})"
