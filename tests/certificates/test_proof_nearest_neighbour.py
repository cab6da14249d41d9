"""The proof of S-T7 for labelled points: it goes through on honest weights and on no others that matter."""

from __future__ import annotations

import dataclasses

import pytest

from separatrix.certificates import certify
from separatrix.certificates.enclosures import rounding_of
from separatrix.certificates.proofs import proof_for
from separatrix.models.explicit.transformer import Transformer, UnmaskedTransformer
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks.nearest_neighbour import NearestNeighbour
from separatrix.witnesses import Choices, Witness, witness_for
from tests.certificates.proving import proved, survivors_are_harmless
from tests.witnesses.checking import rebuilt, right_on_every_input
from tests.witnesses.test_nearest_neighbour import crowded

PROVE = proof_for("S-T7", "nearest-neighbour", "")
TINY = NearestNeighbour(n=3, dimension=2, noise=1, margin=0.5)


def built(task: NearestNeighbour, system: NumberSystem) -> Witness:
    return witness_for(task, choices=Choices(system=system))


@pytest.mark.parametrize(
    "system", [Float64(), Float32(), FixedDown(n=4096, k=2), FixedNearest(p=17)], ids=str
)
def test_thousands_of_points_with_the_margin_of_a_binary_code_are_certified(system: NumberSystem) -> None:
    certificate = certify(built(NearestNeighbour(n=1 << 12, dimension=12, margin=2 / 12), system))
    assert certificate.verdict == "proved"
    assert all(claim.margin is not None and claim.margin > 0 for claim in certificate.claims)


@pytest.mark.parametrize("system", [Float64(), FixedDown(n=37, k=3)], ids=str)
@pytest.mark.parametrize(
    "task",
    [
        NearestNeighbour(n=2, dimension=1, noise=0, margin=2.0, labels=3),
        NearestNeighbour(n=9, dimension=5, labels=1),
        NearestNeighbour(n=20, dimension=16, labels=6, margin=0.01),
        NearestNeighbour(n=7, dimension=3, labels=2, margin=1.9, noise=0),
    ],
    ids=str,
)
def test_all_shapes_are_proven(task: NearestNeighbour, system: NumberSystem) -> None:
    assert proved(built(task, system))


@pytest.mark.slow
@pytest.mark.parametrize("system", [Float64(), FixedNearest(p=25)], ids=str)
def test_survivors_of_mutations_are_harmless(system: NumberSystem) -> None:
    survived, tried = survivors_are_harmless(built(TINY, system), every=41)
    assert tried > 10
    assert survived < tried / 2


@pytest.mark.slow
@pytest.mark.parametrize("system", [Float64(), FixedNearest(p=25)], ids=str)
def test_every_survivor_of_every_mutation_is_harmless(system: NumberSystem) -> None:
    survived, tried = survivors_are_harmless(built(TINY, system), every=1)
    assert tried > 500
    assert survived < tried / 2


def test_the_proof_needs_no_mask() -> None:
    witness = built(TINY, Float64())
    model = witness.model
    assert isinstance(model, Transformer)
    fields = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    unmasked = dataclasses.replace(witness, model=UnmaskedTransformer(**fields))
    assert proved(unmasked)
    assert right_on_every_input(unmasked)


def test_a_smaller_margin_than_the_weights_were_built_for_is_not_proven() -> None:
    wide, narrow = (NearestNeighbour(n=32, dimension=16, margin=margin) for margin in (0.5, 0.125))
    witness = built(wide, Float64())
    assert PROVE is not None
    claims = PROVE(witness.model, narrow, rounding_of(Float64()))
    assert claims[-1].verdict == "unknown"


def test_the_proven_weight_bounds_what_the_model_does_on_the_worst_context() -> None:
    task = NearestNeighbour(n=32, dimension=8, margin=0.25)
    witness = built(task, Float64())
    assert PROVE is not None
    lead = PROVE(witness.model, task, rounding_of(Float64()))[-1].interval
    assert lead is not None
    assert isinstance(witness.model, Transformer)
    rows = crowded(task, 1)
    scores = witness.model.forward(rows)[:, task.length - 1]
    least = float((scores[:, 1] - scores[:, 0]).min())
    assert float(lead.low) <= least <= float(lead.low) + 0.25


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_a_matrix_with_its_sign_turned_is_not_proven(layer: int, name: str) -> None:
    witness = built(TINY, Float64())
    tensors = {key: tensor.clone() for key, tensor in witness.model.tensors().items()}
    tensors[f"layers.{layer}.heads.0.{name}"].neg_()
    wrong = rebuilt(witness, tensors)
    assert not proved(wrong)
    # With two labels, a first layer that looks away from the point in front still leaks enough of it.
    assert right_on_every_input(wrong) == (layer == 0 and name != "value")
