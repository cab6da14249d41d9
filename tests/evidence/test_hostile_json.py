"""Files from strangers: every lie, gap and absurdity is refused with a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.evidence import Bound, Certificate, Claim, Counterexample, Transcript
from separatrix.records import Record, freeze
from tests.evidence.examples import (
    EVERYTHING,
    make_bound,
    make_certificate,
    make_counterexample,
    make_exchange_bound,
    make_transcript,
    values,
)

refuted = make_certificate(verdict="refuted", counterexample=make_counterexample())


def deep(levels: int) -> object:
    value: object = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("record", "path", "value", "message"),
    [
        (make_certificate(), ("verdict",), "proven", "is one of proved refuted unknown; got 'proven'"),
        (make_certificate(), ("claims", 0, "margin"), "1/10", "'margin' .* contradicts"),
        (make_certificate(), ("claims", 0, "verdict"), "refuted", "'verdict' .* contradicts"),
        (
            make_certificate(),
            ("claims", 0, "threshold"),
            0.75,
            "'threshold' .* must be text; got the number 0.75",
        ),
        (make_certificate(), ("claims", 0, "threshold"), "0.75", "exact number in lowest terms"),
        (make_certificate(), ("claims", 0, "threshold"), "6/8", "exact number in lowest terms"),
        (make_certificate(), ("claims", 0, "threshold"), "1/0", "exact number in lowest terms"),
        (make_certificate(), ("claims", 0, "threshold"), "9" * 3000, "exact number in lowest terms"),
        (make_certificate(), ("claims", 0, "threshold"), "9" * 9000, "may have 4002 characters"),
        (make_certificate(), ("claims", 0, "interval", "low"), "1", "breaks a rule: An interval's low end"),
        (make_certificate(), ("claims",), [3], r"claims\[0\] is a JSON object; got the number 3"),
        (make_certificate(), ("inputs", "count"), "9" * 5000, "whole number as text"),
        (make_certificate(), ("inputs", "count"), 5, "must be text"),
        (make_certificate(), ("inputs", "log10"), 10**400, "finite number of ordinary size"),
        (make_certificate(), ("inputs", "log10"), True, "must be a number; got a boolean"),
        (make_certificate(), ("theorem",), "S-T99", "breaks a rule: There is no theorem"),
        (refuted, ("counterexample", "arithmetic"), "float64", "same arithmetic"),
        (refuted, ("counterexample", "task", "params", "n"), 4, "same parameters"),
        (make_certificate(), ("weights_sha256",), "0", "breaks a rule: A certificate names weights"),
        (make_certificate(), ("assumptions",), [1], "array of texts"),
        (make_certificate(), ("seconds",), "1", "must be a number"),
        (make_certificate(), ("schema",), "x" * 100, "Expected a record of schema 'separatrix.certificate'"),
        (make_certificate(), ("version",), 1.0, "must be a whole number"),
        (make_certificate(), ("task", "params"), deep(100), "nest 32 deep"),
        (make_certificate(), ("task", "params"), [], "'params' .* must be an object"),
        (make_certificate(), ("task", "params"), {"x": 10**40}, "between -10"),
        (make_certificate(), ("task", "name"), "../../etc", "breaks a rule: A task has a name"),
        (make_certificate(), ("unasked",), 1, "does not know: 'unasked'"),
        (make_certificate(), ("claims", 0, "unasked"), 1, r"claims\[0\] has fields"),
        (make_counterexample(), ("input",), deep(100), "nest 32 deep"),
        (make_counterexample(), ("answered",), 1, "breaks a rule: In a counterexample"),
        (make_bound(), ("at_least",), 2401, "'at_least' .* contradicts"),
        (make_bound(), ("at_least",), 2400.0, "'at_least' .* contradicts"),
        (make_bound(), ("at_least_exact",), "1" + "0" * 400 + "/3", "'at_least' .* contradicts"),
        (make_bound(), ("status",), "open", "breaks a rule"),
        (make_bound(), ("theorem",), "S-T5", "breaks a rule: S-T5 claims no bound for index-lookup by rnn"),
        (make_bound(), ("task", "name"), "dyck", "breaks a rule: S-T3 claims no bound for dyck"),
        (make_bound(), ("condition",), 3, "must be text"),
        (make_exchange_bound(), ("partition",), "", "names its partition"),
        (make_exchange_bound(), ("unit",), "numbers", "counted in bits"),
        (make_bound(), ("family",), "cnn", "breaks a rule: There is no family"),
        (make_bound(), ("via",), "INDEX", "via is a JSON object; got the text 'INDEX'"),
        (make_transcript(), ("protocol",), "S-T2", "breaks a rule: S-T2 claims no protocol"),
        (make_transcript(), ("family",), "rnn", "breaks a rule: S-T4 claims no protocol"),
        (make_transcript(), ("bits",), 1, "'bits' .* contradicts"),
        (make_transcript(), ("agrees",), 1, "'agrees' .* contradicts"),
        (make_transcript(), ("messages", 0, "payload"), "FFE0", "lower-case hexadecimal"),
        (make_transcript(), ("messages", 0, "payload"), "ff", "payload of 2 bytes"),
        (make_transcript(), ("messages", 0, "sender"), "Eve", "is one of Alice Bob"),
        (make_transcript(), ("messages",), [None] * (10**6 + 1), "may have 1000000 items"),
    ],
)
def test_hostile_json_is_refused(
    record: Record, path: tuple[str | int, ...], value: object, message: str
) -> None:
    data: Any = json.loads(json.dumps(record.to_json()))
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(InvalidFile, match=message):
        type(record).from_json(data)


@pytest.mark.parametrize("record", EVERYTHING, ids=lambda record: record.SCHEMA)
def test_every_field_is_required(record: Record) -> None:
    for name in record.to_json():
        data = dict(record.to_json())
        del data[name]
        with pytest.raises(InvalidFile, match=f"lacks the field '{name}'"):
            type(record).from_json(data)


@pytest.mark.slow
@given(values)
def test_arbitrary_json_never_gets_through_or_crashes(value: object) -> None:
    for kind in (Bound, Certificate, Claim, Counterexample, Transcript):
        with pytest.raises(InvalidFile):
            kind.from_json(value)


def test_wide_values_are_refused() -> None:
    row = [0] * 1000
    with pytest.raises(InvalidInput, match="hold 1000000 items"):
        freeze([row] * 1001)
