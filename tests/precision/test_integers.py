"""Wide integer tensors against Python's integers."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.precision.integers import Integers, where

WIDTHS = (3, 28, 29, 56, 62, 63, 84, 85, 240)


def samples(bits: int, count: int, seed: int) -> list[int]:
    """Ends, their neighbours, limb boundaries and random numbers of every size up to the bound."""
    source = random.Random(f"{bits} {seed}")
    edges = [0, 1, -1, 1 << bits, -(1 << bits), (1 << bits) - 1, 1 - (1 << bits)]
    edges += [
        sign * ((1 << place) + d) for place in range(28, bits, 28) for sign in (1, -1) for d in (-1, 0, 1)
    ]
    drawn = [
        source.randint(-(1 << source.randint(0, bits)), 1 << source.randint(0, bits)) for _ in range(count)
    ]
    chosen = edges + drawn
    source.shuffle(chosen)
    return chosen[:count]


def pair(left_bits: int, right_bits: int, count: int = 60) -> tuple[list[int], list[int], Integers, Integers]:
    left, right = samples(left_bits, count, 1), samples(right_bits, count, 2)
    return (
        left,
        right,
        Integers.from_ints(left, (count,), bits=left_bits),
        Integers.from_ints(right, (count,), bits=right_bits),
    )


def within_bound(numbers: Integers) -> list[int]:
    values = numbers.to_ints()
    assert all(abs(value) <= 1 << numbers.bits for value in values)
    assert all(bool(((limb >= 0) & (limb < 1 << 28)).all()) for limb in numbers.limbs[:-1])
    return values


@pytest.mark.parametrize("left_bits", WIDTHS)
@pytest.mark.parametrize("right_bits", [5, 30, 62, 63, 130])
def test_arithmetic_is_pythons(left_bits: int, right_bits: int) -> None:
    left, right, a, b = pair(left_bits, right_bits)
    assert within_bound(a) == left
    assert within_bound(a + b) == [x + y for x, y in zip(left, right, strict=True)]
    assert within_bound(a - b) == [x - y for x, y in zip(left, right, strict=True)]
    assert within_bound(-a) == [-x for x in left]
    assert within_bound(a * b) == [x * y for x, y in zip(left, right, strict=True)]
    assert a.less(b).tolist() == [x < y for x, y in zip(left, right, strict=True)]
    assert a.equals(b).tolist() == [x == y for x, y in zip(left, right, strict=True)]
    assert a.equals(a.bounded(a.bits + 40)).all()
    chosen = where(a.less(b), a, b)
    assert within_bound(chosen) == [min(x, y) for x, y in zip(left, right, strict=True)]


@pytest.mark.parametrize("bits", WIDTHS)
def test_shifts_floor_and_fields_cut(bits: int) -> None:
    values = samples(bits, 60, 3)
    numbers = Integers.from_ints(values, (60,), bits=bits)
    for places in (0, 1, 13, 28, 29, 56, 62, 63, 64, 90, 170, 300):
        assert within_bound(numbers >> places) == [value >> places for value in values]
        assert within_bound(numbers << places) == [value << places for value in values]
        assert within_bound(numbers.low_bits(places)) == [value % (1 << places) for value in values]
    positive = [abs(value) for value in values]
    magnitudes = Integers.from_ints(positive, (60,), bits=bits)
    for offset in range(0, max(bits - 14, 1), 7):
        assert magnitudes.field(offset, 14).tolist() == [(value >> offset) & 0x3FFF for value in positive]


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("divisor", [1, 2, 3, 10**6, 2**40, 2**61 + 1, 3**50, 2**80, 10**36])
def test_division_by_a_constant_floors(bits: int, divisor: int) -> None:
    values = samples(bits, 60, 4) + [sign * k * divisor for k in (1, 2) for sign in (1, -1)]
    values += [value + d for value in values[-4:] for d in (-1, 1)]
    values = [value for value in values if abs(value) <= 1 << bits]
    quotient, remainder = Integers.from_ints(values, (len(values),), bits=bits).divmod(divisor)
    assert within_bound(quotient) == [value // divisor for value in values]
    assert within_bound(remainder) == [value % divisor for value in values]


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("divisor_bits", [2, 40, 62, 90, 160])
def test_division_by_a_tensor_floors(bits: int, divisor_bits: int) -> None:
    values, divisors, numbers, _ = pair(bits, divisor_bits)
    divisors = [abs(divisor) or 1 for divisor in divisors]
    # Exact multiples and their neighbours, where an estimate that is off by one would show.
    for i in range(0, len(values), 3):
        near = values[i] // divisors[i] * divisors[i] + (i // 3) % 3 - 1
        values[i] = near if abs(near) <= 1 << bits else values[i]
    numbers = Integers.from_ints(values, (len(values),), bits=bits)
    quotient, remainder = numbers.divmod(Integers.from_ints(divisors, (len(values),), bits=divisor_bits))
    assert within_bound(quotient) == [x // y for x, y in zip(values, divisors, strict=True)]
    assert within_bound(remainder) == [x % y for x, y in zip(values, divisors, strict=True)]


def test_a_known_quotient_size_saves_rounds_and_changes_nothing() -> None:
    divisors = [(1 << 100) + i for i in range(50)]
    values = [divisor * (i * 7919 - 3) + i - 25 for i, divisor in enumerate(divisors)]
    numbers = Integers.from_ints(values, (50,), bits=120)
    quotient, _ = numbers.divmod(Integers.from_ints(divisors, (50,), bits=101), quotient_bits=20)
    assert quotient.to_ints() == [x // y for x, y in zip(values, divisors, strict=True)]


@settings(max_examples=40, deadline=None)
@given(
    left=st.integers(1, 5),
    inner=st.integers(1, 9),
    right=st.integers(1, 4),
    bits=st.tuples(st.sampled_from(WIDTHS), st.sampled_from(WIDTHS)),
    seed=st.integers(0, 1000),
)
def test_matrix_product(left: int, inner: int, right: int, bits: tuple[int, int], seed: int) -> None:
    a, b = samples(bits[0], left * inner, seed), samples(bits[1], inner * right, seed + 1)
    a, b = (a * 3)[: left * inner], (b * 3)[: inner * right]
    a += [0] * (left * inner - len(a))
    b += [0] * (inner * right - len(b))
    product = Integers.from_ints(a, (left, inner), bits=bits[0]).matmul(
        Integers.from_ints(b, (inner, right), bits=bits[1])
    )
    assert within_bound(product) == [
        sum(a[i * inner + k] * b[k * right + j] for k in range(inner))
        for i in range(left)
        for j in range(right)
    ]


def test_matrix_product_in_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("separatrix.precision.integers.PIECE_TERMS", 64)
    worst = [-(1 << 84)] * 200
    row, column = Integers.from_ints(worst, (1, 200), bits=84), Integers.from_ints(worst, (200, 1), bits=84)
    assert row.matmul(column).to_ints() == [200 << 168]


@pytest.mark.parametrize("bits", WIDTHS)
def test_sum_and_maxima_along_an_axis(bits: int) -> None:
    values = (samples(bits, 60, 5) * 2)[:60]
    values[7] = values[23] = max(values[0:60])
    numbers = Integers.from_ints(values, (5, 12), bits=bits)
    rows = [values[12 * i : 12 * i + 12] for i in range(5)]
    assert within_bound(numbers.sum(1)) == [sum(row) for row in rows]
    assert within_bound(numbers.sum(0)) == [sum(column) for column in zip(*rows, strict=True)]
    assert numbers.maxima(1).tolist() == [[value == max(row) for value in row] for row in rows]


@pytest.mark.parametrize("bits", WIDTHS)
def test_clamp_and_put(bits: int) -> None:
    values = samples(bits, 40, 6)
    numbers = Integers.from_ints(values, (40,), bits=bits)
    for limit in (1, 1 << 20, (1 << 62) - 1, 1 << 81):
        assert within_bound(numbers.clamp(-limit, limit)) == [max(-limit, min(limit, v)) for v in values]
    mask = torch.arange(40) % 7 == 0
    fresh = iter(range(-3, 3))
    expected = [next(fresh) if i % 7 == 0 else value for i, value in enumerate(values)]
    assert numbers.put(mask, list(range(-3, 3))).to_ints() == expected
    assert numbers.to_ints() == values


def test_floats_convert_exactly_one_way_and_closely_the_other() -> None:
    values = [0.0, 1.0, -1.0, 2.0**53 - 1, 1 - 2.0**53, 2.0**140, -(2.0**140) + 2.0**88, 3.0 * 2**70]
    numbers = Integers.from_float(torch.tensor(values, dtype=torch.float64), 140)
    assert within_bound(numbers) == [int(value) for value in values]
    wide = samples(300, 60, 7)
    floats = Integers.from_ints(wide, (60,), bits=300).to_float().tolist()
    assert all(abs(int(f) - value) <= abs(value) >> 48 for f, value in zip(floats, wide, strict=True))


def test_operands_broadcast_and_small_constants_meet_wide_tensors() -> None:
    column = Integers.from_ints([1, -2, 3], (3, 1))
    row = Integers.from_ints([1 << 90, -5], (2,), bits=90)
    assert (column * row).shape == (3, 2)
    assert (column + row).to_ints() == [c + r for c in (1, -2, 3) for r in (1 << 90, -5)]
    assert (column - (1 << 100)).to_ints() == [c - (1 << 100) for c in (1, -2, 3)]
    assert {limb.shape for limb in (column - (1 << 100)).limbs} == {torch.Size((3, 1))}
