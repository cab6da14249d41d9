"""What a two-party problem is to the methods that study it: a table that can be asked for any of its parts.

A row is a string that Alice may hold, a column one that Bob may. An entry is the answer to the pair, a number
below `values`, or `UNDEFINED` where the pair is no input at all: a promise says that it never comes. A table
need not be held in memory: 2^14 × 2^14 entries are made when they are asked for, block by block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final, final

import numpy as np
import torch
from jaxtyping import Int

from separatrix.communication.problems import Index, Problem, Strings
from separatrix.errors import InvalidInput, TooLarge

__all__ = ["MOST_VALUES", "UNDEFINED", "Entries", "ProblemEntries", "entry_type"]

UNDEFINED: Final = -1
"""The entry of a pair that is no input."""
MOST_VALUES: Final = 1 << 15
_BLOCK: Final = 1 << 20
"""Entries made at a time; with strings of tens of symbols that is tens of megabytes."""
_MOST_STRINGS: Final = 1 << 26
"""Rows, or columns: more are not gone through in a sitting."""


class Entries(ABC):
    """The interface; `CommunicationMatrix` holds them, the others make them."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The problem in a few words."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many strings Alice may hold."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """How many strings Bob may hold."""

    @property
    @abstractmethod
    def values(self) -> int:
        """How many answers there may be; 2 for a decision."""

    @property
    @abstractmethod
    def total(self) -> bool:
        """Whether every pair is an input."""

    @abstractmethod
    def at(
        self, rows: Int[np.ndarray, "row"], columns: Int[np.ndarray, "column"]
    ) -> Int[np.ndarray, "row column"]:
        """The entries where these rows and these columns cross."""

    @abstractmethod
    def row_text(self, row: int) -> str:
        """What Alice holds in this row."""

    @abstractmethod
    def column_text(self, column: int) -> str:
        """What Bob holds in this column."""

    def blocks(self) -> Iterator[tuple[int, Int[np.ndarray, "row column"]]]:
        """All entries from top to bottom: the number of a block's first row, and some whole rows."""
        size = max(1, _BLOCK // max(1, self.columns))
        columns = np.arange(self.columns)
        for low in range(0, self.rows, size):
            yield low, self.at(np.arange(low, min(self.rows, low + size)), columns)


def entry_type(values: int) -> np.dtype[np.signedinteger]:
    """The narrowest integers that hold so many answers and `UNDEFINED`."""
    if values > MOST_VALUES:
        raise TooLarge(f"A table has at most {MOST_VALUES:,} different answers; got {values:,}.")
    return np.dtype(np.int8 if values <= 128 else np.int16)


@final
class ProblemEntries(Entries):
    """One of the classic problems as a table: row and column numbers are those of `Strings`."""

    def __init__(self, problem: Problem) -> None:
        for party, strings in (("Alice", problem.alice), ("Bob", problem.bob)):
            # Compared by logarithm first: the count itself may have millions of digits.
            if strings.length * np.log2(strings.symbols) > 64 or strings.count > _MOST_STRINGS:
                raise TooLarge(
                    f"{party} may hold {strings.symbols}^{strings.length} strings in {problem.name} with "
                    f"n={problem.n}, and at most {_MOST_STRINGS:,} are listed; choose a smaller n."
                )
        self.problem = problem
        self._type = entry_type(problem.values)

    @property
    def title(self) -> str:
        """The name and the length."""
        alphabet = f", alphabet {self.problem.alphabet}" if isinstance(self.problem, Index) else ""
        return f"{self.problem.title}, n = {self.problem.n}{alphabet}"

    @property
    def rows(self) -> int:
        """Alice's strings."""
        return self.problem.alice.count

    @property
    def columns(self) -> int:
        """Bob's strings."""
        return self.problem.bob.count

    @property
    def values(self) -> int:
        """The problem's answers."""
        return self.problem.values

    @property
    def total(self) -> bool:
        """Every pair is an input of a classic problem."""
        return True

    def at(
        self, rows: Int[np.ndarray, "row"], columns: Int[np.ndarray, "column"]
    ) -> Int[np.ndarray, "row column"]:
        """The problem's value of each pair."""
        x = self.problem.alice.decode(torch.from_numpy(np.ascontiguousarray(rows, dtype=np.int64)))
        y = self.problem.bob.decode(torch.from_numpy(np.ascontiguousarray(columns, dtype=np.int64)))
        return self.problem.value(x.unsqueeze(1), y.unsqueeze(0)).numpy().astype(self._type)

    def row_text(self, row: int) -> str:
        """The symbols."""
        return _text(self.problem.alice, row)

    def column_text(self, column: int) -> str:
        """The symbols; in INDEX the place, counted from 0."""
        return _text(self.problem.bob, column)


def _text(strings: Strings, number: int) -> str:
    if not 0 <= number < strings.count:
        raise InvalidInput(f"Strings are numbered from 0 to {strings.count - 1}; got {number}.")
    symbols = strings.decode(torch.tensor([number]))[0].tolist()
    return ("" if strings.symbols <= 10 else " ").join(map(str, symbols))
