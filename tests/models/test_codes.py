"""Codes against slow second definitions; what every code promises; specs, honest and hostile."""

from __future__ import annotations

import copy
import json
import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import InvalidFile, InvalidInput, TooLarge
from separatrix.models.explicit.codes import (
    Binary,
    Circle,
    Code,
    Digits,
    ExtendedBCH,
    Ladder,
    OneHot,
    RandomSign,
    Reciprocal,
    SignCode,
    Squares,
    code_from,
)

HUGE = 1 << 40

SMALL: tuple[Code, ...] = (
    OneHot(count=0),
    OneHot(count=5),
    Digits(count=1),
    Digits(count=6),
    Ladder(count=5),
    Ladder(count=5, first=7),
    Squares(count=5),
    Squares(count=5, first=7),
    Reciprocal(count=6),
    Reciprocal(count=6, first=3),
    Circle(modulus=1),
    Circle(modulus=12),
    Binary(count=0),
    Binary(count=1),
    Binary(count=6),
    RandomSign(count=6, dim=37, seed=5),
    ExtendedBCH(length=8, designed=3, count=0),
    ExtendedBCH(length=16, designed=5, count=1),
    ExtendedBCH(length=16, designed=5, count=6),
    ExtendedBCH(length=64, designed=23, count=40, one_sided=False),
)

LARGE: tuple[Code, ...] = (
    Digits(count=HUGE),
    Ladder(count=HUGE, first=HUGE),
    Reciprocal(count=HUGE, first=HUGE),
    Circle(modulus=HUGE),
    Binary(count=HUGE),
    RandomSign(count=HUGE, dim=100, seed=2**64 - 1),
    ExtendedBCH(length=256, designed=3, count=HUGE),
)


def names(code: Code) -> str:
    return f"{code.kind}-{code.count}"


def slow_row(code: Code, number: int) -> list[float]:
    """Entry by entry in Python, for the codes that spell a number out."""
    if not 0 <= number < code.count:
        return [0.0] * code.dim
    match code:
        case OneHot():
            return [float(place == number) for place in range(code.count)]
        case Digits():
            return [float(digit) for digit in reversed(f"{number:0{code.dim}b}")]
        case Ladder() | Squares():
            return [float((number + code.first) ** (2 if isinstance(code, Squares) else 1))]
        case Reciprocal():
            return [float(Fraction(1, number + code.first))]
        case Binary():
            return [1.0 if digit == "1" else -1.0 for digit in reversed(f"{number:0{code.dim}b}")]
    raise AssertionError(code)


SPELLED = (OneHot, Digits, Ladder, Squares, Reciprocal, Binary)


@pytest.mark.parametrize("code", [code for code in (*SMALL, *LARGE) if isinstance(code, SPELLED)], ids=names)
def test_spelled_rows_are_what_they_say(code: Code) -> None:
    middle = code.count // 3
    numbers = [-5, -1, 0, 1, 2, 3, 4, 5, 6, 7, middle, code.count - 1, code.count, code.count + 9]
    expected = torch.tensor([slow_row(code, number) for number in numbers], dtype=torch.float64)
    assert code.rows(torch.tensor(numbers)).equal(expected.view(len(numbers), code.dim))


@given(count=st.integers(1, HUGE), share=st.fractions(0, 1))
def test_any_size_is_spelled_right(count: int, share: Fraction) -> None:
    number = math.floor(share * (count - 1))
    for code in (Digits(count=count), Ladder(count=count), Reciprocal(count=count), Binary(count=count)):
        assert code.rows(torch.tensor(number)).tolist() == slow_row(code, number)
        assert code.parameters == 0


@pytest.mark.parametrize(
    ("count", "dim"), [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (1024, 10), (1025, 11), (HUGE, 40)]
)
def test_digits_are_as_many_as_needed(count: int, dim: int) -> None:
    assert Digits(count=count).dim == dim
    assert Binary(count=count).dim == dim


