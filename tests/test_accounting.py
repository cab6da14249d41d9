"""Sizes: hand-computed counts, honest state, exact JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.accounting import Size, StatePart, kv_cache, recurrent_state
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.records import parse_json


def gpt2(**changes: Any) -> Size:
    """GPT-2 as it is published: 12 layers of width 768, 50257 words, 1024 learned positions, in 16 bits."""
    layer = 2 * 2 * 768 + (768 * 2304 + 2304) + (768 * 768 + 768) + (768 * 3072 + 3072) + (3072 * 768 + 768)
    fields: dict[str, Any] = {
        "width": 768,
        "ffn_width": 3072,
        "layers": 12,
        "heads": 12,
        "precision_bits": 16,
        "parameters_without_embeddings": 12 * layer + 2 * 768,
        "embedding_parameters": (50257 + 1024) * 768,
        "state": (kv_cache(layers=12, heads=12, head_width=64, precision_bits=16),),
        "source": "GPT-2's published configuration",
    }
    return Size(**(fields | changes))


def test_gpt2_parameters_both_ways() -> None:
    size = gpt2()
    assert size.parameters == 124_439_808
    assert size.parameters_without_embeddings == 85_056_000
    assert size.parameter_bits == 124_439_808 * 16
    assert size.parameter_bits_without_embeddings == 1_360_896_000


def test_gpt2_cache_is_36_mebibytes_at_1024() -> None:
    size = gpt2()
    assert size.state_bits(0) == 0
    assert size.state_bits(1) == 294_912
    assert size.state_bits(1024) == 36 * 2**20 * 8
    assert size.most_state_bits is None
    assert size.bounded_state_bits == 0


def test_grouped_queries_and_a_window() -> None:
    """Mistral-7B: 32 layers, 8 key heads of 128, window 4096, 16 bits: 512 MiB at most."""
    part = kv_cache(layers=32, heads=8, head_width=128, precision_bits=16, window=4096)
    assert part.bits(4095) == part.bits_per_position * 4095
    assert part.bits(4096) == part.bits(10**6) == part.most_bits == 512 * 2**20 * 8


def test_hybrid_state_adds_up() -> None:
    """Two full layers, four windowed ones, and a recurrent state in 32 bits."""
    size = gpt2(
        state=(
            kv_cache(layers=2, heads=4, head_width=64, precision_bits=16, name="full cache"),
            kv_cache(layers=4, heads=4, head_width=64, precision_bits=16, window=100, name="local cache"),
            recurrent_state(numbers=1000, precision_bits=32),
        )
    )
    full, local, fixed = 2 * 2 * 4 * 64 * 16, 2 * 4 * 4 * 64 * 16, 32_000
    assert size.state_bits(10) == full * 10 + local * 10 + fixed
    assert size.state_bits(5000) == full * 5000 + local * 100 + fixed
    assert size.most_state_bits is None
    assert size.bounded_state_bits == local * 100 + fixed


def test_recurrent_state_does_not_grow() -> None:
    size = gpt2(heads=0, state=(recurrent_state(numbers=128, precision_bits=64),))
    assert size.state_bits(1) == size.state_bits(10**9) == size.most_state_bits == 8192


def test_table_has_units_both_counts_and_the_source() -> None:
    text = gpt2(gates_per_step=12345).table(n=1024)
    for piece in (
        "124,439,808 numbers",
        "85,056,000 numbers",
        "301,989,888 bits",
        "12,345 gates a step",
        "source: GPT-2's",
    ):
        assert piece in text
    assert text.splitlines()[:2] == [
        "width                                          768 numbers",
        "feed-forward width                           3,072 numbers",
    ]
    assert "key-value cache: 294,912 bits a position" in str(gpt2())
    assert all(unit for _, _, unit in gpt2().rows(n=5))


counts = st.integers(min_value=0, max_value=10**15)
positive = st.integers(min_value=1, max_value=10**15)
names = st.text(min_size=1, max_size=20).filter(lambda text: bool(text.strip()))
parts = st.builds(
    lambda name, fixed, per, window: StatePart(
        name=name, fixed_bits=fixed, bits_per_position=per, window=window if per else None
    ),
    names,
    counts,
    counts,
    st.none() | positive,
)
sizes = st.builds(
    Size,
    width=positive,
    ffn_width=counts,
    layers=positive,
    heads=counts,
    precision_bits=st.integers(1, 4096),
    parameters_without_embeddings=counts,
    embedding_parameters=counts,
    state=st.lists(parts, max_size=4, unique_by=lambda part: part.name).map(tuple),
    gates_per_step=st.none() | counts,
    source=names,
)


@given(sizes, st.integers(0, 10**9))
def test_json_round_trip_is_exact(size: Size, n: int) -> None:
    again = Size.from_json(parse_json(json.dumps(size.to_json())))
    assert again == size
    assert again.state_bits(n) == size.state_bits(n)


@given(parts, st.integers(0, 10**6), st.integers(0, 10**6))
def test_state_never_shrinks_and_keeps_its_limit(part: StatePart, n: int, more: int) -> None:
    assert part.bits(n) <= part.bits(n + more)
    assert part.most_bits is None or part.bits(n) <= part.most_bits


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "needs width as a whole number from 1"),
        ({"width": 1.5}, "needs width as a whole number"),
        ({"width": True}, "needs width as a whole number"),
        ({"heads": -1}, "needs heads as a whole number from 0 to 10^30; got -1"),
        ({"layers": 10**31}, "needs layers"),
        ({"precision_bits": 0}, "precision bits as a whole number from 1"),
        ({"precision_bits": 5000}, "at most 4096 bits"),
        ({"source": " "}, "needs its source"),
        ({"gates_per_step": -3}, "gates per step"),
        ({"state": ("cache",)}, "tuple of StatePart"),
        ({"state": [StatePart(name="a", fixed_bits=1)]}, "tuple of StatePart; got list"),
        ({"state": None}, "tuple of StatePart; got NoneType"),
        (
            {"state": (StatePart(name="a", fixed_bits=1), StatePart(name="a", fixed_bits=2))},
            "different names",
        ),
    ],
)
def test_nonsense_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message.replace("^", r"\^")):
        gpt2(**changes)


def test_nonsense_parts_are_refused() -> None:
    with pytest.raises(InvalidInput, match="keeps nothing"):
        StatePart(name="state", fixed_bits=3, window=5)
    with pytest.raises(InvalidInput, match="window as a whole number from 1"):
        StatePart(name="cache", bits_per_position=3, window=0)
    with pytest.raises(InvalidInput, match="n as a whole number"):
        gpt2().state_bits(-1)
    with pytest.raises(InvalidInput, match="n as a whole number"):
        gpt2(state=()).state_bits(-1)
    with pytest.raises(InvalidInput, match="head width"):
        kv_cache(layers=1, heads=1, head_width=0, precision_bits=16)


def drop(data: dict[str, Any]) -> None:
    del data["width"]


def lie(data: dict[str, Any]) -> None:
    data["parameter_bits"] += 1


def grow(data: dict[str, Any]) -> None:
    data["width"] = 10**40


def hide(data: dict[str, Any]) -> None:
    data["state"][0]["secret"] = 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (drop, "lacks the field 'width'"),
        (lie, "'parameter_bits' of separatrix.size contradicts"),
        (grow, "'width' of separatrix.size must lie between"),
        (hide, r"separatrix.size.state\[0\] has fields that its schema does not know: 'secret'"),
        (lambda data: data.update(extra=1), "does not know: 'extra'"),
        (lambda data: data.update(width="768"), "must be a whole number; got the text '768'"),
        (lambda data: data.update(width=True), "must be a whole number; got a boolean"),
        (lambda data: data.update(width=0), "breaks a rule: A size needs width"),
        (
            lambda data: data.update(schema="separatrix.bound"),
            "Expected a record of schema 'separatrix.size'",
        ),
        (lambda data: data.update(version=2), "was written by a newer separatrix"),
        (lambda data: data.update(state={}), "'state' of separatrix.size must be an array; got an object"),
        (lambda data: data.update(source="x" * 30_000), "may have 20000 characters"),
    ],
)
def test_damaged_json_is_refused(damage: Callable[[dict[str, Any]], None], message: str) -> None:
    data = json.loads(json.dumps(gpt2().to_json()))
    damage(data)
    with pytest.raises(InvalidFile, match=message):
        Size.from_json(data)


@pytest.mark.parametrize("data", [None, [], "size", 3, {1: 2}])
def test_what_is_no_object_is_refused(data: object) -> None:
    with pytest.raises(InvalidFile, match=r"is a JSON object|field names that are not text"):
        Size.from_json(data)
