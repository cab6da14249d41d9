"""R-qSA: sparse averaging by one unit."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.models.explicit.codes import Binary, ExtendedBCH
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.witnesses import Choices, Witness, witness_for

from .checking import right_on_every_input, right_on_samples, wrong_answers

SYSTEMS: tuple[NumberSystem, ...] = (Float64(), Float32(), FixedDown(n=8, k=4), FixedNearest(p=25))


def built(system: NumberSystem | None = None, **options: Any) -> Witness:
    return witness_for(QSparseAveraging(**options), choices=Choices(system=system or Float64()))


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize(("n", "q"), [(2, 1), (2, 2)])
def test_every_input(n: int, q: int, system: NumberSystem) -> None:
    assert right_on_every_input(built(system, n=n, q=q))


def test_every_input_of_three_places() -> None:
    assert right_on_every_input(built(n=3, q=1))


def contrasts(task: QSparseAveraging) -> torch.Tensor:
    """Each set of at most q places: 1 on the set and −1 elsewhere, and all positions ask for the set."""
    rows = []
    for size in range(task.q + 1):
        for chosen in itertools.combinations(range(task.n), size):
            row = torch.zeros(task.n, task.d + task.q)
            row[:, 0] = -1
            row[list(chosen), 0] = 1
            row[:, task.d : task.d + size] = torch.tensor([float(member + 1) for member in chosen])
            rows.append(row)
    return torch.stack(rows)


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize(("n", "q"), [(6, 2), (7, 3), (9, 1), (5, 5)])
def test_every_set_against_its_complement(n: int, q: int, system: NumberSystem) -> None:
    witness = built(system, n=n, q=q)
    task = witness.task
    assert isinstance(task, QSparseAveraging)
    assert wrong_answers(witness.model, task, contrasts(task)) == 0


@pytest.mark.slow
def test_every_triple_of_twenty_against_its_complement() -> None:
    witness = built(n=20, q=3)
    task = witness.task
    assert isinstance(task, QSparseAveraging)
    assert wrong_answers(witness.model, task, contrasts(task)) == 0


@pytest.mark.slow
def test_a_blunter_head_fails_against_the_complement() -> None:
    witness = built(n=20, q=3)
    witness.model.layers[0].heads[0].query.mul_(0.5)  # type: ignore[attr-defined]
    task = witness.task
    assert isinstance(task, QSparseAveraging)
    assert wrong_answers(witness.model, task, contrasts(task)) > 0


@pytest.mark.parametrize("system", [Float64(), Float32(), FixedDown(n=64, k=3)], ids=str)
def test_long_inputs(system: NumberSystem) -> None:
    assert right_on_samples(built(system, n=64, q=2, d=2, grid=3, sizes="up-to"), count=3)


def test_more_members_and_more_places() -> None:
    assert right_on_samples(built(n=48, q=4, sizes="up-to"), count=3)
    assert right_on_samples(built(n=500, q=2, sizes="up-to"), count=1)
    assert right_on_samples(built(n=500, q=1, sizes="up-to"), count=1)


def test_the_code_follows_the_size() -> None:
    assert isinstance(built(n=65536, q=1).model.inputs.code, Binary)  # type: ignore[attr-defined]
    two = built(n=60000, q=2).model.inputs.code  # type: ignore[attr-defined]
    assert isinstance(two, ExtendedBCH)
    assert two.dim == 128
    assert built(n=1000, q=1).size.width == 1 + 2 * 10
    few = built(n=20, q=3)
    assert few.model.layers[0].heads[0].inner <= 32  # type: ignore[attr-defined]


@pytest.mark.slow
def test_too_many_sets_and_too_few_bits_are_refused() -> None:
    with pytest.raises(InvalidInput, match="take a smaller q or n"):
        built(n=5000, q=30)
    with pytest.raises(InvalidInput, match="more bits"):
        built(FixedNearest(p=7), n=8, q=3)
