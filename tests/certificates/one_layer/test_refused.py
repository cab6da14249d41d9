"""What is not certified, and the sentences that say so."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from separatrix.certificates import certify
from separatrix.certificates.one_layer import certify_one_layer
from separatrix.certificates.one_layer.form import form_of
from separatrix.errors import InvalidInput
from separatrix.models import MODELS, model
from separatrix.models.attention import Attention
from separatrix.models.laws import normal
from separatrix.models.population import Population, signature_of
from separatrix.models.stack import StackConfig
from separatrix.models.transformer import Transformer
from separatrix.tasks import Task, task
from tests.certificates.one_layer.drawn import drawn, weights_of

LOOKUP = task("index-lookup", n=3, alphabet=2, lengths="full")


def untrained(name: str, asked: Task, *, members: int = 1, **params: Any) -> Population:
    made = MODELS.get(name)(model(name, **params), signature_of(asked), members=members)
    return made.initialise(list(range(members)))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(value: float) -> None:
    population = drawn(LOOKUP, dtype=torch.float32)
    weights_of(population)["blocks.0.mixer.inward.weight"][0, 1, 2] = value
    with pytest.raises(InvalidInput, match=r"'blocks.0.mixer.inward.weight' holds NaN or infinity"):
        certify(population, LOOKUP)


def test_two_layers_are_left_to_break() -> None:
    with pytest.raises(InvalidInput, match=r"got 2 layers of them. break_model \(`separatrix break`\)"):
        certify(untrained("transformer", LOOKUP, layers=2, width=8), LOOKUP)


@pytest.mark.parametrize("name", ["lstm", "mamba", "hybrid", "linear-transformer"])
def test_other_architectures_are_left_to_break(name: str) -> None:
    with pytest.raises(
        InvalidInput, match=f"softmax attention are certified.*; got {name}.*separatrix break"
    ):
        certify(untrained(name, LOOKUP, width=8), LOOKUP)


def test_two_members_at_once() -> None:
    with pytest.raises(InvalidInput, match="one by one"):
        certify(untrained("transformer", LOOKUP, members=2, width=8), LOOKUP)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_shorter_floats(dtype: torch.dtype) -> None:
    with pytest.raises(InvalidInput, match="models in float32 or float64; got"):
        certify(drawn(LOOKUP, dtype=dtype), LOOKUP)


@pytest.mark.parametrize(
    ("name", "sizes", "wording"),
    [
        ("mqar", {"n": 8}, "Whole models are certified on index-lookup.*got mqar.*separatrix break"),
        ("associative-recall", {"n": 4}, "Try order=fixed"),
        ("nearest-neighbour", {"n": 4}, "no finite alphabet"),
    ],
)
def test_other_tasks(name: str, sizes: dict[str, Any], wording: str) -> None:
    asked = task(name, **sizes)
    with pytest.raises(InvalidInput, match=wording):
        certify(untrained("transformer", asked, width=8), asked)


def test_a_task_is_needed() -> None:
    with pytest.raises(InvalidInput, match="certify\\(model, task\\)"):
        certify(drawn(LOOKUP))  # type: ignore[call-overload]


class Halved(Attention):
    """Attention that does something else behind the same name."""

    def __init__(self, members: int, config: StackConfig) -> None:
        super().__init__(members, config.width, 1, law=normal(0.02))

    def forward(self, x: torch.Tensor, at: torch.Tensor | None = None) -> torch.Tensor:
        return super().forward(x, at) / 2


class Doubled(Transformer):
    """A Transformer that says everything twice as loud."""

    def answers(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().answers(x)


def test_what_is_derived_from_attention_is_no_attention() -> None:
    population = drawn(LOOKUP, heads=1)
    population.blocks[0].mixer = Halved(1, population.config)
    with pytest.raises(InvalidInput, match="one layer of softmax attention"):
        form_of(population)
    doubled = Doubled(Transformer.Config(width=8), signature_of(LOOKUP), members=1).initialise([0])
    with pytest.raises(InvalidInput, match="one layer of softmax attention"):
        certify_one_layer(doubled, LOOKUP)
