"""Transformers with other attention: shares and gradients against oracles, and all that models promise."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from separatrix.certificates.one_layer.form import form_of
from separatrix.errors import InvalidInput
from separatrix.models import model
from separatrix.models.attention import Attention
from separatrix.models.other_attention import OtherAttention, sparsemax
from separatrix.models.population import signature_of
from separatrix.models.specs import ModelSpec, build, config_of, model_spec_of
from separatrix.models.transformer import Transformer
from separatrix.store import key_of
from separatrix.tasks.dyck import Dyck
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.testing import ModelConformance
from separatrix.testing.model_conformance import Trial

OTHERS = ("sparsemax", "average-hard")
BEFORE = {
    "name": "transformer",
    "params": {
        "layers": 1,
        "width": 64,
        "embedding": "learned",
        "tied": False,
        "heads": 4,
        "ffn": 0,
        "causal": True,
    },
}


class TestConformance(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        return [
            (
                Transformer,
                Transformer.Config(layers=1, width=8, heads=2, attention="sparsemax"),
                IndexLookup(n=9),
            ),
            (
                Transformer,
                Transformer.Config(layers=2, width=8, heads=2, attention="average-hard"),
                Dyck(n=6),
            ),
            (
                Transformer,
                Transformer.Config(layers=2, width=8, heads=1, causal=False, attention="sparsemax"),
                QSparseAveraging(n=5, q=2),
            ),
        ]


def bisected(scores: list[float]) -> list[float]:
    """Shares max(0, z − τ) with the τ that makes them add up to 1, by halving an interval."""
    low, high = min(scores) - 2, max(scores)
    for _ in range(200):
        middle = (low + high) / 2
        total = sum(max(0.0, each - middle) for each in scores)
        low, high = (middle, high) if total > 1 else (low, middle)
    return [max(0.0, each - low) for each in scores]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-4, 4), min_size=1, max_size=7), st.integers(0, 2))
def test_sparsemax_is_the_scores_less_one_threshold(scores: list[float], hidden: int) -> None:
    row = torch.tensor([*scores, *[-math.inf] * hidden], dtype=torch.float64)
    assert sparsemax(row).tolist() == pytest.approx([*bisected(scores), *[0.0] * hidden], abs=1e-9)


def test_huge_scores_lose_nothing() -> None:
    row = torch.tensor([1e7, 1e7 + 0.5, -1e30, 1e7 - 3], dtype=torch.float64)
    assert sparsemax(row).tolist() == pytest.approx([0.25, 0.75, 0.0, 0.0])


def test_the_gradient_of_sparsemax_is_exact() -> None:
    scores = torch.randn(6, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    scores[2, 1] = scores[4, 0] = -math.inf
    free = scores.isfinite()

    def shares(values: Tensor) -> Tensor:
        return sparsemax(scores.masked_scatter(free, values))

    assert torch.autograd.gradcheck(shares, (scores[free].requires_grad_(),))
    support = (sparsemax(scores) > 0).sum(1)
    assert 1 <= int(support.min()) < int(support.max()) < 5


def test_average_hard_takes_the_largest_and_learns_as_softmax() -> None:
    mixer = mixed("average-hard")
    scores = torch.tensor([[0.0, 2.0, 2.0, -1.0, -math.inf]], dtype=torch.float64, requires_grad=True)
    shares = mixer.shares(scores)
    assert shares.tolist() == [pytest.approx([0.0, 0.5, 0.5, 0.0, 0.0])]
    weights = torch.arange(5, dtype=torch.float64)
    (found,) = torch.autograd.grad((shares * weights).sum(), scores)
    (soft,) = torch.autograd.grad((scores.softmax(-1) * weights).sum(), scores)
    assert torch.equal(found, soft)
    assert bool(found[0, :4].ne(0).all())


def mixed(attention: str) -> OtherAttention:
    config = Transformer.Config(layers=1, width=8, heads=2, attention=attention)  # type: ignore[arg-type]
    block = Transformer(config, signature_of(IndexLookup(n=5)), members=2).make_block(0)
    assert isinstance(block.mixer, OtherAttention)
    return block.mixer


@pytest.mark.parametrize("attention", OTHERS)
def test_in_bfloat16_shares_are_formed_in_float32(attention: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mixer, seen = mixed(attention).bfloat16(), list[torch.dtype]()
    shares = mixer.shares

    def watched(scores: Tensor) -> Tensor:
        seen.append(scores.dtype)
        return shares(scores)

    monkeypatch.setattr(mixer, "shares", watched)
    found = mixer(torch.randn(2, 3, 4, 8, generator=torch.Generator().manual_seed(1)).bfloat16())
    assert seen == [torch.float32]
    assert found.dtype == torch.bfloat16


def test_what_is_not_asked_for_is_not_in_a_spec() -> None:
    plain = Transformer.Config(layers=1, width=64)
    assert json.dumps(model_spec_of(Transformer, plain).to_fields()) == json.dumps(BEFORE)
    assert key_of(model_spec_of(Transformer, plain).to_fields()) == key_of(BEFORE)
    assert config_of(ModelSpec.from_json({"schema": "separatrix.model", "version": 1, **BEFORE})) == plain
    built = build(model_spec_of(Transformer, plain), signature_of(IndexLookup(n=5)), 1)
    assert isinstance(built, Transformer)
    assert type(built.make_block(0).mixer) is Attention


@pytest.mark.parametrize("attention", OTHERS)
def test_another_kind_is_another_model_and_comes_back(attention: str) -> None:
    config = model("transformer", layers=1, width=8, heads=2, attention=attention)
    spec = model_spec_of(Transformer, config)
    assert spec.params["attention"] == attention
    assert config_of(spec) == config


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"attention as softmax or sparsemax or average-hard; got 'hard'"):
        model("transformer", attention="hard")


@pytest.mark.parametrize("attention", OTHERS)
def test_proofs_about_softmax_do_not_take_it(attention: str) -> None:
    task = IndexLookup(n=4)
    for kind, taken in (("softmax", True), (attention, False)):
        config = Transformer.Config(layers=1, width=8, heads=2, attention=kind)  # type: ignore[arg-type]
        population = Transformer(config, signature_of(task), members=1)
        population.initialise([0])
        if taken:
            form_of(population)
        else:
            with pytest.raises(InvalidInput):
                form_of(population)
