"""Evidence: it checks itself, keeps exact numbers exact, and trusts no file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import InvalidFile, InvalidInput, UnknownName
from separatrix.evidence import (
    Bound,
    Certificate,
    Claim,
    Counterexample,
    InputsCovered,
    Interval,
    Message,
    Relation,
    TaskSpec,
    Transcript,
    Verdict,
    Via,
)
from separatrix.evidence.exact import as_decimal
from separatrix.records import Record, freeze, parse_json

WEIGHTS = "0123456789abcdef" * 4
TASK = TaskSpec(name="index-lookup", params={"n": 400, "alphabet": 64})


def make_claim(**changes: Any) -> Claim:
    fields: dict[str, Any] = {
        "name": "attention weight on the target",
        "statement": "The weight on s_p is over 3/4 on every input.",
        "relation": ">",
        "threshold": Fraction(3, 4),
        "unit": "weight",
        "source": "S-T1, interval arithmetic",
        "interval": Interval(low=Fraction(4, 5), high=Fraction(5, 6)),
    }
    return Claim(**(fields | changes))


def make_counterexample(**changes: Any) -> Counterexample:
    fields: dict[str, Any] = {
        "task": TASK,
        "input": [3, 1, 2, 2],
        "expected": 1,
        "answered": 3,
        "weights_sha256": WEIGHTS,
        "arithmetic": "float32",
        "text": "d b c | 2",
    }
    return Counterexample(**(fields | changes))


def make_certificate(**changes: Any) -> Certificate:
    fields: dict[str, Any] = {
        "weights_sha256": WEIGHTS,
        "task": TASK,
        "inputs": InputsCovered.of(formula="400·64^400", count=400 * 64**400),
        "arithmetic": "float32",
        "verdict": "proved",
        "claims": (make_claim(),),
        "checker": "separatrix 0",
        "theorem": "S-T1",
        "assumptions": ("any order of summation", "exp within 2 ulp"),
        "seconds": 0.25,
    }
    return Certificate(**(fields | changes))


def make_bound(**changes: Any) -> Bound:
    fields: dict[str, Any] = {
        "task": TASK,
        "family": "rnn",
        "quantity": "state",
        "unit": "bits",
        "at_least": 2400,
        "asymptotic": "Ω(N·log|Σ|)",
        "formula": "mp ≥ N·log|Σ|",
        "theorem": "S-T3",
        "via": Via(problem="INDEX", reductions=("index-to-index-lookup",)),
        "assumptions": ("the state is one of 2^(mp) values",),
    }
    return Bound(**(fields | changes))


def make_transcript(**changes: Any) -> Transcript:
    fields: dict[str, Any] = {
        "protocol": "S-T4",
        "task": TASK,
        "family": "transformer-1",
        "partition": "Alice holds the odd positions, Bob the even ones",
        "messages": (
            Message(sender="Alice", name="query", bits=11, payload=b"\xff\xe0"),
            Message(sender="Bob", name="largest logit", bits=40),
            Message(sender="Bob", name="partial sum", bits=50),
            Message(sender="Alice", name="weighted sum", bits=2300),
        ),
        "output": [1, 0],
        "direct_output": [1, 0],
    }
    return Transcript(**(fields | changes))


def through_text(record: Record) -> Record:
    return type(record).from_json(parse_json(json.dumps(record.to_json())))


EVERYTHING: list[Record] = [
    TASK,
    Interval(low=Fraction(-1, 3), high=Fraction(2)),
    InputsCovered.of(formula="2^20", count=2**20),
    InputsCovered.of(formula="64^100000", count=64**100000),
    make_claim(),
    make_claim(interval=None),
    make_counterexample(),
    make_counterexample(input={"edges": [[1, 2], [2, 3]]}, expected=True, answered=1),
    make_certificate(),
    make_certificate(verdict="refuted", counterexample=make_counterexample()),
    make_certificate(verdict="unknown", claims=(), theorem=None, seconds=None, assumptions=()),
    Via(problem="EQ"),
    make_bound(),
    make_bound(at_least=Fraction(12345, 678), family=None, via=None),
    make_bound(at_least=None),
    make_transcript(),
    make_transcript().messages[0],
]


@pytest.mark.parametrize("record", EVERYTHING, ids=lambda record: record.SCHEMA)
def test_json_round_trip(record: Record) -> None:
    again = through_text(record)
    assert again == record
    assert hash(again) == hash(record)
    assert again.to_json() == record.to_json()
    assert list(record.to_json())[:2] == ["schema", "version"]
    assert str(record)


fractions = st.fractions(max_denominator=10**30)
intervals = st.tuples(fractions, fractions).map(lambda ends: Interval(low=min(ends), high=max(ends)))
texts = st.text(min_size=1, max_size=30).filter(lambda text: bool(text.strip()))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
specs = st.builds(
    TaskSpec,
    name=st.from_regex(r"\A[a-z0-9][a-z0-9+_.-]{0,20}\Z"),
    params=st.dictionaries(st.text(max_size=5), values, max_size=3),
)
relations = st.sampled_from([">", ">=", "<", "<=", "=="])
claims = st.builds(
    Claim,
    name=texts,
    statement=texts,
    relation=relations,
    threshold=fractions,
    unit=texts,
    source=texts,
    interval=st.none() | intervals,
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    bits = draw(st.integers(0, 100))
    number = draw(st.integers(0, 2**bits - 1)) << (-bits % 8)
    payload = draw(st.none() | st.just(number.to_bytes(-(-bits // 8), "big")))
    return Message(
        sender=draw(st.sampled_from(["Alice", "Bob"])), name=draw(texts), bits=bits, payload=payload
    )


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
    assert again.agrees == (json.dumps(output, sort_keys=True) == json.dumps(direct, sort_keys=True))


@pytest.mark.parametrize(
    ("relation", "low", "high", "verdict", "margin"),
    [
        (">", 2, 3, "proved", 1),
        (">", 1, 3, "unknown", 0),
        (">", 0, 1, "refuted", -1),
        (">=", 1, 3, "proved", 0),
        (">=", 0, 1, "unknown", -1),
        (">=", -1, 0, "refuted", -2),
        ("<", -1, 0, "proved", 1),
        ("<", 0, 1, "unknown", 0),
        ("<", 1, 2, "refuted", -1),
        ("<=", 0, 1, "proved", 0),
        ("<=", 1, 2, "unknown", -1),
        ("<=", 2, 3, "refuted", -2),
        ("==", 1, 1, "proved", 0),
        ("==", 0, 3, "unknown", -2),
        ("==", 2, 3, "refuted", -2),
    ],
)
def test_verdict_and_margin_follow_from_the_interval(
    relation: Relation, low: int, high: int, verdict: Verdict, margin: int
) -> None:
    interval = Interval(low=Fraction(low), high=Fraction(high))
    claim = make_claim(relation=relation, threshold=1, interval=interval)
    assert claim.verdict == verdict
    assert claim.margin == margin


def test_a_claim_without_an_interval_is_unknown() -> None:
    assert make_claim(interval=None).verdict == "unknown"
    assert make_claim(interval=None).margin is None


def test_margins_survive_where_floats_would_not() -> None:
    tiny = Fraction(1, 3**200)
    claim = make_claim(interval=Interval(low=Fraction(3, 4) + tiny, high=Fraction(1)))
    again = through_text(claim)
    assert isinstance(again, Claim)
    assert again.margin == tiny
    assert again.verdict == "proved"
    assert float(Fraction(3, 4) + tiny) == 0.75


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.integers(0, 60))
def test_outward_rounding_encloses(value: float, bits: int) -> None:
    interval = Interval.outward(low=value, high=value, bits=bits)
    assert value in interval
    assert interval.high - interval.low <= Fraction(1, 2**bits)


@given(fractions, st.integers(1, 12))
def test_decimals_round_the_way_they_say(value: Fraction, digits: int) -> None:
    assert Fraction(as_decimal(value, "down", digits=digits)) <= value
    assert Fraction(as_decimal(value, "up", digits=digits)) >= value


def test_intervals_print_outward() -> None:
    assert str(Interval(low=Fraction(2, 3), high=Fraction(2, 3))) == "[0.666666, 0.666667]"
    assert str(Interval.point(0)) == "[0, 0]"


def test_number_of_inputs() -> None:
    inputs = InputsCovered.of(formula="400·64^400", count=400 * 64**400)
    assert inputs.count == 400 * 64**400
    assert str(inputs) == "400·64^400 ≈ 10^725.074"
    assert str(InputsCovered.of(formula="2^20", count=2**20)) == "2^20 = 1,048,576"
    giant = InputsCovered.of(formula="64^(2^20)", count=64 ** (2**20))
    assert giant.count is None
    assert giant.log10 == pytest.approx(2**20 * math.log10(64))


def test_transcript_counts() -> None:
    transcript = make_transcript()
    assert transcript.bits == 2401
    assert transcript.bits_from("Alice") == 2311
    assert transcript.rounds == 3
    assert make_transcript(messages=()).rounds == 0
    assert not make_transcript(direct_output=[1, 1]).agrees
    assert not make_transcript(output=1, direct_output=True).agrees


def test_transcript_beside_a_bound() -> None:
    kept, broken = (
        make_transcript().compare(make_bound()),
        make_transcript().compare(make_bound(at_least=2402)),
    )
    assert kept.enough is True
    assert str(kept) == "2,401 bits of at least 2400 (S-T3): the bound is kept"
    assert broken.enough is False
    assert "too few, so the model is wrong on some input" in str(broken)
    assert make_transcript().compare(make_bound(at_least=None)).enough is None
    with pytest.raises(InvalidInput, match="counted in bits; this bound is in numbers"):
        make_transcript().compare(make_bound(unit="numbers"))
    with pytest.raises(InvalidInput, match="the bound is on dyck"):
        make_transcript().compare(make_bound(task=TaskSpec(name="dyck")))


def test_bound_says_what_it_says() -> None:
    text = str(make_bound())
    assert "index-lookup(n=400, alphabet=64) by rnn needs state ≥ 2,400 bits" in text
    assert text.endswith("(S-T3, via INDEX → index-to-index-lookup)")
    assert "needs state Ω(N·log|Σ|) (" in str(make_bound(at_least=None))
    assert make_bound().met_by(2400) is True
    assert make_bound().met_by(2399) is False
    conditional = make_bound(
        task=TaskSpec(name="turing"),
        theorem="W-4.1",
        at_least=None,
        status="conditional",
        condition="PSPACE ⊄ P/poly",
    )
    assert ", if PSPACE ⊄ P/poly (" in str(conditional)
    conjecture = make_bound(task=TaskSpec(name="match3"), theorem="R-CONJ", at_least=None, status="open")
    assert str(conjecture).startswith("open: match3()")


NASTY = "<script>alert('x')</script>&\"<b>"


class Tags(HTMLParser):
    """Collects tag names, and checks that every tag is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    "record",
    [
        make_bound(
            quantity=NASTY,
            unit=NASTY,
            asymptotic=NASTY,
            formula=NASTY,
            assumptions=(NASTY,),
            via=Via(problem=NASTY, reductions=(NASTY,)),
        ),
        make_certificate(
            arithmetic=NASTY,
            checker=NASTY,
            assumptions=(NASTY,),
            verdict="refuted",
            claims=(make_claim(name=NASTY, unit=NASTY, source=NASTY),),
            counterexample=make_counterexample(text=NASTY, arithmetic=NASTY),
            task=TaskSpec(name="index-lookup", params={NASTY: NASTY}),
            inputs=InputsCovered.of(formula=NASTY, count=3),
        ),
        make_transcript(
            partition=NASTY, output=NASTY, messages=(Message(sender="Alice", name=NASTY, bits=1),)
        ),
    ],
    ids=["bound", "certificate", "transcript"],
)
def test_html_is_escaped_and_well_formed(record: Bound | Certificate | Transcript) -> None:
    html = record._repr_html_()
    tags = Tags()
    tags.feed(html)
    assert tags.seen <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert not tags.open
    assert html.count("&lt;script&gt;") >= 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_bound(at_least=0.5), "exact number"),
        (lambda: make_bound(at_least=-1), "not negative"),
        (lambda: make_bound(at_least=True), "exact number"),
        (lambda: make_bound(status="conditional"), "names its condition"),
        (lambda: make_bound(condition="P ≠ NP"), "only a conditional one does"),
        (lambda: make_bound(theorem="R-CONJ"), "R-CONJ is open; a bound by it cannot be proven"),
        (lambda: make_bound(theorem="W-4.1"), "W-4.1 is conditional; a bound by it cannot be proven"),
        (lambda: make_bound(theorem="R-CONJ", status="open"), "open question has no number"),
        (lambda: make_bound(status="sure"), "one of proven, conditional, open"),
        (lambda: make_bound(assumptions="one text"), "tuple of texts"),
        (lambda: make_bound(unit=""), "needs its unit"),
        (lambda: make_certificate(weights_sha256="ABC"), "SHA-256"),
        (lambda: make_certificate(claims=()), "says proved has claims"),
        (lambda: make_certificate(claims=(make_claim(interval=None),)), "all of them are proved"),
        (lambda: make_certificate(claims=[make_claim()]), "tuple of Claim"),
        (lambda: make_certificate(counterexample=make_counterexample()), "exactly when it has"),
        (lambda: make_certificate(verdict="refuted"), "exactly when it has"),
        (
            lambda: make_certificate(
                verdict="refuted", counterexample=make_counterexample(weights_sha256="f" * 64)
            ),
            "same weights",
        ),
        (lambda: make_certificate(seconds=math.inf), "finite time"),
        (lambda: make_certificate(verdict="perhaps"), "one of proved, refuted, unknown"),
        (lambda: make_counterexample(answered=1), "differs from the right one"),
        (lambda: make_counterexample(input=[math.nan]), "finite"),
        (lambda: make_counterexample(input={1, 2}), "made of JSON types; got set"),
        (lambda: make_claim(relation="~"), "relation is one of"),
        (lambda: make_claim(threshold=0.75), r"Use Fraction\(x\)"),
        (lambda: Interval(low=Fraction(2), high=Fraction(1)), "low end is at most its high end"),
        (lambda: Interval.point(10**5000), "2000 digits; round it outward"),
        (lambda: InputsCovered(formula="1", count=10, log10=2.0), "disagree"),
        (lambda: InputsCovered.of(formula="0", count=0), "at least 1"),
        (lambda: InputsCovered(formula="1", count=None, log10=math.inf), "finite"),
        (lambda: TaskSpec(name="Index Lookup"), "a name such as 'index-lookup'"),
        (lambda: Message(sender="Eve", name="x", bits=1), "sent by Alice or Bob"),  # type: ignore[arg-type]
        (lambda: Message(sender="Bob", name="x", bits=-1), "bits as a whole number from 0"),
        (lambda: Message(sender="Bob", name="x", bits=9, payload=b"a"), "payload of 2 bytes"),
        (lambda: Message(sender="Bob", name="x", bits=1, payload=b"\x81"), "unused bits"),
        (lambda: make_transcript(messages=("hi",)), "tuple of Message"),
    ],
)
def test_evidence_that_contradicts_itself_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownName, match="no theorem 'S-T33'"):
        make_bound(theorem="S-T33")
    with pytest.raises(UnknownName, match="no family 'cnn'"):
        make_bound(family="cnn")
    with pytest.raises(UnknownName, match="no theorem"):
        make_certificate(theorem="T1")
    with pytest.raises(UnknownName, match="no family"):
        make_transcript(family="lstm")


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
        (make_bound(), ("status",), "open", "breaks a rule"),
        (make_bound(), ("family",), "cnn", "breaks a rule: There is no family"),
        (make_bound(), ("via",), "INDEX", "via is a JSON object; got the text 'INDEX'"),
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


@given(values)
def test_arbitrary_json_never_gets_through_or_crashes(value: object) -> None:
    for kind in (Bound, Certificate, Claim, Counterexample, Transcript):
        with pytest.raises(InvalidFile):
            kind.from_json(value)


def test_wide_values_are_refused() -> None:
    row = [0] * 1000
    with pytest.raises(InvalidInput, match="hold 1000000 items"):
        freeze([row] * 1001)


def test_evidence_cannot_be_changed_from_outside() -> None:
    params: dict[str, Any] = {"edges": [1, 2]}
    task = TaskSpec(name="is-tree", params=params)
    params["edges"].append(3)
    assert task.params["edges"] == (1, 2)
    with pytest.raises(TypeError):
        task.params["edges"] = 0  # type: ignore[index]
