"""The proofs of UP-TF1: they go through on honest weights and on no others that matter."""

from __future__ import annotations

import dataclasses

import pytest

from separatrix.certificates import certify, replay
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks.disjointness import Disjointness
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.equality import Equality
from separatrix.witnesses import Choices, Witness, witness_for
from tests.certificates.proving import proved
from tests.witnesses.checking import mutations, right_on_every_input

Tasks = Dyck | Equality | Disjointness
SYSTEMS = (Float64(), Float32(), FixedDown(n=64, k=2), FixedNearest(p=19))
SMALL: tuple[Tasks, ...] = (
    Dyck(n=4),
    Dyck(n=4, types=1, depth=1),
    Equality(n=4, alphabet=3),
    Disjointness(n=4),
)


def built(task: Tasks, system: NumberSystem | None = None) -> Witness:
    return witness_for(task, variant="linear size", choices=Choices(system=system or Float64()))


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize(
    "task",
    [
        Dyck(n=64),
        Dyck(n=30, types=8),
        Dyck(n=20, depth=1),
        Equality(n=60),
        Equality(n=20, alphabet=1000),
        Disjointness(n=64),
    ],
    ids=str,
)
def test_all_inputs_are_certified(task: Tasks, system: NumberSystem) -> None:
    certificate = certify(built(task, system))
    assert certificate.verdict == "proved", certificate.reason
    names = [claim.name for claim in certificate.claims]
    assert names == [claim.name for claim in built(task).claims]


@pytest.mark.slow
@pytest.mark.parametrize("task", [Dyck(n=1000), Equality(n=2000), Disjointness(n=4000)], ids=str)
def test_thousands_of_places(task: Tasks) -> None:
    assert proved(built(task))


@pytest.mark.slow
def test_single_precision_has_an_end() -> None:
    assert proved(built(Dyck(n=512), Float32()))
    assert not proved(built(Dyck(n=1000), Float32()))


def test_few_bits_are_not_enough() -> None:
    assert proved(built(Dyck(n=64), FixedNearest(p=19)))
    witness = built(Dyck(n=64))
    coarse = witness.model.with_arithmetic(FixedNearest(p=13))
    assert not proved(dataclasses.replace(witness, model=coarse))


@pytest.mark.parametrize("task", SMALL, ids=str)
def test_every_survivor_of_a_mutation_is_harmless(task: Tasks) -> None:
    tried = [mutant for _, mutant in mutations(built(task), every=13 if task.name == "dyck" else 5)]
    left = [mutant for mutant in tried if proved(mutant)]
    assert len(tried) > 15
    assert len(left) < 0.75 * len(tried)
    assert all(right_on_every_input(mutant) for mutant in left)


@pytest.mark.slow
@pytest.mark.parametrize("task", SMALL, ids=str)
@pytest.mark.parametrize("system", [Float32(), FixedDown(n=8, k=2)], ids=str)
def test_every_survivor_of_every_mutation_is_harmless(task: Tasks, system: NumberSystem) -> None:
    left = [mutant for _, mutant in mutations(built(task, system)) if proved(mutant)]
    assert all(right_on_every_input(mutant) for mutant in left)


def test_a_proof_is_about_its_own_task() -> None:
    witness = built(Dyck(n=8))
    assert not proved(witness, Dyck(n=8, types=3))
    assert not proved(witness, Dyck(n=8, depth=1))
    assert not proved(witness, Dyck(n=8, depth=3)), "deeper strings are members that it refuses"
    assert not proved(built(Equality(n=8)), Equality(n=8, alphabet=3))
    assert not proved(built(Dyck(n=8, depth=1)), Dyck(n=8))


@pytest.mark.slow
def test_a_wrong_model_is_refuted_with_an_input_that_fails_again() -> None:
    for task in (Dyck(n=6), Equality(n=6), Disjointness(n=6)):
        wrong = next(
            m for name, m in mutations(built(task)) if name == "negate layers.0.feed_forward.0.matrix[0]"
        )
        certificate = certify(wrong)
        assert certificate.verdict == "refuted"
        assert certificate.counterexample is not None
        assert replay(wrong, certificate.counterexample)
