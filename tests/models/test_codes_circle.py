"""Points of the circle against ball arithmetic: the nearest float64, and the pairs behind it to 96 bits."""

from __future__ import annotations

import random
from fractions import Fraction

import flint
import pytest
import torch

from separatrix.models.explicit.codes import Circle
from separatrix.models.explicit.codes._turns import cos_sin_pairs


def true_values(number: int, modulus: int) -> tuple[Fraction, Fraction]:
    """Cosine and sine to within 2^-190."""
    before, flint.ctx.prec = flint.ctx.prec, 200
    try:
        sine, cosine = flint.arb.sin_cos_pi_fmpq(flint.fmpq(2 * number, modulus))
        values = []
        for ball in (cosine, sine):
            mantissa, exponent = ball.mid().man_exp()
            assert ball.rad() < 2**-180
            values.append(Fraction(int(mantissa)) * Fraction(2) ** int(exponent))
    finally:
        flint.ctx.prec = before
    return values[0], values[1]


def assert_nearest(numbers: list[int], modulus: int) -> None:
    points = Circle(modulus=modulus).rows(torch.tensor(numbers)).tolist()
    for number, point in zip(numbers, points, strict=True):
        for entry, true in zip(point, true_values(number, modulus), strict=True):
            assert entry == float(true), (number, modulus)
            assert abs(Fraction(entry) - true) < Circle(modulus=modulus).error


@pytest.mark.parametrize("modulus", [*range(1, 34), 100, 360, 1000, 1024, 1009])
def test_every_residue_of_small_moduli_is_nearest(modulus: int) -> None:
    assert_nearest(list(range(modulus)), modulus)


@pytest.mark.parametrize("modulus", [10**7, 10**7 + 19, 2**31 - 1, 2**40, 2**40 - 1, 2**40 - 87, 3 * 2**38])
def test_residues_of_large_moduli_are_nearest(modulus: int) -> None:
    source = random.Random(modulus)
    eighths = [
        max(0, min(modulus - 1, part * modulus // 8 + d)) for part in range(9) for d in (-2, -1, 0, 1, 2)
    ]
    assert_nearest(eighths + [source.randrange(modulus) for _ in range(300)], modulus)


def test_pairs_carry_96_bits() -> None:
    source = random.Random(1)
    worst = Fraction(0)
    for modulus in (7, 1000003, 2**40 - 87):
        numbers = [source.randrange(1, modulus) for _ in range(200)] + [1, modulus - 1]
        pairs = cos_sin_pairs(torch.tensor(numbers), modulus)
        for pair, which in zip(pairs, (0, 1), strict=True):
            for number, high, low in zip(numbers, pair.high.tolist(), pair.low.tolist(), strict=True):
                true = true_values(number, modulus)[which]
                worst = max(worst, abs((Fraction(high) + Fraction(low)) / true - 1))
    assert worst < Fraction(1, 2**96)


def test_the_circle_is_as_symmetric_as_it_should_be() -> None:
    modulus = 1009
    points = Circle(modulus=modulus).rows(torch.arange(modulus))
    mirrored = Circle(modulus=modulus).rows((modulus - torch.arange(modulus)) % modulus)
    assert points[:, 0].equal(mirrored[:, 0])
    assert points[1:, 1].equal(-mirrored[1:, 1])
    corners = Circle(modulus=4).rows(torch.arange(4))
    assert corners.tolist() == [[1, 0], [0, 1], [-1, 0], [0, -1]]
    assert not (corners.signbit() & (corners == 0)).any()
    assert Circle(modulus=12).rows(torch.tensor([1, 2, 4]))[:, :].tolist()[1][0] == 0.5


def test_a_point_does_not_depend_on_its_company() -> None:
    """Many numbers share a table of residues and large batches are worked on in parts: the bits agree."""
    code = Circle(modulus=20_011)
    numbers = torch.arange(-5, 20_020)
    together = code.rows(numbers)
    assert together[:5].eq(0).all()
    assert together[-4:].eq(0).all()
    for low in range(0, len(numbers), 7_000):
        assert code.rows(numbers[low : low + 7_000]).equal(together[low : low + 7_000])
