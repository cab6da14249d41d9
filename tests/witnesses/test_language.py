"""The weight language: forms, gadgets and programs against plain definitions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.models.explicit.codes import Binary, Digits, OneHot
from separatrix.models.explicit.positions import Own
from separatrix.models.explicit.transformer import Transformer
from separatrix.precision import FixedNearest, Float64
from separatrix.tasks.equality import Equality
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.witnesses.language import (
    Program,
    Rival,
    Symbolic,
    address_rivals,
    build,
    constant,
    joined,
    total,
)
from separatrix.witnesses.language import gadgets as g
from separatrix.witnesses.language.build import feed_forward, lay_out
from separatrix.witnesses.language.forms import Field, Linear, as_linear
from separatrix.witnesses.language.operations import Gadget, Undecided
from separatrix.witnesses.language.scales import least_scale

Numbers = tuple[Fraction | int, ...]


def field(name: str, dim: int = 1, low: int = -100, high: int = 100) -> Field:
    return Field(name=name, dim=dim, low=Fraction(low), high=Fraction(high), note="")


def value(form: Linear, held: Mapping[Field, Numbers]) -> Numbers:
    return tuple(v for v in Symbolic().form(form, dict(held)) if v is not None)


def by_units(gadget: Gadget, held: Mapping[Field, Numbers]) -> Numbers:
    """mix·ReLU(units) + offset, in fractions."""
    hidden = [max(Fraction(0), number) for unit in gadget.units for number in value(unit.form, held)]
    return tuple(
        offset + sum((c * h for c, h in zip(row, hidden, strict=True)), Fraction(0))
        for row, offset in zip(gadget.mix, gadget.offset, strict=True)
    )


def by_meaning(gadget: Gadget, held: Mapping[Field, Numbers]) -> Numbers:
    return gadget.meaning([tuple(map(Fraction, value(form, held))) for form in gadget.inputs])


def result(dim: int) -> Field:
    return field("result", dim)


X, Y = field("x"), field("y")
Maker = Callable[[Callable[[int], Field]], Gadget]
BITS = [field(f"b{i}", low=0, high=1) for i in range(3)]


def test_forms_are_linear() -> None:
    pair = field("pair", 2)
    held = {X: (Fraction(3),), Y: (Fraction(5),), pair: (Fraction(1, 2), Fraction(7))}
    assert value(2 * X - Y + 1, held) == (2,)
    assert value(1 - X, held) == (-2,)
    assert value(joined([X, pair[1], 4]), held) == (3, 7, 4)
    assert value(total(pair), held) == (Fraction(15, 2),)
    assert value(as_linear(pair) * Fraction(1, 2) + constant([1, 2]), held) == (
        Fraction(5, 4),
        Fraction(11, 2),
    )
    assert (X - Y).bounds() == [(Fraction(-200), Fraction(200))]
    assert (3 * X - Y).gain(X) == 3
    assert str(2 * X - Y + 1) == "2·x − y + 1"


@pytest.mark.parametrize(
    ("make", "numbers"),
    [
        (lambda r: g.step(r, X, off=0, on=1), (-3, 0, 1, 5)),
        (lambda r: g.step(r, X, off=-2, on=Fraction(1, 2)), (-3, -2, Fraction(1, 2), 5)),
        (lambda r: g.indicator(r, X, 4), range(-9, 20)),
        (lambda r: g.indicator(r, X, 4, noise=True), range(-9, 20)),
        (lambda r: g.lookup(r, X, (5, 5, 7, 0, 0, 0, -1)), range(7)),
        (lambda r: g.lookup(r, X, (3,)), range(1)),
        (lambda r: g.copied(r, X), (-2, 0, 3)),
    ],
)
def test_a_gadget_of_one_number_does_what_it_means(make: Maker, numbers: Sequence[int | Fraction]) -> None:
    gadget = make(result)
    for number in numbers:
        held = {X: (Fraction(number),)}
        assert by_units(gadget, held) == by_meaning(gadget, held)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [lambda r: g.step(r, X, off=0, on=1), lambda r: g.indicator(r, X, 2, noise=True)]
)
@given(noise=st.fractions(min_value=Fraction(-1, 4), max_value=Fraction(1, 4)), number=st.integers(-1, 6))
@settings(max_examples=60, deadline=None)
def test_noise_within_the_tolerance_changes_nothing(make: Maker, noise: Fraction, number: int) -> None:
    gadget = make(result)
    assert gadget.tolerance == Fraction(1, 4)
    assert by_units(gadget, {X: (number + noise,)}) == by_meaning(gadget, {X: (Fraction(number),)})


def test_noise_beyond_the_tolerance_does() -> None:
    gadget = g.step(result, X, off=0, on=1)
    assert by_units(gadget, {X: (Fraction(3, 10),)}) not in [(0,), (1,)]
    with pytest.raises(Undecided):
        by_meaning(gadget, {X: (Fraction(3, 10),)})


@pytest.mark.parametrize("table", list(itertools.product((0, 1), repeat=4)))
def test_every_table_of_two_bits(table: tuple[int, ...]) -> None:
    gadget = g.truth_table(result, BITS[:2], table)
    for first, second in itertools.product((0, 1), repeat=2):
        held = {BITS[0]: (Fraction(first),), BITS[1]: (Fraction(second),)}
        assert by_units(gadget, held) == by_meaning(gadget, held) == (table[2 * first + second],)


@pytest.mark.slow
def test_a_table_that_is_a_field() -> None:
    entries = field("entries", 8, 0, 1)
    gadget = g.truth_table(result, BITS, entries)
    for number in range(256):
        table = tuple(Fraction(number >> i & 1) for i in range(8))
        for bits in itertools.product((0, 1), repeat=3):
            held = {entries: table} | {b: (Fraction(v),) for b, v in zip(BITS, bits, strict=True)}
            assert by_units(gadget, held) == (table[4 * bits[0] + 2 * bits[1] + bits[2]],)


@pytest.mark.slow
@given(
    x=st.sampled_from([-1, 1]),
    r=st.sampled_from([-1, 1]),
    noise=st.fractions(-Fraction(1, 2), Fraction(1, 2)),
)
def test_differs(x: int, r: int, noise: Fraction) -> None:
    gadget = g.differs(result, X, Y, apart=2)
    assert by_units(gadget, {X: (Fraction(x),), Y: (r + noise,)}) == (int(x != r),)


def test_either() -> None:
    many = field("many", 4, 0, 1)
    gadget = g.either(result, many)
    for bits in itertools.product((0, 1), repeat=4):
        assert by_units(gadget, {many: tuple(map(Fraction, bits))}) == (int(any(bits)),)


def test_gadgets_behind_gadgets_share_one_map() -> None:
    """(x ≥ 1) xor (y ≥ 1), and x ≥ 1 itself, in one feed-forward map of two hidden layers."""
    task = IndexLookup(n=2, alphabet=2)
    program = Program(task)
    x = program.token("x", block="symbol", code=Digits(count=2))
    y = program.flag("y", {"index": 1})
    with program.layer() as layer:
        layer.average("mean", x)
        first = layer.step("first", x, off=0, on=1)
        second = layer.step("second", y, off=0, on=1)
        layer.xor("xor", first, second)
    program.answer_scores(first)
    epochs = lay_out(program)
    psi = feed_forward(program.layers[0].gadgets, epochs[1], epochs[2])
    assert len(psi.maps) == 3
    for a, b in itertools.product((0.0, 1.0), repeat=2):
        stream = torch.zeros(1, epochs[1].width, dtype=torch.float64)
        stream[0, epochs[1].places[x]], stream[0, epochs[1].places[y]] = a, b
        image = psi(Float64(), Float64().encode(stream)).parts[0][0]
        found = {f.name: float(image[place]) for f, place in epochs[2].places.items()}
        assert (found["first"], found["second"], found["xor"]) == (a, b, float(a != b))


def test_scales_are_the_least_that_do() -> None:
    rivals = (Rival(gap=Fraction(2), count=10), Rival(gap=Fraction(4), count=45))
    scale = float(least_scale(rivals, Fraction(1, 4), Float64()))

    def share(at: float) -> float:
        mass = 10 * np.exp(-2 * at) + 45 * np.exp(-4 * at)
        return float(mass / (1 + mass))

    assert share(scale) <= 0.25 < share(scale - 1 / 32)
    fixed = FixedNearest(p=15)
    scale = float(least_scale(rivals, Fraction(1, 4), fixed))
    half = float(fixed.smallest) / 2
    assert np.exp(-2 * scale) < half <= np.exp(-2 * (scale - 1 / 16))


def test_fields_start_afresh_where_nothing_old_is_needed() -> None:
    task = IndexLookup(n=8, alphabet=4)
    code = Binary(count=8)
    program = Program(task)
    symbol = program.token("symbol", block="symbol", code=Digits(count=4))
    wanted = program.token("wanted", block="index", code=code)
    address = program.position("address", Own(), code, on=("symbol",))
    with program.layer() as layer:
        found = layer.select("found", match=[(wanted, address)], value=symbol, rivals=address_rivals(code))
        clean = layer.step("clean", found, off=0, on=1)
    program.answer_code(2 * clean - 1, code=Binary(count=4))
    model = build(program, Float64()).model
    assert [model.inputs.width, model.layers[0].output.shape[0], model.layers[0].out] == [8, 2, 2]
    assert isinstance(model, Transformer)
    assert not model.layers[0].attention_residual


def test_a_constant_in_a_head_becomes_a_field_that_is_one_everywhere() -> None:
    program = Program(Equality(n=4))
    symbol = program.token("symbol", block="symbol", code=OneHot(count=2))
    with program.layer() as layer:
        found = layer.select(
            "found",
            match=[(constant([1]), symbol[1])],
            value=symbol,
            rivals=[Rival(gap=Fraction(1), count=4)],
        )
        layer.step("clean", found, off=0, on=1)
    program.answer_scores(layer.gadgets[-1].result)
    assert "one" in [source.field.name for source in program.sources]
    row = Equality(n=4).parse("1 0 [SEP] 0 0")
    held = Symbolic().run(program, row)
    assert held[2][found] == (0, 1)


def test_programs_that_cannot_be_are_refused() -> None:
    task = IndexLookup(n=4, alphabet=2)
    program = Program(task)
    with pytest.raises(SeparatrixError, match="no block of tokens in index-lookup, for the field x, 'sym'"):
        program.token("x", block="sym", code=Digits(count=2))
    with pytest.raises(InvalidInput, match="a layer and an answer"):
        build(program, Float64())
    x = program.token("x", block="symbol", code=Digits(count=2))
    with program.layer() as layer:
        found = layer.average("x", x)
    program.answer_scores(found)
    with pytest.raises(InvalidInput, match="two are called 'x'"):
        build(program, Float64())
