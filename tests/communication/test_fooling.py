"""Fooling sets: every verdict against a double loop, every search against the best there is."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from separatrix.communication import fooling, fooling_search
from separatrix.communication.entries import ProblemEntries
from separatrix.communication.fooling import FoolingCheck, check_fooling_set
from separatrix.communication.fooling_search import (
    FoolingSet,
    find_fooling_set,
    find_fooling_sets,
    fooling_bits,
)
from separatrix.communication.matrices import CommunicationMatrix, matrix_of
from separatrix.communication.problems import Index, problem
from separatrix.errors import InvalidInput

SIDES = st.tuples(st.integers(1, 9), st.integers(1, 9))
MATRICES = st.one_of(
    arrays.arrays(np.int8, SIDES, elements=st.integers(0, 1)),
    arrays.arrays(np.int8, SIDES, elements=st.integers(-1, 1)),
    arrays.arrays(np.int8, SIDES, elements=st.integers(-1, 3)),
)


def rivals(values: np.ndarray, first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Whether a rectangle with one answer may hold both."""
    answer = values[first]
    return values[first[0], second[1]] in {answer, -1} and values[second[0], first[1]] in {answer, -1}


def first_violation(values: np.ndarray, members: list[tuple[int, int]]) -> tuple[int, int | None] | None:
    answer = values[members[0]]
    for number, member in enumerate(members):
        if values[member] != answer or answer == -1:
            return number, None
    for i, j in itertools.combinations(range(len(members)), 2):
        if rivals(values, members[i], members[j]):
            return i, j
    return None


