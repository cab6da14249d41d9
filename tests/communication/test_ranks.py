"""Ranks: own elimination against flint's, and the bounds that follow against exact complexity."""

from __future__ import annotations

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from separatrix.communication import ranks
from separatrix.communication.complexity import complexity
from separatrix.communication.problems import problem
from separatrix.communication.ranks import (
    LogRank,
    log_rank,
    packed_rank,
    rank_of_numbers,
    rank_over_gf2,
    rank_over_rationals,
)
from separatrix.errors import InvalidInput, TooLarge


def by_fractions(matrix: np.ndarray) -> int:
    """Elimination in rationals, row by row."""
    return int(flint.fmpq_mat([[flint.fmpq(number) for number in row] for row in matrix.tolist()]).rank())


def by_flint_modulo_2(matrix: np.ndarray) -> int:
    return int(flint.nmod_mat((matrix % 2).tolist(), 2).rank())


def products(seed: int, count: int, largest: int) -> list[np.ndarray]:
    """Matrices of every rank, most of them far below their size."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        rows, columns = rng.integers(1, largest, 2)
        inner = rng.integers(0, min(rows, columns) + 1)
        made.append(rng.integers(0, 2, (rows, inner)) @ rng.integers(0, 2, (inner, columns)))
    return made


@pytest.mark.slow
def test_both_ranks_agree_with_flint() -> None:
    seen = set()
    for matrix in products(1, 120, 90):
        assert rank_over_rationals(matrix) == by_fractions(matrix)
        modulo_2 = by_flint_modulo_2(matrix)
        assert rank_over_gf2(matrix) == modulo_2
        numbers = [int("".join(map(str, row)), 2) for row in (matrix % 2).tolist()]
        assert rank_of_numbers(numbers) == modulo_2
        seen.add(modulo_2)
    assert len(seen) > 30


@pytest.mark.slow
@given(arrays.arrays(np.int64, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.integers(-3, 3)))
@settings(deadline=None)
def test_ranks_of_small_integers(matrix: np.ndarray) -> None:
    assert rank_over_rationals(matrix) == by_fractions(matrix)
    assert rank_over_gf2(matrix) == by_flint_modulo_2(matrix)
    assert rank_over_gf2(matrix.T) == rank_over_gf2(matrix) <= rank_over_rationals(matrix)


def test_a_rank_that_a_prime_hides_is_found_in_integers() -> None:
    hidden = np.array([[ranks._PRIME, 0], [0, 1]])
    assert rank_over_rationals(hidden) == 2


def test_large_ranks_over_gf2() -> None:
    """Half of the columns are sums of two others, so the rank is that of the first half."""
    rng = np.random.default_rng(3)
    half = rng.integers(0, 2, (1000, 700))
    whole = np.hstack([half, half ^ np.roll(half, 1, axis=1)])
    assert packed_rank(np.packbits(whole == 1, axis=1)) == by_flint_modulo_2(half) == 700


@pytest.mark.parametrize(
    ("name", "real", "modulo_2"),
    # IP is a Hadamard matrix turned to bits: real rank 2^n − 1, and x·y itself is a sum of n products.
    [
        ("eq", (16, 16), (16, 16)),
        ("gt", (16, 15), (16, 15)),
        ("ip", (16, 15), (5, 4)),
        ("disj", (16, 15), (16, 15)),
    ],
)
def test_ranks_of_the_classic_problems(name: str, real: tuple[int, int], modulo_2: tuple[int, int]) -> None:
    classic = problem(name, n=4)
    matrix = classic.value(classic.alice.all().unsqueeze(1), classic.bob.all()).numpy()
    assert log_rank(matrix) == LogRank(field="rationals", ranks=real, bits=5)
    found = log_rank(matrix, field="GF(2)")
    assert found.ranks == modulo_2
    assert found.bits == (sum(modulo_2) - 1).bit_length()


def test_the_bound_never_exceeds_the_exact_complexity() -> None:
    rng = np.random.default_rng(4)
    tight = 0
    for _ in range(150):
        matrix = rng.integers(0, rng.integers(2, 4), rng.integers(1, 6, 2))
        bits = complexity(matrix).bits
        bounds = [log_rank(matrix, field=field).bits for field in ("rationals", "GF(2)")]
        assert max(bounds) <= bits
        tight += max(bounds) == bits
    assert tight > 75


def test_what_has_no_rank_is_refused() -> None:
    with pytest.raises(InvalidInput, match="total functions only; this matrix has pairs that are no input"):
        log_rank(np.array([[0, -1]]))
    with pytest.raises(InvalidInput, match=r"matrix of whole numbers; got float64 \(2, 2\)"):
        rank_over_rationals(np.ones((2, 2)))
    with pytest.raises(InvalidInput, match=r"matrix of whole numbers; got int64 \(2,\)"):
        rank_over_gf2(np.ones(2, dtype=np.int64))
    assert rank_over_rationals(np.zeros((0, 3), dtype=np.int64)) == 0
    assert rank_over_gf2(np.zeros((3, 0), dtype=np.int64)) == 0


def test_too_large_matrices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "_MOST_ENTRIES", 8)
    monkeypatch.setattr(ranks, "_MOST_BYTES", 2)
    assert rank_over_rationals(np.ones((50, 50), dtype=np.int64)) == 1
    with pytest.raises(TooLarge, match="at most 8 different entries; got 3 × 3"):
        rank_over_rationals(np.eye(3, dtype=np.int64))
    with pytest.raises(TooLarge, match="over GF"):
        rank_over_gf2(np.eye(3, dtype=np.int64))
