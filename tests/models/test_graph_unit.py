"""Graph units: against plain attention over a list of all tuples, in every arithmetic, in any portions."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidFile, InvalidInput, TooLarge
from separatrix.models.explicit import graph_unit
from separatrix.models.explicit.graph_unit import GraphUnit, graph_unit_from
from separatrix.models.explicit.layers import Readout
from separatrix.models.explicit.linear import Affine
from separatrix.models.explicit.reading import model_from
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem, concatenate

SYSTEMS: tuple[NumberSystem, ...] = (Float64(), Float32(), FixedDown(n=10, k=3), FixedNearest(p=25))


def unit(order: int, system: NumberSystem) -> GraphUnit:
    torch.manual_seed(order)
    return GraphUnit(
        kernel=Affine(matrix=torch.randn(1, order).double(), bias=torch.randn(1).double()),
        value=torch.randn(2).double(),
        dummy_logit=torch.randn(1).double(),
        dummy_value=torch.randn(2).double(),
        readout=Readout(
            map=Affine(matrix=torch.eye(2).double(), bias=torch.zeros(2).double()), code=None, scores=False
        ),
        numbers=system,
    )


def by_list(model: GraphUnit, graph: Tensor, vertex: int) -> Tensor:
    """One softmax over all tuples, written out, and the dummy."""
    system, n = model.arithmetic, len(graph)
    walks = []
    for inner in itertools.product(range(n), repeat=model.order - 1):
        stops = (vertex, *inner, vertex)
        walks.append([float(graph[a, b]) for a, b in itertools.pairwise(stops)])
    edges = system.encode(torch.tensor(walks, dtype=torch.float64))
    logits = model.kernel(system, edges).reshape(1, -1)
    logits = concatenate([logits, system.encode(model.dummy_logit).reshape(1, 1)], axis=1)
    values = torch.cat([model.value.expand(len(walks), -1), model.dummy_value[None]])
    return system.decode_float64(system.weighted_sum(system.softmax(logits), system.encode(values)))[0]


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("portion", [1 << 21, 160])
def test_it_is_attention_over_all_tuples(
    order: int, system: NumberSystem, portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_unit, "_EDGES_AT_ONCE", portion)
    torch.manual_seed(7)
    graphs = (torch.rand(2, 4, 4) < 0.5).float()
    model = unit(order, system)
    found = model.forward(graphs)
    for graph, rows in zip(graphs, found, strict=True):
        for vertex in range(4):
            wanted = by_list(model, graph, vertex)
            close = 1e-5 if system == Float32() else 1e-12
            assert torch.allclose(rows[vertex], wanted, atol=close)


def test_only_the_vertices_asked_for() -> None:
    graphs = (torch.rand(2, 5, 5) < 0.5).float()
    model = unit(3, Float64())
    asked = torch.tensor([[4, 0], [2, 2]])
    some = model.arithmetic.decode_float64(model.outputs(graphs, at=asked))
    assert torch.allclose(some, model.forward(graphs).gather(1, asked[..., None].expand(-1, -1, 2)))


def test_it_comes_back_from_spec_and_tensors() -> None:
    model = unit(3, Float64())
    again = model_from(model.spec(), model.tensors())
    graph = (torch.rand(1, 4, 4) < 0.5).float()
    assert isinstance(again, GraphUnit)
    assert torch.equal(again.forward(graph), model.forward(graph))
    assert model.size(4, 64).parameters == 3 + 1 + 2 + 1 + 2 + 6


def test_what_is_no_graph_or_no_unit_is_refused() -> None:
    model = unit(3, Float64())
    with pytest.raises(InvalidInput, match="square"):
        model.outputs(torch.zeros(1, 3, 4))
    with pytest.raises(TooLarge, match="smaller graph"):
        unit(8, Float64()).outputs(torch.zeros(1, 20, 20))
    with pytest.raises(InvalidFile, match="order"):
        graph_unit_from({**model.spec(), "order": 9}, model.tensors())
    with pytest.raises(InvalidFile, match="belongs to nothing"):
        graph_unit_from(model.spec(), {**model.tensors(), "more": torch.zeros(1).double()})
    two = {"kernel.matrix": torch.zeros(2, 3).double(), "kernel.bias": torch.zeros(2).double()}
    with pytest.raises(InvalidFile, match="one logit"):
        graph_unit_from(model.spec(), {**model.tensors(), **two})
