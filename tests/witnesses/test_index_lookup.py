"""S-T1: index lookup by one layer."""

from __future__ import annotations

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.models.explicit.transformer import CausalTransformer
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.witnesses import Choices, Witness, witness_for
from separatrix.witnesses.choices import Addresses

from .checking import evaluators_agree, right_on_every_input, right_on_samples, wrong_answers

SYSTEMS: tuple[NumberSystem, ...] = (
    Float64(),
    Float32(),
    FixedDown(n=64, k=1),
    FixedDown(n=64, k=2),
    FixedNearest(p=13),
    FixedNearest(p=31),
)


def built(
    n: int, *, alphabet: int = 4, system: NumberSystem | None = None, addresses: Addresses = "binary"
) -> Witness:
    task = IndexLookup(n=n, alphabet=alphabet)
    return witness_for(task, choices=Choices(system=system or Float64(), addresses=addresses))


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize(("n", "alphabet"), [(1, 1), (1, 3), (2, 2), (5, 3), (8, 2)])
def test_every_input(n: int, alphabet: int, system: NumberSystem) -> None:
    assert right_on_every_input(built(n, alphabet=alphabet, system=system))


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("addresses", ["binary", "bch-1/4", "bch-1/2", "one-hot"])
def test_long_inputs(system: NumberSystem, addresses: Addresses) -> None:
    assert right_on_samples(built(64, alphabet=64, system=system, addresses=addresses), count=16)


def test_addresses_of_random_signs() -> None:
    assert right_on_samples(built(32, alphabet=8, addresses="random-1/2"), count=40)


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_the_worst_context_is_one_symbol_everywhere_but_at_the_target(system: NumberSystem) -> None:
    witness = built(64, alphabet=4, system=system)
    rows = []
    for place in range(64):
        row = torch.full((65,), 3)
        row[place], row[64] = 0, 4 + place
        rows.append(row)
    assert wrong_answers(witness.model, witness.task, torch.stack(rows)) == 0


def test_a_blunter_head_fails_on_that_context_and_passes_random_tests() -> None:
    witness = built(64, alphabet=64)
    assert isinstance(witness.model, CausalTransformer)
    witness.model.layers[0].heads[0].query.mul_(0.65)  # type: ignore[attr-defined]
    row = torch.full((65,), 63)
    row[20], row[64] = 0, 64 + 20
    assert right_on_samples(witness, count=10)
    assert wrong_answers(witness.model, witness.task, row[None]) == 1


def test_the_three_evaluators_agree_on_every_input() -> None:
    witness = built(3, alphabet=2)
    rows = [row for chunk in witness.task.enumerate() for row in chunk]
    assert len(rows) == 34
    assert all(evaluators_agree(witness, row) for row in rows)


@pytest.mark.slow
def test_one_hot_addresses_are_as_wide_as_the_input_and_binary_ones_as_its_logarithm() -> None:
    widths = {
        addresses: built(256, alphabet=64, addresses=addresses).size.width
        for addresses in ("binary", "one-hot")
    }
    assert widths == {"binary": 6 + 2 * 8, "one-hot": 6 + 2 * 256}


def test_forward_and_step_agree() -> None:
    witness = built(12, alphabet=5)
    model = witness.model
    assert isinstance(model, CausalTransformer)
    rows = IndexLookup(n=12, alphabet=5, lengths="full").sample(6, seed=3).inputs
    whole, state = model.forward(rows), model.start(6)
    for place in range(rows.shape[1]):
        output, state = model.step(rows[:, place], state)
        torch.testing.assert_close(output, whole[:, place], rtol=0, atol=1e-12)
    assert witness.size.state_bits(13) == state.carried * 64


def test_numbers_that_end_too_early_are_refused() -> None:
    with pytest.raises(InvalidInput, match="needs logits up to about"):
        built(1 << 10, system=FixedNearest(p=7))


def test_the_width_is_within_the_bar_at_every_size() -> None:
    for power in (1, 4, 10, 16, 20):
        size = built(1 << power, alphabet=64).size
        assert size.width <= 6 + 2 * power + 4
        assert size.ffn_width == 12
