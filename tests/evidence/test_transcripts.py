"""Transcripts: counted bits, compared only with a bound on the same thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from separatrix.errors import InvalidInput, UnknownName
from separatrix.evidence import EXCHANGED_BITS, ONE_WAY_BITS, Bound, Message, TaskSpec
from tests.evidence.examples import (
    DYCK,
    make_bound,
    make_conditional_bound,
    make_exchange_bound,
    make_open_bound,
    make_transcript,
)

TURING = TaskSpec(name="turing", params={"n": 5})


def test_transcript_counts() -> None:
    transcript = make_transcript()
    assert transcript.bits == 2401
    assert transcript.bits_from("Alice") == 2311
    assert transcript.rounds == 3
    assert make_transcript(messages=()).rounds == 0
    assert not make_transcript(direct_output=[1, 1]).agrees
    assert not make_transcript(output=1, direct_output=True).agrees


def test_transcript_beside_a_bound() -> None:
    kept = make_transcript().compare(make_exchange_bound())
    assert kept.enough is True
    assert str(kept) == "2,401 bits, ≥ 2,399 bits needed (S-L1): the bound is kept"
    broken = make_transcript().compare(make_exchange_bound(at_least=2402))
    assert broken.enough is False
    assert str(broken) == (
        "2,401 bits, ≥ 2,402 bits needed (S-L1): too few, so a model whose every run is this short "
        "is wrong on some input"
    )
    giant = make_transcript().compare(make_exchange_bound(at_least=10**400))
    assert giant.enough is False
    assert "≥ 1e+400 bits needed" in str(giant)


def test_without_a_number_nothing_follows() -> None:
    unknown = make_transcript().compare(make_exchange_bound(at_least=None))
    assert unknown.enough is None
    assert str(unknown) == "2,401 bits; S-L1 proves no number to compare with"


def run_of(task: TaskSpec, family: str, protocol: str, *, bits: int = 5) -> Any:
    said = (Message(sender="Alice", name="state", bits=bits),)
    return make_transcript(task=task, family=family, protocol=protocol, messages=said)


def exchange(make: Callable[..., Bound], **changes: Any) -> Bound:
    return make(quantity=EXCHANGED_BITS, unit="bits", partition="odd/even", **changes)


def test_a_conditional_bound_concludes_under_its_condition() -> None:
    run = run_of(TURING, "rnn", "S-T2")
    broken = run.compare(exchange(make_conditional_bound, at_least=6))
    assert str(broken) == (
        "5 bits, ≥ 6 bits needed if PSPACE ⊄ P/poly (W-4.1): too few, so if PSPACE ⊄ P/poly a model "
        "whose every run is this short is wrong on some input"
    )
    assert broken.enough is False
    kept = run.compare(exchange(make_conditional_bound, at_least=5))
    assert str(kept) == "5 bits, ≥ 5 bits needed if PSPACE ⊄ P/poly (W-4.1): the bound is kept"


def test_an_open_bound_concludes_nothing() -> None:
    task = TaskSpec(name="match3")
    compared = run_of(task, "transformer-1", "S-T4").compare(exchange(make_open_bound))
    assert compared.enough is None
    assert str(compared) == "5 bits; R-CONJ is an open question, from which nothing follows"


def test_a_bound_on_an_outer_family_binds_a_run_of_an_inner_one() -> None:
    run = run_of(TURING, "linear-rnn", "S-T2")
    assert run.compare(exchange(make_conditional_bound, at_least=6)).enough is False
    outer = run_of(TURING, "rnn", "S-T2")
    with pytest.raises(InvalidInput, match="This transcript is of rnn; the bound is on linear-rnn, which"):
        outer.compare(exchange(make_conditional_bound, family="linear-rnn", at_least=6))


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        (
            make_exchange_bound(task=TaskSpec(name="dyck", params={"n": 1000})),
            r"the bound is on dyck\(n=1000\)",
        ),
        (make_exchange_bound(task=TaskSpec(name="dyck")), r"the bound is on dyck\(\)"),
        (make_bound(), "exchanged bits; this bound is on state"),
        (make_exchange_bound(partition="halves"), "of the split odd/even; the bound is on the split halves"),
        (
            make_bound(
                task=DYCK,
                family="rnn",
                theorem="S-L4",
                quantity=EXCHANGED_BITS,
                partition="odd/even",
            ),
            "This transcript is of transformer-1; the bound is on rnn, which does not contain it",
        ),
        ("S-L1", "compared with a Bound; got str"),
    ],
)
def test_a_bound_on_anything_else_is_refused(bound: Bound, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_transcript().compare(bound)


def test_the_same_parameters_written_otherwise_are_the_same() -> None:
    bound = make_exchange_bound(task=TaskSpec(name="dyck", params={"n": 2400.0}))
    assert make_transcript().compare(bound).enough is True


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Message(sender="Eve", name="x", bits=1), "sent by Alice or Bob"),  # type: ignore[arg-type]
        (lambda: Message(sender="Bob", name="x", bits=-1), "bits as a whole number from 0"),
        (lambda: Message(sender="Bob", name="x", bits=9, payload=b"a"), "payload of 2 bytes"),
        (lambda: Message(sender="Bob", name="x", bits=9, payload=5), "payload of 2 bytes"),  # type: ignore[arg-type]
        (lambda: Message(sender="Bob", name="x", bits=1, payload=b"\x81"), "unused bits"),
        (
            lambda: Message(sender="Bob", name="x", bits=8 * (2**24 + 1), payload=bytes(2**24 + 1)),
            "payload kept may have 16777216 bytes",
        ),
        (lambda: make_transcript(messages=("hi",)), "tuple of Message"),
        (lambda: make_transcript(task="dyck"), "A transcript's task is a TaskSpec; got str"),
        (lambda: make_transcript(protocol=None), "needs its protocol as text"),
        (lambda: make_transcript(protocol="S-T1"), "S-T1 claims no protocol for dyck by transformer-1"),
        (lambda: make_transcript(protocol="S-L1"), "S-L1 claims no protocol for dyck by transformer-1"),
        (lambda: make_transcript(protocol="S-T2"), "S-T2 claims no protocol in which Bob speaks"),
        (
            lambda: make_transcript(protocol="S-T2", family="fnn"),
            "S-T2 claims no protocol for dyck by fnn",
        ),
        (
            lambda: make_transcript(family="transformer-2"),
            "S-T4 claims no protocol for dyck by transformer-2",
        ),
    ],
)
def test_transcripts_that_do_not_fit_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize("family", ["transformer-1", "transformer", "hybrid"])
def test_one_message_may_be_a_cache(family: str) -> None:
    """S-T2 runs what has a cache too; a bound on the message speaks of it, one on recurrences does not."""
    run = run_of(TURING, family, "S-T2")
    assert run.family == family
    one_way = make_conditional_bound(quantity=ONE_WAY_BITS, unit="bits", partition="odd/even", at_least=6)
    assert run.compare(one_way).enough is False
    with pytest.raises(InvalidInput, match=f"This transcript is of {family}; the bound is on linear-rnn"):
        run.compare(exchange(make_conditional_bound, family="linear-rnn", at_least=6))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownName, match="no family"):
        make_transcript(family="lstm")
