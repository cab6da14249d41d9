"""The proof of S-T1: it goes through on honest weights and on no others that matter."""

from __future__ import annotations

import pytest
import torch

from separatrix.certificates import certify, replay
from separatrix.certificates.enclosures import rounding_of
from separatrix.certificates.proofs import proof_for
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.witnesses import Choices, Witness, witness_for
from tests.certificates.proving import survivors_are_harmless
from tests.witnesses.checking import mutations

PROVE = proof_for("S-T1", "index-lookup", "")


def built(n: int, alphabet: int, system: NumberSystem) -> Witness:
    return witness_for(IndexLookup(n=n, alphabet=alphabet), choices=Choices(system=system))


@pytest.mark.parametrize(
    "system", [Float64(), Float32(), FixedDown(n=1 << 20, k=1), FixedNearest(p=15)], ids=str
)
def test_a_million_symbols_are_certified(system: NumberSystem) -> None:
    certificate = certify(built(1 << 20, 4, system))
    assert certificate.verdict == "proved"
    assert certificate.inputs.log10 > 600_000
    assert all(claim.margin is not None and claim.margin > 0 for claim in certificate.claims)


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("system", [Float64(), FixedNearest(p=13)], ids=str)
def test_every_survivor_of_a_mutation_is_harmless(system: NumberSystem, every: int) -> None:
    survived, tried = survivors_are_harmless(built(4, 2, system), every=every)
    assert tried > 100 // every
    assert survived < tried / 2


def test_a_wrong_model_is_refuted_with_an_input_that_fails_again() -> None:
    witness = built(4, 2, Float64())
    wrong = next(m for name, m in mutations(witness) if name.startswith("negate") and "query" in name)
    certificate = certify(wrong)
    assert certificate.verdict == "refuted"
    assert certificate.counterexample is not None
    assert replay(wrong, certificate.counterexample)


def test_the_proven_weight_bounds_what_the_model_does_on_the_worst_context() -> None:
    witness = built(64, 2, Float64())
    assert PROVE is not None
    weight = PROVE(witness.model, witness.task, rounding_of(Float64()))[0].interval
    assert weight is not None
    head = witness.model.layers[0].heads[0]  # type: ignore[attr-defined]
    row = torch.zeros(65, dtype=torch.int64)
    row[17], row[64] = 1, 2 + 17
    stream = witness.model.inputs.embed(row[None], torch.arange(65)[None], torch.tensor([65]))[0]  # type: ignore[attr-defined]
    logits = (stream[64] @ head.query.T) @ (stream @ head.key.T).T
    measured = float(logits.softmax(0)[17])
    assert float(weight.low) <= measured <= float(weight.low) + 1e-6
