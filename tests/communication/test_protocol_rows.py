"""Graph Transformers row by row: the 3-cycle in width N, and random units, bit for bit the direct run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from separatrix.communication.protocols import arrange, comparisons, run_protocol, run_protocols
from separatrix.communication.protocols.cycle_model import cycle3_model
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.models.explicit.graph_transformer import GraphHead, GraphLayer, GraphTransformer
from separatrix.models.explicit.inputs import RealInputs
from separatrix.models.explicit.layers import Readout
from separatrix.models.explicit.linear import Affine, FeedForward
from separatrix.models.explicit.reading import model_from
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks import task
from separatrix.tasks.interface import Partition
from tests.communication.protocol_cases import grid, inputs_of, ran_on_garbage

SYSTEMS: tuple[NumberSystem, ...] = (Float64(), Float32(), FixedDown(n=6, k=3), FixedNearest(p=17))


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_the_model_finds_3_cycles(system: NumberSystem) -> None:
    for n in (3, 4):
        made = task("cycle3", n=n)
        every = torch.cat(list(made.enumerate()))
        assert torch.equal(cycle3_model(n, system).answers(every), made.solve(every).targets)
    for instances in ("random", "disjointness"):
        made = task("cycle3", n=7, instances=instances)
        inputs = inputs_of(made, 40)
        assert torch.equal(cycle3_model(7, system).answers(inputs), made.solve(inputs).targets)


def random_model(seed: int, n: int, *, layers: int, heads: int, system: NumberSystem) -> GraphTransformer:
    count = iter(range(1000 * seed, 1000 * seed + 1000))

    def drawn(*shape: int) -> Tensor:
        return grid(*shape, seed=next(count))

    width = 3
    return GraphTransformer(
        inputs=RealInputs(
            matrix=drawn(width, n),
            bias=drawn(width),
            track_matrices={},
            position_tracks=(),
            padded=False,
            own=torch.zeros(0, width).double(),
        ),
        layers=tuple(
            GraphLayer(
                heads=tuple(
                    GraphHead(
                        query=drawn(2, width), key=drawn(2, width), value=drawn(1 + h, width), edge=drawn(3)
                    )
                    for h in range(heads)
                ),
                output=drawn(width, sum(1 + h for h in range(heads))),
                feed_forward=FeedForward(maps=(Affine(matrix=drawn(width, width), bias=drawn(width)),)),
            )
            for _ in range(layers)
        ),
        readout=Readout(map=Affine(matrix=drawn(2, width), bias=drawn(2)), code=None, scores=True),
        numbers=system,
    )


def naive(model: GraphTransformer, graph: Tensor) -> Tensor:
    """One graph, vertex by vertex, straight from the formulas."""
    inputs = model.inputs
    assert isinstance(inputs, RealInputs)
    x = [inputs.bias + inputs.matrix @ row.double() for row in graph]
    for layer in model.layers:
        after = []
        for i in range(len(x)):
            joined = []
            for head in layer.heads:
                slope, offset, dummy = head.edge.tolist()
                logits = [
                    (1 + slope * float(graph[i, j])) * float((head.query @ x[i]) @ (head.key @ x[j]))
                    + offset * float(graph[i, j])
                    for j in range(len(x))
                ]
                weights = torch.tensor([*logits, dummy], dtype=torch.float64).softmax(0)
                joined.append(sum(weights[j] * (head.value @ x[j]) for j in range(len(x))))
            y = x[i] + layer.output @ torch.cat(joined)
            assert layer.feed_forward is not None
            after.append(layer.feed_forward.maps[0].matrix @ y + layer.feed_forward.maps[0].bias)
        x = after
    return torch.stack([model.readout.map.matrix @ each + model.readout.map.bias for each in x])


def test_layers_are_what_the_formula_says() -> None:
    inputs = inputs_of(task("cycle3", n=5), 3)
    for seed in range(3):
        model = random_model(seed, 5, layers=2, heads=2, system=Float64())
        expected = torch.stack([naive(model, graph) for graph in inputs])
        torch.testing.assert_close(model.forward(inputs), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=12, deadline=None)
def test_random_graph_transformers(data: st.DataObject) -> None:
    n, made = 5, task("cycle3", n=5)
    model = random_model(
        data.draw(st.integers(0, 5000)),
        n,
        layers=data.draw(st.integers(1, 3)),
        heads=data.draw(st.integers(1, 2)),
        system=data.draw(st.sampled_from([FixedDown(n=3, k=2), FixedNearest(p=9), FixedNearest(p=71)])),
    )
    alice = data.draw(st.sets(st.integers(0, n - 1)))
    split = Partition(alice=tuple(sorted(alice)), bob=tuple(sorted(set(range(n)) - alice)))
    at = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True))
    arrangement = arrange(model, made, partition=split, at=at)
    said = run_protocols(arrangement, inputs_of(made, 4))
    assert all(each.agrees for each in said)
    assert {each.bits for each in said} == {arrangement.protocol.bits}


def test_bits_are_two_widths_a_head_a_row_a_layer() -> None:
    n, system = 6, FixedDown(n=6, k=2)
    made = task("cycle3", n=n)
    arrangement = arrange(cycle3_model(n, system), made)
    said = run_protocol(cycle3_model(n, system), made, inputs_of(made, 1)[0])
    p = system.bits
    assert (
        said.bits == 2 * n * (1 + n) * p + n
    )  # two layers, a key of one number, a value of n, an answer a row
    assert arrangement.protocol.counts()[0].bits == 2 * n * 2 * n * p + n
    assert (said.protocol, said.family, said.partition) == ("R-G", "graph-transformer", "groups")
    assert [each.sender for each in said.messages] == ["Alice", "Bob"] * 3
    first = comparisons(said)[0]
    assert (int(first.bound.at_least or 0), first.enough) == ((n // 3) ** 2 + 1, True)


def test_a_party_sees_nothing_of_the_other() -> None:
    made = task("cycle3", n=6)
    model = cycle3_model(6, FixedNearest(p=17))
    for split in ("groups", "odd/even", "6"):
        said = ran_on_garbage(
            arrange(model, made, partition=split), inputs_of(made, 5), inputs_of(made, 5, seed=2)
        )
        assert all(each.agrees for each in said)


def test_a_step_done_otherwise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer that takes the other's values for its own, and one that gives edges another slope."""
    made = task("cycle3", n=5)
    model = random_model(1, 5, layers=2, heads=1, system=FixedDown(n=10, k=2))
    arrangement, inputs = arrange(model, made, partition="odd/even"), inputs_of(made, 10)
    whole = torch.Tensor.argsort
    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, "argsort", lambda self: whole(self, descending=True))
        assert not all(each.agrees for each in run_protocols(arrangement, inputs))
    assert all(each.agrees for each in run_protocols(arrangement, inputs))


