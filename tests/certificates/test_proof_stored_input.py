"""The proof of UP-RNN: it goes through on honest weights, and on others only if they are as good."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from separatrix.certificates import certify, replay
from separatrix.certificates.enclosures import rounding_of
from separatrix.certificates.lemmas.integer_maps import assignments, composed, read_map
from separatrix.certificates.proofs import proof_for
from separatrix.certificates.proofs.stored_input import prove
from separatrix.certificates.refusals import NotProved
from separatrix.errors import InvalidInput
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.models.explicit.recurrent_maps import Block, Coordinates, LinearMap, Pattern
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks import task as make_task
from separatrix.witnesses import Choices, Witness, witness_for
from tests.certificates.proving import proved
from tests.witnesses.checking import mutations, rebuilt, right_on_every_input

SYSTEMS: tuple[NumberSystem, ...] = (Float64(), Float32(), FixedNearest(p=15), FixedDown(n=16, k=2))
SIZES: list[tuple[str, dict[str, Any]]] = [
    ("index-lookup", {"n": 5, "alphabet": 5}),
    ("index-lookup", {"n": 1, "alphabet": 1}),
    ("index-lookup", {"n": 40}),
    ("associative-recall", {"n": 3, "keys": 5, "values": 3}),
    ("associative-recall", {"n": 1, "keys": 1, "values": 1}),
    ("associative-recall", {"n": 33}),
    ("associative-recall", {"n": 2, "form": "sequence", "alphabet": 1}),
    ("associative-recall", {"n": 7, "form": "sequence", "alphabet": 3}),
    ("associative-recall", {"n": 50, "form": "sequence"}),
    ("mqar", {"n": 2, "vocabulary_size": 2}),
    ("mqar", {"n": 32, "vocabulary_size": 64}),
    ("equality", {"n": 2, "alphabet": 1}),
    ("equality", {"n": 14}),
    ("equality", {"n": 60, "form": "one"}),
]
MUTATED: list[tuple[str, dict[str, Any]]] = [
    ("index-lookup", {"n": 3, "alphabet": 3}),
    ("associative-recall", {"n": 2, "keys": 4, "values": 2}),
    ("associative-recall", {"n": 4, "form": "sequence", "alphabet": 3}),
    ("mqar", {"n": 4, "vocabulary_size": 4}),
    ("equality", {"n": 6, "alphabet": 3}),
]
FEW = [
    pytest.param(*case, marks=pytest.mark.slow if case[0] in ("associative-recall", "mqar") else ())
    for case in MUTATED
]
"""All of these, but those that search by content only in the long run: they take most of the time."""


def built(name: str, system: NumberSystem | None = None, **parameters: Any) -> Witness:
    return witness_for(
        make_task(name, **parameters), family="rnn", choices=Choices(system=system or Float64())
    )


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize(("name", "parameters"), SIZES, ids=str)
def test_all_sizes_are_proven(name: str, parameters: dict[str, Any], system: NumberSystem) -> None:
    witness = built(name, system, **parameters)
    assert witness.theorem == "UP-RNN"
    assert proof_for("UP-RNN", name, "") is prove
    claims = prove(witness.model, witness.task, rounding_of(system))
    assert all(claim.verdict == "proved" for claim in claims)
    assert {claim.name for claim in witness.claims} <= {claim.name for claim in claims}


def states_are_bits(witness: Witness, rows: Tensor) -> bool:
    model = witness.model
    assert isinstance(model, RecurrentModel)
    state = model.start(len(rows))
    for position in range(rows.shape[1]):
        state = model.advance(rows[:, position], state)
        entries = model.arithmetic.decode_float64(state)
        if not bool(((entries == 0) | (entries == 1)).all()):
            return False
    return True


def require_harmless_survivors(witness: Witness, *, every: int) -> None:
    """Right on every input, and with states of bits, as the count of the state's bits supposes."""
    tried, survivors = 0, []
    for what, mutant in mutations(witness, every=every):
        tried += 1
        if proved(mutant):
            survivors.append((what, mutant))
    assert tried > 160 // every
    assert len(survivors) < tried / 4
    rows = torch.cat(list(witness.task.enumerate()))
    for what, mutant in survivors:
        assert right_on_every_input(mutant), what
        assert states_are_bits(mutant, rows), what


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), MUTATED, ids=str)
def test_survivors_of_some_mutations_are_harmless(name: str, parameters: dict[str, Any]) -> None:
    require_harmless_survivors(built(name, **parameters), every=11)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), MUTATED, ids=str)
def test_survivors_of_all_mutations_are_harmless(name: str, parameters: dict[str, Any]) -> None:
    require_harmless_survivors(built(name, **parameters), every=1)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), FEW, ids=str)
def test_every_matrix_is_read(name: str, parameters: dict[str, Any]) -> None:
    witness = built(name, **parameters)
    tensors = dict(witness.model.tensors())
    for where, tensor in tensors.items():
        if bool(tensor.any()):
            assert not proved(rebuilt(witness, {**tensors, where: torch.zeros_like(tensor)})), where
        if name == "index-lookup" or parameters.get("form") == "sequence":
            assert not proved(rebuilt(witness, {**tensors, where: tensor + 0.5})), where


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), FEW, ids=str)
def test_every_place_of_a_block_is_read(name: str, parameters: dict[str, Any]) -> None:
    """Blocks moved by one row or column, and bits of the state that are not said to be any."""
    witness = built(name, **parameters)
    model = witness.model
    assert isinstance(model, RecurrentModel)
    moved = 0
    for which, linear in model.update.maps().items():
        for place, block in enumerate(linear.blocks):
            for row, column in ((1, 0), (0, -1)):
                try:
                    other = dataclasses.replace(block, row=block.row + row, column=block.column + column)
                    blocks = (*linear.blocks[:place], other, *linear.blocks[place + 1 :])
                    changed = LinearMap(linear.rows, linear.columns, blocks)
                except InvalidInput:
                    continue
                update = dataclasses.replace(model.update, **{which: changed})  # type: ignore[arg-type]
                mutant = RecurrentModel(
                    tokens=model.tokens, update=update, readout=model.readout, binary=model.binary
                )
                moved += 1
                survived = dataclasses.replace(witness, model=mutant)
                assert not proved(survived) or right_on_every_input(survived)
    assert moved > 12


