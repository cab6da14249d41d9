"""Models as specs: there and back, and strangers' specs refused in a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from separatrix.errors import InvalidFile, InvalidInput, UnknownName
from separatrix.models import MODELS
from separatrix.models.fnn import FeedForwardNet
from separatrix.models.population import ModelConfig, Population, signature_of
from separatrix.models.specs import ModelSpec, build, config_of, kind_of, model_spec_of
from separatrix.models.transformer import Transformer
from separatrix.tasks.index_lookup import IndexLookup
from tests.models import own_nets

WORDS = f"{own_nets.__name__}:words"
SIGNATURE = signature_of(IndexLookup(n=5, alphabet=4))


def through_a_file(spec: ModelSpec) -> ModelSpec:
    return ModelSpec.from_json(json.loads(json.dumps(spec.to_json())))


@pytest.mark.parametrize("name", ["transformer", "llama", "third-order", "graph-transformer", "fnn"])
def test_every_config_comes_back(name: str) -> None:
    kind = MODELS.get(name)
    for config in (kind.Config(), kind.Config(layers=3, width=32)):
        spec = through_a_file(model_spec_of(kind, config))
        assert spec == model_spec_of(kind, config)
        assert spec.name == name
        assert config_of(spec) == config
        assert set(spec.params) >= {"layers", "width"}


def test_a_spec_builds_the_same_population() -> None:
    config = Transformer.Config(layers=2, width=8, heads=2, embedding="sinusoidal", causal=True)
    spec = through_a_file(model_spec_of(Transformer, config))
    assert str(spec).startswith('transformer(layers=2, width=8, embedding="sinusoidal"')
    tokens = IndexLookup(n=5, alphabet=4).sample(4, seed=1).inputs.view(2, 2, -1)
    again = build(spec, SIGNATURE, 2).initialise((1, 2))
    plain = Transformer(config, SIGNATURE, members=2).initialise((1, 2))
    assert torch.equal(again(tokens), plain(tokens))


def test_own_code_is_named_and_run_only_where_that_is_allowed() -> None:
    kind = kind_of(WORDS, own_code=True)
    spec = through_a_file(model_spec_of(kind, kind.Config(width=7)))
    assert spec.to_fields() == {"name": WORDS, "params": {"width": 7}, "code": kind.code}
    assert config_of(spec, own_code=True) == kind.Config(width=7)
    assert build(spec, SIGNATURE, 3, own_code=True).size(5, 32).width == 7
    with pytest.raises(InvalidInput) as error:
        build(spec, SIGNATURE, 3)
    assert str(error.value) == (
        f"The model {WORDS} is made by code of its own, which is not run unless that is allowed; pass "
        "own_code=True if you trust it."
    )


def test_reading_a_spec_imports_nothing() -> None:
    assert through_a_file(ModelSpec(name="no_such_module:net")).name == "no_such_module:net"


@pytest.mark.parametrize("name", ["Big Model", "", "a:b:c", "x" * 101, "../x:y", "a" * 300 + ":b", 7, None])
def test_strange_names_are_refused(name: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^A model has a name such as 'linear-transformer'; got "):
        ModelSpec(name=name)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("transformer", {"depth": 3}, "transformer has no parameter 'depth'; it is not from this version."),
        ("transformer", {"layers": "3"}, "transformer takes no text for layers."),
        ("transformer", {"layers": [3]}, "transformer takes no list for layers."),
        ("transformer", {"layers": {"n": 3}}, "transformer takes no object for layers."),
        ("transformer", {"layers": None}, "transformer takes no null for layers."),
        (
            "transformer",
            {"layers": 2.5},
            "The model breaks a rule: Transformer needs a whole number for layers; got 2.5.",
        ),
        (
            "transformer",
            {"layers": True},
            "The model breaks a rule: Transformer needs a whole number for layers; got True.",
        ),
        (
            "transformer",
            {"embedding": "none"},
            (
                "The model breaks a rule: Transformer knows embedding as learned or frozen or sinusoidal; "
                "got 'none'."
            ),
        ),
        (
            "fnn",
            {"width": 0},
            "The model breaks a rule: FeedForwardNet needs a width of 1 to 2^20; got width=0. Try 64.",
        ),
    ],
)
def test_a_spec_that_fits_no_model_is_refused(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidFile) as error:
        config_of(ModelSpec(name=name, params=params))
    assert str(error.value) == message


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(UnknownName, match=r"There is no model 'transfomer'\. Did you mean transformer"):
        config_of(ModelSpec(name="transfomer"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "separatrix.model lacks the field 'schema'."),
        (
            {"schema": "separatrix.task", "version": 1, "name": "fnn", "params": {}},
            "Expected a record of schema 'separatrix.model'; got 'separatrix.task'.",
        ),
        (
            {"schema": "separatrix.model", "version": 1, "name": "fnn", "params": []},
            "Field 'params' of separatrix.model must be an object.",
        ),
        (
            {"schema": "separatrix.model", "version": 1, "name": "fnn", "params": {}, "more": 1},
            "separatrix.model has fields that its schema does not know: 'more'.",
        ),
        (
            {"schema": "separatrix.model", "version": 1, "name": "F", "params": {}},
            "separatrix.model breaks a rule: A model has a name such as 'linear-transformer'; got 'F'.",
        ),
    ],
)
def test_files_are_read_strictly(data: object, message: str) -> None:
    with pytest.raises(InvalidFile) as error:
        ModelSpec.from_json(data)
    assert str(error.value) == message


def test_another_models_config_is_refused() -> None:
    with pytest.raises(InvalidInput) as error:
        model_spec_of(Transformer, FeedForwardNet.Config())
    assert str(error.value) == "transformer is configured by its own Config; got a FeedForwardNet.Config."


def test_what_a_file_cannot_hold_is_refused() -> None:
    class Odd(FeedForwardNet):
        pass

    config = FeedForwardNet.Config()
    object.__setattr__(config, "token_width", {1})
    kind: type[Population] = Odd
    assert isinstance(config, ModelConfig)
    with pytest.raises(InvalidInput) as error:
        model_spec_of(kind, config)
    assert (
        str(error.value)
        == "fnn with a set for token_width cannot be written to a file; leave token_width out."
    )
