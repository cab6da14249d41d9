"""The proofs of S-T6, S-L5 and of disjointness: they go through on honest weights and on no others."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from separatrix.certificates import certify, replay
from separatrix.certificates.enclosures import rounding_of
from separatrix.certificates.proofs import proof_for
from separatrix.models.explicit.inputs import TokenInputs
from separatrix.models.explicit.positions import Listed, Own
from separatrix.models.explicit.transformer import CausalTransformer, Transformer
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks import Task
from separatrix.tasks.disjointness import Disjointness
from separatrix.tasks.equality import Equality
from separatrix.witnesses import Choices, Witness, witness_for
from separatrix.witnesses.choices import Addresses
from tests.certificates.proving import proved, survivors_are_harmless
from tests.witnesses.checking import rebuilt, right_on_every_input, wrong_answers
from tests.witnesses.test_equality import one_changed, one_common

TINY: tuple[Task, ...] = (
    Equality(n=4),
    Equality(n=6, alphabet=3),
    Equality(n=4, alice=(3, 1)),
    Disjointness(n=6),
)
FINE: tuple[NumberSystem, ...] = (Float64(), FixedDown(n=20, k=3), FixedNearest(p=25))


def built(task: Task, system: NumberSystem, addresses: Addresses = "binary") -> Witness:
    witness = witness_for(task, family="transformer-2", choices=Choices(system=system, addresses=addresses))
    # Families hold smaller ones, whose witnesses stand in where this one is refused.
    assert witness.theorem in ("S-T6", "S-L5", "S-T13")
    return witness


@pytest.mark.slow
@pytest.mark.parametrize(
    "system", [Float64(), Float32(), FixedDown(n=(1 << 14) + 1, k=2), FixedNearest(p=33)], ids=str
)
@pytest.mark.parametrize(
    "task",
    [
        Equality(n=1 << 14),
        Equality(n=1 << 14, form="one"),
        Equality(n=1 << 14, alice=tuple(range(0, 1 << 14, 2))),
        Disjointness(n=1 << 14),
    ],
    ids=lambda task: f"{task.name}, {task.vocabulary.size} words",
)
def test_long_inputs_are_certified(task: Task, system: NumberSystem) -> None:
    certificate = certify(built(task, system))
    assert certificate.verdict == "proved"
    assert certificate.inputs.log10 > 4_000
    assert all(claim.margin is not None and claim.margin > 0 for claim in certificate.claims)


def test_the_numbers_of_the_papers_with_exponent_one_are_enough() -> None:
    assert proved(built(Equality(n=1 << 14), FixedDown(n=(1 << 14) + 1, k=1)))
    assert proved(built(Disjointness(n=1 << 14), FixedDown(n=1 << 14, k=1)))


@pytest.mark.slow
def test_a_million_symbols_cost_no_more_than_their_digits() -> None:
    certificate = certify(built(Equality(n=1 << 14, alphabet=1 << 20), Float64()))
    assert certificate.verdict == "proved"


@pytest.mark.slow
@pytest.mark.parametrize("system", FINE, ids=str)
@pytest.mark.parametrize(
    "task",
    [
        Equality(n=2),
        Equality(n=4, alphabet=1),
        Equality(n=18, alphabet=37),
        Equality(n=2, alice=(1,)),
        Disjointness(n=2),
        Disjointness(n=14),
    ],
    ids=str,
)
def test_all_shapes_are_proven(task: Task, system: NumberSystem) -> None:
    assert proved(built(task, system))


@pytest.mark.parametrize("addresses", ["bch-1/4", "random-1/2", "one-hot"])
@pytest.mark.parametrize("task", [Equality(n=30), Disjointness(n=30)], ids=str)
def test_other_addresses_are_proven(task: Task, addresses: Addresses) -> None:
    assert proved(built(task, Float64(), addresses))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("task", [Equality(n=8), Equality(n=6, alphabet=3), Disjointness(n=10)], ids=str)
def test_what_is_proven_in_coarse_numbers_is_right(task: Task, k: int) -> None:
    witness = built(task, FixedDown(n=task.length, k=k))
    assert proved(witness) or k < 3
    assert right_on_every_input(witness) or not proved(witness)


@pytest.mark.slow
@pytest.mark.parametrize("task", TINY, ids=str)
def test_survivors_of_mutations_are_harmless(task: Task) -> None:
    survived, tried = survivors_are_harmless(built(task, Float64()), every=11)
    assert tried > 8
    assert survived < tried / 2


@pytest.mark.slow
@pytest.mark.parametrize("system", FINE, ids=str)
@pytest.mark.parametrize("task", TINY, ids=str)
def test_every_survivor_of_every_mutation_is_harmless(task: Task, system: NumberSystem) -> None:
    survived, tried = survivors_are_harmless(built(task, system), every=1)
    assert tried > 100
    assert survived < tried / 2


@pytest.mark.parametrize("task", [Equality(n=4), Equality(n=4, alice=(3, 1))], ids=str)
@pytest.mark.parametrize(
    "name", ["layers.0.heads.0.query", "layers.0.heads.0.value", "layers.1.heads.0.value"]
)
def test_a_matrix_with_its_sign_turned_is_refuted(task: Task, name: str) -> None:
    witness = built(task, Float64())
    tensors = {key: tensor.clone() for key, tensor in witness.model.tensors().items()}
    tensors[name].neg_()
    wrong = rebuilt(witness, tensors)
    assert not proved(wrong)
    certificate = certify(wrong)
    assert certificate.verdict == "refuted"
    assert certificate.counterexample is not None
    assert replay(wrong, certificate.counterexample)


def test_a_list_that_joins_the_wrong_places_is_not_proven() -> None:
    witness = built(Equality(n=6, alice=(0, 2, 4)), Float64())
    tensors = {key: tensor.clone() for key, tensor in witness.model.tensors().items()}
    (name,) = [key for key, tensor in tensors.items() if tensor.dtype == torch.int64]
    for table in ([0, 0, 1, -1, 2, 1, 2], [0, 0, 1, -1, 1, 1, 1], [1, 1, 0, -1, 0, 9, 9], [0, 0, 1]):
        wrong = rebuilt(witness, {**tensors, name: torch.tensor(table)})
        assert not proved(wrong)
    # Other numbers for the same pairs are as good.
    assert proved(rebuilt(witness, {**tensors, name: torch.tensor([2, 2, 0, -1, 0, 1, 1])}))


def test_another_rule_or_a_mask_is_not_proven() -> None:
    witness = built(Equality(n=6), Float64())
    model = witness.model
    assert isinstance(model, Transformer)
    assert isinstance(model.inputs, TokenInputs)
    (track,) = model.inputs.tracks
    for rule in (Own(), Listed(table=torch.tensor([0, 1, 2, -1, 0, 1, 2]))):
        moved = dataclasses.replace(track, rule=rule)
        inputs = dataclasses.replace(model.inputs, position_tracks=(moved,))
        changed = dataclasses.replace(model, inputs=inputs)
        assert not proved(dataclasses.replace(witness, model=changed))
        fields = {field.name: getattr(changed, field.name) for field in dataclasses.fields(changed)}
        assert not proved(dataclasses.replace(witness, model=CausalTransformer(**fields)))


@pytest.mark.slow
def test_weights_for_fewer_symbols_are_not_proven_for_more() -> None:
    short = built(Equality(n=4), Float64())
    long = dataclasses.replace(short, task=Equality(n=16))
    assert not proved(long)
    assert not right_on_every_input(long)


def test_the_proven_share_is_what_the_model_gives_at_worst() -> None:
    """The lead on unequal strings cannot be proven larger than the least one there is."""
    task = Equality(n=64)
    witness = built(task, Float64())
    prove = proof_for("S-T6", "equality", "")
    assert prove is not None
    lead = prove(witness.model, task, rounding_of(Float64()))[1].interval
    assert lead is not None
    rows = one_changed(task)
    assert wrong_answers(witness.model, task, rows) == 0
    last = rows.ne(task.symbols + 1).sum(1) - 1
    scores = witness.model.forward(rows)[torch.arange(len(rows)), last]
    least = float((scores[:, 1] - scores[:, 0]).abs().min())
    assert float(lead.low) <= least
    assert float(lead.low) > 0.5 / task.length


def test_the_proven_lead_of_disjointness_is_there() -> None:
    task = Disjointness(n=32)
    model = built(task, Float64()).model
    scores = model.forward(one_common(task))[:, -1]
    prove = proof_for("S-T13", "disjointness", "")
    assert prove is not None
    lead = prove(model, task, rounding_of(Float64()))[1].interval
    assert lead is not None
    assert 0 < float(lead.low) <= float((scores[:, 1] - scores[:, 0]).abs().min())