def test_another_size_than_the_model_is_refused() -> None:
    for name, right, wrong in (
        ("index-lookup", {"n": 4, "alphabet": 4}, [{"n": 5, "alphabet": 4}, {"n": 4, "alphabet": 3}]),
        ("associative-recall", {"n": 4, "keys": 8}, [{"n": 3, "keys": 8}, {"n": 4, "keys": 9}]),
        ("associative-recall", {"n": 4, "form": "sequence"}, [{"n": 5, "form": "sequence", "alphabet": 4}]),
        ("mqar", {"n": 4, "vocabulary_size": 8}, [{"n": 8, "vocabulary_size": 8}]),
        ("equality", {"n": 8}, [{"n": 10}, {"n": 8, "alphabet": 3}, {"n": 8, "form": "ncp"}]),
    ):
        witness = built(name, **right)
        assert proved(witness)
        for parameters in wrong:
            assert not proved(witness, make_task(name, **parameters))  # type: ignore[arg-type]


def test_numbers_that_do_not_reach_are_refused() -> None:
    """In a sequence of 64 up to 64 cells may match, and are counted."""
    assert proved(built("associative-recall", FixedNearest(p=15), n=64, form="sequence"))
    assert not proved(built("associative-recall", FixedNearest(p=13), n=64, form="sequence"))
    with pytest.raises(InvalidInput, match="do not hold all weights exactly"):
        built("index-lookup", FixedNearest(p=3), n=64)


@pytest.mark.slow
def test_a_wrong_model_is_refuted_with_an_input_that_fails_again() -> None:
    witness = built("index-lookup", n=64)
    tensors = dict(witness.model.tensors())
    addresses = [name for name, tensor in tensors.items() if tensor.shape == (64, 6)]
    assert len(addresses) == 2
    for name in addresses:
        broken = tensors[name].clone()
        broken[17] = -broken[17]
        wrong = rebuilt(witness, {**tensors, name: broken})
        certificate = certify(wrong)
        assert certificate.verdict == "refuted"
        assert certificate.counterexample is not None
        assert replay(wrong, certificate.counterexample)


@pytest.mark.slow
def test_a_thousand_symbols_are_certified() -> None:
    for name in ("index-lookup", "equality", "mqar"):
        certificate = certify(built(name, Float32(), n=1024))
        assert certificate.verdict == "proved"
        assert certificate.inputs.log10 > 300


@pytest.mark.slow
def test_maps_are_read_as_they_act() -> None:
    """Blocks written out against the image of every unit vector; and two maps one behind the other."""
    generator = torch.Generator().manual_seed(3)
    kinds = ("same", "spread", "sum")
    small, wide = Coordinates.of(few=7), Coordinates.of(many=40)
    for number in range(60):
        blocks = []
        for _ in range(3):
            height, breadth, outer, inner = torch.randint(1, 4, (4,), generator=generator).tolist()
            matrix = torch.randint(-2, 3, (height, breadth), generator=generator).double()
            patterns = [
                Pattern(kind=kinds[(number + count) % 3], count=count)  # type: ignore[arg-type]
                for count in (outer, inner)
            ]
            row, column = torch.randint(0, 13, (2,), generator=generator).tolist()
            blocks.append(Block(row=row, column=column, matrix=matrix, outer=patterns[0], inner=patterns[1]))
        linear = LinearMap(wide, wide, tuple(blocks))
        columns = [linear.image(unit) for unit in torch.eye(40, dtype=torch.float64)]
        acts = torch.stack(columns, dim=1).long().numpy()
        entries = read_map(linear)
        assert np.array_equal(entries.dense(), acts)
        assert np.array_equal(composed(entries, entries).dense(), acts @ acts)
        assert bool((entries.reach() >= np.abs(acts).sum(1)).all())
        assert np.array_equal(entries.highest(), np.maximum(acts, 0).sum(1))
        assert np.array_equal(entries.among(slice(5, 9)).dense(), acts[5:9])
        assert np.array_equal(entries.apart(slice(5, 9)).dense(), acts[:, 5:9])
    with pytest.raises(NotProved, match="integers"):
        read_map(LinearMap(small, small, (Block(row=0, column=0, matrix=torch.full((1, 1), 0.5)),)))


def test_assignments_show_every_combination() -> None:
    sources = Coordinates.of(cells=4, register=4, known=2, digits=4)
    pairs = [(0, 0), (0, 4), (1, 1), (1, 8), (1, 9), (2, 6), (2, 11), (3, 2), (3, 5), (3, 12)]
    rows, columns = np.array(pairs, dtype=np.int64).T
    vectors = torch.stack(assignments(rows, columns, sources, ("known",)))
    assert not bool(vectors[:, 8:10].any())
    for row in range(4):
        read = [column for each, column in pairs if each == row and column not in (8, 9)]
        assert len({tuple(bits) for bits in vectors[:, read].tolist()}) == 2 ** len(read)
    with pytest.raises(NotProved, match="several bits of one field"):
        assignments(np.array([0, 0]), np.array([0, 1]), sources, ("known",))
