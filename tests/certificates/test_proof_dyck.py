"""The proofs of S-E-cited: they go through on honest weights and on no others that matter."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from separatrix.certificates import certify, replay
from separatrix.certificates.enclosures import rounding_of
from separatrix.certificates.proofs import proof_for
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks.dyck import Dyck
from separatrix.witnesses import Choices, Witness, witness_for
from tests.certificates.proving import proved, survivors_are_harmless
from tests.witnesses.checking import mutations

SYSTEMS = (Float64(), Float32(), FixedDown(n=16, k=2), FixedNearest(p=17))


def built(task: Dyck, system: NumberSystem | None = None) -> Witness:
    return witness_for(task, choices=Choices(system=system or Float64()))


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("form", ["recognise", "next"])
def test_all_strings_are_certified(form: str, system: NumberSystem) -> None:
    task = Dyck(n=16, form=form)  # type: ignore[arg-type]
    certificate = certify(built(task, system))
    assert certificate.verdict == "proved", certificate.reason
    assert [claim.name for claim in certificate.claims][-1] == "lead of the right answer"


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", [Dyck(n=2), Dyck(n=8, types=1, depth=1), Dyck(n=10, types=3, depth=4)], ids=str
)
def test_other_types_and_depths(task: Dyck) -> None:
    assert proved(built(task))
    assert proved(built(dataclasses.replace(task, form="next")))


@pytest.mark.slow
@pytest.mark.parametrize("system", [Float64(), Float32(), FixedDown(n=1024, k=2)], ids=str)
@pytest.mark.parametrize("form", ["recognise", "next"])
def test_a_thousand_brackets(form: str, system: NumberSystem) -> None:
    assert proved(built(Dyck(n=1024, form=form), system))  # type: ignore[arg-type]


def test_few_bits_are_not_enough() -> None:
    assert proved(built(Dyck(n=16), FixedNearest(p=17)))
    coarse = dataclasses.replace(built(Dyck(n=16)))
    model = coarse.model.with_arithmetic(FixedNearest(p=13))
    assert not proved(dataclasses.replace(coarse, model=model))


@pytest.mark.slow
@pytest.mark.parametrize(("form", "every"), [("recognise", 67), ("next", 41)])
def test_every_survivor_of_a_mutation_is_harmless(form: str, every: int) -> None:
    task = Dyck(n=4, form=form)  # type: ignore[arg-type]
    survived, tried = survivors_are_harmless(built(task, Float64()), every=every)
    assert tried > 10
    assert survived < 0.75 * tried


@pytest.mark.slow
@pytest.mark.parametrize("form", ["recognise", "next"])
@pytest.mark.parametrize("system", [Float64(), FixedDown(n=4, k=3)], ids=str)
def test_every_survivor_of_every_mutation_is_harmless(form: str, system: NumberSystem) -> None:
    task = Dyck(n=4, form=form)  # type: ignore[arg-type]
    survived, tried = survivors_are_harmless(built(task, system), every=1)
    assert tried > 300
    assert survived < 0.75 * tried


@pytest.mark.slow
def test_a_proof_is_about_its_own_task() -> None:
    witness = built(Dyck(n=8))
    assert proved(witness, Dyck(n=8))
    assert proved(witness, Dyck(n=6)), "shorter strings are covered"
    assert not proved(witness, Dyck(n=8, types=3))
    assert not proved(witness, Dyck(n=8, depth=3))
    assert not proved(witness, Dyck(n=8, form="next"))


@pytest.mark.slow
def test_a_wrong_model_is_refuted_with_a_string_that_fails_again() -> None:
    witness = built(Dyck(n=6))
    wrong = next(m for name, m in mutations(witness) if name == "negate layers.1.heads.0.value[1]")
    certificate = certify(wrong)
    assert certificate.verdict == "refuted"
    assert certificate.counterexample is not None
    assert replay(wrong, certificate.counterexample)


def test_the_proven_weight_bounds_what_the_model_does() -> None:
    task = Dyck(n=16)
    witness = built(task)
    prove = proof_for("S-E-cited", "dyck", "")
    assert prove is not None
    weight = prove(witness.model, task, rounding_of(Float64()))[0].interval
    assert weight is not None
    row = task.parse("(" + "[]" * 7 + ")")
    model = witness.model
    layers = model.layers  # type: ignore[attr-defined]
    first = dataclasses.replace(model, layers=layers[:1], readout=_whole(layers[0].out))  # type: ignore[type-var]
    stream = first.forward(row[None])[0]
    head = layers[1].heads[0]
    logits = (stream[15] @ head.query.T) @ (stream @ head.key.T).T
    measured = float(logits.softmax(0)[0])
    assert float(weight.low) <= measured
    assert measured < 0.96, "rivals have a share that is not negligible"


def _whole(width: int) -> object:
    from separatrix.models.explicit.layers import Readout
    from separatrix.models.explicit.linear import Affine

    same = Affine(matrix=torch.eye(width).double(), bias=torch.zeros(width).double())
    return Readout(map=same, code=None, scores=False)
