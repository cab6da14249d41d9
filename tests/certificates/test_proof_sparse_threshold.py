"""The proof of S-T13: it goes through on honest weights and lists, and on no others that matter."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from separatrix.certificates import certify, replay
from separatrix.certificates.enclosures import rounding_of
from separatrix.certificates.proofs import proof_for
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks.sparse_threshold import Feature, SparseThreshold
from separatrix.witnesses import Choices, Witness, witness_for
from separatrix.witnesses.choices import Addresses
from tests.certificates.proving import proved, survivors_are_harmless
from tests.witnesses.checking import rebuilt, right_on_every_input
from tests.witnesses.test_sparse_threshold import SMALL, just_at

FINE: tuple[NumberSystem, ...] = (Float64(), FixedDown(n=20, k=3), FixedNearest(p=25))
TINY = (
    SparseThreshold(n=3, k=2, threshold=1, function_seed=1),
    SparseThreshold.from_dnf("x1 & ~x3 | x2", n=3),
)


def built(task: SparseThreshold, system: NumberSystem, addresses: Addresses = "binary") -> Witness:
    return witness_for(task, family="transformer-2", choices=Choices(system=system, addresses=addresses))


@pytest.mark.parametrize("system", [Float64(), FixedDown(n=1 << 12, k=2), FixedNearest(p=33)], ids=str)
@pytest.mark.parametrize("k", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_thousands_of_features_are_certified(k: int, system: NumberSystem) -> None:
    certificate = certify(built(SparseThreshold(n=1 << 12, k=k), system))
    assert certificate.verdict == "proved"
    assert certificate.inputs.log10 > 1_200
    assert all(claim.margin is not None and claim.margin > 0 for claim in certificate.claims)


@pytest.mark.parametrize("bound", [0, 511, 1023])
def test_single_floats_reach_a_thousand_features(bound: int) -> None:
    assert proved(built(SparseThreshold(n=1 << 10, k=1, threshold=bound), Float32()))


@pytest.mark.slow
@pytest.mark.parametrize("system", FINE, ids=str)
@pytest.mark.parametrize(
    "task",
    [task for task in SMALL if task.k < 4],
    ids=lambda task: f"n={task.n}, k={task.k}, b={task.bound}",
)
def test_all_shapes_are_proven(task: SparseThreshold, system: NumberSystem) -> None:
    assert proved(built(task, system))


@pytest.mark.slow
@pytest.mark.parametrize("addresses", ["bch-1/4", "random-1/2", "one-hot"])
def test_other_addresses_are_proven(addresses: Addresses) -> None:
    assert proved(built(SparseThreshold(n=20), Float64(), addresses))


@pytest.mark.slow
@pytest.mark.parametrize("task", TINY, ids=lambda task: f"b={task.bound}")
def test_survivors_of_mutations_are_harmless(task: SparseThreshold) -> None:
    survived, tried = survivors_are_harmless(built(task, Float64()), every=61)
    assert tried > 10
    assert survived < tried / 2


@pytest.mark.slow
@pytest.mark.parametrize("system", FINE, ids=str)
def test_every_survivor_of_every_mutation_is_harmless(system: NumberSystem) -> None:
    survived, tried = survivors_are_harmless(built(TINY[1], system), every=1)
    assert tried > 700
    assert survived < tried / 2


@pytest.mark.parametrize(
    "name", ["layers.0.heads.1.query", "layers.0.heads.0.value", "layers.1.heads.0.value"]
)
def test_a_matrix_with_its_sign_turned_is_refuted(name: str) -> None:
    witness = built(SparseThreshold.equality(6), Float64())
    tensors = {key: tensor.clone() for key, tensor in witness.model.tensors().items()}
    tensors[name].neg_()
    wrong = rebuilt(witness, tensors)
    assert not proved(wrong)
    certificate = certify(wrong)
    assert certificate.verdict == "refuted"
    assert certificate.counterexample is not None
    assert replay(wrong, certificate.counterexample)


@pytest.mark.slow
def test_every_number_of_the_lists_counts() -> None:
    task = SparseThreshold(n=4, k=2, function_seed=3)
    witness = built(task, Float64())
    tensors = {key: tensor.clone() for key, tensor in witness.model.tensors().items()}
    lists = [key for key, tensor in tensors.items() if tensor.dtype == torch.int64]
    assert len(lists) == 3
    for name in lists:
        for place in range(task.n):
            changed = tensors[name].clone()
            changed[place] = (changed[place] + 1) % (16 if "table" in name else task.n)
            mutant = rebuilt(witness, {**tensors, name: changed})
            assert not proved(mutant) or right_on_every_input(mutant)
            changed[place] = -1
            mutant = rebuilt(witness, {**tensors, name: changed})
            assert not proved(mutant) or right_on_every_input(mutant)


def test_the_same_function_by_other_lists_is_proven() -> None:
    """Features whose bits are looked up in the other order, with the table turned to match."""
    task = SparseThreshold(n=4, features=tuple(Feature((i, (i + 1) % 4), (0, 1, 0, 0)) for i in range(4)))
    turned = tuple(Feature((b, a), (0, 0, 1, 0)) for a, b in (feature.indices for feature in task.function))
    witness = built(dataclasses.replace(task, features=turned), Float64())
    assert proved(dataclasses.replace(witness, task=task))
    other = dataclasses.replace(task, features=(*task.function[:3], Feature((3, 0), (0, 1, 0, 1))))
    assert not proved(dataclasses.replace(witness, task=other))


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0, 2, 4])
def test_weights_for_one_threshold_are_not_proven_for_another(threshold: int) -> None:
    task = SparseThreshold(n=6, k=2, threshold=threshold)
    witness = built(task, FixedDown(n=6, k=2))
    for other in range(6):
        asked = dataclasses.replace(witness, task=dataclasses.replace(task, threshold=other))
        assert proved(asked) == (other == threshold)


def test_the_proven_lead_is_there() -> None:
    n, bound = 32, 20
    task = SparseThreshold(n=n, k=1, threshold=bound, features=tuple(Feature((i,), (0, 1)) for i in range(n)))
    model = built(task, Float64()).model
    prove = proof_for("S-T13", "sparse-threshold", "")
    assert prove is not None
    lead = prove(model, task, rounding_of(Float64()))[1].interval
    assert lead is not None
    scores = model.forward(torch.cat([just_at(n, bound), just_at(n, bound + 1)]))[:, -1]
    least = float((scores[:, 1] - scores[:, 0]).abs().min())
    assert 0.9 * least < float(lead.low) <= least
