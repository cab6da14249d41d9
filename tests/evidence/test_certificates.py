"""Certificates, claims and counterexamples that contradict themselves or each other are refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from separatrix.errors import InvalidInput, UnknownName
from separatrix.evidence import InputsCovered, Interval, TaskSpec
from tests.evidence.examples import make_certificate, make_claim, make_counterexample, through_text


def refuted_by(**changes: object) -> Callable[[], object]:
    return lambda: make_certificate(verdict="refuted", counterexample=make_counterexample(**changes))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_certificate(weights_sha256="ABC"), "SHA-256"),
        (lambda: make_certificate(claims=()), "says proved has claims"),
        (lambda: make_certificate(claims=(make_claim(interval=None),)), "all of them are proved"),
        (lambda: make_certificate(claims=[make_claim()]), "tuple of Claim"),
        (lambda: make_certificate(counterexample=make_counterexample()), "exactly when it has"),
        (lambda: make_certificate(verdict="refuted"), "exactly when it has"),
        (refuted_by(weights_sha256="f" * 64), "same weights"),
        (refuted_by(arithmetic="float64"), "same arithmetic"),
        (
            refuted_by(task=TaskSpec(name="index-lookup", params={"n": 4, "alphabet": 64})),
            "same task with the same parameters",
        ),
        (refuted_by(task=TaskSpec(name="dyck")), "same task"),
        (
            lambda: make_certificate(verdict="refuted", counterexample="an input"),
            "A certificate's counterexample is a Counterexample or None; got str",
        ),
        (lambda: make_certificate(task=None), "A certificate's task is a TaskSpec; got NoneType"),
        (lambda: make_certificate(inputs=None), "A certificate's inputs is an InputsCovered; got NoneType"),
        (lambda: make_certificate(seconds=math.inf), "finite number"),
        (lambda: make_certificate(seconds=-1), "at least 0"),
        (lambda: make_certificate(seconds="3"), "time in seconds as a finite number"),
        (lambda: make_certificate(seconds=True), "time in seconds as a finite number"),
        (lambda: make_certificate(seconds=10**400), "time in seconds as a finite number"),
        (lambda: make_certificate(theorem=3), "needs its theorem as text"),
        (lambda: make_certificate(verdict="perhaps"), "one of proved, refuted, unknown"),
        (lambda: make_counterexample(answered=1), "differs from the right one"),
        (lambda: make_counterexample(answered=1.0), "differs from the right one"),
        (lambda: make_counterexample(input=[math.nan]), "finite"),
        (lambda: make_counterexample(input={1, 2}), "made of JSON types; got set"),
        (lambda: make_counterexample(task=None), "A counterexample's task is a TaskSpec; got NoneType"),
        (lambda: make_counterexample(text=3), "text is text"),
        (lambda: make_counterexample(text="x" * 1_000_001), "may have 1000000 characters"),
        (lambda: make_claim(relation="~"), "relation is one of"),
        (lambda: make_claim(threshold=0.75), r"Use Fraction\(x\)"),
        (lambda: make_claim(interval=(0, 1)), "A claim's interval is an Interval or None; got tuple"),
        (lambda: Interval(low=2, high=1), "low end is at most its high end"),  # type: ignore[arg-type]
        (lambda: InputsCovered(formula="1", count=10, log10=2.0), "disagree"),
        (lambda: InputsCovered.of(formula="0", count=0), "at least 1"),
        (lambda: InputsCovered(formula="1", count=None, log10=math.inf), "finite"),
        (lambda: InputsCovered(formula="1", count=None, log10=10**400), "finite"),
        (lambda: InputsCovered(formula="1", count=None, log10=-1.0), "at least 0"),
        (lambda: InputsCovered(formula="1", count=None, log10="1"), "finite"),  # type: ignore[arg-type]
        (lambda: TaskSpec(name="Index Lookup"), "a name such as 'index-lookup'"),
        (lambda: TaskSpec(name="t", params=[1]), "a mapping from names"),  # type: ignore[arg-type]
    ],
)
def test_evidence_that_contradicts_itself_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()


def test_whole_seconds_are_seconds() -> None:
    certificate = make_certificate(seconds=3)
    assert certificate.seconds == 3.0
    assert through_text(certificate) == certificate


def test_the_counterexample_may_write_its_parameters_otherwise() -> None:
    task = TaskSpec(name="index-lookup", params={"alphabet": 64.0, "n": 400})
    assert refuted_by(task=task)()


def test_unknown_theorems_are_refused() -> None:
    with pytest.raises(UnknownName, match="no theorem"):
        make_certificate(theorem="T1")
