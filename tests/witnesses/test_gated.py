"""Gadgets of the gated feed-forward map against plain Python, and weights of W's that are not right."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.models.explicit.linear import Affine, FeedForward
from separatrix.precision import Float64, system_named
from separatrix.tasks import task
from separatrix.witnesses.language import Field, LayerScript, Program, Symbolic, build, joined
from separatrix.witnesses.language.forms import as_linear
from separatrix.witnesses.language.gated import interval, linear_map, product, table, threshold, when

REACH = 30
whole = st.integers(-REACH, REACH)


def program_of(
    write: Callable[[LayerScript, Field, Field], Field], *, low: int = -REACH, high: int = REACH
) -> Program:
    """One gadget that reads x, within [low, high], and the pair y."""
    program = Program(task("nearest-neighbour", n=4), causal=True, gated=True, longest=1)
    x = program.reals("x", [1], low=low, high=high)
    y = program.reals("y", [2, 3], low=-REACH, high=REACH)
    with program.layer() as layer:
        program.answer_vector(write(layer, x, y))
    return program


def values(program: Program, x: int, y: tuple[int, int]) -> list[list[Fraction]]:
    """What it gives symbolically, in float64 and in fixed point."""
    row = torch.zeros(1, 1, 18, dtype=torch.float64)
    row[0, 0, :4] = torch.tensor([1, x, *y])
    found = [[Fraction(value or 0) for value in Symbolic().outputs(program, row[0])[0]]]
    for arithmetic in ("float64", "nearest:33"):
        system = system_named(arithmetic)
        outputs = build(program, system).model.outputs(row)
        found.append([Fraction(value) for value in system.decode(outputs)[0, 0].tolist()])
    return found


def agrees(program: Program, x: int, y: tuple[int, int], wanted: list[int]) -> None:
    assert values(program, x, y) == [[Fraction(value) for value in wanted]] * 3


def width(program: Program) -> int:
    return sum(len(gadget.units) for gadget in program.layers[0].gadgets)


@pytest.mark.slow
@given(x=whole, y=st.tuples(whole, whole))
@settings(max_examples=40, deadline=None)
def test_products(x: int, y: tuple[int, int]) -> None:
    program = program_of(lambda layer, a, b: product(layer, "xy", a, b, -900, 900))
    agrees(program, x, y, [x * y[0], x * y[1]])
    assert width(program) == 4


@pytest.mark.slow
@pytest.mark.parametrize(("low", "high", "units"), [(0, 9, 1), (-9, 0, 1), (-9, 9, 2), (0, 0, 1)])
def test_products_leave_out_what_the_range_excludes(low: int, high: int, units: int) -> None:
    program = program_of(lambda layer, a, b: product(layer, "xy", a, b[0], -900, 900), low=low, high=high)
    assert width(program) == units
    for x in range(low, high + 1):
        agrees(program, x, (7, 0), [7 * x])


@given(x=whole, y=st.tuples(whole, whole))
@settings(max_examples=10, deadline=None)
def test_linear_maps(x: int, y: tuple[int, int]) -> None:
    program = program_of(
        lambda layer, a, b: linear_map(layer, "map", joined([2 * a - b[0] + 3, b[1]]), -200, 200)
    )
    agrees(program, x, y, [2 * x - y[0] + 3, y[1]])
    assert width(program) == 2


@pytest.mark.parametrize(
    ("low", "high", "equals", "units"),
    [
        (-5, 5, 2, 3),
        (0, 5, 5, 1),
        (0, 5, 0, 1),
        (0, 1, 1, 1),
        (0, 1, 0, 1),
        (3, 3, 3, 1),
        (0, 4, 9, 1),
        (5, 9, 2, 1),
    ],
)
def test_conditions_on_a_number(low: int, high: int, equals: int, units: int) -> None:
    program = program_of(lambda layer, a, b: when(layer, "when", a, equals, b, -30, 30), low=low, high=high)
    assert width(program) == 2 * units
    for x in range(low, high + 1):
        agrees(program, x, (-7, 30), [-7, 30] if x == equals else [0, 0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("least", "most", "units"),
    [(-2, 3, 4), (0, 0, 3), (-6, 3, 3), (-6, -6, 1), (6, 6, 1), (-2, 6, 2), (-9, -5, 3), (-9, 9, 1)],
)
def test_intervals(least: int, most: int, units: int) -> None:
    program = program_of(
        lambda layer, a, b: interval(layer, "in", a, least, most, -30, 30, then=b[0]), low=-6, high=6
    )
    assert width(program) == units
    for x in range(-6, 7):
        agrees(program, x, (11, 0), [11 if least <= x <= most else 0])


@pytest.mark.parametrize("edge", [-6, -5, -2, 0, 5, 6, 7])
def test_thresholds(edge: int) -> None:
    program = program_of(lambda layer, a, _: threshold(layer, "over", a, edge), low=-6, high=6)
    assert width(program) <= 2
    for x in range(-6, 7):
        agrees(program, x, (0, 0), [int(x >= edge)])


def test_an_interval_goes_up() -> None:
    with pytest.raises(InvalidInput, match="An interval goes up; got 3 to 2"):
        program_of(lambda layer, a, _: interval(layer, "in", a, 3, 2))


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    seed=st.integers(0, 2**32),
    spread=st.integers(0, REACH),
)
@settings(max_examples=12, deadline=None)
def test_tables_over_several_numbers(sizes: list[int], seed: int, spread: int) -> None:
    draw = random.Random(seed)
    keys = list(itertools.product(*map(range, sizes)))
    known = {key: (draw.randint(-spread, spread), draw.randint(-spread, spread)) for key in keys}
    program = Program(task("nearest-neighbour", n=4), causal=True, gated=True, longest=1)
    columns = [program.reals(f"x{i}", [1 + i], low=0, high=size - 1) for i, size in enumerate(sizes)]
    with program.layer() as layer:
        program.answer_vector(table(layer, "entry", columns, lambda *key: known[key], sizes=sizes))
    assert width(program) <= max(1, len(keys) - 1)
    model = build(program, Float64()).model
    rows = torch.zeros(len(keys), 1, 18, dtype=torch.float64)
    rows[:, 0, 0] = 1
    rows[:, 0, 1 : 1 + len(sizes)] = torch.tensor(keys, dtype=torch.float64)
    assert Float64().decode(model.outputs(rows))[:, 0].tolist() == [list(known[key]) for key in keys]
    for key, row in zip(keys[-3:], rows[-3:], strict=True):
        assert list(Symbolic().outputs(program, row)[0]) == [Fraction(value) for value in known[key]]


def test_tables_ask_for_a_size_of_each_number() -> None:
    with pytest.raises(InvalidInput, match="got 1 numbers and the sizes"):
        program_of(lambda layer, a, _: table(layer, "entry", [a], lambda x: x, sizes=(2, 2)))


def test_what_is_no_whole_number_has_no_meaning() -> None:
    program = program_of(
        lambda layer, a, b: when(layer, "when", as_linear(a) * Fraction(1, 2), 1, b, -30, 30)
    )
    row = torch.zeros(1, 18, dtype=torch.float64)
    row[0, :3] = torch.tensor([1, 3, 5])
    assert Symbolic().outputs(program, row)[0] == (None, None)


# The weights that W prints, in W's form W3 (ReLU(W1 x + b1) ⊗ (W2 x + b2)) + b3


def gated_map(
    first: list[list[float]],
    first_bias: list[float],
    second: list[list[float]],
    second_bias: list[float],
    last: list[float],
    last_bias: float = 0.0,
) -> Callable[..., float]:
    def affine(matrix: list[list[float]], bias: list[float]) -> Affine:
        return Affine(
            matrix=torch.tensor(matrix, dtype=torch.float64), bias=torch.tensor(bias, dtype=torch.float64)
        )

    psi = FeedForward(
        kind="reglu",
        maps=(affine(first, first_bias), affine(second, second_bias), affine([last], [last_bias])),
    )

    def value(*x: float) -> float:
        system = Float64()
        image = psi(system, system.encode(torch.tensor([x], dtype=torch.float64)))
        return float(system.decode_float64(image)[0, 0])

    return value


def test_the_printed_product_takes_the_size_of_its_first_factor() -> None:
    """C.1 gates both units with x₂; the second must be gated with −x₂."""
    nothing = [0.0, 0.0]
    printed = gated_map([[1, 0], [-1, 0]], nothing, [[0, 1], [0, 1]], nothing, [1, 1])
    right = gated_map([[1, 0], [-1, 0]], nothing, [[0, 1], [0, -1]], nothing, [1, 1])
    pairs = list(itertools.product(range(-4, 5), repeat=2))
    assert [printed(a, b) for a, b in pairs] == [abs(a) * b for a, b in pairs]
    assert [right(a, b) for a, b in pairs] == [a * b for a, b in pairs]
    assert any(printed(a, b) != a * b for a, b in pairs)


@pytest.mark.parametrize("signs", list(itertools.product((1, -1), repeat=4)))
@pytest.mark.parametrize("factor", [1, 10])
def test_the_indicator_of_four_units_has_one_last_map(signs: tuple[int, ...], factor: int) -> None:
    """C.3: units that bend at 0 and 0.1 on either side tell 0 from the rest with 10·(1, −1, 1, −1) alone."""
    ones = [1.0] * 4
    made = gated_map(
        [[1], [1], [-1], [-1]], [0.1, 0, 0.1, 0], [[0]] * 4, ones, [float(factor * s) for s in signs], -1.0
    )
    right = all(abs(made(u) - (u == 0)) < 1e-9 for u in range(-5, 6))
    assert right == (factor == 10 and signs == (1, -1, 1, -1))


@pytest.mark.parametrize("epsilon", [0.5, 0.25])
def test_the_threshold_rises_by_one_within_its_margin(epsilon: float) -> None:
    """C.5: two units that bend ε/2 apart need 2/ε·(1, −1); with (1, −1) alone the step is ε/2 high."""

    def made(factor: float) -> Callable[..., float]:
        return gated_map([[1], [1]], [0, -epsilon / 2], [[0]] * 2, [1.0] * 2, [factor, -factor])

    right, flat = made(2 / epsilon), made(1)
    for u in range(-5, 6):
        assert right(u) == (u > 0)
        assert flat(u) == (u > 0) * epsilon / 2
