"""Errors of summed products: never less than what float32 does, and 0 only where it is exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from flint import fmpq
from numpy.typing import NDArray

from separatrix.certificates.enclosures import Box, rounding_of
from separatrix.certificates.enclosures.float_rounding import FloatRounding
from separatrix.certificates.lemmas.feed_forward import feed_forward
from separatrix.certificates.lemmas.float_errors import UNKNOWN, fineness, summing_error
from separatrix.models.explicit.linear import Affine, FeedForward
from separatrix.precision import Float32


def rounding() -> FloatRounding:
    found = rounding_of(Float32())
    assert isinstance(found, FloatRounding)
    return found


def computed(left: NDArray[np.float32], right: NDArray[np.float32]) -> Fraction:
    total = np.float32(0)
    for a, b in zip(left, right, strict=True):
        total = np.float32(total + np.float32(a * b))
    return Fraction(float(total))


@pytest.mark.parametrize("terms", [1, 2, 17])
def test_no_operands_of_the_size_err_more(terms: int) -> None:
    draws = np.random.default_rng(terms)
    sizes = Box.exact([1] * terms).low
    unknown = np.full(terms, UNKNOWN, dtype=np.int64)
    bound = summing_error(rounding(), sizes, sizes, unknown, unknown)
    most = Fraction(0)
    for _ in range(300):
        a, b = (draws.uniform(-1, 1, terms).astype(np.float32) for _ in range(2))
        real = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True))
        most = max(most, abs(computed(a, b) - real))
    assert 0 < most <= Fraction(int(bound.p), int(bound.q))


def test_short_operands_are_summed_exactly_and_long_ones_are_not() -> None:
    ones = Box.exact([1, 1]).low
    short = fineness(Box.exact([0.5, 3.0]).low)
    assert short.tolist() == [-1, 0]
    assert summing_error(rounding(), ones, ones, short, fineness(ones)) == 0
    long = fineness(Box.exact([2.0**-30, 1.0]).low)
    assert summing_error(rounding(), ones, ones, long, fineness(ones)) > 0
    assert fineness(Box.exact([0]).low)[0] > 0 > fineness(np.array([fmpq(1, 3)], dtype=object))[0]


def test_a_box_with_short_ends_is_not_taken_for_short_numbers() -> None:
    psi = FeedForward(
        maps=(
            Affine(matrix=torch.tensor([[1.0], [1.0]]).double(), bias=torch.tensor([1.0, -0.25]).double()),
            Affine(matrix=torch.tensor([[1.0, 1.0]]).double(), bias=torch.zeros(1).double()),
        )
    )
    image = feed_forward(rounding(), psi, Box.between([[0.5]], [[1.0]]), residual=False)
    x = np.float32(0.5 + 2.0**-24)
    first, second = np.float32(x + np.float32(1)), np.float32(x - np.float32(0.25))
    assert image.contains(Box.exact([[float(np.float32(first + second))]]))
    narrow = feed_forward(rounding(), psi, Box.between([[float(x)]], [[float(x) + 2.0**-23]]), residual=False)
    assert narrow.contains(Box.exact([[float(np.float32(first + second))]]))
