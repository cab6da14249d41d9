"""Every witness of the catalogue: it is owed, it is built, it is right, and it can be shown."""

from __future__ import annotations

import pytest
from benchmarks.witness_tasks import example_for

from separatrix.errors import SeparatrixError
from separatrix.precision import FixedDown, FixedNearest, Float32, NumberSystem
from separatrix.tasks import task
from separatrix.theorems import THEOREMS
from separatrix.witnesses import CATALOGUE, Choices, Entry, artefacts, entries_for, witness_for

from .checking import right_on_samples

NAMES = [" ".join((e.theorem, e.task, e.family, e.variant)).strip() for e in CATALOGUE]


def test_every_artefact_is_one_that_is_owed_and_none_is_missing() -> None:
    owed = {
        artefact
        for theorem in THEOREMS.values()
        for artefact in theorem.artefacts
        if artefact.kind == "witness"
    }
    assert owed == set(artefacts())
    assert len(set(artefacts())) == len(CATALOGUE)


@pytest.mark.slow
@pytest.mark.parametrize("entry", CATALOGUE, ids=NAMES)
def test_it_is_what_it_says_and_right_on_random_inputs(entry: Entry) -> None:
    witness = entry.builder()(example_for(entry), Choices())
    assert witness.artefact == entry.artefact
    assert witness.claims
    assert all(claim.interval is None for claim in witness.claims)
    assert witness.size.parameters > 0
    assert witness.task.name in str(witness)
    assert "<" in witness._repr_html_()
    small = witness.task.length <= 300
    assert right_on_samples(witness, count=4 if small else 1)


@pytest.mark.slow
@pytest.mark.parametrize("system", [Float32(), FixedNearest(p=53), FixedDown(n=1024, k=3)], ids=str)
@pytest.mark.parametrize("entry", CATALOGUE, ids=NAMES)
def test_other_numbers_are_right_too_or_refused_in_a_sentence(entry: Entry, system: NumberSystem) -> None:
    witness, refusal = None, ""
    try:
        witness = entry.builder()(example_for(entry), Choices(system=system))
    except SeparatrixError as error:
        refusal = str(error)
    assert refusal.endswith((".", "?")) if witness is None else right_on_samples(witness, count=1)


def test_families_are_found_from_the_outside() -> None:
    assert [entry.theorem for entry in entries_for("index-lookup", "transformer")] == ["W-4.6", "S-T1"]
    assert witness_for(task("index-lookup", n=8), family="transformer-2").family == "transformer-1"


def test_what_there_is_none_of_is_said() -> None:
    with pytest.raises(SeparatrixError, match="no witness for phone-book yet"):
        witness_for(task("phone-book", n=8))
    with pytest.raises(SeparatrixError, match="no witness for index-lookup in the family 'fnn'"):
        witness_for(task("index-lookup", n=8), family="fnn")
    with pytest.raises(SeparatrixError, match="Known: "):
        witness_for(task("index-lookup", n=8), variant="round")


def test_the_construction_follows_from_the_tasks_parameters() -> None:
    assert witness_for(task("match3", n=6, modulus=7, variant="local")).variant == "local"
    assert witness_for(task("dyck", n=6, form="next")).variant == "next characters"
    assert witness_for(task("equality", n=4, alice=(0, 3))).theorem == "S-L5"
    with pytest.raises(SeparatrixError, match="with variant=full or with variant=last or with variant=local"):
        witness_for(task("match3", n=6, modulus=7, variant="bigram"))


def test_what_one_construction_refuses_is_not_built_by_another() -> None:
    with pytest.raises(SeparatrixError, match="take a smaller n or more bits"):
        witness_for(task("index-lookup", n=1 << 20), choices=Choices(system=FixedNearest(p=5)))
