"""W-4.6: the four retrieval tasks by Transformers of constant size."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pytest

from separatrix.models.explicit.transformer import CausalTransformer
from separatrix.precision import FixedDown, FixedNearest, Float32, NumberSystem
from separatrix.tasks import Task
from separatrix.tasks.c_gram import CGramRetrieval
from separatrix.witnesses import Witness
from separatrix.witnesses.small_transformers import (
    associative_recall_constant,
    c_gram_constant,
    counting_constant,
    index_lookup_constant,
)

from .small_cases import SMALL, right, right_on_all
from .small_checks import (
    Builders,
    SmallWitnesses,
    at_every_length,
    built_by,
    three_agree,
    whole_is_step_by_step,
)

BUILDERS: Builders = {
    "index-lookup": index_lookup_constant,
    "associative-recall": associative_recall_constant,
    "c-gram": c_gram_constant,
    "counting": counting_constant,
}


def built(task: Task, system: NumberSystem | None = None) -> Witness:
    return built_by(BUILDERS, task, system)


class TestSmallTransformers(SmallWitnesses):
    builders = BUILDERS
    theorem = "W-4.6"
    family = "transformer"
    kind = CausalTransformer
    writes = False
    least: ClassVar = {16: (21, 23, 21, 19, 23), 64: (31, 33, 31, 27, 33)}


@pytest.mark.parametrize("system", [Float32(), FixedNearest(p=29), FixedDown(n=64, k=3)], ids=str)
@pytest.mark.parametrize("task", SMALL[1::4], ids=str)
def test_every_input_in_other_arithmetics(task: Task, system: NumberSystem) -> None:
    assert right_on_all(built(task, system))


@pytest.mark.parametrize("task", [SMALL[1], SMALL[2], SMALL[6], SMALL[8], SMALL[11]], ids=str)
def test_the_three_evaluators_agree(task: Task) -> None:
    assert three_agree(built(task))


@at_every_length
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
    whole_is_step_by_step(built(CGramRetrieval(n=9, c=3, alphabet=3)))
