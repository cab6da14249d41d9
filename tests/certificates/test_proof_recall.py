"""The proofs of S-T7 for recall: they go through on honest weights and on no others that matter."""

from __future__ import annotations

import dataclasses

import pytest

from separatrix.certificates import certify, replay
from separatrix.certificates.enclosures import rounding_of
from separatrix.certificates.proofs import proof_for
from separatrix.models.explicit.transformer import Transformer, UnmaskedTransformer
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks import Task
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.mqar import MultiQueryRecall
from separatrix.witnesses import Choices, Witness, witness_for
from tests.certificates.proving import proved, survivors_are_harmless
from tests.witnesses.checking import rebuilt, right_on_every_input
from tests.witnesses.test_recall import all_keys

TINY: tuple[Task, ...] = (
    AssociativeRecall(n=2, keys=3, values=2),
    AssociativeRecall(n=3, form="sequence", alphabet=2),
    MultiQueryRecall(n=4, vocabulary_size=4),
)


def built(task: Task, system: NumberSystem) -> Witness:
    return witness_for(task, family="transformer-2", choices=Choices(system=system))


@pytest.mark.slow
@pytest.mark.parametrize(
    "system", [Float64(), Float32(), FixedDown(n=4096, k=1), FixedNearest(p=13)], ids=str
)
@pytest.mark.parametrize(
    "task", [AssociativeRecall(n=1 << 12), MultiQueryRecall(n=1 << 12, vocabulary_size=1 << 12)], ids=str
)
def test_thousands_of_pairs_are_certified(task: Task, system: NumberSystem) -> None:
    certificate = certify(built(task, system))
    assert certificate.verdict == "proved"
    assert certificate.inputs.log10 > 10_000
    assert all(claim.margin is not None and claim.margin > 0 for claim in certificate.claims)


@pytest.mark.slow
@pytest.mark.parametrize("system", [Float64(), FixedNearest(p=43)], ids=str)
def test_long_sequences_are_certified(system: NumberSystem) -> None:
    certificate = certify(built(AssociativeRecall(n=1 << 12, form="sequence"), system))
    assert certificate.verdict == "proved"


@pytest.mark.parametrize("system", [Float64(), FixedDown(n=37, k=3)], ids=str)
@pytest.mark.parametrize(
    "task",
    [
        AssociativeRecall(n=1, keys=1, values=1),
        AssociativeRecall(n=5, keys=100, values=7),
        AssociativeRecall(n=2, form="sequence", alphabet=1),
        AssociativeRecall(n=9, form="sequence", alphabet=50),
        MultiQueryRecall(n=2, vocabulary_size=2),
        MultiQueryRecall(n=10, vocabulary_size=90),
    ],
    ids=str,
)
def test_all_shapes_are_proven(task: Task, system: NumberSystem) -> None:
    assert proved(built(task, system))


@pytest.mark.slow
@pytest.mark.parametrize("task", TINY, ids=str)
def test_survivors_of_mutations_are_harmless(task: Task) -> None:
    survived, tried = survivors_are_harmless(built(task, Float64()), every=35)
    assert tried > 5
    assert survived < tried / 2


@pytest.mark.slow
@pytest.mark.parametrize("system", [Float64(), FixedNearest(p=25)], ids=str)
@pytest.mark.parametrize("task", TINY, ids=str)
def test_every_survivor_of_every_mutation_is_harmless(task: Task, system: NumberSystem) -> None:
    survived, tried = survivors_are_harmless(built(task, system), every=1)
    assert tried > 250
    assert survived < tried / 2


@pytest.mark.slow
@pytest.mark.parametrize("task", TINY, ids=str)
@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_a_matrix_with_its_sign_turned_is_not_proven(task: Task, layer: int, name: str) -> None:
    witness = built(task, Float64())
    tensors = {key: tensor.clone() for key, tensor in witness.model.tensors().items()}
    tensors[f"layers.{layer}.heads.0.{name}"].neg_()
    wrong = rebuilt(witness, tensors)
    assert not proved(wrong)
    certificate = certify(wrong)
    assert certificate.verdict == "refuted"
    assert certificate.counterexample is not None
    assert replay(wrong, certificate.counterexample)


def test_mqar_without_a_mask_is_not_proven() -> None:
    witness = built(TINY[2], Float64())
    model = witness.model
    assert isinstance(model, Transformer)
    fields = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    assert not proved(dataclasses.replace(witness, model=UnmaskedTransformer(**fields)))


def test_associative_recall_of_pairs_needs_no_mask() -> None:
    witness = built(TINY[0], Float64())
    model = witness.model
    assert isinstance(model, Transformer)
    fields = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    unmasked = dataclasses.replace(witness, model=UnmaskedTransformer(**fields))
    assert proved(unmasked)
    assert right_on_every_input(unmasked)


def test_the_proven_weight_bounds_what_the_model_does_on_the_worst_context() -> None:
    task = AssociativeRecall(n=32, keys=32, values=2)
    witness = built(task, Float64())
    model, prove = witness.model, proof_for("S-T7", task.name, "")
    assert prove is not None
    assert isinstance(model, Transformer)
    weight = prove(model, task, rounding_of(Float64()))[1].interval
    assert weight is not None
    blunt = dataclasses.replace(model.layers[1], feed_forward=None)
    bare = dataclasses.replace(
        model,
        layers=(model.layers[0], blunt),
        readout=dataclasses.replace(model.readout, code=None),
    )
    # Without ψ the readout gives 2·digit − 1, and the digit is the weight on the only label that is 1.
    digits = (bare.forward(all_keys(task)[1::2])[:, task.length - 1, 0] + 1) / 2
    assert float(weight.low) <= float(digits.min()) <= float(weight.low) + 0.1
