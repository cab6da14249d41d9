"""The record of trained models that the atlas has: read strictly, as it was written."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from separatrix.atlas.coverage import CoverageRecord, read_coverage
from separatrix.atlas.coverage_section import collect_coverage
from separatrix.errors import InvalidFile
from tests.atlas.test_coverage_section import AGAINST, SHORT, described, looked, recorded

DAMAGES: list[tuple[str, dict[str, Any], str]] = [
    ("a count", {"proved": 7}, "counts its cases differently"),
    ("cases", {"cases": 13}, "counts its cases differently"),
    ("queries asked", {"every": 0}, "every second or further one; got 0"),
    ("a letter", {"verdicts": {"@1": "pppp", "@2": "pbbx", "@3": "uppp"}}, "the letters p, b, u"),
    ("an empty query", {"verdicts": {**SHORT, "@4": ""}}, "the letters p, b, u"),
    ("no letters", {"verdicts": {"@1": 4}}, "must have texts only"),
    ("no verdicts", {"verdicts": ["pppp"]}, "must be an object"),
    ("too many right", {"right": 5001}, "more right answers than samples"),
    ("too many sampled", {"sampled_right": 10001}, "more right answers than samples"),
    ("no margin", {"least_margin": None}, "exactly when a case is proved"),
    ("a margin below", {"least_margin": -0.5}, "exactly when a case is proved"),
    ("no counterexample", {"counterexample": None}, "exactly when a case is broken"),
    ("another query", {"counterexample": looked(query="@1")}, "'@1' is not a broken one"),
    ("a hash", {"weights_sha256": "xyz"}, "SHA-256"),
    ("a length", {"task": {"name": "index-lookup", "params": {}}}, "the length n"),
    ("steps", {"steps": -1}, "between 0 and"),
    ("more", {"surprise": 1}, "'surprise'"),
    ("a rate", {"lr": "fast"}, "Field 'lr'"),
    ("against", {"against": {"every": 0}}, "against"),
    ("few weights", {"counterexample": looked(attention=[[0.5, 0.5]])}, "for each token of its text"),
    ("no heads", {"counterexample": looked(attention=[])}, "for each token of its text"),
    ("uneven", {"counterexample": looked(attention=[[1.0, 0, 0, 0], [1.0]])}, "as many weights"),
    ("a weight", {"counterexample": looked(attention=[[2.0, -1.0, 0, 0]])}, "each from 0 to 1"),
    ("a sum", {"counterexample": looked(attention=[[0.5, 0.0, 0, 0]])}, "add up to 1"),
    ("words for weights", {"counterexample": looked(attention=[["1", 0, 0, 0]])}, "arrays of numbers"),
]


@pytest.mark.parametrize(("changed", "message"), [pytest.param(*rest, id=name) for name, *rest in DAMAGES])
def test_a_damaged_record_is_refused(changed: dict[str, Any], message: str) -> None:
    whole = described(SHORT, broken=looked())
    assert recorded(whole).rows[0].refuted == 2
    with pytest.raises(InvalidFile, match=re.escape(message)) as caught:
        recorded({**whole, **changed})
    assert "'coverage.json'" in str(caught.value)


@pytest.mark.parametrize("name", [*described(SHORT)])
def test_no_field_may_be_missing(name: str) -> None:
    row = described(SHORT, broken=looked())
    del row[name]
    with pytest.raises(InvalidFile, match=f"lacks the field '{name}'"):
        recorded(row)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is a JSON object"),
        ("{", "is not JSON"),
        ('{"provenance": {}}', "lacks the field 'rows'"),
        ('{"provenance": {"torch": 2}, "rows": []}', "must have texts only"),
        ('{"provenance": {}, "rows": {}}', "must be an array"),
    ],
)
def test_a_damaged_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=re.escape(message)):
        read_coverage(text)


def test_a_run_stands_once() -> None:
    row = described({"@1": "pp"})
    with pytest.raises(InvalidFile, match="every run once"):
        recorded(row, row)


def test_the_record_is_read_back_as_it_was_written() -> None:
    record = recorded(described(SHORT, broken=looked()), described({"@1": "u"}, against=AGAINST))
    assert read_coverage(json.dumps(record.to_fields())) == record
    assert CoverageRecord.from_json(record.to_json()) == record
    assert collect_coverage(record) == collect_coverage(record)
