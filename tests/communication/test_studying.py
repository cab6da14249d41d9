"""One study of a matrix: its bounds enclose the truth, and what is left out is told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from separatrix.communication import matrices as matrices_module
from separatrix.communication import studying
from separatrix.communication.complexity import complexity
from separatrix.communication.matrices import CommunicationMatrix, matrix_of
from separatrix.communication.problems import Index, Problem, problem
from separatrix.communication.studying import study
from separatrix.errors import InvalidInput

OPEN = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 0, 1, 0, 1], [0, 0, 0, 0, 0], [1, 0, 1, 0, 0]])
"""Bounds leave 3 or 4 bits open here, so that the best protocol has to be searched for."""
SIDES = st.tuples(st.integers(1, 6), st.integers(1, 6))


@pytest.mark.parametrize(
    ("asked", "bits"),
    [
        (problem("eq", n=3), 4),
        (problem("gt", n=3), 4),
        (problem("disj", n=3), 4),
        (Index(n=4), 3),
        (Index(n=2, alphabet=4), 3),
    ],
)
def test_known_problems_are_settled(asked: Problem, bits: int) -> None:
    found = study(matrix_of(asked))
    assert (found.at_least, found.at_most) == (bits, bits)
    assert found.complexity is not None
    assert found.complexity.bits == bits
    missing = {"discrepancy"} if asked.values > 2 else set()
    assert set(found.left_out) == missing


@settings(max_examples=40, deadline=None)
@given(
    st.one_of(
        arrays.arrays(np.int8, SIDES, elements=st.integers(0, 1)),
        arrays.arrays(np.int8, SIDES, elements=st.integers(-1, 1)),
        arrays.arrays(np.int8, SIDES, elements=st.integers(0, 2)),
    )
)
def test_without_the_search_the_truth_lies_between(values: np.ndarray) -> None:
    matrix = CommunicationMatrix.of_values(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studying, "_STEPS_A_SECOND", 0)
        found = study(matrix)
    assert found.at_least <= complexity(values).bits <= found.at_most


def test_a_search_that_is_cut_off_leaves_both_bounds() -> None:
    matrix = CommunicationMatrix.of_values(OPEN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studying, "_STEPS_A_SECOND", 0)
        found = study(matrix)
    assert (found.at_least, found.at_most) == (3, 4)
    whole = study(matrix)
    assert whole.at_least == whole.at_most == complexity(OPEN).bits


def test_repeated_rows_change_nothing() -> None:
    values = np.random.default_rng(2).integers(0, 2, (6, 7))
    once = study(CommunicationMatrix.of_values(values))
    often = study(CommunicationMatrix.of_values(np.tile(values, (3, 2))))
    assert (once.one_way, once.over_rationals, once.over_gf2) == (
        often.one_way,
        often.over_rationals,
        often.over_gf2,
    )
    assert (once.at_least, once.at_most) == (often.at_least, often.at_most)
    # The protocol speaks of the rows that were given, repeated ones too.
    assert often.complexity is not None
    often.complexity.tree.check(np.tile(values, (3, 2)))


@pytest.mark.parametrize(
    ("limit", "left_out"),
    [
        ("_MOST_RANKED", {"over_rationals", "fooling"}),
        ("_MOST_SUBSETS", {"rectangles"}),
        ("_STEPS_A_SECOND", {"complexity"}),
    ],
)
def test_what_takes_too_long_is_left_out_with_its_reason(
    limit: str, left_out: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studying, limit, 0)
    found = study(CommunicationMatrix.of_values(OPEN))
    assert set(found.left_out) == left_out
    assert all(reason.endswith((".", "steps.")) for reason in found.left_out.values())


@pytest.mark.slow
def test_large_discrepancies_are_bounded_by_singular_values(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = matrix_of(problem("ip", n=5))
    found = study(matrix, budget=0.2)
    assert found.discrepancy is not None
    assert found.discrepancy.rectangle is None
    # The largest singular value of the sign matrix is √32.
    assert float(found.discrepancy.at_most) == pytest.approx(32**-0.5)
    monkeypatch.setattr(studying, "_MOST_SPECTRAL", 16)
    assert "takes long to find singular values of" in study(matrix, budget=0.2).left_out["discrepancy"]


def test_a_matrix_too_large_to_unpack_still_has_its_rows_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = matrix_of(problem("gt", n=5))
    monkeypatch.setattr(matrices_module, "DENSE_ENTRIES", 100)
    found = study(matrix)
    assert found.one_way is not None
    assert found.one_way.bits == 5
    assert set(found.left_out) == {
        "over_rationals",
        "over_gf2",
        "fooling",
        "rectangles",
        "discrepancy",
        "complexity",
    }
    assert (found.at_least, found.at_most) == (0, 6)


@pytest.mark.parametrize("budget", [0.0, -1.0, float("nan"), float("inf")])
def test_a_budget_is_a_number_of_seconds(budget: float) -> None:
    with pytest.raises(InvalidInput, match="a number of seconds above 0"):
        study(matrix_of(problem("eq", n=2)), budget=budget)


def test_a_search_that_would_be_refused_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact complexity compares all rows before it refuses, which takes long where they are many."""
    monkeypatch.setattr(studying, "complexity", None)
    assert "too many protocols" in study(matrix_of(problem("disj", n=8)), budget=0.2).left_out["complexity"]
