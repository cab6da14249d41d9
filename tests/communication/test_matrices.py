"""The communication matrix: what is packed, what is streamed, and what one message costs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from separatrix.communication import entries as entries_module
from separatrix.communication import matrices as matrices_module
from separatrix.communication.entries import UNDEFINED, Entries, ProblemEntries, entry_type
from separatrix.communication.matrices import CommunicationMatrix, OneWay, matrix_of, one_way
from separatrix.communication.problems import Index, Problem, problem
from separatrix.errors import InvalidInput, TooLarge

SIDES = st.integers(1, 20)
TOTAL = arrays.arrays(np.int8, st.tuples(SIDES, SIDES), elements=st.integers(0, 1))
PROMISED = arrays.arrays(np.int8, st.tuples(SIDES, SIDES), elements=st.integers(-1, 1))
MANY = arrays.arrays(np.int16, st.tuples(SIDES, SIDES), elements=st.integers(-1, 300))

BY_HAND = {
    "eq": lambda x, y: x == y,
    "disj": lambda x, y: any(a and b for a, b in zip(x, y, strict=True)),
    "gt": lambda x, y: x > y,
    "ip": lambda x, y: sum(a * b for a, b in zip(x, y, strict=True)) % 2,
}


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_classic_matrices_are_what_two_loops_make_them(name: str, n: int) -> None:
    strings = list(itertools.product((0, 1), repeat=n))
    by_hand = [[int(BY_HAND[name](x, y)) for y in strings] for x in strings]  # type: ignore[no-untyped-call]
    matrix = matrix_of(problem(name, n=n))
    assert matrix.dense().tolist() == by_hand
    assert (matrix.values, matrix.total, matrix.symbols) == (2, True, None)
    assert matrix.row_text(1) == "".join(map(str, strings[1]))


def test_index_over_an_alphabet_keeps_small_integers() -> None:
    strings = list(itertools.product(range(5), repeat=3))
    matrix = matrix_of(Index(n=3, alphabet=5))
    assert matrix.dense().tolist() == [[x[y] for y in range(3)] for x in strings]
    assert matrix.bits is None
    assert matrix.dense().dtype == np.int8
    assert matrix_of(Index(n=1, alphabet=200)).dense().dtype == np.int16
    assert matrix.column_text(2) == "2"


@settings(deadline=None)
@given(st.one_of(TOTAL, PROMISED, MANY))
def test_packing_loses_nothing(values: np.ndarray) -> None:
    matrix = CommunicationMatrix.of_values(values)
    assert matrix.dense().tolist() == values.tolist()
    assert matrix.total == bool((values >= 0).all())
    rows, columns = np.arange(len(values))[::-2], np.arange(values.shape[1])[::3]
    assert matrix.at(rows, columns).tolist() == values[np.ix_(rows, columns)].tolist()
    assert np.concatenate([block for _, block in matrix.blocks()]).tolist() == values.tolist()
    assert matrix.transposed().dense().tolist() == values.T.tolist()
    last = int(values[-1, -1])
    assert matrix.entry(len(values) - 1, values.shape[1] - 1) == (None if last == UNDEFINED else last)


def test_bits_take_an_eighth_of_a_byte_each() -> None:
    matrix = matrix_of(problem("gt", n=9))
    assert matrix.bits is not None
    assert matrix.bits.nbytes == 512 * 512 // 8


def test_few_columns_are_picked_from_packed_rows() -> None:
    matrix = matrix_of(problem("ip", n=10))
    numbers = np.random.default_rng(0)
    rows, columns = numbers.integers(0, 1024, 50), numbers.integers(0, 1024, 12)
    assert matrix.at(rows, columns).tolist() == matrix.dense()[np.ix_(rows, columns)].tolist()


@settings(deadline=None)
@given(st.one_of(TOTAL, PROMISED, MANY))
def test_distinct_keeps_the_first_of_each(values: np.ndarray) -> None:
    rows: list[list[int]] = []
    for row in values.tolist():
        if row not in rows:
            rows.append(row)
    columns: list[tuple[int, ...]] = []
    for column in zip(*rows, strict=True):
        if column not in columns:
            columns.append(column)
    reduced = CommunicationMatrix.of_values(values).distinct()
    assert reduced.dense().T.tolist() == list(map(list, columns))


@settings(deadline=None)
@given(st.one_of(TOTAL, arrays.arrays(np.int8, st.tuples(SIDES, SIDES), elements=st.integers(0, 3))))
def test_one_way_counts_different_rows(values: np.ndarray) -> None:
    different = len({tuple(row) for row in values.tolist()})
    assert one_way(CommunicationMatrix.of_values(values)) == OneWay(different, different)


@pytest.mark.parametrize(
    ("asked", "messages", "bits"),
    [
        (problem("eq", n=6), 64, 6),
        (problem("disj", n=6), 64, 6),
        (problem("gt", n=6), 64, 6),
        (problem("ip", n=6), 64, 6),
        (Index(n=10), 1024, 10),
        (Index(n=3, alphabet=5), 125, 7),
    ],
)
def test_known_one_way_complexities(asked: Problem, messages: int, bits: int) -> None:
    for way in (one_way(asked), one_way(matrix_of(asked))):
        assert (way.at_least, way.at_most, way.bits, way.bits_enough) == (messages, messages, bits, bits)
        assert way.exact


def test_streaming_goes_in_blocks_and_counts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries_module, "_BLOCK", 100)
    streamed = ProblemEntries(problem("gt", n=5))
    assert max(len(block) for _, block in streamed.blocks()) == 100 // 32
    assert one_way(streamed) == OneWay(32, 32)
    # Every other row repeats the one before.
    assert one_way(_Doubled(streamed)) == OneWay(32, 32)


def test_a_problem_too_large_to_hold_is_still_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices_module, "HELD_BYTES", 1 << 10)
    asked = problem("eq", n=8)
    with pytest.raises(
        TooLarge, match=r"The matrix of EQ, n = 8 has 256 × 256 entries and takes 0 MiB packed"
    ):
        matrix_of(asked)
    assert one_way(asked).bits == 8


def fewest_messages(values: np.ndarray) -> int:
    """By trying every way to share messages."""
    rows = range(len(values))
    apart = {
        (i, j)
        for i in rows
        for j in rows
        if any(a >= 0 and b >= 0 and a != b for a, b in zip(values[i], values[j], strict=True))
    }
    for count in rows:
        for colours in itertools.product(range(count + 1), repeat=len(values)):
            if all(colours[i] != colours[j] for i, j in apart):
                return count + 1
    raise AssertionError


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        arrays.arrays(np.int8, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=st.integers(-1, 1)),
        arrays.arrays(np.int8, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=st.integers(-1, 3)),
    )
)
def test_a_promise_is_enclosed_from_both_sides(values: np.ndarray) -> None:
    way = one_way(CommunicationMatrix.of_values(values))
    assert way.at_least <= fewest_messages(values) <= way.at_most


def test_a_promise_lets_rows_share_a_message() -> None:
    values = np.array([[0, -1, 1], [-1, 0, 1], [1, 1, -1]])
    assert one_way(CommunicationMatrix.of_values(values)) == OneWay(2, 2)


def test_a_cycle_of_contradictions_is_told_to_be_open() -> None:
    """Five rows that contradict their neighbours only: no three contradict each other, two messages fail."""
    values = np.full((5, 5), -1)
    for row in range(5):
        values[row, row], values[(row + 1) % 5, row] = 0, 1
    assert fewest_messages(values) == 3
    way = one_way(CommunicationMatrix.of_values(values))
    assert way == OneWay(2, 3)
    assert not way.exact
    assert (way.bits, way.bits_enough) == (1, 2)


def test_what_is_refused() -> None:
    with pytest.raises(InvalidInput, match="two axes, at least one row and one column"):
        CommunicationMatrix.of_values(np.zeros((0, 3), dtype=np.int8))
    with pytest.raises(InvalidInput, match="whole numbers as entries; got float64"):
        CommunicationMatrix.of_values(np.zeros((2, 3)))
    with pytest.raises(InvalidInput, match="or −1 for undefined; got -2"):
        CommunicationMatrix.of_values(np.array([[-2]]))
    with pytest.raises(InvalidInput, match="either as bits, for decisions, or as symbols"):
        CommunicationMatrix(columns=1, values=2)
    with pytest.raises(TooLarge, match=r"Alice may hold 2\^40 strings in eq with n=40"):
        ProblemEntries(problem("eq", n=40))
    with pytest.raises(TooLarge, match=r"Alice may hold 2\^1000000000 strings"):
        ProblemEntries(Index(n=10**9))
    with pytest.raises(TooLarge, match="at most 32,768 different answers; got 40,000"):
        entry_type(40_000)
    with pytest.raises(InvalidInput, match="numbered from 0 to 3; got 4"):
        ProblemEntries(problem("eq", n=2)).row_text(4)


def test_a_large_matrix_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices_module, "DENSE_ENTRIES", 100)
    matrix = matrix_of(problem("eq", n=4))
    with pytest.raises(TooLarge, match="16 × 16 entries; at most 100 are unpacked at once"):
        matrix.dense()
    with pytest.raises(TooLarge, match="16 different rows of 16 entries; at most 100"):
        matrix.distinct()


def test_too_many_rows_under_a_promise_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices_module, "_MOST_CONTRADICTING", 2)
    values = np.array([[0, -1], [1, 0], [1, 1]])
    with pytest.raises(TooLarge, match="a promise problem with 3 different rows of 2 entries"):
        one_way(CommunicationMatrix.of_values(values))


class _Doubled(Entries):
    """Every row twice."""

    def __init__(self, once: Entries) -> None:
        self._once = once

    @property
    def title(self) -> str:
        return "twice"

    @property
    def rows(self) -> int:
        return 2 * self._once.rows

    @property
    def columns(self) -> int:
        return self._once.columns

    @property
    def values(self) -> int:
        return self._once.values

    @property
    def total(self) -> bool:
        return True

    def at(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self._once.at(rows // 2, columns)

    def row_text(self, row: int) -> str:
        return self._once.row_text(row // 2)

    def column_text(self, column: int) -> str:
        return self._once.column_text(column)
