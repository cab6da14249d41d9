"""The least proven witness: proven, no worse than any other choice, and found again the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import get_args

import pytest
from benchmarks.witness_tasks import label, task_for

from separatrix.certificates import certify
from separatrix.certificates import searching as searching_module
from separatrix.certificates.minimising import Objective, minimised
from separatrix.certificates.proofs import PROOFS
from separatrix.certificates.searching import (
    ADDRESS_CODES,
    LADDERS,
    Construction,
    construction_for,
    first_proved,
    is_proved,
)
from separatrix.errors import InvalidInput
from separatrix.precision import FixedNearest, NumberSystem, name_of
from separatrix.tasks import Task, task
from separatrix.witnesses import CATALOGUE, Choices, Entry, Witness, witness_for

SMALL = (
    ("index-lookup", {"n": 8, "alphabet": 2}),
    ("index-lookup", {"n": 40, "alphabet": 5}),
    ("associative-recall", {"n": 8}),
)


def every_choice(construction: Construction, most_bits: int) -> Iterable[Witness]:
    """The slow way: all codes in all systems up to some bits, one after another."""
    systems = [system for ladder in LADDERS.values() for system in ladder if system.bits <= most_bits]
    codes = itertools.chain.from_iterable(ADDRESS_CODES)
    for system, addresses in itertools.product(systems, codes):
        witness = construction.built(system, addresses)
        if witness is not None and is_proved(witness):
            yield witness


def measures(witness: Witness) -> dict[str, int]:
    size = witness.size
    return {"bits": size.parameter_bits, "width": size.width, "precision": size.precision_bits}


@pytest.mark.parametrize(("name", "parameters"), SMALL[:1])
def test_no_other_choice_that_is_proven_is_smaller(name: str, parameters: dict[str, int]) -> None:
    about = task(name, **parameters)
    least = {by: minimised(about, by=by) for by in get_args(Objective)}
    others = list(every_choice(construction_for(about), least["bits"][0].size.precision_bits))
    assert others
    for by, (witness, certificate) in least.items():
        assert certificate.verdict == "proved"
        assert measures(witness)[by] == min(measures(other)[by] for other in others)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), SMALL)
def test_what_is_returned_is_proven_and_right(name: str, parameters: dict[str, int]) -> None:
    about = task(name, **parameters)
    witness, certificate = minimised(about, by="bits")
    assert certificate.verdict == "proved"
    assert certificate.arithmetic == name_of(witness.arithmetic)
    assert certify(witness).claims == certificate.claims
    drawn = witness.task.sample(64, seed=0)
    assert bool((witness.model.answers(drawn.inputs) == drawn.targets)[drawn.mask].all())
    default = witness_for(about).size
    assert witness.size.parameter_bits <= default.parameter_bits


PROVABLE = [entry for entry in CATALOGUE if (entry.theorem, entry.task, entry.variant) in PROOFS]


@pytest.mark.slow
@pytest.mark.parametrize("entry", PROVABLE, ids=label)
def test_every_construction_with_a_proof_can_be_minimised(entry: Entry) -> None:
    about = task_for(entry, 8)
    witness, certificate = minimised(about, family=entry.family, variant=entry.variant, by="bits")
    assert certificate.verdict == "proved"
    assert witness.artefact == entry.artefact
    default = witness_for(about, family=entry.family, variant=entry.variant)
    assert witness.size.parameter_bits <= default.size.parameter_bits


def test_the_three_measures_pull_apart() -> None:
    """At n = 300 the least width and the least precision are those of different codes."""
    about = task("index-lookup", n=300, alphabet=2)
    narrow, coarse = (minimised(about, by=by)[0] for by in ("width", "precision"))
    assert narrow.size.width < coarse.size.width
    assert narrow.size.precision_bits > coarse.size.precision_bits


def test_a_measure_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidInput, match="by bits, width, precision; got 'parameters'"):
        minimised(task("index-lookup", n=4), by="parameters")  # type: ignore[arg-type]


def test_where_nothing_is_proven_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching_module, "is_proved", lambda witness: False)
    with pytest.raises(InvalidInput, match="could be proven right on every input; take a smaller n"):
        minimised(task("index-lookup", n=4, alphabet=2), by="width")


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("least", [3, 5, 7, 11, 29, 51, 53])
def test_bisection_finds_the_first_of_a_ladder(least: int, limited: bool) -> None:
    ladder = [FixedNearest(p=p) for p in range(3, 52, 2)]
    tried = []
    witness = witness_for(task("index-lookup", n=2, alphabet=2))

    def attempt(system: NumberSystem) -> Witness | None:
        tried.append(system.bits)
        return witness if system.bits >= least else None

    found = first_proved(ladder, attempt, limited=limited)
    assert (found is None) == (least > 51)
    if least <= 51:
        assert least in tried
        assert least == 3 or least - 2 in tried
    assert len(tried) == len(set(tried)) <= 12
    if limited:
        assert tried[0] == 51
        assert least <= 51 or len(tried) == 1


def test_bisection_returns_only_what_succeeded() -> None:
    """Where success is not monotone, the answer is still one that was tried and succeeded."""
    ladder: list[NumberSystem] = [FixedNearest(p=p) for p in range(3, 40, 2)]
    witnesses = {system: witness_for(task("index-lookup", n=2, alphabet=2)) for system in ladder}
    for good in itertools.combinations(ladder[:6], 2):
        succeeded: list[Witness] = []

        def attempt(system: NumberSystem, good=good, succeeded=succeeded) -> Witness | None:  # type: ignore[no-untyped-def]
            if system in good:
                succeeded.append(witnesses[system])
                return witnesses[system]
            return None

        found = first_proved(ladder, attempt, limited=False)
        assert found is (succeeded[-1] if succeeded else None)


def test_ladders_go_from_few_bits_to_many() -> None:
    for ladder in LADDERS.values():
        bits = [system.bits for system in ladder]
        assert bits == sorted(set(bits))


def test_a_construction_without_addresses_is_tried_with_one_code(monkeypatch: pytest.MonkeyPatch) -> None:
    construction = construction_for(task("index-lookup", n=8, alphabet=2))
    assert [*itertools.chain.from_iterable(construction.codes())] == [
        *itertools.chain.from_iterable(ADDRESS_CODES)
    ]

    def deaf(self: Construction, system: NumberSystem, addresses: str) -> Witness:
        return witness_for(self.task, choices=Choices(system=system))

    monkeypatch.setattr(Construction, "built", deaf)
    assert [*construction.codes()] == [("binary",)]


def test_small_systems_fall_back_on_no_other_construction() -> None:
    """Where a construction refuses a system, the next entry for the task must not answer in its place."""
    construction: Construction = construction_for(task("index-lookup", n=1024))
    assert construction.built(FixedNearest(p=3), "binary") is None


@pytest.mark.slow
@pytest.mark.parametrize("by", get_args(Objective))
def test_a_million_positions(by: Objective) -> None:
    about: Task = task("index-lookup", n=1 << 20, alphabet=64)
    witness, certificate = minimised(about, by=by)
    assert certificate.verdict == "proved"
    assert witness.size.precision_bits <= 13
    assert by == "precision" or witness.size.width == 46
