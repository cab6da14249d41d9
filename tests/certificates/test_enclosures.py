"""Every number that a system computes lies in the enclosure of what it was computed from."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
import torch
from flint import fmpq

from separatrix.certificates.enclosures import Box, Rounding, Unbounded, real, rounding_of
from separatrix.errors import InvalidInput
from separatrix.precision import (
    FixedDown,
    FixedNearest,
    Float32,
    Float64,
    Numbers,
    NumberSystem,
    RoundingPoints,
)
from separatrix.precision.exponential import exp_bounds
from tests.certificates.draws import (
    FIXED,
    FLOATS,
    SYSTEMS,
    numbers,
    point,
    reals,
    seeds,
    shuffled,
    tight_or_wide,
)

every_system = pytest.mark.parametrize("system", SYSTEMS, ids=str)
ROUNDS = seeds(quick=5, slow=12)


def holds(box: Box, system: NumberSystem, computed: Numbers) -> bool:
    return box.contains(system.decode(computed))


class TestBox:
    def test_floats_are_read_exactly(self) -> None:
        box = Box.exact(torch.tensor([0.1, 3.0], dtype=torch.float64))
        assert box.contains([Fraction(0.1), 3])
        assert not box.contains([Fraction(1, 10), 3])
        assert box.is_point

    def test_union_hull_and_parts(self) -> None:
        first, second = Box.exact([[1, 2], [3, 4]]), Box.exact([[0, 5], [3, -4]])
        both = Box.union(first, second)
        assert both.contains(first)
        assert both.contains(second)
        assert both[1].hull().scalar == (fmpq(-4), fmpq(4))
        assert both.hull(0).contains([0, 5])
        assert Box.concatenate([first, second], 1).shape == (2, 4)
        assert Box.stack([first, second]).shape == (2, 2, 2)
        assert both.reshape(4).width.tolist() == [1, 3, 0, 8]
        assert (both - both).contains([[1, 3], [0, -8]])
        assert both.scaled(-2)[1, 1].scalar == (fmpq(-8), fmpq(8))

    def test_evidence_is_rounded_outward(self) -> None:
        interval = Box.between(Fraction(1, 3), Fraction(2, 3)).interval()
        assert interval.low < Fraction(1, 3) < Fraction(2, 3) < interval.high
        assert interval.high - interval.low < Fraction(1, 3) + Fraction(1, 2**126)

    def test_shortening_never_loses(self) -> None:
        third = Box.exact([Fraction(1, 3**400), Fraction(-(7**300), 3**100), Fraction(1, 3)])
        short = third.shortened(64)
        assert short.contains(third)
        width, size = short.width, third.magnitude
        assert all(each <= fmpq(1, 2**62) * whole for each, whole in zip(width, size, strict=True))

    def test_ends_in_the_wrong_order_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="low end at most its high end"):
            Box.between(1, 0)


@every_system
@pytest.mark.parametrize("seed", ROUNDS)
class TestOperations:
    def test_element_by_element(self, system: NumberSystem, seed: int) -> None:
        dice, rounding = random.Random(seed), rounding_of(system)
        left, right = numbers(dice, system, (40,)), numbers(dice, system, (40,), scale=50.0)
        a, b = tight_or_wide(dice, system, left), tight_or_wide(dice, system, right)
        assert holds(rounding.add(a, b), system, system.add(left, right))
        assert holds(rounding.subtract(a, b), system, system.subtract(left, right))
        assert holds(rounding.multiply(a, b), system, system.multiply(left, right))
        assert holds(rounding.relu(a), system, system.relu(left))
        larger = system.where(system.compare(left, right) > 0, left, right)
        assert holds(rounding.maximum(a, b), system, larger)

    def test_encode(self, system: NumberSystem, seed: int) -> None:
        values = reals(random.Random(seed), (60,), 10.0)
        box = rounding_of(system).encode(Box.exact(values))
        assert box.is_point
        assert holds(box, system, system.encode(values))

    def test_divide(self, system: NumberSystem, seed: int) -> None:
        dice, rounding = random.Random(seed), rounding_of(system)
        left, right = numbers(dice, system, (40,)), system.encode([Fraction(1, 2) + i % 3 for i in range(40)])
        a, b = tight_or_wide(dice, system, left), point(system, right)
        assert holds(rounding.divide(a, b), system, system.divide(left, right))

    @pytest.mark.slow
    def test_exp(self, system: NumberSystem, seed: int) -> None:
        dice, rounding = random.Random(seed), rounding_of(system)
        for scale in (1e-3, 1.0, 20.0, 300.0):
            x = system.encode([Fraction(-abs(value)) for value in reals(dice, (40,), scale)])
            box = tight_or_wide(dice, system, x)
            assert holds(
                rounding.exp(Box(box.low, np.minimum(box.high, 0 * box.high))), system, system.exp(x)
            )

    def test_affine(self, system: NumberSystem, seed: int) -> None:
        dice, rounding = random.Random(seed), rounding_of(system)
        x, weights = numbers(dice, system, (3, 2, 9)), numbers(dice, system, (5, 9))
        bias = numbers(dice, system, (5,))
        a, w, b = (tight_or_wide(dice, system, each) for each in (x, weights, bias))
        flat, columns = x.reshape(6, 9), weights.transpose(0, 1)
        plain = rounding.affine(a, w)
        assert plain.shape == (3, 2, 5)
        assert holds(plain.reshape(6, 5), system, system.matmul(flat, columns))
        with_bias = rounding.affine(a, w, b).reshape(6, 5)
        if system in FLOATS:
            assert holds(with_bias, system, system.add(system.matmul(flat, columns), bias))
        else:
            computed = rounding_of(system).encode(_exact_affine(system, flat, weights, bias))
            assert with_bias.contains(computed)

    def test_dot(self, system: NumberSystem, seed: int) -> None:
        dice, rounding = random.Random(seed), rounding_of(system)
        left, right = numbers(dice, system, (4, 7)), numbers(dice, system, (4, 7))
        a, b = (tight_or_wide(dice, system, each) for each in (left, right))
        assert holds(rounding.dot(a, b), system, system.dot(left, right))


def _exact_affine(system: NumberSystem, x: Numbers, weights: Numbers, bias: Numbers) -> Box:
    first, second, third = (system.decode(each) for each in (x, weights, bias))
    return Box.exact(first @ second.T + third)


@pytest.mark.parametrize("system", FLOATS, ids=str)
@pytest.mark.parametrize("seed", range(25))
def test_sums_in_any_order(system: NumberSystem, seed: int) -> None:
    """Products of very different sizes that cancel, added up in random orders and random trees."""
    dice, rounding = random.Random(seed), rounding_of(system)
    size = dice.choice([2, 3, 10, 60])
    scale = dice.choice([1.0, 1e4])
    x = system.encode([dice.gauss(0, 1) * scale ** dice.randint(-1, 1) for _ in range(size)])
    y = system.encode([dice.gauss(0, 1) * scale ** dice.randint(-1, 1) for _ in range(size)])
    box = rounding.dot(point(system, x), point(system, y))
    column = rounding.affine(point(system, x)[None, :], point(system, y)[None, :])
    for _ in range(10):
        order = shuffled(dice, size)
        products = system.multiply(x[order], y[order])
        heap = [products[i] for i in range(size)]
        while len(heap) > 1:
            first = heap.pop(dice.randrange(len(heap)))
            second = heap.pop(dice.randrange(len(heap)) if dice.random() < 0.5 else -1)
            heap.append(system.add(first, second))
        assert holds(box, system, heap[0])
        assert holds(column[0, 0], system, heap[0])


@pytest.mark.parametrize("system", FIXED, ids=str)
@pytest.mark.parametrize("seed", ROUNDS)
def test_points_stay_points_in_fixed_point(system: NumberSystem, seed: int) -> None:
    dice, rounding = random.Random(seed), rounding_of(system)
    x, weights = numbers(dice, system, (4, 6)), numbers(dice, system, (3, 6))
    box = rounding.affine(point(system, x), point(system, weights))
    assert box.is_point
    assert holds(box, system, system.matmul(x, weights.transpose(0, 1)))
    below = system.encode([Fraction(-abs(each)) for each in reals(dice, (30,), 8.0)])
    assert rounding.exp(point(system, below)).is_point


class TestFloatsAreSharp:
    @pytest.mark.parametrize("system", FLOATS, ids=str)
    def test_whole_numbers_are_exact_in_any_order(self, system: NumberSystem) -> None:
        dice, rounding = random.Random(5), rounding_of(system)
        x = Box.exact([[dice.randint(-9, 9) for _ in range(200)] for _ in range(3)])
        w = Box.exact([[Fraction(dice.choice([-1, 1]), 4) for _ in range(200)] for _ in range(4)])
        assert rounding.affine(x, w, Box.exact([1, 2, 3, 4])).is_point
        assert rounding.dot(x, x).is_point

    def test_whole_numbers_past_the_significand_are_not(self) -> None:
        x = Box.exact([[2**23, 2**23, 2**23, 1]])
        assert not rounding_of(Float32()).affine(x, Box.exact([[1, 1, 1, 1]])).is_point
        assert rounding_of(Float64()).affine(x, Box.exact([[1, 1, 1, 1]])).is_point

    def test_one_term_keeps_its_interval(self) -> None:
        x = Box.between([[Fraction(0.1), 0]], [[Fraction(0.7), 0]])
        image = rounding_of(Float64()).affine(x, Box.exact([[-2, 5], [1, 0]]))
        assert image[0, 1].scalar == x[0, 0].scalar
        assert image[0, 0].scalar == x[0, 0].scaled(-2).scalar

    @pytest.mark.parametrize("system", FLOATS, ids=str)
    def test_error_is_a_few_units(self, system: NumberSystem) -> None:
        """Ten products of size 1 at most: the enclosure is no wider than 2 · 10 · 11 u."""
        dice, rounding = random.Random(3), rounding_of(system)
        x, y = (system.encode([dice.uniform(-1, 1) for _ in range(10)]) for _ in range(2))
        (width,) = rounding.dot(point(system, x)[None], point(system, y)[None]).width
        unit = fmpq(1, 2**24 if system == Float32() else 2**53)
        assert 0 < width <= 220 * unit


class TestUnderflowAndOverflow:
    def test_a_product_may_be_flushed_or_not(self) -> None:
        rounding = rounding_of(Float32())
        box = rounding.multiply(Box.exact(Fraction(2.0**-80)), Box.exact(Fraction(2.0**-60)))
        assert box.contains(0)
        assert box.contains(Fraction(1, 2**140))

    def test_a_subnormal_operand_may_count_as_nothing(self) -> None:
        rounding = rounding_of(Float32())
        small, large = Box.exact([[Fraction(1, 2**140)]]), Box.exact([[2**100]])
        for operation in (rounding.multiply, rounding.affine, rounding.dot):
            assert operation(small, large).contains([[0]])
            assert operation(small, large).contains([[Fraction(1, 2**40)]])

    def test_exp_far_below(self) -> None:
        for system, argument in ((Float32(), -103.0), (Float32(), -88.0), (Float64(), -745.0)):
            box = rounding_of(system).exp(Box.exact(argument))
            assert box.contains(0)
            assert holds(box, system, system.exp(system.encode(argument)))
            assert box.high.item() > 0

    def test_overflow_is_refused(self) -> None:
        rounding = rounding_of(Float32())
        huge = Box.exact(Fraction(2) ** 127)
        with pytest.raises(Unbounded, match="may overflow binary32"):
            rounding.add(huge, huge)
        with pytest.raises(Unbounded, match="may overflow binary32"):
            rounding.affine(huge.reshape(1, 1), Box.exact([[4]]))
        cancelling = Box.stack([huge, -huge, huge]).reshape(1, 3)
        with pytest.raises(Unbounded, match="may overflow"):
            rounding.affine(cancelling, Box.exact([[1, 1, 1]]))
        with pytest.raises(Unbounded, match="may overflow"):
            rounding.exp(Box.exact(89))

    def test_a_divisor_around_zero_is_refused(self) -> None:
        for rounding in (rounding_of(Float32()), rounding_of(FixedNearest(p=9)), real()):
            with pytest.raises(InvalidInput, match="holds 0"):
                rounding.divide(Box.exact(1), Box.between(-1, 1))


@pytest.mark.parametrize("value", [1 + 2**-24, 1 + 3 * 2**-24, 2**-149 * 0.5, -(1 - 2**-25), 2**-126 * 1.3])
def test_floats_round_to_even(value: float) -> None:
    system = Float32()
    box = rounding_of(system).encode(Box.exact(value))
    assert holds(box, system, system.encode(value))
    if abs(value) > 0.5:
        assert box.is_point


@pytest.mark.parametrize("seed", range(40))
def test_interval_products_have_no_gap(seed: int) -> None:
    """The exact enclosure of an inner product is the sum of the extreme products, signs as they come."""
    dice = random.Random(seed)
    low, other = reals(dice, (2, 6), 2.0), reals(dice, (3, 6), 2.0)
    left = Box.between(low, low + abs(reals(dice, (2, 6), 2.0)))
    right = Box.between(other, other + abs(reals(dice, (3, 6), 2.0)))
    image = real().affine(left, right)
    for row in range(2):
        for column in range(3):
            firsts = zip(left.low[row], left.high[row], strict=True)
            seconds = zip(right.low[column], right.high[column], strict=True)
            corners = [[a * b for a in x for b in y] for x, y in zip(firsts, seconds, strict=True)]
            assert image.low[row, column] == sum(min(each) for each in corners)
            assert image.high[row, column] == sum(max(each) for each in corners)


def test_real_exp_is_tight() -> None:
    box = real().exp(Box.exact([-1, 0, Fraction(-1, 3), -300, 5]))
    assert box[1].is_point
    assert all(width <= size / fmpq(2**250) for width, size in zip(box.width, box.magnitude, strict=True))
    low, high = exp_bounds(Fraction(-1, 3), 400)
    assert box[2].contains([Fraction(low, 2**400), Fraction(high, 2**400)])
    assert real().exp(Box.exact(-(10**30))).contains(0)


@every_system
def test_the_model_is_said(system: NumberSystem) -> None:
    sentences = " ".join(rounding_of(system).error_model())
    if system in FLOATS:
        assert "any order" in sentences
        assert "2 units in the last place" in sentences
    else:
        assert str(system) in sentences
        assert "each difference, exp and quotient is rounded" in sentences


def test_every_step_is_what_fixed_point_attention_does() -> None:
    """The enclosures describe the default; a certificate for other rounding points needs other ones."""
    import inspect

    for method in ("softmax", "weighted_sum", "attention"):
        default = inspect.signature(getattr(NumberSystem, method)).parameters["rounding"].default
        assert default is RoundingPoints.EVERY_STEP


def test_unknown_systems_are_refused() -> None:
    with pytest.raises(InvalidInput, match="No enclosures are known"):
        rounding_of("float8")  # type: ignore[arg-type]


def test_roundings_are_values() -> None:
    first: Rounding = rounding_of(FixedDown(n=8, k=1))
    assert first == rounding_of(FixedDown(n=8, k=1))
    assert first != rounding_of(FixedDown(n=8, k=2))
