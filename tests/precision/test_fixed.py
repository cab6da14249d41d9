"""S's and W's numbers against fractions: the sets, the roundings, the ends; exhaustive where small."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.precision import (
    FixedDown,
    FixedNearest,
    Float32,
    Float64,
    Integers,
    NumberSystem,
    RoundingPoints,
)
from separatrix.precision.exponential import exp_bounds
from tests.precision.oracle import (
    SOME,
    SYSTEMS,
    Fixed,
    end_of,
    listed,
    members,
    rounded,
    rounded_exp,
    step_of,
)

SMALL: tuple[Fixed, ...] = (FixedDown(n=2, k=1), FixedDown(n=3, k=1), FixedNearest(p=3), FixedNearest(p=5))


def every_member(system: Fixed) -> list[Fraction]:
    most = int(end_of(system) / step_of(system))
    return [i * step_of(system) for i in range(-most, most + 1)]


@pytest.mark.parametrize("p", [3, 5, 7])
def test_nearest_is_the_set_that_the_bit_strings_spell(p: int) -> None:
    spelled = {
        (2 * bits[p - 1] - 1)
        * sum((bits[i - 1] * Fraction(2) ** ((p - 1) // 2 - i) for i in range(1, p)), Fraction(0))
        for bits in itertools.product((0, 1), repeat=p)
    }
    system = FixedNearest(p=p)
    assert system.bits == p
    assert system.largest == max(spelled) == -min(spelled)
    assert system.smallest == min(value for value in spelled if value > 0)
    fine = [i * system.smallest / 4 for i in range(-(3 << p), (3 << p) + 1)]
    reached = set(listed(system, system.encode(fine)))
    assert reached == spelled
    for value, got in zip(fine, listed(system, system.encode(fine)), strict=True):
        assert abs(value - got) == min(abs(value - other) for other in spelled)


@pytest.mark.parametrize(("n", "k"), [(2, 1), (2, 2), (3, 1), (3, 2), (5, 1)])
def test_down_is_the_set_of_the_paper(n: int, k: int) -> None:
    system = FixedDown(n=n, k=k)
    grid = [Fraction(i, n**k) for i in range(-(n ** (2 * k)), n ** (2 * k) + 1)]
    assert system.largest == grid[-1] == n**k
    assert system.smallest == Fraction(1, n**k)
    fine = [Fraction(i, 3 * n**k) for i in range(-4 * n ** (2 * k), 4 * n ** (2 * k) + 1)]
    got = listed(system, system.encode(fine))
    assert set(got) == set(grid)
    for value, result in zip(fine, got, strict=True):
        assert result == max((g for g in grid if g <= value), default=grid[0])
    assert 2 ** (system.bits - 1) < len(grid) <= 2**system.bits


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_encode_rounds_fractions_and_floats_alike(system: Fixed) -> None:
    step, end = step_of(system), end_of(system)
    halves = [base + d * step / 2 for base in members(system, 30, 1) for d in (-1, 1)]
    hairs = [base + sign * Fraction(1, 10**90) for base in members(system, 30, 2) for sign in (-1, 1)]
    values = [
        *halves,
        *hairs,
        end + step / 2,
        -end - step / 2,
        3 * end,
        -3 * end,
        Fraction(1, 3),
        Fraction(-1, 3),
    ]
    assert listed(system, system.encode(values)) == [rounded(system, value) for value in values]

    floats = [float(value) for value in values]
    floats += [5e-324, -5e-324, 1e-30, -1e-30, 0.1, -0.1, 1 - 2**-53, 1e300, -1e300, 2.0**53 + 2, -0.0]
    got = listed(system, system.encode(torch.tensor(floats, dtype=torch.float64)))
    assert got == [rounded(system, Fraction(value)) for value in floats]
    single = torch.tensor([0.1, -0.1, 1e-40, -3.5e38 / 2], dtype=torch.float32)
    assert listed(system, system.encode(single)) == [rounded(system, Fraction(v)) for v in single.tolist()]


@pytest.mark.parametrize("system", SOME, ids=str)
def test_encode_reads_integers_of_every_kind(system: Fixed) -> None:
    integers = [0, 1, -1, 7, -(2**63), 2**63 - 1, 2**53 + 1]
    want = [rounded(system, Fraction(value)) for value in integers]
    assert listed(system, system.encode(torch.tensor(integers))) == want
    assert listed(system, system.encode(integers)) == want
    assert listed(system, system.encode(np.array(integers))) == want
    unsigned = np.array([2**64 - 1], dtype=np.uint64)
    assert listed(system, system.encode(unsigned)) == [rounded(system, Fraction(2**64 - 1))]
    nested = system.encode([[1, Fraction(1, 3)], [0.1, Decimal("-0.3")]])
    assert nested.shape == (2, 2)
    want = [Fraction(1), Fraction(1, 3), Fraction(0.1), Fraction(-3, 10)]
    assert listed(system, nested) == [rounded(system, value) for value in want]
    assert system.encode(Fraction(1, 2)).shape == ()


@pytest.mark.parametrize("system", [*SOME, Float32(), Float64()], ids=str)
@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "g", "i2", "i4", "i8", "u2", "u4", "u8"])
@pytest.mark.parametrize("order", [">", "<"])
def test_encode_reads_every_byte_order_and_numpys_own_numbers(
    system: NumberSystem, kind: str, order: str
) -> None:
    native = np.array([[1, 3], [7, 100]], dtype=kind)
    if native.dtype.kind == "f":
        native = native / native.dtype.type(10)
        want = [Fraction(*value.as_integer_ratio()) for value in native.reshape(-1)]
    else:
        native[0, 0] = np.iinfo(kind).max
        want = [Fraction(int(value)) for value in native.reshape(-1)]
    array = native.astype(order + kind)
    exactly = listed(system, system.encode(want))
    assert listed(system, system.encode(array)) == exactly
    scalars = [list(row) for row in array]
    assert system.encode(scalars).shape == (2, 2)
    assert listed(system, system.encode(scalars)) == exactly
    assert listed(system, system.encode(list(array))) == exactly
    assert listed(system, system.encode(scalars[1][1])) == exactly[-1:]
    assert listed(system, system.encode([np.asarray(value) for value in array.reshape(-1)])) == exactly


@pytest.mark.parametrize("system", [*SOME, Float32(), Float64()], ids=str)
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.bool])
def test_encode_reads_tensors_inside_lists(system: NumberSystem, kind: torch.dtype) -> None:
    tensor = torch.tensor([[0.1, 0.7, 3.0], [1.0, 0.0, 100.0]]).to(kind)
    want = listed(system, system.encode(tensor))
    for nested in (list(tensor), [list(row) for row in tensor], (tensor[0], tuple(tensor[1].tolist()))):
        assert system.encode(nested).shape == (2, 3)
        assert listed(system, system.encode(nested)) == want
    assert system.encode([tensor, tensor]).shape == (2, 2, 3)
    assert system.encode([torch.zeros(0, 3)]).shape == (1, 0, 3)
    trained = torch.tensor([0.1, 0.7], requires_grad=True)
    want = listed(system, system.encode(trained.detach()))
    assert listed(system, system.encode(list(trained))) == listed(system, system.encode([trained])) == want
    mixed = [[torch.tensor(0.5), np.float32(0.25)], [Fraction(1, 2), np.True_]]
    halves = [Fraction(1, 2), Fraction(1, 4), Fraction(1, 2), Fraction(1)]
    assert listed(system, system.encode(mixed)) == listed(system, system.encode(halves))


@pytest.mark.parametrize("system", SOME, ids=str)
def test_numpy_integers_inside_lists_do_not_wrap_around(system: Fixed) -> None:
    integers = [2**62, -(2**62), 2**63 - 1, -(2**63)]
    want = [rounded(system, Fraction(value)) for value in integers]
    assert listed(system, system.encode([np.int64(value) for value in integers])) == want


@pytest.mark.parametrize("system", SMALL, ids=str)
def test_every_pair_of_a_small_system(system: Fixed) -> None:
    everything = every_member(system)
    left, right = zip(*itertools.product(everything, everything), strict=True)
    a, b = system.encode(everything)[:, None], system.encode(everything)
    assert listed(system, system.add(a, b)) == [
        rounded(system, x + y) for x, y in zip(left, right, strict=True)
    ]
    assert listed(system, system.subtract(a, b)) == [
        rounded(system, x - y) for x, y in zip(left, right, strict=True)
    ]
    assert listed(system, system.multiply(a, b)) == [
        rounded(system, x * y) for x, y in zip(left, right, strict=True)
    ]
    nonzero = [value for value in everything if value]
    assert listed(system, system.divide(a, system.encode(nonzero))) == [
        rounded(system, x / y) for x in everything for y in nonzero
    ]
    assert system.compare(a, b).reshape(-1).tolist() == [
        (x > y) - (x < y) for x, y in zip(left, right, strict=True)
    ]
    assert listed(system, system.exp(b)) == [rounded_exp(system, x) for x in everything]
    assert listed(system, system.relu(b)) == [max(x, Fraction(0)) for x in everything]
    assert listed(system, system.negate(b)) == [-x for x in everything]


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_arithmetic_with_the_ends_and_random_numbers(system: Fixed) -> None:
    left, right = members(system, 80, 3), members(system, 80, 4)
    right = [value or step_of(system) for value in right]
    a, b = system.encode(left), system.encode(right)
    assert listed(system, a) == left
    pairs = list(zip(left, right, strict=True))
    assert listed(system, system.add(a, b)) == [rounded(system, x + y) for x, y in pairs]
    assert listed(system, system.subtract(a, b)) == [rounded(system, x - y) for x, y in pairs]
    assert listed(system, system.multiply(a, b)) == [rounded(system, x * y) for x, y in pairs]
    assert listed(system, system.divide(a, b)) == [rounded(system, x / y) for x, y in pairs]
    assert system.compare(a, b).tolist() == [(x > y) - (x < y) for x, y in pairs]
    assert listed(system, system.where(system.compare(a, b) < 0, a, b)) == [min(x, y) for x, y in pairs]
    assert listed(system, system.max(a.reshape(8, 10), 1)) == [
        max(left[10 * i : 10 * i + 10]) for i in range(8)
    ]
    assert int(system.argmax(a, 0)) == left.index(max(left))
    closeness = [
        abs(Fraction(got) - value) <= abs(value) / 2**48
        for got, value in zip(system.decode_float64(a).tolist(), left, strict=True)
    ]
    assert all(closeness)


def test_down_is_towards_minus_infinity() -> None:
    system = FixedDown(n=10, k=1)
    tenth, minus = system.encode(Fraction(1, 10)), system.encode(Fraction(-1, 10))
    assert listed(system, system.multiply(tenth, tenth)) == [0]
    assert listed(system, system.multiply(tenth, minus)) == [Fraction(-1, 10)]
    assert listed(system, system.divide(minus, system.encode(10))) == [Fraction(-1, 10)]
    assert listed(system, system.divide(tenth, system.encode(-10))) == [Fraction(-1, 10)]


def test_ties_go_to_the_even_multiple_on_both_sides_of_zero() -> None:
    system = FixedNearest(p=9)
    half = system.encode(Fraction(1, 2))
    for steps, want in ((1, 0), (3, 2), (5, 2), (7, 4), (-1, 0), (-3, -2), (-5, -2), (-7, -4)):
        product = system.multiply(system.encode(Fraction(steps, 16)), half)
        assert listed(system, product) == [Fraction(want, 16)]


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_exp_is_the_true_value_rounded(system: Fixed) -> None:
    step = step_of(system)
    values = members(system, 40, 5) + members(system, 120, 6, spread=60)
    root = math.isqrt(int(1 / step))
    near_zero = [
        sign * d * step for d in (root // 2 - 1, root // 2, root // 2 + 1, root, root * 2) for sign in (-1, 1)
    ]
    edge = math.log(1 / step)
    near_one_step = [rounded(system, Fraction(-edge)) + d * step for d in (-2, -1, 0, 1, 2)]
    values = [rounded(system, value) for value in values + near_zero + near_one_step]
    assert listed(system, system.exp(system.encode(values))) == [
        rounded_exp(system, value) for value in values
    ]


@pytest.mark.parametrize("system", [FixedDown(n=1000, k=2), FixedNearest(p=41)], ids=str)
def test_exps_that_the_guard_bits_leave_open_are_settled_on_the_host(
    system: Fixed, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = members(system, 300, 7, spread=10)
    numbers = system.encode(values)
    want = [rounded_exp(system, value) for value in values]
    settled: list[int] = []
    settle = type(system)._true_exp

    def counted(self: Fixed, step: int) -> int:
        settled.append(step)
        return settle(self, step)

    monkeypatch.setattr(type(system), "_true_exp", counted)
    assert listed(system, system.exp(numbers)) == want
    assert settled == []
    monkeypatch.setattr("separatrix.precision.fixed.EXP_GUARD", 6)
    assert listed(system, system.exp(numbers)) == want
    assert len(settled) > 50


def test_host_raises_the_precision_until_it_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def vague_at_first(x: Fraction, bits: int) -> tuple[int, int]:
        asked.append(bits)
        low, high = exp_bounds(x, bits)
        return (low - (1 << bits), high + (1 << bits)) if len(asked) < 3 else (low, high)

    monkeypatch.setattr("separatrix.precision.fixed.exp_bounds", vague_at_first)
    system = FixedDown(n=2**20, k=2)
    assert Fraction(system._true_exp(system.one), system.one) == rounded_exp(system, Fraction(1))
    assert asked == [asked[0], 2 * asked[0], 4 * asked[0]]


@pytest.mark.parametrize("system", SOME, ids=str)
@pytest.mark.parametrize("rounding", RoundingPoints)
def test_matrix_products_round_where_they_are_told(system: Fixed, rounding: RoundingPoints) -> None:
    left, right = members(system, 3 * 7, 8), members(system, 7 * 2, 9)
    got = system.matmul(
        system.encode(left).reshape(3, 7), system.encode(right).reshape(7, 2), rounding=rounding
    )
    want = []
    for i, j in itertools.product(range(3), range(2)):
        products = [left[7 * i + k] * right[2 * k + j] for k in range(7)]
        if rounding is RoundingPoints.EVERY_STEP:
            products = [rounded(system, product) for product in products]
        want.append(rounded(system, sum(products, Fraction(0))))
    assert got.shape == (3, 2)
    assert listed(system, got) == want
    row, column = system.encode(left[:7]), system.encode(right[0:14:2])
    assert listed(system, system.dot(row, column, rounding=rounding)) == want[:1]


def test_rounded_products_are_summed_in_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    system = FixedDown(n=1000, k=1)
    left, right = members(system, 40, 10, spread=3), members(system, 40, 11, spread=3)
    monkeypatch.setattr("separatrix.precision.fixed.PRODUCTS_AT_ONCE", 7)
    got = system.dot(system.encode(left), system.encode(right), rounding=RoundingPoints.EVERY_STEP)
    products = [rounded(system, x * y) for x, y in zip(left, right, strict=True)]
    assert listed(system, got) == [rounded(system, sum(products, Fraction(0)))]


@pytest.mark.parametrize("system", SOME, ids=str)
@pytest.mark.parametrize("at_once", [1, 7])
def test_a_running_total_is_as_wide_as_its_proof_and_no_wider(
    system: Fixed, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """|Σ| <= inner · limit at every chunk; the worst inputs reach it, and come back from it."""
    inner = 300
    proven = math.ceil(math.log2(system.limit)) + 9
    end = system.encode([system.largest])
    rows = system.encode([[1] * inner, [-1] * inner, [1] * 150 + [-1] * 149 + [1]])
    widest = 0
    add = Integers.__add__

    def measured(self: Integers, other: Integers | int) -> Integers:
        nonlocal widest
        total = add(self, other)
        widest = max(widest, total.bits)
        return total

    monkeypatch.setattr("separatrix.precision.fixed.PRODUCTS_AT_ONCE", 3 * at_once)
    products = system.multiply(rows, end).reshape(-1)
    assert set(listed(system, products)) == {system.largest, -system.largest}
    column = end.expand(inner).reshape(inner, 1)
    monkeypatch.setattr(Integers, "__add__", measured)
    total = system._sum_of_rounded_products(system._read(rows), system._read(column))
    limit = system.limit
    assert total.to_ints() == [inner * limit, -inner * limit, 2 * limit]
    assert total.bits == proven
    assert len(total.limbs) == (1 if proven <= 62 else math.ceil(proven / 28))
    # FixedNearest also adds while it rounds a product of twice the bits.
    assert widest <= max(proven + 1, 2 * math.ceil(math.log2(limit)) + 2)


@pytest.mark.parametrize("rounding", RoundingPoints)
@pytest.mark.parametrize("system", [FixedDown(n=16, k=2), Float64()], ids=str)
@pytest.mark.parametrize(
    ("left", "right"), [((2, 1), (3, 2)), ((2, 3), (1, 2)), ((2, 3), (4, 2)), ((3,), (3, 2))]
)
def test_matrices_that_do_not_fit_are_refused(
    system: NumberSystem, rounding: RoundingPoints, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        system.matmul(system.encode(torch.zeros(left)), system.encode(torch.zeros(right)), rounding=rounding)
    assert str(caught.value) == (
        f"A matrix product needs shapes (…, row, inner) and (…, inner, column); got {left} and {right}. "
        "Make the inner axes equal."
    )


@pytest.mark.parametrize("system", SOME, ids=str)
def test_sums_clamp_once_and_agree_with_any_order_when_nothing_is_negative(system: Fixed) -> None:
    values = [abs(value) for value in members(system, 12, 12)]
    numbers = system.encode(values)
    assert listed(system, system.sum(numbers, 0)) == [rounded(system, sum(values, Fraction(0)))]
    for order in (range(12), range(11, -1, -1)):
        total = system.encode(0)
        for i in order:
            total = system.add(total, numbers[i])
        assert listed(system, total) == listed(system, system.sum(numbers, 0))
    there_and_back = system.encode([system.largest, system.largest, -system.largest])
    assert listed(system, system.sum(there_and_back, 0)) == [system.largest]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedNearest(p=8), "W's numbers need an odd p from 3 to 399; got p=8. Try 9."),
        (lambda: FixedNearest(p=1), "W's numbers need an odd p from 3 to 399; got p=1. Try 3."),
        (lambda: FixedNearest(p=1000), "W's numbers need an odd p from 3 to 399; got p=1000. Try 399."),
        (
            lambda: FixedDown(n=1, k=1),
            "S's numbers need n >= 2 and k >= 1; got n=1, k=1. Take the length of the longest input as n.",
        ),
        (
            lambda: FixedDown(n=8, k=0),
            "S's numbers need n >= 2 and k >= 1; got n=8, k=0. Take the length of the longest input as n.",
        ),
        (
            lambda: FixedDown(n=2, k=10**12),
            "S's numbers are held up to 2·k·log2(n) = 400; got n=2, k=1000000000000. Take a smaller k.",
        ),
    ],
)
def test_impossible_systems_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidInput) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [5.5, 5.0, True, False, np.True_, "7", None, Fraction(7), torch.tensor(7)])
def test_parameters_are_whole_numbers(value: Any) -> None:
    makers: dict[str, Callable[[], Fixed]] = {
        "S's numbers need n": lambda: FixedDown(n=value, k=1),
        "S's numbers need k": lambda: FixedDown(n=2, k=value),
        "W's numbers need p": lambda: FixedNearest(p=value),
    }
    for opening, make in makers.items():
        with pytest.raises(InvalidInput) as caught:
            make()
        name = opening[-1]
        assert str(caught.value) == f"{opening} to be a whole number; got {name}={value!r}. Pass an int."


@pytest.mark.parametrize("system", [FixedDown(n=16, k=2), FixedNearest(p=21)], ids=str)
def test_what_is_no_number_is_refused(system: Fixed) -> None:
    for value in (torch.nan, torch.inf, -torch.inf):
        with pytest.raises(InvalidInput, match="got infinity or NaN"):
            system.encode(torch.tensor([1.0, value]))
    strange_values: tuple[object, ...] = (float("inf"), "1/2", None, [[1, 2], [3]], 1j, np.float32("inf"))
    strange_values += (np.longdouble("nan"), torch.tensor(torch.inf), torch.tensor(1j), np.complex64(1j))
    for strange in (*strange_values, torch.tensor(1j, requires_grad=True)):
        with pytest.raises(InvalidInput, match="encodes finite integers, fractions and floats; got"):
            system.encode([strange])
    for uneven in ([torch.zeros(2, 3), torch.zeros(2, 4)], [np.zeros((2, 3)), np.zeros((2, 4))]):
        with pytest.raises(InvalidInput, match="encodes rows of one length; got rows of several"):
            system.encode(uneven)
    with pytest.raises(InvalidInput, match="A divisor must not be 0"):
        system.divide(system.encode([1, 1]), system.encode([1, 0]))
    other = FixedDown(n=16, k=3)
    with pytest.raises(InvalidInput, match=r"was given numbers of FixedDown\(n=16, k=3\)"):
        system.add(system.encode(1), other.encode(1))


def test_numpy_parameters_do_not_wrap_around() -> None:
    system = FixedDown(n=np.int64(2**20), k=np.int64(4))  # type: ignore[arg-type]
    assert (system.one, system.limit) == (2**80, 2**160)
    assert FixedNearest(p=np.int64(121)).limit == 2**120 - 1  # type: ignore[arg-type]


@pytest.mark.parametrize("system", [FixedDown(n=2**20, k=9), FixedNearest(p=399)], ids=str)
def test_the_widest_systems_are_exact_too(system: Fixed) -> None:
    left, right = members(system, 40, 13), [value or Fraction(1) for value in members(system, 40, 14)]
    a, b = system.encode(left), system.encode(right)
    pairs = list(zip(left, right, strict=True))
    assert listed(system, system.multiply(a, b)) == [rounded(system, x * y) for x, y in pairs]
    assert listed(system, system.divide(a, b)) == [rounded(system, x / y) for x, y in pairs]
    floats = [1e-60, -1e-60, math.pi, -1e40]
    assert listed(system, system.encode(torch.tensor(floats, dtype=torch.float64))) == [
        rounded(system, Fraction(value)) for value in floats
    ]
    third = system.softmax(system.encode([0, 0, 0]))
    assert listed(system, third) == [rounded(system, Fraction(1, 3))] * 3
