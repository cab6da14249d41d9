"""Evidence goes to JSON, to other processes and to copies, and comes back equal to itself."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.evidence import Bound, Claim, InputsCovered, Message, TaskSpec, Transcript, Via
from separatrix.records import Record
from tests.evidence.examples import (
    EVERYTHING,
    claims,
    fractions,
    make_bound,
    make_certificate,
    make_counterexample,
    make_transcript,
    messages,
    specs,
    texts,
    through_text,
    values,
)


@pytest.mark.parametrize("record", EVERYTHING, ids=lambda record: record.SCHEMA)
def test_json_round_trip(record: Record) -> None:
    again = through_text(record)
    assert again == record
    assert hash(again) == hash(record)
    assert again.to_json() == record.to_json()
    assert list(record.to_json())[:2] == ["schema", "version"]
    assert str(record)


@pytest.mark.slow
@given(claims)
def test_claims_round_trip(claim: Claim) -> None:
    assert through_text(claim) == claim


@given(specs, st.lists(claims, max_size=3).map(tuple), st.none() | st.floats(0, 1e9), st.integers(1, 10**50))
def test_certificates_round_trip(
    task: TaskSpec, some: tuple[Claim, ...], seconds: float | None, count: int
) -> None:
    certificate = make_certificate(
        task=task,
        claims=some,
        verdict="unknown",
        seconds=seconds,
        inputs=InputsCovered.of(formula="f", count=count),
    )
    assert through_text(certificate) == certificate


@pytest.mark.slow
@given(fractions.map(abs), texts, st.lists(texts, max_size=3).map(tuple))
def test_bounds_round_trip(at_least: Fraction, text: str, several: tuple[str, ...]) -> None:
    bound = make_bound(
        at_least=at_least, formula=text, assumptions=several, via=Via(problem=text, reductions=several)
    )
    again = through_text(bound)
    assert again == bound
    assert isinstance(again, Bound)
    assert again.at_least == at_least
    written = bound.to_json()["at_least"]
    assert isinstance(written, int | float)
    assert written <= at_least
    assert math.isclose(written, at_least, rel_tol=1e-15)


def plainly_same(first: object, second: object) -> bool:
    """Equal as JSON, a second way: every number as an exact fraction, every value beside its kind."""

    def marked(value: object) -> object:
        if isinstance(value, bool) or value is None or isinstance(value, str):
            return [type(value).__name__, value]
        if isinstance(value, int | float):
            return ["number", str(Fraction(value))]
        if isinstance(value, Mapping):
            return ["object", sorted((name, marked(item)) for name, item in value.items())]
        assert isinstance(value, list | tuple)
        return ["array", *map(marked, value)]

    return json.dumps(marked(first)) == json.dumps(marked(second))


@pytest.mark.slow
@given(st.lists(messages(), max_size=5).map(tuple), values, values)
def test_transcripts_round_trip(said: tuple[Message, ...], output: object, direct: object) -> None:
    transcript = make_transcript(messages=said, output=output, direct_output=direct)
    again = through_text(transcript)
    assert again == transcript
    assert isinstance(again, Transcript)
    assert (
        again.bits
        == sum(message.bits for message in said)
        == again.bits_from("Alice") + again.bits_from("Bob")
    )
    assert again.agrees == plainly_same(output, direct)


@pytest.mark.parametrize("record", EVERYTHING, ids=lambda record: record.SCHEMA)
def test_copies_and_pickles_are_equal_and_still_frozen(record: Record) -> None:
    for again in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):  # noqa: S301
        assert again == record
        assert hash(again) == hash(record)
        assert again.to_json() == record.to_json()
    assert set(dataclasses.asdict(record)) == {field.name for field in dataclasses.fields(record)}


def test_a_pickled_task_cannot_be_changed() -> None:
    task = TaskSpec(name="is-tree", params={"edges": (1, 2), "more": {"x": 1}})
    again: TaskSpec = pickle.loads(pickle.dumps(task))  # noqa: S301
    for params in (again.params, again.params["more"], dataclasses.replace(again).params):
        with pytest.raises(TypeError, match="item assignment"):
            params["edges"] = 0  # type: ignore[index]
    assert dataclasses.asdict(task) == {
        "name": "is-tree",
        "params": {"edges": (1, 2), "more": {"x": 1}},
    }
    assert repr(task) == "TaskSpec(name='is-tree', params={'edges': (1, 2), 'more': {'x': 1}})"


def test_evidence_cannot_be_changed_from_outside() -> None:
    params: dict[str, Any] = {"edges": [1, 2]}
    task = TaskSpec(name="is-tree", params=params)
    params["edges"].append(3)
    assert task.params["edges"] == (1, 2)
    with pytest.raises(TypeError):
        task.params["edges"] = 0  # type: ignore[index]


def test_numbers_are_equal_as_numbers_and_never_equal_truth_values() -> None:
    one, floating, true = (TaskSpec(name="t", params={"n": n}) for n in (1, 1.0, True))
    assert one == floating
    assert hash(one) == hash(floating)
    assert one != true
    assert TaskSpec(name="t", params={"n": (1, {"a": 0})}) != TaskSpec(
        name="t", params={"n": (1, {"a": False})}
    )
    assert make_counterexample(input=[1]) == make_counterexample(input=[1.0])
    assert hash(make_counterexample(input=[1])) == hash(make_counterexample(input=[1.0]))
    assert make_counterexample(input=[1]) != make_counterexample(input=[True])
    assert make_transcript(output=1) != make_transcript(output=True)
    assert make_transcript(output=1, direct_output=1.0).agrees
    assert not make_transcript(output=1, direct_output=True).agrees
