"""One good example of each kind of evidence, to change a field of; and strategies for arbitrary ones."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from separatrix.evidence import (
    EXCHANGED_BITS,
    Attempt,
    Bound,
    Breaking,
    Certificate,
    Claim,
    Counterexample,
    Decoded,
    InputsCovered,
    Interval,
    Message,
    TaskSpec,
    Transcript,
    Via,
)
from separatrix.records import Record, parse_json

WEIGHTS = "0123456789abcdef" * 4
TASK = TaskSpec(name="index-lookup", params={"n": 400, "alphabet": 64})
DYCK = TaskSpec(name="dyck", params={"n": 2400})


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
    """A bound on the state of a recurrent model."""
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


def make_exchange_bound(**changes: Any) -> Bound:
    """A bound on what two parties exchange."""
    fields: dict[str, Any] = {
        "task": DYCK,
        "family": None,
        "quantity": EXCHANGED_BITS,
        "unit": "bits",
        "partition": "odd/even",
        "at_least": 2399,
        "asymptotic": "Ω(N)",
        "formula": "bits exchanged ≥ N − 1",
        "theorem": "S-L1",
        "via": Via(problem="fooling set, odd/even split"),
    }
    return Bound(**(fields | changes))


def make_conditional_bound(**changes: Any) -> Bound:
    fields: dict[str, Any] = {
        "task": TaskSpec(name="turing", params={"n": 5}),
        "theorem": "W-4.1",
        "at_least": None,
        "status": "conditional",
        "condition": "PSPACE ⊄ P/poly",
        "via": None,
    }
    return make_bound(**(fields | changes))


def make_open_bound(**changes: Any) -> Bound:
    fields: dict[str, Any] = {
        "task": TaskSpec(name="match3"),
        "family": "transformer",
        "theorem": "R-CONJ",
        "at_least": None,
        "status": "open",
        "via": None,
    }
    return make_bound(**(fields | changes))


def make_transcript(**changes: Any) -> Transcript:
    fields: dict[str, Any] = {
        "protocol": "S-T4",
        "task": DYCK,
        "family": "transformer-1",
        "partition": "odd/even",
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


def make_breaking(**changes: Any) -> Breaking:
    found = make_counterexample()
    fields: dict[str, Any] = {
        "task": found.task,
        "weights_sha256": found.weights_sha256,
        "arithmetic": found.arithmetic,
        "attempts": (
            Attempt(attack="evolution", tried=400, failures=3, least_margin=-0.25, seconds=1.5, note="noted"),
            Attempt(attack="nothing", tried=0, failures=0, least_margin=None, seconds=0),
        ),
        "samples": Attempt(attack="random samples", tried=1000, failures=0, least_margin=0.5, seconds=2),
        "counterexamples": (found,),
        "seed": 7,
        "seconds": 3.5,
        "checker": "separatrix 0",
    }
    return Breaking(**(fields | changes))


def make_decoded(**changes: Any) -> Decoded:
    fields: dict[str, Any] = {
        "task": TaskSpec(name="is-tree", params={"n": 16, "form": "retrieval", "trace": "compact"}),
        "weights_sha256": WEIGHTS,
        "arithmetic": "float32",
        "seed": 7,
        "first": 1 << 40,
        "examples": 1000,
        "right": 900,
        "unanswered": 60,
        "cut_off": 2,
        "tours_right": 850,
        "searches": 41_234,
        "seconds": 12.5,
        "checker": "separatrix 0",
    }
    return Decoded(**(fields | changes))


def through_text(record: Record) -> Record:
    return type(record).from_json(parse_json(json.dumps(record.to_json())))


EVERYTHING: list[Record] = [
    TASK,
    TaskSpec(name="own.task", params={"flag": True, "deep": {"a": (1, {"b": None})}}),
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
    make_breaking(),
    make_breaking(attempts=(), counterexamples=()),
    make_breaking().samples,
    make_decoded(),
    make_decoded(weights_sha256=None, tours_right=None, searches=0, unanswered=0, cut_off=0),
    Via(problem="EQ"),
    make_bound(),
    make_bound(at_least=Fraction(12345, 678), via=None),
    make_bound(at_least=None),
    make_exchange_bound(),
    make_conditional_bound(),
    make_open_bound(),
    make_transcript(),
    make_transcript(output={"a": [True]}, direct_output=None),
    make_transcript().messages[0],
]

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
claims = st.builds(
    Claim,
    name=texts,
    statement=texts,
    relation=st.sampled_from([">", ">=", "<", "<=", "=="]),
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
