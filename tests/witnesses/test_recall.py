"""S-T7: MQAR and associative recall by two layers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.explicit.transformer import CausalTransformer
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks import Task
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.mqar import MultiQueryRecall
from separatrix.witnesses import Choices, Witness, witness_for
from separatrix.witnesses.choices import Addresses

from .checking import evaluators_agree, right_on_every_input, right_on_samples, wrong_answers

SYSTEMS: tuple[NumberSystem, ...] = (
    Float64(),
    Float32(),
    FixedDown(n=64, k=4),
    FixedDown(n=37, k=3),
    FixedNearest(p=41),
)
FAMILY = "transformer-2"
PAIRS = AssociativeRecall(n=3, keys=3, values=3)
SEQUENCE = AssociativeRecall(n=5, form="sequence", alphabet=3)
QUERIES = MultiQueryRecall(n=4, vocabulary_size=6)


def built(task: Task, system: NumberSystem | None = None, addresses: Addresses = "binary") -> Witness:
    choices = Choices(system=system or Float64(), addresses=addresses)
    return witness_for(task, family=FAMILY, choices=choices)


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize(
    "task",
    [
        PAIRS,
        SEQUENCE,
        QUERIES,
        AssociativeRecall(n=1, keys=1, values=1),
        AssociativeRecall(n=2, form="sequence", alphabet=1),
        MultiQueryRecall(n=2, vocabulary_size=2),
    ],
    ids=str,
)
def test_every_input(task: Task, system: NumberSystem) -> None:
    assert right_on_every_input(built(task, system))


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize(
    "task",
    [
        AssociativeRecall(n=32),
        AssociativeRecall(n=32, form="sequence"),
        MultiQueryRecall(n=16, vocabulary_size=64),
    ],
    ids=str,
)
def test_long_inputs(task: Task, system: NumberSystem) -> None:
    assert right_on_samples(built(task, system), count=8)


@pytest.mark.slow
@pytest.mark.parametrize("addresses", ["bch-1/4", "random-1/2"])
@pytest.mark.parametrize(
    "task", [AssociativeRecall(n=16), MultiQueryRecall(n=16, vocabulary_size=64)], ids=str
)
def test_other_addresses(task: Task, addresses: Addresses) -> None:
    assert right_on_samples(built(task, addresses=addresses), count=10)


def all_keys(task: AssociativeRecall) -> Tensor:
    """Every key is stored, all labels are the complement of the one that is asked for; each key in turn."""
    values, n = task.target_space.size, task.n
    rows = []
    for asked in range(n):
        for right in (0, values - 1):
            row = torch.stack([torch.arange(n) + values, torch.full((n,), values - 1 - right)], 1).reshape(-1)
            row[2 * asked + 1] = right
            rows.append(torch.cat([row, torch.tensor([values + asked])]))
            task.check(rows[-1])
    return torch.stack(rows)


def many_queries(task: MultiQueryRecall) -> Tensor:
    """Every key is stored and asked for, those near each other next to each other, forwards and backwards."""
    half = task.n // 2
    keys = torch.arange(half)
    rows = []
    for special, right in [(place, right) for place in range(0, half, 5) for right in (0, half - 1)]:
        labels = torch.full((half,), half - 1 - right)
        labels[special] = right
        for order in (keys, keys.flip(0), keys ^ 1):
            stored = torch.stack([keys + half, labels], 1).reshape(-1)
            asked = torch.stack([order + half, labels[order]], 1).reshape(-1)
            rows.append(torch.cat([stored, asked]))
            task.check(rows[-1])
    return torch.stack(rows)


def often(task: AssociativeRecall) -> Tensor:
    """The query stands everywhere from some place on, or everywhere but behind its first occurrence."""
    n, last = task.n, task.vocabulary.blocks[0].size - 1
    rows = []
    for first in range(n - 1):
        for query in (0, last):
            other = last - query
            row = torch.full((n + 1,), query)
            row[:first], row[first + 1] = other, other
            rows.append(row.clone())
            row[first + 2 : n] = other ^ 1
            rows.append(row)
    for row in rows:
        task.check(row)
    return torch.stack(rows)


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_the_worst_contexts_of_pairs(system: NumberSystem) -> None:
    task = AssociativeRecall(n=16, keys=16, values=16)
    assert wrong_answers(built(task, system).model, task, all_keys(task)) == 0


@pytest.mark.parametrize("system", [Float64(), Float32(), FixedNearest(p=41)], ids=str)
def test_the_worst_contexts_of_queries(system: NumberSystem) -> None:
    task = MultiQueryRecall(n=32, vocabulary_size=32)
    assert wrong_answers(built(task, system).model, task, many_queries(task)) == 0


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_the_worst_contexts_of_sequences(system: NumberSystem) -> None:
    task = AssociativeRecall(n=24, form="sequence", alphabet=32)
    assert wrong_answers(built(task, system).model, task, often(task)) == 0


@pytest.mark.parametrize(("layer", "factor"), [(0, 0.05), (1, 0.25)])
def test_blunter_heads_fail_on_them(layer: int, factor: float) -> None:
    pairs = AssociativeRecall(n=32, keys=32, values=32)
    queries = MultiQueryRecall(n=32, vocabulary_size=32)
    sequence = AssociativeRecall(n=24, form="sequence", alphabet=32)
    for task, rows in (
        (pairs, all_keys(pairs)),
        (queries, many_queries(queries)),
        (sequence, often(sequence)),
    ):
        witness = built(task)
        assert isinstance(witness.model, CausalTransformer)
        witness.model.layers[layer].heads[0].query.mul_(factor)  # type: ignore[attr-defined]
        assert wrong_answers(witness.model, task, rows) > 0


@pytest.mark.parametrize("task", [PAIRS, SEQUENCE, QUERIES], ids=str)
def test_the_three_evaluators_agree(task: Task) -> None:
    witness = built(task)
    rows = [row for chunk in task.enumerate() for row in chunk]
    assert len(rows) > 100
    assert all(evaluators_agree(witness, row) for row in rows[:: len(rows) // 8])


def test_the_answer_behind_a_query_is_not_seen() -> None:
    task = MultiQueryRecall(n=8, vocabulary_size=16)
    witness = built(task)
    rows = task.sample(20, seed=5).inputs
    spoiled = rows.clone()
    spoiled[:, task.n + 1 :: 2] = (spoiled[:, task.n + 1 :: 2] + 1) % 8
    first_query = torch.full((20, 1), task.n)
    assert torch.equal(
        witness.model.answers(rows, at=first_query), witness.model.answers(spoiled, at=first_query)
    )


def test_forward_and_step_agree() -> None:
    task = MultiQueryRecall(n=8, vocabulary_size=16)
    model = built(task).model
    assert isinstance(model, CausalTransformer)
    rows = task.sample(4, seed=3).inputs
    whole, state = model.forward(rows), model.start(4)
    for place in range(rows.shape[1]):
        output, state = model.step(rows[:, place], state)
        torch.testing.assert_close(output, whole[:, place], rtol=0, atol=1e-9)


def test_the_width_and_the_bits_grow_as_the_theorem_says() -> None:
    for kind in ("pairs", "queries", "sequence"):
        bits = {}
        for power in (4, 8, 12):
            n = 1 << power
            task, width = {
                "pairs": (
                    AssociativeRecall(n=n, keys=n, values=n),
                    3 * power + 2 * math.ceil(math.log2(2 * n + 1)) + 1,
                ),
                "queries": (MultiQueryRecall(n=n, vocabulary_size=2 * n), 3 * power + 2 * (power + 1) + 1),
                "sequence": (
                    AssociativeRecall(n=n, form="sequence"),
                    2 * power + 2 * math.ceil(math.log2(n + 1)) + 3,
                ),
            }[kind]
            size = built(task, FixedDown(n=n, k=4)).size
            assert size.width == width <= 12 * power
            assert (size.layers, size.heads) == (2, 1)
            bits[power] = size.parameter_bits
        assert math.log(bits[12] / bits[4]) / math.log(12 / 4) <= 3


def test_numbers_that_end_too_early_are_refused() -> None:
    for task in (AssociativeRecall(n=64), AssociativeRecall(n=64, form="sequence"), MultiQueryRecall(n=64)):
        with pytest.raises(InvalidInput, match="needs logits up to about"):
            built(task, FixedNearest(p=9))
