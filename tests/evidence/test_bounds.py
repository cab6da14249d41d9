"""Bounds: they say what they say, and cite only theorems that claim as much."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.errors import InvalidInput, UnknownName
from separatrix.evidence import EXCHANGED_BITS, Bound, TaskSpec
from separatrix.theorems import THEOREMS, families_within
from tests.evidence.examples import (
    make_bound,
    make_conditional_bound,
    make_exchange_bound,
    make_open_bound,
)


def test_bound_says_what_it_says() -> None:
    text = str(make_bound())
    assert "index-lookup(n=400, alphabet=64) by rnn needs state ≥ 2,400 bits" in text
    assert text.endswith("(S-T3, via INDEX → index-to-index-lookup)")
    assert "needs state Ω(N·log|Σ|) (" in str(make_bound(at_least=None))
    assert make_bound().met_by(2400) is True
    assert make_bound().met_by(2399) is False
    assert ", if PSPACE ⊄ P/poly (" in str(make_conditional_bound())
    assert str(make_open_bound()).startswith("open: match3()")
    assert str(make_exchange_bound()) == (
        "dyck(n=2400) by two parties, split odd/even, needs exchanged bits ≥ 2,399 bits "
        "(S-L1, via fooling set, odd/even split)"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"at_least": 0.5}, "exact number"),
        ({"at_least": -1}, "not negative"),
        ({"at_least": True}, "exact number"),
        ({"status": "conditional"}, "names its condition"),
        ({"condition": "P ≠ NP"}, "only a conditional one does"),
        ({"condition": 5, "status": "conditional"}, "condition is text"),
        ({"status": "sure"}, "one of proven, conditional, open"),
        ({"status": "open", "at_least": None}, "S-T3 is proven; a bound by it cannot be open"),
        ({"assumptions": "one text"}, "tuple of texts"),
        ({"unit": ""}, "needs its unit"),
        ({"task": "index-lookup"}, "A bound's task is a TaskSpec; got str"),
        ({"task": None}, "A bound's task is a TaskSpec; got NoneType"),
        ({"via": "INDEX"}, "A bound's via is a Via or None; got str"),
        ({"family": 3}, "needs its family as text"),
        ({"theorem": None}, "needs its theorem as text"),
        ({"partition": "odd/even"}, "partition .* only a bound on exchanged bits"),
        ({"quantity": EXCHANGED_BITS}, "on exchanged bits names its partition"),
        ({"partition": None}, "partition is text"),
    ],
)
def test_bounds_that_contradict_themselves_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_bound(**changes)


def test_statuses_follow_the_theorem() -> None:
    with pytest.raises(InvalidInput, match="R-CONJ is open; a bound by it cannot be proven"):
        make_open_bound(status="proven")
    with pytest.raises(InvalidInput, match=r"W-4\.1 is conditional; a bound by it cannot be proven"):
        make_conditional_bound(status="proven", condition="")
    with pytest.raises(InvalidInput, match="open question has no number"):
        make_open_bound(at_least=3)
    with pytest.raises(InvalidInput, match=r"W-4\.1 holds if PSPACE ⊄ P/poly; got the condition 'P = P'"):
        make_conditional_bound(condition="P = P")


def test_exchanged_bits_are_counted_in_bits_under_a_partition() -> None:
    with pytest.raises(InvalidInput, match="exchanged bits is counted in bits; got 'numbers'"):
        make_exchange_bound(unit="numbers")
    with pytest.raises(InvalidInput, match="partition may have 20000 characters"):
        make_exchange_bound(partition="x" * 20_001)
    with pytest.raises(InvalidInput, match="names its partition"):
        make_exchange_bound(partition=" ")
    assert "odd/even" in make_exchange_bound()._repr_html_()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"theorem": "S-T1"}, "S-T1 claims no bound for index-lookup by rnn"),
        ({"theorem": "S-P9"}, "S-P9 claims no bound for index-lookup by rnn"),
        ({"family": "transformer-1"}, "S-T3 claims no bound for index-lookup by transformer-1"),
        ({"family": "hybrid"}, "S-T3 claims no bound for index-lookup by hybrid"),
        ({"family": None}, "S-T3 claims no bound for index-lookup by two parties"),
        ({"task": TaskSpec(name="dyck")}, "S-T3 claims no bound for dyck by rnn"),
    ],
)
def test_a_bound_cites_a_theorem_that_claims_one(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_bound(**changes)


def test_what_binds_a_family_binds_those_within() -> None:
    assert make_bound(family="linear-rnn").family == "linear-rnn"
    assert make_bound(theorem="S-L4", task=TaskSpec(name="anything")).theorem == "S-L4"
    restated = make_bound(theorem="S-T10", family="transformer-1", task=TaskSpec(name="dyck"))
    assert restated.theorem == "S-T10"
    with pytest.raises(InvalidInput, match="S-T10 claims no bound for dyck by transformer-2"):
        make_bound(theorem="S-T10", family="transformer-2", task=TaskSpec(name="dyck"))
    with pytest.raises(InvalidInput, match="S-L1 claims no bound for dyck by transformer-1"):
        make_exchange_bound(family="transformer-1")


def test_every_bound_of_the_table_can_be_made() -> None:
    made: list[Bound] = []
    for entry in THEOREMS.values():
        for owed in entry.owes:
            if owed.kind != "bound":
                continue
            inner: list[str | None] = [name for outer in owed.families for name in families_within(outer)]
            made += [
                make_bound(
                    task=TaskSpec(name=task),
                    family=family,
                    theorem=entry.id,
                    at_least=None,
                    status=owed.status,
                    condition=owed.condition,
                )
                for task in owed.tasks or ("any-task",)
                for family in (inner or [None])
            ]
    assert len(made) > 40


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownName, match="no theorem 'S-T33'"):
        make_bound(theorem="S-T33")
    with pytest.raises(UnknownName, match="no family 'cnn'"):
        make_bound(family="cnn")
