"""S-T13: thresholds of sparse features by two layers, compiled from formulas and tables."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.explicit.transformer import UnmaskedTransformer
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks.sparse_threshold import Feature, SparseThreshold
from separatrix.witnesses import Choices, Witness, witness_for
from separatrix.witnesses.choices import Addresses

from .checking import evaluators_agree, right_on_every_input, right_on_samples, wrong_answers

SYSTEMS: tuple[NumberSystem, ...] = (
    Float64(),
    Float32(),
    FixedDown(n=32, k=2),
    FixedDown(n=37, k=3),
    FixedNearest(p=31),
)
MIXED = SparseThreshold(
    n=5,
    k=3,
    threshold=1,
    features=(Feature((4, 0, 2), (0, 1, 1, 0, 1, 0, 0, 1)), Feature((), (0,)), Feature((3,), (1, 0))),
)
SMALL = (
    SparseThreshold(n=2, k=1),
    SparseThreshold(n=8),
    SparseThreshold(n=8, k=3, threshold=0, function_seed=5),
    SparseThreshold(n=8, k=4, threshold=7, function_seed=6),
    SparseThreshold.from_dnf("x1 & ~x3 | x2 & x4 & x5 | x6", n=7),
    SparseThreshold.from_cnf("(x1 | ~x3) & x2 & (x4 | x5 | ~x1)", n=5),
    SparseThreshold.equality(8),
    SparseThreshold.disjointness(8),
    MIXED,
    SparseThreshold(n=4, features=(Feature((), (0,)),) * 4, threshold=0),
)


def built(
    task: SparseThreshold, system: NumberSystem | None = None, addresses: Addresses = "binary"
) -> Witness:
    choices = Choices(system=system or Float64(), addresses=addresses)
    return witness_for(task, family="transformer-2", choices=choices)


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("task", SMALL, ids=lambda task: f"n={task.n}, k={task.k}, b={task.bound}")
def test_every_input(task: SparseThreshold, system: NumberSystem) -> None:
    assert right_on_every_input(built(task, system))


@pytest.mark.parametrize("k", [5, pytest.param(6, marks=pytest.mark.slow)])
def test_tables_of_more_than_one_list(k: int) -> None:
    assert right_on_every_input(built(SparseThreshold(n=7, k=k, function_seed=2)))


@pytest.mark.parametrize("threshold", range(6))
def test_every_threshold(threshold: int) -> None:
    task = SparseThreshold(n=6, k=2, threshold=threshold, function_seed=4)
    assert right_on_every_input(built(task, FixedDown(n=6, k=2)))


def just_at(n: int, count: int) -> Tensor:
    """Bits of which exactly so many are 1: at the front, at the end, and spread out."""
    rows = torch.zeros(3, n, dtype=torch.int64)
    rows[0, :count], rows[1, n - count :] = 1, 1
    rows[2, torch.randperm(n, generator=torch.Generator().manual_seed(count))[:count]] = 1
    return rows


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("bound", [0, 1, 15, 16, 30, 31])
def test_counts_next_to_the_threshold(bound: int, system: NumberSystem) -> None:
    n = 32
    task = SparseThreshold(
        n=n, k=1, threshold=bound, features=tuple(Feature((n - 1 - i,), (0, 1)) for i in range(n))
    )
    rows = torch.cat([just_at(n, count) for count in (bound, bound + 1)])
    assert task.solve(rows).answer.tolist() == [0] * 3 + [1] * 3
    assert wrong_answers(built(task, system).model, task, rows) == 0


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_bits_alone_among_others(system: NumberSystem) -> None:
    """Every feature reads one place that differs from all the others."""
    n = 32
    for place, bit in itertools.product((0, 5, n - 1), (0, 1)):
        task = SparseThreshold(n=n, k=1, threshold=n - 1, features=(Feature((place,), (1 - bit, bit)),) * n)
        row = torch.full((1, n), 1 - bit)
        alone = row.clone()
        alone[0, place] = bit
        assert wrong_answers(built(task, system).model, task, torch.cat([row, alone])) == 0


def test_a_blunter_head_fails_on_them() -> None:
    n = 32
    task = SparseThreshold(n=n, k=1, threshold=n - 1, features=(Feature((5,), (0, 1)),) * n)
    rows = torch.zeros(2, n, dtype=torch.int64)
    rows[1, 5] = 1
    model = built(task).model
    assert isinstance(model, UnmaskedTransformer)
    model.layers[0].heads[0].query.mul_(0.2)  # type: ignore[attr-defined]
    assert wrong_answers(model, task, rows) > 0


@pytest.mark.parametrize("addresses", ["bch-1/4", "random-1/2", "one-hot"])
def test_other_addresses(addresses: Addresses) -> None:
    assert right_on_samples(built(SparseThreshold(n=30, k=3), addresses=addresses), count=50)


@pytest.mark.slow
def test_long_inputs() -> None:
    task = SparseThreshold(n=1 << 9, k=4, law="balanced")
    assert right_on_samples(built(task), count=8)


@pytest.mark.slow
@pytest.mark.parametrize("task", SMALL, ids=lambda task: f"n={task.n}, k={task.k}, b={task.bound}")
def test_the_three_evaluators_agree(task: SparseThreshold) -> None:
    witness = built(task)
    rows = [row for chunk in task.enumerate() for row in chunk]
    assert all(evaluators_agree(witness, row) for row in rows[:: max(1, len(rows) // 4)])


def test_the_lists_are_counted() -> None:
    n, k = 1 << 10, 3
    size = built(SparseThreshold(n=n, k=k)).size
    assert size.width == 1 + (k + 1) * 10 + 2**k + k
    assert (size.layers, size.heads) == (2, k)
    assert size.embedding_parameters > (k + 1) * n
    weights = size.embedding_parameters - (k + 1) * n
    assert weights < 2 * size.width * size.width


def test_features_of_too_many_bits_are_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        built(SparseThreshold(n=8, k=7))
    assert str(caught.value) == (
        "This construction takes features of up to 6 bits, as every position holds a table of 2^k entries; "
        "got a feature of 7 bits. Take features of fewer bits."
    )