@pytest.mark.parametrize("code", SMALL, ids=names)
def test_every_code_keeps_the_promises(code: Code) -> None:
    numbers = torch.arange(-3, code.count + 3)
    rows = code.rows(numbers)
    inside = (numbers >= 0) & (numbers < code.count)
    assert rows.dtype == torch.float64
    assert rows.shape == (len(numbers), code.dim)
    assert not rows[~inside].any()
    assert not rows.signbit()[~inside].any()
    if isinstance(code, SignCode):
        assert (rows[inside].abs() == 1).all()
    for number, row in zip(numbers, rows, strict=True):
        assert code.rows(number).equal(row)
    shaped = code.rows(numbers[: len(numbers) // 2 * 2].view(2, -1))
    assert shaped.flatten(0, 1).equal(rows[: len(numbers) // 2 * 2])
    assert code.rows(numbers.to(torch.int32)).equal(rows)
    assert code.rows(numbers[:0]).shape == (0, code.dim)
    assert code.rows(numbers.flip(0)).equal(rows.flip(0))


@pytest.mark.parametrize("code", LARGE, ids=names)
def test_large_codes_keep_no_table(code: Code) -> None:
    numbers = torch.tensor([0, 1, HUGE - 1, HUGE, HUGE + 1, -1, -HUGE, 2**62])
    rows = code.rows(numbers)
    assert rows.shape == (8, code.dim)
    assert rows[:3].any(dim=1).tolist()[1:] == [True, True]
    assert not rows[3:].any()
    assert len({tuple(row) for row in rows[:3].tolist()}) == 3
    assert code.rows(numbers).equal(rows)


def test_every_number_up_to_its_end_has_its_own_vector() -> None:
    for code in SMALL:
        if code.count:
            rows = code.rows(torch.arange(code.count)).tolist()
            assert len({tuple(row) for row in rows}) == code.count


def test_what_is_no_whole_number_is_refused() -> None:
    for code in (*SMALL, *LARGE):
        with pytest.raises(InvalidInput, match=r"takes whole numbers; got a tensor of torch\.float32\. Try"):
            code.rows(torch.zeros(2))
        with pytest.raises(InvalidInput, match=r"takes whole numbers; got a tensor of torch\.bool"):
            code.rows(torch.zeros(2, dtype=torch.bool))


def test_a_one_hot_vector_has_its_limit() -> None:
    assert OneHot(count=1 << 16).rows(torch.tensor(65535))[-1] == 1
    with pytest.raises(TooLarge, match=r"up to 65536 numbers; this code has 65537\. Try Digits"):
        OneHot(count=(1 << 16) + 1).rows(torch.tensor(0))


def test_reciprocals_are_off_by_no_more_than_they_say() -> None:
    code = Reciprocal(count=3000)
    entries = code.rows(torch.arange(code.count)).flatten().tolist()
    errors = [abs(Fraction(entry) - Fraction(1, place + 1)) for place, entry in enumerate(entries)]
    assert code.error / 2 < max(errors) <= code.error


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 8, 13, 16, 31, 32])
def test_binary_distances_bound_all_pairs(count: int) -> None:
    code = Binary(count=count)
    assert code.distances() == {place: math.comb(code.dim, place) for place in range(1, code.dim + 1)}
    for number in range(count):
        seen = [(number ^ other).bit_count() for other in range(count) if other != number]
        assert all(seen.count(place) <= code.distances().get(place, 0) for place in seen)
        if count == 1 << code.dim:
            assert all(seen.count(place) == most for place, most in code.distances().items())
    assert code.coherence == max(Fraction(0), 1 - Fraction(2, code.dim))
    rows = code.rows(torch.arange(count))
    products = rows @ rows.T - 10 * code.dim * torch.eye(count)
    assert code.coherence == max(Fraction(0), Fraction(int(products.max()), code.dim))
    products += 10 * code.dim * torch.eye(count, dtype=torch.float64)
    products.fill_diagonal_(0)
    assert code.absolute_coherence == Fraction(int(products.abs().max()), code.dim)


def test_binary_codes_without_pairs_have_no_distances() -> None:
    for count in (0, 1):
        assert Binary(count=count).distances() == {}
        assert Binary(count=count).coherence == 0
        assert Binary(count=count).absolute_coherence == 0
    assert Binary(count=1024).coherence == Fraction(4, 5)


@pytest.mark.parametrize("code", [*SMALL, *LARGE], ids=names)
def test_specs_come_back(code: Code) -> None:
    written = json.dumps(code.spec())
    again = code_from(json.loads(written))
    assert again == code
    assert type(again) is type(code)
    assert hash(again) == hash(code)
    numbers = torch.arange(min(code.count, 64))
    assert again.rows(numbers).equal(code.rows(numbers))
    assert copy.deepcopy(code) == code


BCH = {"kind": "extended-bch", "length": 16, "designed": 5, "count": 9, "one_sided": True}
RANDOM = {"kind": "random-sign", "count": 9, "dim": 4, "seed": 0}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "is a JSON object"),
        ([], "is a JSON object"),
        ({}, "lacks the field 'kind'"),
        ({"kind": "two-hot"}, "'kind' of a code is one of one-hot digits .*; got 'two-hot'"),
        ({"kind": 3}, "must be text"),
        ({"kind": "one-hot"}, "lacks the field 'count'"),
        ({"kind": "digits", "count": -1}, "between 0 and"),
        ({"kind": "digits", "count": 1.0}, "must be a whole number"),
        ({"kind": "digits", "count": True}, "must be a whole number"),
        ({"kind": "digits", "count": "4"}, "must be a whole number"),
        ({"kind": "digits", "count": HUGE + 1}, "breaks a rule: A code of digits needs count between 0 and"),
        ({"kind": "one-hot", "count": HUGE + 1}, "breaks a rule: A one-hot code needs count"),
        ({"kind": "binary", "count": 10**29}, "breaks a rule: .* got a number of more than 20 digits"),
        ({"kind": "ladder", "count": 3, "first": HUGE + 1}, "breaks a rule: A ladder needs first"),
        ({"kind": "ladder", "count": 3}, "lacks the field 'first'"),
        ({"kind": "reciprocal", "count": 3, "first": 0}, "breaks a rule: .* needs first between 1 and"),
        ({"kind": "circle", "modulus": 0}, "breaks a rule: A circle needs modulus between 1 and"),
        ({"kind": "circle", "modulus": 3, "count": 3}, "does not know: 'count'"),
        ({"kind": "binary", "count": 3, "": 1}, "does not know: ''"),
        (RANDOM | {"dim": 0}, "breaks a rule: .* needs dim between 1 and 1048576; got 0"),
        (RANDOM | {"dim": 10**9}, "breaks a rule: .* needs dim between"),
        (RANDOM | {"seed": 1 << 64}, "breaks a rule: .* needs seed between 0 and 18446744073709551615"),
        (RANDOM | {"seed": -1}, "between 0 and"),
        (BCH | {"length": 15}, "breaks a rule: .* one of the lengths 8 16 32 64 128 256; got 15. Try 64"),
        (BCH | {"length": 10**29}, "breaks a rule: .* one of the lengths"),
        (BCH | {"designed": 0}, "breaks a rule: .* needs designed between 1 and 15; got 0"),
        (BCH | {"designed": 16}, "breaks a rule: .* needs designed between 1 and 15; got 16"),
        (BCH | {"count": 129}, "breaks a rule: .* has 128 words to use; got count=129. Try"),
        (BCH | {"count": 65, "one_sided": False}, "breaks a rule: .* has 64 words to use; got count=65"),
        (BCH | {"one_sided": 1}, "'one_sided' of a code must be true or false"),
        (BCH | {"one_sided": None}, "'one_sided' of a code must be true or false"),
        (BCH | {"dim": 16}, "does not know: 'dim'"),
        ({"kind": "x" * 30_000}, "may have 20000 characters"),
    ],
)
def test_hostile_specs_are_refused_with_a_sentence(data: Any, message: str) -> None:
    with pytest.raises(InvalidFile, match=message) as caught:
        code_from(data)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Binary(count=True), "A binary code needs count as a whole number; got bool"),
        (lambda: Binary(count=4.0), "needs count as a whole number; got float"),  # type: ignore[arg-type]
        (lambda: ExtendedBCH(length=64.0, designed=5, count=1), "one of the lengths"),  # type: ignore[arg-type]
        (lambda: ExtendedBCH(length=16, designed=5, count=1, one_sided=1), "True or False; got 1"),  # type: ignore[arg-type]
        (lambda: ExtendedBCH.whole(length=256, designed=3), "needs count between 0 and 1099511627776"),
        (lambda: Circle(modulus=-3), "A circle needs modulus between 1 and 1099511627776; got -3"),
    ],
)
def test_wrong_use_is_met_with_a_sentence(make: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()
