"""W's models: the sizes they are named by, and the parts they are made of."""

from __future__ import annotations

import pytest
import torch

from separatrix.errors import UnknownName
from separatrix.experiments.w_models import W_MODELS, W_SIZES, w_model, w_small_model
from separatrix.models.population import ModelConfig, Population, signature_of
from separatrix.models.specs import model_spec_of
from separatrix.tasks.is_tree import IsTree


def by_hand(label: str, width: int, layers: int) -> int:
    """Every matrix and vector of the blocks, as the papers draw them, and the last norm."""
    inner, state, conv, rank = 2 * width, 16, 4, width // 16
    block = 4 * width * width + 3 * width * 256 + 2 * width
    mamba = (
        width * 2 * inner  # two branches
        + (conv + 1) * inner  # the convolution and its shift
        + inner * (rank + 2 * state)  # what the scan selects
        + (rank + 1) * inner  # the steps
        + inner * state  # the rates
        + inner  # the skip
        + inner * width  # back
        + width  # the norm
    )
    blocks = {"Transformer": layers * block, "Mamba": layers * mamba, "Hybrid": layers * mamba + block}
    return blocks[label] + width


def built(config: ModelConfig, n: int = 16) -> Population:
    with torch.device("meta"):
        return config.kind(config, signature_of(IsTree(n=n, form="cot")), members=1)


@pytest.mark.parametrize(
    ("label", "size", "width", "layers", "parameters"),
    [
        ("Transformer", "0.5M", 64, 8, 525_376),
        ("Transformer", "1M", 64, 16, 1_050_688),
        ("Transformer", "2M", 128, 12, 1_969_280),
        ("Mamba", "0.5M", 64, 16, 523_328),
        ("Mamba", "1M", 128, 10, 1_166_208),
        ("Mamba", "2M", 128, 18, 2_099_072),
        ("Hybrid", "0.5M", 64, 12, 458_176),
        ("Hybrid", "1M", 128, 7, 980_480),
        ("Hybrid", "2M", 128, 14, 1_796_736),
    ],
)
def test_they_have_the_parameters_they_are_named_by(
    label: str, size: str, width: int, layers: int, parameters: int
) -> None:
    config = w_model(label, size)
    assert (config.width, config.layers) == (width, layers)
    for n in (16, 128):
        counted = built(config, n).size(n, 32)
        assert counted.parameters_without_embeddings == by_hand(label, width, layers) == parameters
    assert abs(parameters / W_SIZES[size] - 1) < 0.17, "the name is the nearest of the three"


@pytest.mark.parametrize("label", W_MODELS)
def test_words_are_frozen_sines_and_answers_are_read_from_them(label: str) -> None:
    for config in (w_model(label, "0.5M"), w_small_model(label)):
        params = model_spec_of(config.kind, config).params
        assert (config.kind.name, params["embedding"], params["tied"]) == (
            W_MODELS[label],
            "sinusoidal",
            True,
        )
        assert params.get("heads", 4) == 4
        population = built(config)
        tables = {id(table) for table in population.embeddings()}
        assert tables
        assert not any(id(values) in tables for values in population.parameters()), (
            "nothing of them is trained"
        )


def test_a_hybrid_has_one_block_more_than_w_counts() -> None:
    assert built(w_model("Hybrid", "1M")).depth == 8
    assert built(w_model("Mamba", "1M")).depth == 10


def test_small_ones_are_small() -> None:
    for label in W_MODELS:
        assert built(w_small_model(label)).size(16, 32).parameters < 15_000
        assert type(w_small_model(label)) is type(w_model(label, "2M"))


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"no model of W 'mamba'\. Did you mean Mamba"):
        w_model("mamba", "1M")
    with pytest.raises(UnknownName, match=r"no size '4M'.*Known: 0.5M, 1M, 2M"):
        w_model("Mamba", "4M")
    with pytest.raises(UnknownName, match="no model of W 'LSTM'"):
        w_small_model("LSTM")


def test_attention_begins_by_fan_in() -> None:
    begun = {label: getattr(w_model(label, "1M"), "initial", None) for label in W_MODELS}
    assert begun == {"Transformer": "fan-in", "Mamba": None, "Hybrid": "fan-in"}
