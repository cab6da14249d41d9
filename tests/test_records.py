"""Records: hostile text is refused, JSON values compare as JSON, exact numbers come back."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.record_checks import require_measured
from separatrix.records import Reader, exact_from_text, exact_to_text, freeze, parse_json, same_json, thaw


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "repeats a field name"),
        ('{"a": NaN}', "NaN, which is no JSON number"),
        ('{"a": -Infinity}', "-Infinity"),
        ("1e400", "1e400, which is beyond every float"),
        ('{"a": [-1e999]}', "-1e999, which is beyond every float"),
        ("1" * 400 + ".5", "1{40}…, which is beyond every float"),
        ("{", "is not JSON"),
        ("[" * 100_000 + "]" * 100_000, "nested"),
        ("[" * 40 + "]" * 40, "nested deeper than 32"),
        ("9" * 5000, "has a whole number of more than 4,300 digits, beyond every count"),
        (b"\xff\xfe\x00", "is not JSON"),
    ],
)
def test_hostile_text_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        parse_json(text)


def test_text_over_the_limit_is_refused() -> None:
    with pytest.raises(InvalidFile, match="may have 10 bytes; it has 11"):
        parse_json("[1,2,3,4,5]", most_bytes=10)


def test_ordinary_numbers_are_read() -> None:
    assert parse_json("[1.5, -2, 1e3, 1e-400]") == [1.5, -2, 1000.0, 0.0]
    assert parse_json("1e308") == 1e308


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (0.0, -0.0, True),
        (10**30, 1e30, False),
        (2**80, 2.0**80, True),
        (True, True, True),
        (None, False, False),
        ("1", 1, False),
        ([1, [2.0]], (1.0, (2,)), True),
        ([1], [1, 2], False),
        ([1], 1, False),
        ([], {}, False),
        ({"a": 1, "b": [0]}, {"b": [0.0], "a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": None}, {"b": None}, False),
        ({"a": None}, {}, False),
    ],
)
def test_values_compare_as_json(first: object, second: object, same: bool) -> None:
    assert same_json(first, second) is same
    assert same_json(second, first) is same
    frozen = freeze({"x": first}), freeze({"x": second})
    assert (frozen[0] == frozen[1]) is same
    if same:
        assert hash(frozen[0]) == hash(frozen[1])


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 0.5]) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(values)
def test_frozen_values_copy_pickle_and_thaw(value: object) -> None:
    frozen = freeze(value)
    for again in (copy.copy(frozen), copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):  # noqa: S301
        assert same_json(again, frozen)
        assert hash(again) == hash(frozen)
        assert thaw(again) == thaw(frozen) == value


def test_frozen_mappings_behave_as_mappings() -> None:
    frozen = freeze({"b": 1, "a": [2]})
    assert isinstance(frozen, Mapping)
    assert frozen == {"a": (2,), "b": 1}
    assert {"a": [2], "b": 1.0}.__eq__(frozen) is NotImplemented
    assert frozen == {"a": [2], "b": 1.0}
    assert repr(frozen) == "{'b': 1, 'a': (2,)}"
    with pytest.raises(TypeError, match="item assignment"):
        frozen["b"] = 2  # type: ignore[index]


@given(st.fractions())
def test_exact_numbers_come_back(number: Fraction) -> None:
    assert exact_from_text(exact_to_text(number)) == number


@pytest.mark.parametrize("sign", ["", "-"])
def test_the_digit_limit_leaves_the_sign_out(sign: str) -> None:
    for text in (f"{sign}{'9' * 2000}", f"{sign}1/{'9' * 2000}", f"{sign}{'9' * 2000}/{'9' * 1999}8"):
        assert exact_from_text(text) == Reader({"x": text}, what="it").exact("x") == Fraction(text)
    for text in (f"{sign}{'9' * 2001}", f"{sign}1/{'9' * 2001}"):
        assert exact_from_text(text) is None


def test_measured_numbers_are_finite() -> None:
    assert require_measured("It", "time", 3) == 3.0
    for value in (10**400, float("inf"), float("nan"), "3", None, True, -1, -0.5):
        with pytest.raises(InvalidInput, match="It needs time as a finite number of at least 0; got"):
            require_measured("It", "time", value)
