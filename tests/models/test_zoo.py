"""Transformers, third-order and graph ones, and the feed-forward net: they conform and are their formulas."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import torch

from separatrix.models import MODELS
from separatrix.models.attention import rotated
from separatrix.models.fnn import FeedForwardNet
from separatrix.models.graph_transformer import GraphTransformer
from separatrix.models.laws import Numbers
from separatrix.models.llama import Llama
from separatrix.models.members import initialise
from separatrix.models.population import Population, signature_of
from separatrix.models.third_order import ThirdOrder, ThirdOrderAttention
from separatrix.models.transformer import Transformer
from separatrix.tasks.cycle3 import Cycle3
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.match3 import Match3
from separatrix.tasks.q_sparse_averaging import QSparseAveraging
from separatrix.testing import ModelConformance
from separatrix.testing.model_conformance import Trial

LOOKUP = IndexLookup(n=7, alphabet=5)
AVERAGING = QSparseAveraging(n=5, q=2, d=3)


class TestTransformer(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        config = Transformer.Config
        return [
            (Transformer, config(layers=2, width=8, heads=2, embedding="frozen", tied=True), LOOKUP),
            (Transformer, config(layers=1, width=8, heads=1, causal=False), AVERAGING),
        ]


class TestLlama(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        return [
            (Llama, Llama.Config(layers=2, width=8, heads=2, embedding="sinusoidal"), LOOKUP),
            (Llama, Llama.Config(layers=1, width=8, heads=1, ffn=5, causal=False), AVERAGING),
        ]


class TestThirdOrder(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        return [
            (ThirdOrder, ThirdOrder.Config(layers=1, width=8), Match3(n=7)),
            (ThirdOrder, ThirdOrder.Config(layers=2, width=8, heads=2, ffn=6), AVERAGING),
        ]


class TestGraphTransformer(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        return [
            (GraphTransformer, GraphTransformer.Config(layers=1, width=8, heads=2), Cycle3(n=5)),
            (GraphTransformer, GraphTransformer.Config(layers=2, width=6, heads=1, ffn=9), Cycle3(n=7)),
        ]


class TestFeedForwardNet(ModelConformance):
    def populations(self) -> Sequence[Trial]:
        return [
            (FeedForwardNet, FeedForwardNet.Config(layers=1, width=16), AVERAGING),
            (FeedForwardNet, FeedForwardNet.Config(layers=3, width=12, token_width=3), LOOKUP),
        ]


def test_attention_of_order_three_is_the_formula() -> None:
    members, batch, length, width, heads = 2, 2, 4, 6, 2
    part = width // heads
    mixer: Any = ThirdOrderAttention(members, width, heads, last=0.3).double()
    initialise(mixer, (1, 2))
    x = Numbers(seed=1, parameter="x", shape=(members, batch, length, width)).normal()
    found = mixer(x)
    for member, row in product(range(members), range(batch)):
        query = x[member, row] @ mixer.query.weight[member] + mixer.query.bias[member]
        maps = (x[member, row] @ mixer.pairs.weight[member] + mixer.pairs.bias[member]).chunk(4, dim=-1)
        mixed = torch.zeros(length, width, dtype=torch.float64)
        for head, i in product(range(heads), range(length)):
            own = slice(head * part, (head + 1) * part)
            pairs = list(product(range(length), repeat=2))
            logits = torch.stack(
                [(query[i, own] * maps[0][j, own] * maps[1][k, own]).sum() for j, k in pairs]
            )
            weights = (logits / part**0.5).softmax(0)
            values = torch.stack([maps[2][j, own] * maps[3][k, own] for j, k in pairs])
            mixed[i, own] = weights @ values
        expected = mixed @ mixer.outward.weight[member] + mixer.outward.bias[member]
        assert torch.allclose(found[member, row], expected, rtol=0, atol=1e-12)


def test_attention_by_edges_is_the_formula() -> None:
    members, batch, length, width, heads = 2, 2, 4, 6, 2
    part = width // heads
    model = GraphTransformer(
        GraphTransformer.Config(layers=1, width=width, heads=heads),
        signature_of(Cycle3(n=length)),
        members=members,
    ).double()
    attention: Any = model.blocks[0].attention
    initialise(model, (1, 2))
    with torch.no_grad():
        for values in (attention.slopes, attention.dummy):
            values.copy_(Numbers(seed=2, parameter="stir", shape=tuple(values.shape)).normal())
    graph = Cycle3(n=length, density=0.5).sample(members * batch, seed=3).inputs.double()
    graph = graph.view(members, batch, length, length)
    x = Numbers(seed=1, parameter="x", shape=(members, batch, length, width)).normal()
    edges = torch.stack([graph, graph.mT, graph * graph.mT], dim=-1)
    begun = model.vertices.table.unsqueeze(1).expand(-1, batch, -1, -1)
    expected = model.readout(model.norm(model.blocks[0](begun, edges, None)))
    assert torch.equal(model(graph), expected)
    found = attention(x, edges, None)
    for member, row in product(range(members), range(batch)):
        query = x[member, row] @ attention.query.weight[member]
        key, value = (x[member, row] @ attention.pairs.weight[member]).chunk(2, dim=-1)
        mixed = torch.zeros(length, width, dtype=torch.float64)
        for head, i in product(range(heads), range(length)):
            own = slice(head * part, (head + 1) * part)
            logits = []
            for j in range(length):
                out, back = graph[member, row, i, j], graph[member, row, j, i]
                kind = torch.stack([out, back, out * back])
                plain = query[i, own] @ key[j, own] / part**0.5
                slope, offset = attention.slopes[member, :, head], attention.offsets[member, :, head]
                logits.append((1 + kind @ slope) * plain + kind @ offset)
            weights = torch.stack([*logits, attention.dummy[member, head]]).softmax(0)
            mixed[i, own] = weights[:-1] @ value[:, own]
        expected = mixed @ attention.outward.weight[member]
        assert torch.allclose(found[member, row], expected, rtol=0, atol=1e-12)


def test_a_graph_transformer_does_not_mind_the_order_of_vertices() -> None:
    """Vertices that begin alike are told apart by their edges alone."""
    task = Cycle3(n=6)
    kind = GraphTransformer(GraphTransformer.Config(layers=2, width=8), signature_of(task), members=1)
    model = kind.initialise((4,)).double()
    with torch.no_grad():
        model.vertices.table.copy_(model.vertices.table[:, :1].expand_as(model.vertices.table))
    graph = task.sample(3, seed=1).inputs.unsqueeze(0)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    assert torch.allclose(model(graph[:, :, order][..., order]), model(graph)[:, :, order], atol=1e-12)
    assert not torch.allclose(model(graph), model(graph)[:, :, order], atol=1e-6)


def test_a_feed_forward_net_is_the_formula() -> None:
    model: Any = FeedForwardNet(FeedForwardNet.Config(layers=2, width=7), signature_of(AVERAGING), members=1)
    model.initialise((3,))
    rows = AVERAGING.sample(4, seed=1).inputs
    x = rows.flatten(1)
    for layer in model.hidden:
        x = torch.relu(x @ layer.weight[0] + layer.bias[0])
    expected = (x @ model.readout.weight[0] + model.readout.bias[0]).view(4, 5, 3)
    assert torch.allclose(model(rows.unsqueeze(0))[0], expected, atol=1e-6)


def test_llama_knows_distances_only() -> None:
    """Turned by their places, two rows have a product that depends on their distance; any length goes."""
    signature = signature_of(LOOKUP)
    config = Llama.Config(layers=1, width=8, heads=2)
    model = Llama(config, signature, members=1).initialise((5,)).double()
    with torch.no_grad():
        for values in model.parameters():
            values.mul_(10)  # so that attention is not uniform
    rows = Numbers(seed=1, parameter="x", shape=(3, 2, 5, 4)).normal()
    near, shifted = (rotated(rows, torch.arange(5) + shift) for shift in (0, 9))
    assert torch.allclose(near @ near.mT, shifted @ shifted.mT, atol=1e-12)
    tokens = torch.tensor([[[0, 1, 2, 3], [1, 0, 2, 3]]])
    straight, swapped = model(tokens)[0, :, -1]
    assert not torch.allclose(straight, swapped, atol=1e-6)  # positions do matter
    assert model.longest is None
    long = LOOKUP.sample(2, seed=1).inputs.repeat(1, 3).unsqueeze(0)
    assert model(long).shape == (1, 2, 3 * LOOKUP.length, signature.out)
    assert model.shape == (24, 2)  # 8/3 of 8 is 21.3


@pytest.mark.parametrize("name", MODELS.names())
def test_every_model_is_listed_with_what_it_is(name: str) -> None:
    kind = MODELS.get(name)
    assert kind.name == name
    assert kind.title.strip()
    assert kind.source.strip()
    assert kind.Config()
    assert issubclass(kind, Population)
    for option in dataclasses.fields(kind.Config):
        assert option.metadata["help"], f"{name} has an option {option.name} without a help line"
