"""Everything there is to say about one matrix: each number by its own method, and what they give together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, final

import numpy as np
from jaxtyping import Int

from separatrix.communication.complexity import MOST_SIDE, Complexity, complexity
from separatrix.communication.fooling_search import FoolingSet, find_fooling_sets, fooling_bits
from separatrix.communication.matrices import CommunicationMatrix, OneWay, one_way
from separatrix.communication.ranks import LogRank, log_rank
from separatrix.communication.rectangles import (
    Discrepancy,
    RectangleBound,
    discrepancy,
    rectangle_bound,
    spectral_discrepancy,
)
from separatrix.errors import InvalidInput, SeparatrixError, TooLarge

__all__ = ["Study", "study"]

_STEPS_A_SECOND: Final = 10_000
"""Splits that the search for the exact complexity tries in about a second."""
_MOST_RANKED: Final = 1 << 21
_MOST_SUBSETS: Final = 16
_MOST_SPECTRAL: Final = 512
Found = TypeVar("Found")


@final
@dataclass(frozen=True, kw_only=True)
class Study:
    """What was found; `left_out` says of every number that is missing why it is.

    `one_way` is about one message from Alice to Bob, who then answers. All else counts bits exchanged until
    both parties know the answer.
    """

    matrix: CommunicationMatrix
    one_way: OneWay | None
    over_rationals: LogRank | None
    over_gf2: LogRank | None
    fooling: tuple[FoolingSet, ...] | None
    rectangles: RectangleBound | None
    discrepancy: Discrepancy | None
    complexity: Complexity | None
    left_out: Mapping[str, str]

    @property
    def at_least(self) -> int:
        """The best lower bound on deterministic protocols."""
        bounds = (self.over_rationals, self.over_gf2, self.rectangles, self.discrepancy, self.complexity)
        return max(
            fooling_bits(self.fooling or ()), *(bound.bits for bound in bounds if bound is not None), 0
        )

    @property
    def at_most(self) -> int:
        """What the best known protocol exchanges: the optimal one, or a string and then the answer."""
        if self.complexity is not None:
            return self.complexity.bits
        answer = (self.matrix.values - 1).bit_length()
        sides = [(side - 1).bit_length() for side in (self.matrix.rows, self.matrix.columns)]
        sent = sides if self.one_way is None else [*sides, self.one_way.bits_enough]
        return min(sent) + answer


def study(matrix: CommunicationMatrix, *, budget: float = 10.0, seed: int = 0) -> Study:
    """Count rows, take ranks, look for fooling sets, weigh rectangles, search for the best protocol.

    The budget, in seconds, is for the fooling sets; the search for a protocol tries so many splits as it
    usually could in that time. What takes too long is left out with its reason.
    """
    if not 0 < budget <= 86_400:
        raise InvalidInput(f"A budget is a number of seconds above 0, a day at most; got {budget}.")
    left_out: dict[str, str] = {}

    def tried(name: str, method: Callable[[], Found]) -> Found | None:
        try:
            return method()
        except SeparatrixError as refusal:
            left_out[name] = str(refusal)
            return None

    part = tried("distinct", matrix.distinct)
    entries = None if part is None else part.dense()
    unpacked = _Entries(entries, left_out.pop("distinct", ""))
    return Study(
        matrix=matrix,
        one_way=tried("one_way", lambda: one_way(matrix if part is None else part)),
        over_rationals=tried("over_rationals", lambda: _rank(unpacked.get())),
        over_gf2=tried("over_gf2", lambda: log_rank(unpacked.get(), field="GF(2)")),
        fooling=tried("fooling", lambda: _fooling(matrix, unpacked.get(), budget=budget, seed=seed)),
        rectangles=tried("rectangles", lambda: _rectangles(unpacked.get())),
        discrepancy=tried("discrepancy", lambda: _discrepancy(unpacked.get())),
        complexity=tried("complexity", lambda: _complexity(matrix, unpacked.get(), budget=budget)),
        left_out=left_out,
    )


@final
@dataclass(frozen=True)
class _Entries:
    """The different rows and columns, or why they are not at hand."""

    values: Int[np.ndarray, "row column"] | None
    reason: str

    def get(self) -> Int[np.ndarray, "row column"]:
        if self.values is None:
            raise TooLarge(self.reason)
        return self.values


def _rank(entries: Int[np.ndarray, "row column"]) -> LogRank:
    if entries.size > _MOST_RANKED:
        raise TooLarge(f"{_shape(entries)} takes long to rank exactly; choose a smaller n.")
    return log_rank(entries)


def _fooling(
    matrix: CommunicationMatrix, entries: Int[np.ndarray, "row column"], *, budget: float, seed: int
) -> tuple[FoolingSet, ...]:
    if entries.size > _MOST_RANKED:
        raise TooLarge(f"{_shape(entries)} takes long to search for fooling sets; choose a smaller n.")
    return find_fooling_sets(matrix, budget=budget, seed=seed)


def _rectangles(entries: Int[np.ndarray, "row column"]) -> RectangleBound:
    if min(entries.shape) > _MOST_SUBSETS:
        raise TooLarge(f"{_shape(entries)} has too many rectangles to weigh them all; choose a smaller n.")
    return rectangle_bound(entries)


def _discrepancy(entries: Int[np.ndarray, "row column"]) -> Discrepancy:
    if min(entries.shape) <= _MOST_SUBSETS:
        return discrepancy(entries)
    if max(entries.shape) > _MOST_SPECTRAL:
        raise TooLarge(f"{_shape(entries)} takes long to find singular values of; choose a smaller n.")
    return spectral_discrepancy(entries)


def _complexity(
    matrix: CommunicationMatrix, entries: Int[np.ndarray, "row column"], *, budget: float
) -> Complexity:
    if max(entries.shape) > MOST_SIDE:
        raise TooLarge(f"{_shape(entries)} has too many protocols to find the best; choose a smaller n.")
    # Where it can be, the tree is about the matrix's own rows and columns.
    whole = matrix.dense() if matrix.rows * matrix.columns <= _MOST_RANKED else entries
    return complexity(whole, steps=int(budget * _STEPS_A_SECOND))


def _shape(entries: Int[np.ndarray, "row column"]) -> str:
    return f"A matrix of {entries.shape[0]:,} × {entries.shape[1]:,} different rows and columns"
