"""W-4.6: the four retrieval tasks by Transformers of constant size."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from separatrix.models.explicit.transformer import CausalTransformer
from separatrix.precision import FixedDown, FixedNearest, Float32, NumberSystem
from separatrix.tasks import Task
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.c_gram import CGramRetrieval
from separatrix.tasks.counting import Counting
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.witnesses import Choices, Witness
from separatrix.witnesses.small_transformers import (
    associative_recall_constant,
    c_gram_constant,
    counting_constant,
    index_lookup_constant,
)

from .checking import evaluators_agree
from .small_cases import ENUMERATED, LARGE, SMALL, at_size, hard_inputs, right, right_on_all

BUILDERS: dict[str, Any] = {
    "index-lookup": index_lookup_constant,
    "associative-recall": associative_recall_constant,
    "c-gram": c_gram_constant,
    "counting": counting_constant,
}
LEAST = {16: (21, 23, 21, 19, 23), 64: (31, 33, 31, 27, 33)}
"""The least p with which the tasks of each size are done: Index, both forms of recall, c-gram, counting."""


def built(task: Task, system: NumberSystem | None = None) -> Witness:
    choices = Choices() if system is None else Choices(system=system)
    witness = BUILDERS[task.name](task, choices)
    assert isinstance(witness, Witness)
    return witness


@pytest.mark.parametrize("task", ENUMERATED)
def test_every_input(task: Task) -> None:
    witness = built(task)
    assert (witness.theorem, witness.family, witness.script) == ("W-4.6", "transformer", None)
    assert right_on_all(witness)


@pytest.mark.parametrize("system", [Float32(), FixedNearest(p=29), FixedDown(n=64, k=3)], ids=str)
@pytest.mark.parametrize("task", SMALL[1::4], ids=str)
def test_every_input_in_other_arithmetics(task: Task, system: NumberSystem) -> None:
    assert right_on_all(built(task, system))


@pytest.mark.parametrize("task", LARGE)
def test_random_and_hard_inputs(task: Task) -> None:
    witness, hard = built(task), hard_inputs(task)
    assert right(witness, hard if task.length < 256 else hard[:: len(hard) // 8])
    assert right(witness, task.sample(8, seed=5).inputs)
    assert right(witness, task.full_length().sample(8, seed=6).inputs)


@pytest.mark.parametrize("task", [SMALL[1], SMALL[2], SMALL[6], SMALL[8], SMALL[11]], ids=str)
def test_the_three_evaluators_agree(task: Task) -> None:
    witness = built(task)
    rows = next(iter(task.enumerate()))
    assert all(evaluators_agree(witness, row) for row in rows[:: max(1, len(rows) // 3)])


@pytest.mark.parametrize("n", [16, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("which", range(5))
def test_the_least_bits(n: int, which: int) -> None:
    task, p = at_size(n)[which], LEAST[n][which]
    rows = torch.cat([hard_inputs(task), task.sample(16, seed=1).inputs])
    assert right(built(task, FixedNearest(p=p)), rows)
    assert not right(built(task, FixedNearest(p=p - 2)), rows)


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (IndexLookup(n=2, alphabet=2), IndexLookup(n=4096, alphabet=4096)),
        (AssociativeRecall(n=2, form="sequence"), AssociativeRecall(n=4096, form="sequence")),
        (AssociativeRecall(n=2), AssociativeRecall(n=4096)),
        (CGramRetrieval(n=4, c=4), CGramRetrieval(n=4096, c=4)),
        (Counting(n=2, alphabet=2), Counting(n=4096, alphabet=4096)),
    ],
    ids=lambda task: task.name,
)
def test_the_size_is_the_same_at_every_length(small: Task, large: Task) -> None:
    sizes = [dataclasses.replace(built(task).size, precision_bits=64) for task in (small, large)]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(("task", "layers"), [(SMALL[1], 1), (SMALL[3], 2), (SMALL[9], 2), (SMALL[12], 2)])
def test_layers(task: Task, layers: int) -> None:
    model = built(task).model
    assert isinstance(model, CausalTransformer)
    assert len(model.layers) == layers


def test_a_c_gram_is_not_found_where_the_text_begins() -> None:
    # Copies that reach before the first place hold its token: without the mark of early places, s1 s1 would
    # be found at place 2, behind a single s1.
    task = CGramRetrieval(n=6, c=3, alphabet=3)
    row = task.parse("s1 s2 s1 s1 s0 s2 s1 s1")
    assert right(built(task), row.unsqueeze(0))


def test_whole_inputs_and_token_by_token_agree() -> None:
    task = CGramRetrieval(n=9, c=3, alphabet=3)
    model = built(task).model
    assert isinstance(model, CausalTransformer)
    rows = task.sample(4, seed=3).inputs
    whole, state = model.forward(rows), model.start(4)
    for place in range(rows.shape[1]):
        outputs, state = model.step(rows[:, place], state)
        torch.testing.assert_close(outputs, whole[:, place], rtol=0, atol=1e-12)
