"""Finding a large fooling set: greedily, then by CP-SAT, which also proves how large one can be.

Candidates are the entries with the answer b. Two of them may both be taken unless they lie in one rectangle
of entries that are all b or undefined; so at most one of the candidates in such a rectangle is. It is enough
to say this for the rectangle that each two rows span: the columns in which neither has another answer, and
every further row that has none there either. Rows and columns that repeat others never help and are left out.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np
from jaxtyping import Bool, Int

from separatrix.communication.entries import UNDEFINED
from separatrix.communication.fooling import check_fooling_set
from separatrix.communication.matrices import CommunicationMatrix
from separatrix.communication.ranks import rank_over_gf2
from separatrix.errors import InvalidInput

__all__ = ["FoolingSet", "find_fooling_set", "find_fooling_sets", "fooling_bits"]

_MOST_LITERALS: Final = 1_000_000
"""Candidates in all rectangles together, up to which CP-SAT is asked."""
_MOST_SPANNED: Final = 256
"""Rows up to which the rectangles of all pairs are made."""
_GREEDY_ROUNDS: Final = 8
_GREEDY_WORK: Final = 1 << 33
"""Entries that the greedy rounds after the first may touch."""
_NO_SOLVER: Final = (
    "ortools is not installed, so the set was found greedily; pip install 'separatrix[solver]' brings it"
)


@final
@dataclass(frozen=True, kw_only=True)
class FoolingSet:
    """A fooling set that was found and checked, and how large one can be at most.

    `members` are rows and columns of the matrix that was searched. `at_most` is proven: by CP-SAT, by a
    number of rectangles that cover all entries with this answer, or by the rank over GF(2).
    """

    members: tuple[tuple[int, int], ...]
    value: int
    at_most: int
    method: Literal["CP-SAT", "greedy"]
    note: str = ""

    @property
    def size(self) -> int:
        """How many members there are."""
        return len(self.members)

    @property
    def optimal(self) -> bool:
        """Whether no fooling set with this answer is larger."""
        return self.size == self.at_most

    @property
    def bits(self) -> int:
        """⌈log2 size⌉: the bits that every protocol exchanges on some input."""
        return (self.size - 1).bit_length() if self.members else 0


def fooling_bits(sets: Sequence[FoolingSet]) -> int:
    """The bound of fooling sets for different answers together, ⌈log2 of the sum of their sizes⌉.

    Members with different answers end in different rectangles as well, so the sizes add up.
    """
    if len({found.value for found in sets}) != len(sets):
        raise InvalidInput("Only fooling sets for different answers add up; two of these have the same.")
    return max(0, sum(found.size for found in sets) - 1).bit_length()


def find_fooling_sets(
    matrix: CommunicationMatrix, *, budget: float = 10.0, seed: int = 0, workers: int = 1
) -> tuple[FoolingSet, ...]:
    """One for each answer that occurs, largest first; they share the budget of seconds."""
    reduced = _Reduced.of(matrix)
    values = [int(value) for value in np.unique(reduced.entries) if value != UNDEFINED]
    share = budget / max(1, len(values))
    found = [_found(matrix, reduced, value, share, seed, workers) for value in values]
    return tuple(sorted(found, key=lambda one: (-one.size, one.value)))


def find_fooling_set(
    matrix: CommunicationMatrix,
    value: int | None = None,
    *,
    budget: float = 10.0,
    seed: int = 0,
    workers: int = 1,
) -> FoolingSet:
    """A large fooling set for this answer, or the largest that is found for any.

    The result depends on the seed alone if CP-SAT ends within the budget with one worker; without the extra
    `solver` it is the greedy one, and says so.
    """
    if value is None:
        return find_fooling_sets(matrix, budget=budget, seed=seed, workers=workers)[0]
    if not 0 <= value < matrix.values:
        raise InvalidInput(f"Answers of {matrix.title} are 0 … {matrix.values - 1}; got {value}.")
    return _found(matrix, _Reduced.of(matrix), value, budget, seed, workers)


@final
@dataclass(frozen=True)
class _Reduced:
    """The matrix without repeated rows and columns, and where its rows and columns stood."""

    entries: Int[np.ndarray, "row column"]
    rows: Int[np.ndarray, "row"]
    columns: Int[np.ndarray, "column"]

    @classmethod
    def of(cls, matrix: CommunicationMatrix) -> _Reduced:
        rows, columns = matrix.distinct_places()
        return cls(matrix.at(rows, columns), rows, columns)


def _found(
    matrix: CommunicationMatrix, reduced: _Reduced, value: int, budget: float, seed: int, workers: int
) -> FoolingSet:
    if budget <= 0 or workers < 1:
        raise InvalidInput(
            f"Searching takes a budget above 0 seconds and 1 worker or more; got {budget} and {workers}."
        )
    candidates = reduced.entries == value
    may = candidates | (reduced.entries == UNDEFINED)
    chosen = _greedy(candidates, may, seed=seed)
    at_most = _at_most(candidates, may)
    method: Literal["CP-SAT", "greedy"] = "greedy"
    note = ""
    if len(chosen) < at_most:
        cliques = _rectangles(candidates, may)
        if cliques is None:
            note = "too large for CP-SAT, so the set was found greedily"
        else:
            at_most = min(at_most, _cover(candidates, cliques))
            if len(chosen) < at_most:
                solved = _solved(candidates, cliques, chosen, budget=budget, seed=seed, workers=workers)
                if solved is None:
                    note = _NO_SOLVER
                else:
                    chosen, at_most, method = solved[0], min(at_most, solved[1]), "CP-SAT"
    members = tuple((int(reduced.rows[row]), int(reduced.columns[column])) for row, column in sorted(chosen))
    if members:
        assert check_fooling_set(matrix, np.array(members)).holds, "a search must find fooling sets only"
    return FoolingSet(members=members, value=value, at_most=at_most, method=method, note=note)


def _at_most(candidates: Bool[np.ndarray, "row column"], may: Bool[np.ndarray, "row column"]) -> int:
    """A size that no fooling set exceeds: one member a row and a column, and at most the rank squared.

    Let A be the part of a total function's indicator at the rows and columns of s members. Entry by entry, A
    times its transpose is the identity, of rank s, and such a product has at most the product of the ranks,
    over any field. Over GF(2) this tells that the inner product has small fooling sets only.
    """
    most = min(int(candidates.any(0).sum()), int(candidates.any(1).sum()))
    if bool((may == candidates).all()):
        most = min(most, rank_over_gf2(candidates) ** 2)
    return most


def _greedy(
    candidates: Bool[np.ndarray, "row column"], may: Bool[np.ndarray, "row column"], *, seed: int
) -> list[tuple[int, int]]:
    """Take the candidate whose row and column have the fewest rivals, strike out its rivals, go on.

    Later rounds weigh the candidates a little differently each, by a generator of the given seed.
    """
    rivals = may.sum(1)[:, None] * may.sum(0)[None, :].astype(np.float64)
    noise = np.random.default_rng(seed)
    best: list[tuple[int, int]] = []
    for number in range(_GREEDY_ROUNDS):
        if number and number * max(1, len(best)) * candidates.size > _GREEDY_WORK:
            break
        weight = rivals if number == 0 else rivals * noise.uniform(1.0, 1.5, rivals.shape)
        taken = _greedy_round(candidates, may, weight)
        if len(taken) > len(best):
            best = taken
    return best


def _greedy_round(
    candidates: Bool[np.ndarray, "row column"],
    may: Bool[np.ndarray, "row column"],
    weight: np.ndarray,
) -> list[tuple[int, int]]:
    order = np.argsort(weight[candidates], kind="stable")
    places = np.argwhere(candidates)[order]
    is_open = candidates.copy()
    taken = []
    for row, column in places:
        if is_open[row, column]:
            taken.append((int(row), int(column)))
            is_open[np.ix_(may[:, column], may[row])] = False
    return taken


def _rectangles(
    candidates: Bool[np.ndarray, "row column"], may: Bool[np.ndarray, "row column"]
) -> list[Int[np.ndarray, "entry"]] | None:
    """Rectangles of which a fooling set has one member at most, each as the numbers of its candidates.

    Together they forbid every two rivals. None if they are too many to be worth it.
    """
    if len(may) > _MOST_SPANNED:
        return None
    seen: set[bytes] = set()
    found = []
    literals = 0
    for first, second in itertools.combinations_with_replacement(range(len(may)), 2):
        columns = may[first] & may[second]
        key = columns.tobytes()
        if key in seen or not columns.any():
            continue
        seen.add(key)
        # Every row that has no other answer in these columns; so the rectangle cannot grow on any side.
        rows = ~(columns & ~may).any(1)
        inside = np.flatnonzero(candidates & rows[:, None] & columns[None, :])
        if len(inside) > 1:
            found.append(inside)
            literals += len(inside)
            if literals > _MOST_LITERALS:
                return None
    return found


def _cover(candidates: Bool[np.ndarray, "row column"], rectangles: list[Int[np.ndarray, "entry"]]) -> int:
    """How many rectangles, chosen greedily, have all candidates in them; a lonely one is its own."""
    left = candidates.ravel().copy()
    # A rectangle never covers more later than it did before, so an old count is an upper bound.
    heap = [(-len(inside), number) for number, inside in enumerate(rectangles)]
    heapq.heapify(heap)
    chosen = 0
    while heap:
        _, number = heapq.heappop(heap)
        fresh = int(left[rectangles[number]].sum())
        if not fresh:
            continue
        if heap and fresh < -heap[0][0]:
            heapq.heappush(heap, (-fresh, number))
            continue
        left[rectangles[number]] = False
        chosen += 1
    return chosen + int(left.sum())


def _solved(
    candidates: Bool[np.ndarray, "row column"],
    rectangles: list[Int[np.ndarray, "entry"]],
    known: list[tuple[int, int]],
    *,
    budget: float,
    seed: int,
    workers: int,
) -> tuple[list[tuple[int, int]], int] | None:
    """The best set that CP-SAT finds, and the size that none exceeds; None without the solver."""
    try:
        from ortools.sat.python import cp_model  # noqa: PLC0415  an extra, and slow to import
    except ImportError:
        return None
    model = cp_model.CpModel()
    places = np.flatnonzero(candidates)
    taken = {int(place): model.new_bool_var("") for place in places}
    for inside in rectangles:
        model.add_at_most_one(taken[int(place)] for place in inside)
    width = candidates.shape[1]
    hint = {row * width + column for row, column in known}
    for place, literal in taken.items():
        model.add_hint(literal, place in hint)
    model.maximize(sum(taken.values()))
    solver = cp_model.CpSolver()
    solver.parameters.random_seed = seed
    solver.parameters.num_workers = workers
    solver.parameters.max_time_in_seconds = budget
    status = solver.solve(model)
    at_most = math.floor(solver.best_objective_bound + 1e-6) if status != cp_model.UNKNOWN else len(places)
    if status not in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
        return known, at_most
    best = [divmod(place, width) for place, literal in taken.items() if solver.value(literal)]
    return (best if len(best) > len(known) else known), at_most
