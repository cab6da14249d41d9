"""W-5.6: the four retrieval tasks by a linear RNN under one attention layer."""

from __future__ import annotations

from typing import ClassVar

import pytest

from separatrix.models.explicit.layers import Layer
from separatrix.models.explicit.linear_rnn import Hybrid
from separatrix.models.explicit.recurrence import RecurrentLayer
from separatrix.precision import FixedDown, FixedNearest, Float32, NumberSystem
from separatrix.tasks import Task
from separatrix.tasks.c_gram import CGramRetrieval
from separatrix.witnesses import Witness
from separatrix.witnesses.small_hybrids import (
    associative_recall_hybrid,
    c_gram_hybrid,
    counting_hybrid,
    index_lookup_hybrid,
)

from .small_cases import SMALL, right_on_all
from .small_checks import (
    Builders,
    SmallWitnesses,
    at_every_length,
    built_by,
    three_agree,
    whole_is_step_by_step,
)

BUILDERS: Builders = {
    "index-lookup": index_lookup_hybrid,
    "associative-recall": associative_recall_hybrid,
    "c-gram": c_gram_hybrid,
    "counting": counting_hybrid,
}


def built(task: Task, system: NumberSystem | None = None) -> Witness:
    return built_by(BUILDERS, task, system)


class TestSmallHybrids(SmallWitnesses):
    builders = BUILDERS
    theorem = "W-5.6"
    family = "hybrid"
    kind = Hybrid
    writes = False
    least: ClassVar = {16: (21, 23, 21, 15, 23), 64: (31, 33, 31, 21, 33)}


@pytest.mark.parametrize("system", [Float32(), FixedNearest(p=29), FixedDown(n=64, k=3)], ids=str)
@pytest.mark.parametrize("task", SMALL[1::4], ids=str)
def test_every_input_in_other_arithmetics(task: Task, system: NumberSystem) -> None:
    assert right_on_all(built(task, system))


@pytest.mark.parametrize("task", [SMALL[1], SMALL[2], SMALL[6], SMALL[8], SMALL[11]], ids=str)
def test_the_three_evaluators_agree(task: Task) -> None:
    assert three_agree(built(task))


@at_every_length
def test_the_size_is_the_same_at_every_length(small: Task, large: Task) -> None:
    assert built(small).size == built(large).size


@pytest.mark.parametrize("task", [SMALL[1], SMALL[3], SMALL[6], SMALL[9], SMALL[12]], ids=str)
def test_one_attention_layer_stands_on_one_recurrent_layer_and_nothing_knows_its_place(task: Task) -> None:
    model = built(task).model
    assert isinstance(model, Hybrid)
    assert [type(layer) for layer in model.layers] == [RecurrentLayer, Layer]
    assert not model.inputs.tracks


def test_whole_inputs_and_token_by_token_agree() -> None:
    whole_is_step_by_step(built(CGramRetrieval(n=9, c=3, alphabet=3)))
