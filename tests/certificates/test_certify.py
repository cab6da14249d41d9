"""From weights to a verdict."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from benchmarks.witness_tasks import example_for

from separatrix.certificates import certify, replay
from separatrix.certificates.covered import inputs_of
from separatrix.certificates.suspects import suspects
from separatrix.errors import InvalidInput
from separatrix.evidence import Certificate
from separatrix.precision import FixedNearest, Float64
from separatrix.tasks import Task, task
from separatrix.witnesses import CATALOGUE, Choices, Witness, witness_for
from tests.witnesses.checking import rebuilt, right_on_samples


def lookup(n: int, **choices: object) -> Witness:
    return witness_for(task("index-lookup", n=n, alphabet=4), choices=Choices(**choices))  # type: ignore[arg-type]


def blunter(witness: Witness, factor: float) -> Witness:
    tensors = {name: tensor.clone() for name, tensor in witness.model.tensors().items()}
    tensors["layers.0.heads.0.query"] *= factor
    return rebuilt(witness, tensors)


def test_a_certificate_comes_back_from_json() -> None:
    certificate = certify(lookup(16))
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert certificate.verdict == "proved"
    assert certificate.theorem == "S-T1"
    assert certificate.arithmetic == "float64"
    assert any("any order" in sentence for sentence in certificate.assumptions)


def test_a_model_that_random_inputs_do_not_break_is_refuted_by_hand_made_ones() -> None:
    blunt = blunter(lookup(64), 0.6)
    assert right_on_samples(blunt, count=10)
    certificate = certify(blunt)
    assert certificate.verdict == "refuted"
    assert certificate.counterexample is not None
    assert replay(blunt, certificate.counterexample)


def test_what_is_neither_proven_nor_refuted_is_unknown_and_says_why() -> None:
    blunt = blunter(lookup(64), 0.85)
    certificate = certify(blunt)
    assert certificate.verdict == "unknown"
    assert certificate.reason.startswith("lead of the right symbol must be > 0 score; it is within [")
    assert certificate.counterexample is None


def test_few_inputs_are_all_tried_where_there_is_no_proof() -> None:
    witness = dataclasses.replace(lookup(4, system=FixedNearest(p=15)), variant="another construction")
    certificate = certify(witness)
    assert (certificate.verdict, certificate.claims[0].name) == ("proved", "wrong answers")
    assert certificate.assumptions == ()
    certificate = certify(dataclasses.replace(lookup(4), variant="another construction"))
    assert "order" in certificate.assumptions[0]


def test_a_counterexample_is_about_its_own_weights() -> None:
    broken = certify(blunter(lookup(64), 0.5)).counterexample
    assert broken is not None
    with pytest.raises(InvalidInput, match="other weights"):
        replay(lookup(64), broken)


@pytest.mark.parametrize(
    ("about", "formula"),
    [
        (task("index-lookup", n=3, alphabet=4), "Σ_(k=1…3) k·4^k = 228"),
        (task("equality", n=6, alphabet=3), "Σ_(h=1…3) 3^(2h) = 819"),
        (task("mqar", n=4, vocabulary_size=8), "(4)!/(2)! · 4^2 · 2! = 384"),
        (task("match3", n=4, modulus=5, variant="last"), "5^3 = 125"),
        (task("dyck", n=4), "4^4 = 256"),
        (task("cycle5", n=5), "2^(5·4/2) = 1,024"),
    ],
)
def test_inputs_are_counted_with_a_formula(about: Task, formula: str) -> None:
    assert str(inputs_of(about)) == formula


@pytest.mark.parametrize(
    "about",
    [
        task("index-lookup", n=50, alphabet=3),
        task("equality", n=20),
        task("equality", n=20, form="one"),
        task("disjointness", n=20),
    ],
    ids=str,
)
def test_suspects_are_inputs_of_the_task(about: Task) -> None:
    rows = suspects(about, 12)
    assert rows is not None
    assert 1 <= len(rows) <= 12
    for row in rows:
        about.check(row)
    assert suspects(task("match2", n=5), 3) is None


@pytest.mark.slow
def test_every_witness_of_s_and_r_has_a_proof_and_those_of_w_are_run_on_every_input() -> None:
    from separatrix.certificates.exhaustive import few_inputs
    from separatrix.certificates.proofs import proof_for

    for entry in CATALOGUE:
        if proof_for(entry.theorem, entry.task, entry.variant) is None:
            assert entry.theorem.startswith("W-"), entry
            witness = entry.builder()(example_for(entry), Choices())
            assert few_inputs(witness.model, witness.task, witness.script), entry


def test_bad_weights_are_told_apart_by_their_hash() -> None:
    first, second = lookup(16), lookup(16)
    assert certify(first).weights_sha256 == certify(second).weights_sha256
    assert certify(blunter(first, 2.0)).weights_sha256 != certify(first).weights_sha256
    assert torch.equal(
        first.model.forward(torch.tensor([[0, 4]])), second.model.forward(torch.tensor([[0, 4]]))
    )
    assert isinstance(first.arithmetic, Float64)


def test_a_model_is_certified_for_a_task() -> None:
    witness = lookup(32)
    certificate = certify(witness.model, witness.task)
    assert (certificate.verdict, certificate.theorem) == ("proved", "S-T1")
    assert certify(witness.model, task("index-lookup", n=31, alphabet=4)).verdict != "proved"
    assert witness.built is not None
    assert certify(witness.built).verdict == "proved"
    with pytest.raises(InvalidInput, match="name it"):
        certify(witness.model)
    with pytest.raises(InvalidInput, match="got int"):
        certify(3)  # type: ignore[call-overload]