def test_files_bring_back_the_same_model() -> None:
    model = random_model(7, 5, layers=2, heads=2, system=Float64())
    again = model_from(model.spec(), model.tensors())
    inputs = inputs_of(task("cycle3", n=5), 4)
    assert torch.equal(again.forward(inputs), model.forward(inputs))
    at = torch.tensor([[3, 0]]).expand(4, -1)
    assert torch.equal(
        again.forward(inputs)[:, [3, 0]], again.arithmetic.decode_float64(again.outputs(inputs, at=at))
    )
    assert again.size(5, 8) == model.size(5, 8)
    assert "layers: 2" in again.describe()
    with pytest.raises(InvalidFile, match="lack the tensor"):
        model_from(model.spec(), {})
    with pytest.raises(InvalidFile, match="belongs to nothing"):
        model_from(model.spec(), {**model.tensors(), "more": torch.zeros(1)})
    spec: dict[str, Any] = {**model.spec(), "layers": []}
    with pytest.raises(InvalidFile, match="1 to 64 layers"):
        model_from(spec, model.tensors())
    with pytest.raises(InvalidInput, match="square matrices; got 4 rows of 5"):
        model.forward(inputs[:, :4])


def test_what_cannot_be_run_is_refused() -> None:
    made = task("cycle3", n=4)
    with pytest.raises(InvalidInput, match=r"exact in p-bit arithmetic.*got float64"):
        arrange(cycle3_model(4, Float64()), made)
    with pytest.raises(
        InvalidInput, match=r"needs steps of 1/8 and numbers up to 8; got down:4,1\. Try down:4,2"
    ):
        cycle3_model(4, FixedDown(n=4, k=1))
    with pytest.raises(InvalidInput, match="3 to 1024 vertices here; got n=2"):
        cycle3_model(2, Float64())
