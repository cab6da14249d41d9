"""Names of number systems: there and back, and nothing else is a name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.precision import (
    FixedDown,
    FixedNearest,
    Float32,
    Float64,
    NumberSystem,
    name_of,
    system_named,
)

SYSTEMS = st.one_of(
    st.sampled_from([Float64(), Float32()]),
    st.builds(FixedDown, n=st.integers(2, 1024), k=st.integers(1, 20)),
    st.builds(FixedNearest, p=st.integers(1, 199).map(lambda half: 2 * half + 1)),
)


@given(SYSTEMS)
def test_there_and_back(system: NumberSystem) -> None:
    assert system_named(name_of(system)) == system


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("float64", Float64()),
        ("float32", Float32()),
        ("down:1024,2", FixedDown(n=1024, k=2)),
        ("nearest:17", FixedNearest(p=17)),
    ],
)
def test_the_names(name: str, system: NumberSystem) -> None:
    assert name_of(system) == name
    assert system_named(name) == system


@pytest.mark.parametrize(
    "name",
    [
        *("", "float16", "Float64", " float64", "float64\n", "down", "down:2", "down:2,", "down:02,1"),
        *("down:2,1,1", "down:-2,1", "down:2,0", "down:٣,1", "down:1e3,2", "down:9999999999,1"),
        *("nearest:", "nearest:1.5", "nearest:99999", "x" * 10_000),
    ],
)
def test_no_names(name: str) -> None:
    with pytest.raises(InvalidInput, match="An arithmetic is float64, float32, down:N,K") as error:
        system_named(name)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("down:1,1", "S's numbers need n >= 2"),
        ("down:999999999,999", "S's numbers"),
        ("nearest:16", "W's numbers need an odd p from 3 to 399; got p=16"),
        ("nearest:9999", "W's numbers need an odd p from 3 to 399; got p=9999"),
    ],
)
def test_names_of_systems_that_are_refused(name: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(words)):
        system_named(name)


@given(st.text(max_size=12))
def test_any_text_is_a_system_or_a_sentence(text: str) -> None:
    try:
        assert name_of(system_named(text)) == text
    except InvalidInput:
        return
