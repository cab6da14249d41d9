"""Rectangle and discrepancy bounds against all rectangles, one by one, and against exact complexity."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from separatrix.communication.complexity import complexity
from separatrix.communication.problems import problem
from separatrix.communication.rectangles import (
    discrepancy,
    largest_rectangle,
    rectangle_bound,
    spectral_discrepancy,
)
from separatrix.errors import InvalidInput, TooLarge


def rectangles(rows: int, columns: int) -> Iterator[tuple[list[int], list[int]]]:
    """Every pair of sets that are not empty."""
    for chosen in itertools.product(*(itertools.product((0, 1), repeat=side) for side in (rows, columns))):
        sides = [[line for line, taken in enumerate(side) if taken] for side in chosen]
        if all(sides):
            yield sides[0], sides[1]


def draws(count: int, *, lowest: int, answers: int = 2) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(answers)
    for _ in range(count):
        shape = tuple(rng.integers(1, 6, 2))
        weights = rng.integers(0, 5, shape)
        matrix = rng.integers(lowest, answers, shape)
        if weights[matrix >= 0].sum() > 0:
            yield matrix, weights


def matrix_of(name: str, n: int) -> np.ndarray:
    classic = problem(name, n=n)
    return classic.value(classic.alice.all().unsqueeze(1), classic.bob.all()).numpy()


@pytest.mark.parametrize("answers", [2, 3])
def test_the_heaviest_rectangle_is_the_heaviest_of_all(answers: int) -> None:
    for matrix, weights in draws(40, lowest=-1, answers=answers):
        for value in range(int(matrix.max()) + 1):
            best = 0
            for rows, columns in rectangles(*matrix.shape):
                part = matrix[np.ix_(rows, columns)]
                if ((part == value) | (part < 0)).all():
                    best = max(best, int((weights * (matrix >= 0))[np.ix_(rows, columns)].sum()))
            found = largest_rectangle(matrix, value, weights=weights)
            assert found.weight == best
            inside = np.ix_(found.rows, found.columns)
            assert ((matrix[inside] == value) | (matrix[inside] < 0)).all()
            assert int((weights * (matrix >= 0))[inside].sum()) == best


def test_discrepancy_is_the_greatest_over_all_rectangles() -> None:
    for matrix, weights in draws(60, lowest=-1):
        signed = np.where(matrix == 1, weights, -weights) * (matrix >= 0)
        total = int((weights * (matrix >= 0)).sum())
        best = max(abs(int(signed[np.ix_(*sides)].sum())) for sides in rectangles(*matrix.shape))
        found = discrepancy(matrix, weights=weights)
        assert found.at_most == Fraction(best, total)
        assert found.rectangle is not None
        inside = np.ix_(found.rectangle.rows, found.rectangle.columns)
        assert abs(int(signed[inside].sum())) == found.rectangle.weight == best
        spectral = spectral_discrepancy(matrix, weights=weights)
        assert found.at_most <= spectral.at_most
        assert spectral.rectangle is None


@pytest.mark.parametrize("lowest", [0, -1])
def test_no_bound_exceeds_the_exact_complexity(lowest: int) -> None:
    reached = 0
    for matrix, weights in draws(80, lowest=lowest):
        bits = complexity(matrix).bits
        for heavy in (weights, None):
            if heavy is None and not (matrix >= 0).any():
                continue
            bound = rectangle_bound(matrix, weights=heavy)
            assert bound.bits == (bound.leaves - 1).bit_length() <= bits
            assert discrepancy(matrix, weights=heavy).bits <= bits
            assert spectral_discrepancy(matrix, weights=heavy).bits <= bits
            reached += bound.bits == bits
    assert reached > 40


def test_rectangle_bounds_of_the_classic_problems() -> None:
    """The ones of EQ are 2^n rectangles; those of GT weigh no more than a quarter of all pairs."""
    equal = rectangle_bound(matrix_of("eq", 3))
    assert equal.heaviest[1].weight == 1
    # Off the diagonal, 4 × 4 of the 56 pairs.
    assert (equal.heaviest[0].weight, equal.leaves, equal.bits) == (16, 8 + 4, 4)
    greater = rectangle_bound(matrix_of("gt", 3))
    assert greater.heaviest[1].weight == 16
    assert greater.distribution == "uniform on the inputs"
    diagonal = rectangle_bound(
        matrix_of("gt", 3), weights=np.eye(8, dtype=np.int64), distribution="on the diagonal"
    )
    # All weight is on pairs with the answer 0, and 1 occurs without any: 8 leaves and one more.
    assert (diagonal.leaves, diagonal.bits, diagonal.distribution) == (9, 4, "on the diagonal")


def test_the_inner_product_has_small_discrepancy() -> None:
    """Its signs are a Hadamard matrix: all singular values are 2^(n/2), so 2^(−n/2) bounds it (Lindsey)."""
    for n in (2, 4, 6, 8):
        found = spectral_discrepancy(matrix_of("ip", n))
        assert 0 <= float(found.at_most) - 2 ** (-n / 2) < 1e-9
        assert found.bits == n // 2
    assert spectral_discrepancy(matrix_of("ip", 8)).randomised_bits(Fraction(1, 4)) == 3
    assert discrepancy(matrix_of("ip", 4)).at_most == Fraction(7, 64)


def test_a_constant_needs_no_bits() -> None:
    ones = np.ones((3, 4), dtype=np.int64)
    assert (rectangle_bound(ones).bits, discrepancy(ones).bits, spectral_discrepancy(ones).bits) == (0, 0, 0)
    assert discrepancy(ones).at_most == spectral_discrepancy(ones).at_most == 1


def test_wide_and_tall_matrices_are_the_same() -> None:
    matrix = matrix_of("index", 4)
    assert matrix.shape == (16, 4)
    for found in (discrepancy, rectangle_bound):
        assert found(matrix).bits == found(matrix.T).bits
    tall, wide = largest_rectangle(matrix, 1), largest_rectangle(matrix.T, 1)
    assert (tall.rows, tall.columns) == (wide.columns, wide.rows)


def test_wrong_weights_and_sizes_are_refused() -> None:
    eye = np.eye(3, dtype=np.int64)
    with pytest.raises(InvalidInput, match=r"one for each of 3 × 3 entries; got int64 of shape \(2, 2\)"):
        rectangle_bound(eye, weights=np.ones((2, 2), dtype=np.int64))
    with pytest.raises(InvalidInput, match="got float64"):
        rectangle_bound(eye, weights=np.ones((3, 3)))
    with pytest.raises(InvalidInput, match="whole numbers from 0"):
        discrepancy(eye, weights=-eye)
    for weights in (np.zeros_like(eye), eye << 50):
        with pytest.raises(InvalidInput, match="add up to a number from 1 to"):
            discrepancy(eye, weights=weights)
    with pytest.raises(InvalidInput, match="with answers 0 and 1; got 2"):
        discrepancy(eye * 2)
    with pytest.raises(InvalidInput, match=r"below one half; got 0\.5"):
        discrepancy(eye).randomised_bits(0.5)
    with pytest.raises(TooLarge, match="40 × 40 entries takes too long"):
        discrepancy(np.eye(40, dtype=np.int64))
    with pytest.raises(TooLarge, match="The spectral bound takes up to 4,096 lines"):
        spectral_discrepancy(eye, weights=eye << 40)
