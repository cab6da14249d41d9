"""Exact deterministic complexity against a search without cleverness, and against what is known by theory."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from separatrix.communication.complexity import complexity
from separatrix.communication.problems import Index, problem
from separatrix.communication.protocol_trees import Leaf, ProtocolTree, Speech
from separatrix.errors import InvalidInput, TooLarge

Rows = tuple[tuple[int, ...], ...]
SIDES = st.integers(1, 4)
MATRICES = arrays.arrays(np.int8, st.tuples(SIDES, SIDES), elements=st.integers(-1, 2))


@cache
def by_every_split(rows: Rows) -> int:
    """The definition, word for word: 0 for one answer, else one bit and the worse half of the best split."""
    if len({entry for row in rows for entry in row if entry >= 0}) <= 1:
        return 0
    best = len(rows) + len(rows[0])
    for lines, turn in ((rows, False), (tuple(zip(*rows, strict=True)), True)):
        for size in range(1, len(lines)):
            for chosen in itertools.combinations(range(len(lines)), size):
                halves = (
                    tuple(line for number, line in enumerate(lines) if (number in chosen) == side)
                    for side in (True, False)
                )
                costs = [by_every_split(tuple(zip(*half, strict=True)) if turn else half) for half in halves]
                best = min(best, 1 + max(costs))
    return best


def known(matrix: np.ndarray) -> int:
    """The bits, after the tree was followed on every pair."""
    found = complexity(matrix)
    found.tree.check(matrix)
    assert found.tree.depth == found.bits
    assert found.tree.leaves <= 2**found.bits
    return found.bits


def matrix_of(name: str, n: int) -> np.ndarray:
    classic = problem(name, n=n)
    return classic.value(classic.alice.all().unsqueeze(1), classic.bob.all()).numpy()


def classes(rows: int, columns: int) -> list[np.ndarray]:
    """Boolean matrices, one of each kind up to the order of rows and of columns."""
    kinds: dict[Rows, np.ndarray] = {}
    for lines in itertools.combinations_with_replacement(itertools.product((0, 1), repeat=columns), rows):
        orders = (
            tuple(sorted(tuple(line[place] for place in order) for line in lines))
            for order in itertools.permutations(range(columns))
        )
        kinds.setdefault(min(orders), np.array(lines))
    return list(kinds.values())


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_every_small_kind_costs_what_the_definition_says(rows: int, columns: int) -> None:
    kinds = classes(rows, columns)
    if (rows, columns) == (4, 4):
        assert len(kinds) == 317
    for matrix in kinds:
        assert known(matrix) == by_every_split(tuple(map(tuple, matrix.tolist())))


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (2, 4), (4, 2), (3, 3), (3, 4), (4, 3), (4, 4)])
def test_every_small_boolean_matrix_costs_what_the_definition_says(rows: int, columns: int) -> None:
    checked = 0
    for bits in itertools.product((0, 1), repeat=rows * columns):
        matrix = np.array(bits).reshape(rows, columns)
        assert known(matrix) == by_every_split(tuple(map(tuple, matrix.tolist())))
        checked += 1
    assert checked == 2 ** (rows * columns)


@pytest.mark.slow
@given(MATRICES)
@settings(max_examples=150, deadline=None)
def test_promises_and_more_answers_cost_what_the_definition_says(matrix: np.ndarray) -> None:
    assert known(matrix) == by_every_split(tuple(map(tuple, matrix.tolist())))


@given(st.integers(0, 2**25 - 1), st.permutations(range(5)), st.permutations(range(5)))
@settings(max_examples=40, deadline=None)
def test_order_copies_and_names_do_not_matter(number: int, rows: list[int], columns: list[int]) -> None:
    matrix = np.array([number >> place & 1 for place in range(25)]).reshape(5, 5)
    bits = known(matrix)
    assert known(matrix[np.ix_([*rows, 0, 3], [*columns, 2])]) == bits
    assert known(1 - matrix) == bits
    assert known(matrix.T) == bits


# EQ, DISJ, GT: the indicator of one answer has full rank 2^n (identity; a Kronecker power of [[1,1],[1,0]];
# triangular), and the other answer has a leaf too, so there are more than 2^n leaves and n + 1 bits are
# needed; sending x and then the verdict takes no more.
@pytest.mark.parametrize("name", ["eq", "disj", "gt"])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_equality_disjointness_and_comparison_cost_n_plus_1(name: str, n: int) -> None:
    assert known(matrix_of(name, n)) == n + 1


# INDEX: the n columns are independent, and so are their complements, so there are 2n leaves; Bob's place and
# Alice's bit do it.
@pytest.mark.parametrize(("n", "bits"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4)])
def test_index_costs_the_place_and_the_bit(n: int, bits: int) -> None:
    assert (n - 1).bit_length() + 1 == bits
    assert known(matrix_of("index", n)) == bits


def test_index_over_an_alphabet_costs_the_place_and_the_symbol() -> None:
    classic = Index(n=2, alphabet=3)
    matrix = classic.value(classic.alice.all().unsqueeze(1), classic.bob.all()).numpy()
    assert known(matrix) == 3


def test_answers_may_be_any_numbers() -> None:
    matrix = np.array([[0, 30_000, 7], [7, 7, 0]])
    assert known(matrix) == known(np.array([[0, 2, 1], [1, 1, 0]])) == 3


def test_a_promise_makes_it_cheaper() -> None:
    """EQ of two bits where strings are equal or differ in both bits: one bit of each tells."""
    matrix = matrix_of("eq", 2)
    promised = np.full((4, 4), -1)
    for x in range(4):
        for y in (x, 3 - x):
            promised[x, y] = matrix[x, y]
    assert known(matrix) == 3
    assert known(promised) == 2
    assert known(np.full((3, 2), -1)) == 0


def eight_by_eight(count: int) -> list[np.ndarray]:
    """Promises that leave two pairs of five out: most first bounds are apart, and only a search decides."""
    rng = np.random.default_rng(7)
    return [
        np.where(rng.random((8, 8)) < 0.4, -1, rng.integers(0, 2, (8, 8))).astype(np.int64)
        for _ in range(count)
    ]


@pytest.mark.slow
def test_eight_by_eight_is_solved_by_search() -> None:
    costs = [known(matrix) for matrix in eight_by_eight(12)]
    assert set(costs) == {3, 4}


@pytest.mark.slow
def test_five_by_five_matrices_cost_what_the_definition_says() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        matrix = rng.integers(0, 2, (5, 5)) if rng.integers(2) else rng.integers(-1, 3, (5, 4))
        assert known(matrix) == by_every_split(tuple(map(tuple, matrix.tolist())))


def test_a_search_that_is_cut_off_says_where_the_answer_lies() -> None:
    matrix = next(matrix for matrix in eight_by_eight(12) if known(matrix) == 4)
    with pytest.raises(TooLarge, match=r"cut off; it lies between 3 and 4 bits\. Choose a smaller n"):
        complexity(matrix, steps=5)


def test_large_matrices_are_refused() -> None:
    with pytest.raises(TooLarge, match="at most 64 different rows and columns; got 128 × 128"):
        complexity(np.eye(128, dtype=np.int64))
    with pytest.raises(InvalidInput, match="got float64 of shape"):
        complexity(np.ones((2, 2)))
    with pytest.raises(InvalidInput, match="from 0 to 32767, or −1 for none; got -2"):
        complexity(np.array([[0, -2]]))
    with pytest.raises(InvalidInput, match="got 1000000000"):
        complexity(np.array([[0, 10**9]]))


TREE = ProtocolTree(
    root=Speech(
        speaker="Alice",
        zeros=(0, 2),
        ones=(1,),
        after_zero=Leaf(value=0),
        after_one=Speech(
            speaker="Bob", zeros=(1,), ones=(0,), after_zero=Leaf(value=0), after_one=Leaf(value=1)
        ),
    )
)


def test_a_tree_runs_counts_and_reads() -> None:
    assert (TREE.depth, TREE.leaves) == (2, 3)
    assert (TREE.run(1, 0).value, TREE.run(1, 0).bits) == (1, (1, 1))
    assert TREE.run(2, 0).bits == (0,)
    assert str(TREE).splitlines() == [
        "Alice sends 0 for {0, 2}, 1 for {1}",
        "0: answer 0",
        "1: Bob sends 0 for {1}, 1 for {0}",
        "   0: answer 0",
        "   1: answer 1",
    ]
    wide = Speech(
        speaker="Bob", zeros=tuple(range(40)), ones=(), after_zero=Leaf(value=0), after_one=Leaf(value=1)
    )
    assert "{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, and 24 more}, 1 for {}" in str(
        ProtocolTree(root=wide)
    )


def test_a_tree_is_checked_against_the_matrix() -> None:
    TREE.check(np.array([[0, 0], [1, 0], [-1, 0]]))
    with pytest.raises(InvalidInput, match="says 0 for row 0 and column 1; the matrix has 1"):
        TREE.check(np.array([[0, 1], [1, 0], [0, 0]]))
    with pytest.raises(InvalidInput, match="does not know Alice's input 3 after no bits"):
        TREE.check(np.array([[0, 0], [1, 0], [0, 0], [0, 0]]))
    with pytest.raises(InvalidInput, match="sends 0 or 1, and not both"):
        Speech(speaker="Bob", zeros=(1,), ones=(1,), after_zero=Leaf(value=0), after_one=Leaf(value=1))