@settings(deadline=None)
@given(MATRICES, st.data())
def test_the_verdict_is_that_of_a_double_loop(values: np.ndarray, data: st.DataObject) -> None:
    answer = data.draw(st.sampled_from(sorted({*values.ravel().tolist()})))
    places = [(row, column) for row, column in np.argwhere(values == answer).tolist()]
    wild = st.tuples(st.integers(0, len(values) - 1), st.integers(0, values.shape[1] - 1))
    members = data.draw(st.lists(st.one_of(st.sampled_from(places), wild), min_size=1, max_size=8))
    expected = first_violation(values, members)
    size = data.draw(st.sampled_from([1, 3, 1 << 20]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fooling, "_BLOCK", size)
        patch.setattr(fooling, "_CORNER", 2)
        found = check_fooling_set(CommunicationMatrix.of_values(values), np.array(members))
    assert found.size == len(members)
    if expected is None:
        assert found.holds
        assert found.bits == int(np.ceil(np.log2(len(members))))
    else:
        assert found.violation is not None
        assert (found.violation.first, found.violation.second) == expected


def known(name: str, n: int) -> np.ndarray:
    """The fooling sets of the textbooks."""
    every = np.arange(2**n)
    partners = {"eq": every, "gt": every, "disj": 2**n - 1 - every}
    return np.stack([every, partners[name]], axis=1)


@pytest.mark.parametrize("name", ["eq", "gt", "disj"])
def test_textbook_sets_hold(name: str) -> None:
    found = check_fooling_set(ProblemEntries(problem(name, n=8)), known(name, 8))
    assert found.holds
    assert (found.size, found.bits, found.pairs) == (256, 8, 256 * 255 // 2)
    assert found.value == {"eq": 1, "gt": 0, "disj": 0}[name]


def test_a_violation_is_named_in_words() -> None:
    entries = ProblemEntries(problem("eq", n=2))
    wrong = check_fooling_set(entries, np.array([[0, 0], [1, 2], [2, 1]]))
    assert str(wrong) == "no fooling set: member 1 has the answer 0, member 0 has 1: (01, 10)"
    twice = check_fooling_set(entries, np.array([[0, 0], [1, 1], [0, 0]]))
    assert str(twice) == ("no fooling set: members 0 and 2 both cross to the answer 1: (00, 00) and (00, 00)")
    with pytest.raises(InvalidInput, match="Only a fooling set bounds anything: members 0 and 2"):
        _ = twice.bits
    promised = CommunicationMatrix.of_values(np.array([[1, -1], [-1, 1]]))
    assert "may cross, to the answer 1" in str(check_fooling_set(promised, np.array([[0, 0], [1, 1]])))
    nothing = check_fooling_set(promised, np.array([[0, 1]]))
    assert str(nothing) == "no fooling set: member 0 is no input: (0, 1)"
    assert str(check_fooling_set(entries, np.array([[0, 0], [1, 1]]))).endswith("at least 1 bit")


def test_the_first_of_several_violations_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fooling, "_BLOCK", 1 << 11)
    entries = ProblemEntries(problem("gt", n=6))
    members = known("gt", 6)
    members[40] = members[50]
    found = check_fooling_set(entries, members)
    assert found.violation is not None
    assert (found.violation.first, found.violation.second) == (40, 50)
    members[60] = members[3]
    found = check_fooling_set(entries, members)
    assert found.violation is not None
    assert (found.violation.first, found.violation.second) == (3, 60)


def test_torch_has_its_threads_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert check_fooling_set(ProblemEntries(problem("eq", n=3)), known("eq", 3)).holds
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_processes_come_to_the_same_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fooling, "_BLOCK", 1 << 11)
    entries = ProblemEntries(problem("gt", n=6))
    members = known("gt", 6)
    # In the last of the blocks: every one before it was found to be in order.
    members[62] = members[63]
    spoilt = check_fooling_set(entries, members, workers=2)
    assert spoilt == check_fooling_set(entries, members)
    assert spoilt.violation is not None
    assert (spoilt.violation.first, spoilt.violation.second) == (62, 63)


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        (np.zeros((0, 2), dtype=np.int64), "each of one or more members; got int64 of shape (0, 2)"),
        (np.zeros(4, dtype=np.int64), "got int64 of shape (4,)"),
        (np.zeros((1, 2)), "got float64"),
        (np.array([[0, 4]]), "A column is numbered from 0 to 3; got 4"),
        (np.array([[-1, 0]]), "A row is numbered from 0 to 3; got -1"),
    ],
)
def test_what_is_no_set_of_pairs_is_refused(members: np.ndarray, sentence: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        check_fooling_set(ProblemEntries(problem("eq", n=2)), members)
    assert sentence in str(refusal.value)
    with pytest.raises(InvalidInput, match="1 worker or more; got 0"):
        check_fooling_set(ProblemEntries(problem("eq", n=2)), np.array([[0, 0]]), workers=0)


def largest(values: np.ndarray, answer: int) -> int:
    """The size of the largest fooling set, by trying to add every entry in turn."""
    places = [(row, column) for row, column in np.argwhere(values == answer).tolist()]
    apart = {
        (i, j)
        for i, j in itertools.combinations(range(len(places)), 2)
        if not rivals(values, places[i], places[j])
    }

    def grow(size: int, open_: list[int]) -> int:
        return max([size, *(grow(size + 1, [b for b in open_ if b > a and (a, b) in apart]) for a in open_)])

    return grow(0, list(range(len(places))))


TINY = st.tuples(st.integers(1, 4), st.integers(1, 4))


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        arrays.arrays(np.int8, TINY, elements=st.integers(0, 1)),
        arrays.arrays(np.int8, TINY, elements=st.integers(-1, 1)),
        arrays.arrays(np.int8, TINY, elements=st.integers(0, 2)),
    )
)
def test_the_solver_finds_the_largest(values: np.ndarray) -> None:
    matrix = CommunicationMatrix.of_values(values)
    for answer in range(matrix.values):
        found = find_fooling_set(matrix, answer)
        assert found.size == found.at_most == largest(values, answer)
        assert found.optimal
        if found.members:
            assert first_violation(values, list(found.members)) is None


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        arrays.arrays(np.int8, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.integers(0, 1)),
        arrays.arrays(np.int8, TINY, elements=st.integers(-1, 1)),
    )
)
def test_without_the_solver_bounds_still_enclose_the_largest(values: np.ndarray) -> None:
    matrix = CommunicationMatrix.of_values(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ortools.sat.python", None)
        for answer in range(2):
            found = find_fooling_set(matrix, answer)
            assert found.size <= largest(values, answer) <= found.at_most
            assert found.method == "greedy"
            assert ("pip install 'separatrix[solver]'" in found.note) == (not found.optimal)


@pytest.mark.parametrize(
    ("name", "n", "sizes"),
    [
        ("eq", 4, {1: 16, 0: 3}),
        ("gt", 4, {0: 16, 1: 15}),
        ("disj", 4, {0: 16, 1: 4}),
        ("ip", 3, {0: 7, 1: 7}),
    ],
)
def test_known_sizes(name: str, n: int, sizes: dict[int, int]) -> None:
    found = find_fooling_sets(matrix_of(problem(name, n=n)))
    assert {one.value: one.size for one in found} == sizes
    assert all(one.optimal for one in found)
    assert [one.size for one in found] == sorted(sizes.values(), reverse=True)


def test_an_entry_that_no_other_rivals_counts_for_itself() -> None:
    """Two such beside a block with zeros on its diagonal, where four rows hold a set of three at most."""
    values = np.zeros((6, 6), dtype=np.int8)
    values[:2, :2] = np.eye(2)
    values[2:, 2:] = 1 - np.eye(4)
    found = find_fooling_set(CommunicationMatrix.of_values(values), 1)
    assert found.size == found.at_most == largest(values, 1) == 5


def test_index_has_one_member_a_place() -> None:
    found = find_fooling_set(matrix_of(Index(n=5, alphabet=3)), 2)
    assert (found.size, found.at_most, found.bits) == (5, 5, 3)


@pytest.mark.slow
def test_larger_matrices_are_searched_greedily_and_say_so() -> None:
    """The rank over GF(2), 8, tells that the inner product has no large set for the answer 1."""
    found = find_fooling_set(matrix_of(problem("ip", n=8)), 1)
    assert found.note == "too large for CP-SAT, so the set was found greedily"
    assert (found.method, found.at_most) == ("greedy", 64)
    assert 8 <= found.size <= 64


@pytest.mark.parametrize("limit", ["_MOST_SPANNED", "_MOST_LITERALS"])
def test_the_limits_of_the_solver_are_kept(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = matrix_of(problem("ip", n=4))
    assert find_fooling_set(matrix, 1).method == "CP-SAT"
    monkeypatch.setattr(fooling_search, limit, 7)
    assert find_fooling_set(matrix, 1).note.startswith("too large for CP-SAT")


def test_a_budget_is_kept_and_the_bound_proved_so_far_is_given() -> None:
    found = find_fooling_set(matrix_of(problem("ip", n=6)), 1, budget=0.2)
    assert found.method == "CP-SAT"
    assert 12 <= found.size <= found.at_most <= 36


def test_the_same_seed_finds_the_same_set() -> None:
    values = np.random.default_rng(5).integers(0, 2, (12, 12))
    first, second = (find_fooling_set(CommunicationMatrix.of_values(values), seed=3) for _ in range(2))
    assert first == second


def test_sets_for_different_answers_add_up() -> None:
    found = find_fooling_sets(matrix_of(problem("eq", n=4)))
    assert [one.bits for one in found] == [4, 2]
    assert fooling_bits(found) == 5
    assert fooling_bits(found[:1]) == 4
    assert fooling_bits(()) == 0
    with pytest.raises(InvalidInput, match="Only fooling sets for different answers add up"):
        fooling_bits([found[0], found[0]])


def test_what_the_search_refuses() -> None:
    matrix = matrix_of(problem("eq", n=2))
    with pytest.raises(InvalidInput, match=r"Answers of EQ, n = 2 are 0 … 1; got 2"):
        find_fooling_set(matrix, 2)
    with pytest.raises(InvalidInput, match=r"a budget above 0 seconds and 1 worker or more; got 0\.0 and 1"):
        find_fooling_set(matrix, budget=0.0)


def test_an_answer_that_never_comes_has_no_set() -> None:
    found = find_fooling_set(CommunicationMatrix.of_values(np.zeros((3, 3), dtype=np.int8)), 1)
    assert found == FoolingSet(members=(), value=1, at_most=0, method="greedy")
    assert found.bits == 0
    assert FoolingCheck(size=1, value=0, violation=None).bits == 0
