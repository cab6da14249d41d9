"""First weights: as published, or by the number of a map's inputs."""

from __future__ import annotations

import math

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.models import model
from separatrix.models.population import Population, signature_of
from separatrix.models.specs import architecture_of, kind_and_config, model_spec_of
from separatrix.tasks.index_lookup import IndexLookup

SIGNATURE = signature_of(IndexLookup(n=50, alphabet=64))
CHOOSING = {"transformer": 256, "linear-transformer": 256, "llama": 176, "hybrid": 176}
"""Those that let one choose, and how wide their feed-forward maps are inside."""


def begun(name: str, **parameters: object) -> Population:
    kind, config = kind_and_config(model(name, layers=2, width=64, **parameters))
    return kind(config, SIGNATURE, members=1).initialise((7,))


@pytest.mark.parametrize(("name", "inner"), CHOOSING.items())
def test_by_fan_in_a_map_begins_as_in_pytorch(name: str, inner: int) -> None:
    seen = set()
    for place, values in begun(name, initial="fan-in").state_dict().items():
        part = place.removesuffix(".weight").rsplit(".", 1)[-1]
        if name == "hybrid" and not place.startswith("blocks.2."):
            continue  # the recurrent blocks begin as they do without it
        if part in ("inward", "outward", "up", "down") and place.endswith(".weight"):
            inputs = values.shape[-2]
            theirs = torch.nn.Linear(inputs, values.shape[-1]).weight.detach()
            assert float(values.abs().max()) <= 1 / math.sqrt(inputs)
            assert float(values.std()) == pytest.approx(float(theirs.std()), rel=0.05)
            seen.add((part, inputs))
        elif part in ("table", "places"):
            assert float(values.std()) == pytest.approx(1 / 8, rel=0.1)
            seen.add((part, 0))
        elif place.endswith("bias"):
            assert not values.any()
    tables = {"hybrid": set(), "llama": {("table", 0)}}.get(name, {("table", 0), ("places", 0)})
    assert seen == {("inward", 64), ("outward", 64), ("up", 64), ("down", inner), *tables}


def test_a_hybrid_s_base_begins_like_it_where_it_can() -> None:
    parts = begun("hybrid", base="linear-transformer", initial="fan-in").state_dict()
    widest = {place: float(values.abs().max()) for place, values in parts.items() if "inward.weight" in place}
    assert len(widest) == 3
    assert all(1 / 8 - 0.01 < most <= 1 / 8 for most in widest.values())


def test_other_attention_begins_alike() -> None:
    soft, sparse = (
        begun("transformer", initial="fan-in", attention=shares).state_dict()
        for shares in ("softmax", "sparsemax")
    )
    assert set(soft) == set(sparse)
    assert all(torch.equal(soft[place], sparse[place]) for place in soft)


def test_the_readout_begins_near_even_odds() -> None:
    parts = begun("transformer", initial="fan-in").state_dict()
    assert float(parts["readout.weight"].std()) == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("name", CHOOSING)
def test_unless_asked_for_nothing_changes(name: str) -> None:
    kind, config = kind_and_config(model(name))
    assert "initial" not in model_spec_of(kind, config).params
    published = begun(name, initial="published").state_dict()
    for place, values in begun(name).state_dict().items():
        assert torch.equal(values, published[place])
    assert not all(
        torch.equal(values, published[place])
        for place, values in begun(name, initial="fan-in").state_dict().items()
    )


def test_how_weights_begin_is_no_part_of_an_architecture() -> None:
    def fields(name: str, **parameters: object) -> dict[str, object]:
        return model_spec_of(*kind_and_config(model(name, **parameters))).to_fields()

    plain = fields("transformer")
    assert architecture_of(fields("transformer", initial="fan-in")) == plain
    assert architecture_of(plain) == plain
    assert architecture_of(fields("transformer", heads=8)) != plain
    assert architecture_of(fields("mamba")) == fields("mamba")
    stranger = {"name": "unheard-of", "params": {"initial": "fan-in"}}
    assert architecture_of(stranger) == stranger


def test_another_beginning_is_refused() -> None:
    with pytest.raises(InvalidInput, match="published"):
        model("transformer", initial="orthogonal")
