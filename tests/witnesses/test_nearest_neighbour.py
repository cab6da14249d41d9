"""S-T7: the label of the nearest neighbour by two layers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.explicit.transformer import Transformer
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks.nearest_neighbour import NearestNeighbour
from separatrix.witnesses import Choices, Witness, witness_for
from separatrix.witnesses.choices import Addresses

from .checking import evaluators_agree, right_on_every_input, right_on_samples, wrong_answers

SYSTEMS: tuple[NumberSystem, ...] = (
    Float64(),
    Float32(),
    FixedDown(n=64, k=4),
    FixedDown(n=37, k=3),
    FixedNearest(p=31),
)
SMALL = NearestNeighbour(n=3, dimension=3, noise=1)


def built(
    task: NearestNeighbour, system: NumberSystem | None = None, addresses: Addresses = "binary"
) -> Witness:
    return witness_for(task, choices=Choices(system=system or Float64(), addresses=addresses))


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize(
    "task",
    [
        SMALL,
        NearestNeighbour(n=2, dimension=1, noise=0, margin=2.0, labels=3),
        NearestNeighbour(n=3, dimension=2, noise=0, margin=2.0, labels=1),
        NearestNeighbour(n=3, dimension=2, noise=1, margin=0.001),
    ],
    ids=str,
)
def test_every_input(task: NearestNeighbour, system: NumberSystem) -> None:
    assert right_on_every_input(built(task, system))


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("dimension", [5, 16])
def test_long_inputs(dimension: int, system: NumberSystem) -> None:
    task = NearestNeighbour(n=16, dimension=dimension, labels=5, margin=0.01)
    assert right_on_samples(built(task, system), count=10)


@pytest.mark.parametrize("addresses", ["bch-1/4", "random-1/2"])
def test_other_addresses(addresses: Addresses) -> None:
    assert right_on_samples(built(NearestNeighbour(n=16), addresses=addresses), count=20)


def crowded(task: NearestNeighbour, gap: int) -> Tensor:
    """Inputs of full length in which every other point is as near as the margin lets it, with another label.

    For each distance of the nearest point and for its place first, in the middle and last.
    """
    d, stored = task.dimension, task.n - 1
    size = torch.tensor(1 / math.sqrt(d), dtype=torch.float32)
    rows = []
    for distance in range(d - gap + 1):
        for winner in {0, stored // 2, stored - 1}:
            row = torch.zeros(task.length, task.input_space.width)
            signs = torch.ones(stored + 1, d)
            signs[:, : distance + gap] = -1
            signs[winner] = 1
            signs[winner, d - distance :] = -1
            signs[stored] = 1
            row[::2, :d] = signs * size
            row[1::2, d] = 1
            row[2 * winner + 1, d : d + 2] = torch.tensor([0.0, 1.0])
            task.check(row)
            rows.append(row)
    return torch.stack(rows)


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("gap", [1, 3])
def test_the_worst_contexts_are_points_at_the_margin_with_one_other_label(
    gap: int, system: NumberSystem
) -> None:
    task = NearestNeighbour(n=32, dimension=8, margin=2 * gap / 8)
    assert wrong_answers(built(task, system).model, task, crowded(task, gap)) == 0


def test_a_blunter_second_layer_fails_on_these_and_passes_random_tests() -> None:
    task = NearestNeighbour(n=32, dimension=8, margin=0.25)
    witness = built(task)
    assert isinstance(witness.model, Transformer)
    witness.model.layers[1].heads[0].query.mul_(0.3)  # type: ignore[attr-defined]
    assert right_on_samples(witness, count=10)
    assert wrong_answers(witness.model, task, crowded(task, 1)) > 0


def test_a_blunter_first_layer_fails_on_these() -> None:
    task = NearestNeighbour(n=32, dimension=8, margin=0.25)
    witness = built(task)
    assert isinstance(witness.model, Transformer)
    witness.model.layers[0].heads[0].query.mul_(0.1)  # type: ignore[attr-defined]
    assert wrong_answers(witness.model, task, crowded(task, 1)) > 0


def test_the_three_evaluators_agree() -> None:
    witness = built(SMALL)
    rows = [row for chunk in SMALL.enumerate() for row in chunk]
    assert len(rows) > 600
    assert all(evaluators_agree(witness, row, within=1e-6) for row in rows[::70])


def test_the_width_and_the_bits_grow_as_the_theorem_says() -> None:
    bits = {}
    for power in (4, 8, 12):
        task = NearestNeighbour(n=1 << power, dimension=power, margin=2 / power, noise=1)
        size = built(task, FixedDown(n=1 << power, k=3)).size
        assert size.width == 2 * power + 2 + 2 * (power + 1) + 1
        assert size.width <= 12 * power
        assert (size.layers, size.heads, size.ffn_width) == (2, 1, 0)
        bits[power] = size.parameter_bits
    assert math.log(bits[12] / bits[4]) / math.log(12 / 4) <= 3


def test_numbers_that_end_too_early_and_margins_of_nothing_are_refused() -> None:
    with pytest.raises(InvalidInput, match="needs logits up to about"):
        built(NearestNeighbour(n=64), FixedNearest(p=9))
    with pytest.raises(InvalidInput, match="0 < margin"):
        NearestNeighbour(n=64, margin=0.0)
    with pytest.raises(InvalidInput, match="addresses of signs"):
        built(NearestNeighbour(n=64), addresses="one-hot")
