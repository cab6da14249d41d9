"""Explicit graph Transformers: R's graph units of ordinary attention, in any number system.

An input is an adjacency matrix, a row for each vertex. A unit is softmax(κ(A, (XWq)(XWk)ᵀ)) X Wv, where X are
the vertices' vectors and κ is applied element by element to an edge and a logit; here
κ(a, z) = (1 + slope·a)·z + offset·a. Beside the vertices stands a dummy with a logit of its own and the value
0, for a vertex that no other concerns. What a vertex begins with is an affine map of its own row and of its
number, so whoever holds a row can compute all that its vertex knows of the graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.accounting import Size
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.models.explicit.base import ExplicitModel
from separatrix.models.explicit.input_reading import input_map_from
from separatrix.models.explicit.inputs import InputMap
from separatrix.models.explicit.layers import Readout
from separatrix.models.explicit.linear import FeedForward, affine, taken
from separatrix.precision import Float64, Numbers, NumberSystem, concatenate
from separatrix.records import JsonObject, Reader

__all__ = ["GraphHead", "GraphLayer", "GraphTransformer", "graph_transformer_from"]

_MOST_LAYERS: Final = 64


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GraphHead:
    """One graph unit; `edge` holds κ's slope and offset and the dummy's logit."""

    query: Float[Tensor, "inner width"]
    key: Float[Tensor, "inner width"]
    value: Float[Tensor, "out width"]
    edge: Float[Tensor, "3"]

    @property
    def inner(self) -> int:
        """Rows of Wq and Wk."""
        return self.query.shape[0]

    @property
    def out(self) -> int:
        """Rows of Wv."""
        return self.value.shape[0]

    def keep(self, system: NumberSystem, stream: Numbers) -> tuple[Numbers, Numbers]:
        """Keys and values of some vertices."""
        return affine(system, stream, self.key), affine(system, stream, self.value)

    def attend(
        self,
        system: NumberSystem,
        stream: Numbers,
        edges: Float[Tensor, "batch asked vertex"],
        kept: tuple[Numbers, Numbers],
    ) -> Numbers:
        """What some vertices get, given their rows of the matrix and the keys and values of all.

        The logit is rounded, then its product with 1 + slope·a, then the sum.
        """
        keys, values = kept
        slope, offset, dummy = (each.to(edges.device) for each in self.edge)
        logits = system.matmul(affine(system, stream, self.query), keys.transpose(-1, -2))
        sloped = system.multiply(system.encode(1 + slope * edges.double()), logits)
        logits = system.add(sloped, system.encode(offset * edges.double()))
        beside = system.encode(dummy).expand(*logits.shape[:-1], 1)
        nothing = values[:, :1].each(torch.zeros_like)
        return system.weighted_sum(
            system.softmax(concatenate([logits, beside], axis=-1)), concatenate([values, nothing], axis=1)
        )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GraphLayer:
    """y = x + Wo [heads], and then ψ(y), or y where there is no ψ."""

    heads: tuple[GraphHead, ...]
    output: Float[Tensor, "width joined"]
    feed_forward: FeedForward | None

    @property
    def out(self) -> int:
        """Coordinates of the stream behind it."""
        return self.output.shape[0] if self.feed_forward is None else self.feed_forward.maps[-1].out

    @property
    def kept(self) -> int:
        """Numbers that all heads keep of a vertex."""
        return sum(head.inner + head.out for head in self.heads)

    def keep(self, system: NumberSystem, stream: Numbers) -> tuple[tuple[Numbers, Numbers], ...]:
        """Keys and values of some vertices, head by head."""
        return tuple(head.keep(system, stream) for head in self.heads)

    def __call__(
        self,
        system: NumberSystem,
        stream: Numbers,
        edges: Float[Tensor, "batch asked vertex"],
        kept: tuple[tuple[Numbers, Numbers], ...],
    ) -> Numbers:
        """The layer at some vertices, given their vectors, their rows, and what is kept of all."""
        joined = concatenate(
            [head.attend(system, stream, edges, each) for head, each in zip(self.heads, kept, strict=True)],
            axis=-1,
        )
        y = system.add(stream, affine(system, joined, self.output))
        return y if self.feed_forward is None else self.feed_forward(system, y)

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """Its weights by name."""
        found = {f"{prefix}.output": self.output}
        for number, head in enumerate(self.heads):
            for name in ("query", "key", "value", "edge"):
                found[f"{prefix}.heads.{number}.{name}"] = getattr(head, name)
        if self.feed_forward is not None:
            found |= self.feed_forward.tensors(f"{prefix}.feed_forward")
        return found

    def spec(self) -> JsonObject:
        """How many heads, and the feed-forward map."""
        return {
            "heads": len(self.heads),
            "feed_forward": None if self.feed_forward is None else self.feed_forward.spec(),
        }


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GraphTransformer(ExplicitModel):
    """A map of rows to vectors, layers of graph units, a readout at every vertex."""

    form: ClassVar[str] = "graph-transformer"

    inputs: InputMap
    layers: tuple[GraphLayer, ...]
    readout: Readout
    numbers: NumberSystem = field(default_factory=Float64)

    @property
    def arithmetic(self) -> NumberSystem:
        """The numbers it computes with."""
        return self.numbers

    def with_arithmetic(self, system: NumberSystem) -> GraphTransformer:
        """The same weights, computing with other numbers."""
        return dataclasses.replace(self, numbers=system)

    @property
    def classes(self) -> int | None:
        """How many classes it scores."""
        return self.readout.classes

    def vectors(self, rows: Float[Tensor, "batch pos n"], places: Int[Tensor, "batch asked"]) -> Numbers:
        """What the vertices at these places begin with; no other row is looked at."""
        lengths = torch.full((len(rows),), rows.shape[1], device=rows.device)
        return self.numbers.encode(self.inputs.embed(rows, places, lengths))

    def outputs(
        self, inputs: Float[Tensor, "batch pos n"], *, at: Int[Tensor, "batch asked"] | None = None
    ) -> Numbers:
        """Layer by layer, all vertices; the last layer only where something is asked."""
        self.inputs.check(inputs)
        batch, n, width = inputs.shape
        if n != width:
            raise InvalidInput(f"A graph Transformer reads square matrices; got {n} rows of {width} numbers.")
        system, edges = self.numbers, inputs
        places = torch.arange(n, device=inputs.device).expand(batch, -1)
        stream = self.vectors(inputs, places)
        for number, layer in enumerate(self.layers):
            kept = layer.keep(system, stream)
            if at is not None and number == len(self.layers) - 1:
                index = at.unsqueeze(2)
                edges = inputs.gather(1, index.expand(-1, -1, n))
                chosen = index.expand(-1, -1, stream.shape[2])
                stream = stream.each(lambda part, chosen=chosen: part.gather(1, chosen))  # type: ignore[misc]
            stream = layer(system, stream, edges, kept)
        return self.readout(system, stream)

    def size(self, n: int, precision: int) -> Size:
        """Its weights; between vertices nothing is kept but the graph itself."""
        own = sum(tensor.numel() for layer in self.layers for tensor in layer.tensors("").values())
        inner = [layer.feed_forward.hidden for layer in self.layers if layer.feed_forward is not None]
        return Size(
            width=self.inputs.width,
            ffn_width=max(inner, default=0),
            layers=len(self.layers),
            heads=max(len(layer.heads) for layer in self.layers),
            precision_bits=precision,
            parameters_without_embeddings=own + self.readout.map.parameters,
            embedding_parameters=self.inputs.parameters,
            source="counted on the explicit weights",
        )

    def tensors(self) -> dict[str, Tensor]:
        """Inputs, layers, readout."""
        found = {**self.inputs.tensors()}
        for number, layer in enumerate(self.layers):
            found |= layer.tensors(f"layers.{number}")
        return found | self.readout.map.tensors("readout")

    def spec(self) -> JsonObject:
        """All that is no weight."""
        return {
            "form": self.form,
            "inputs": self.inputs.spec(),
            "layers": [layer.spec() for layer in self.layers],
            "readout": self.readout.spec(),
        }

    def work(self, n: int) -> int:
        """A logit for each pair of vertices and each head."""
        return n * (n + 1) * sum(len(layer.heads) for layer in self.layers)

    def describe(self) -> str:
        """Layers, heads and widths."""
        heads = " and ".join(
            ", ".join(f"{head.inner}/{head.out}" for head in layer.heads) for layer in self.layers
        )
        return (
            f"graph Transformer, width {self.inputs.width}, layers: {len(self.layers)}, "
            f"widths of keys/values of its heads: {heads}"
        )


def graph_transformer_from(data: object, tensors: Mapping[str, Tensor]) -> GraphTransformer:
    """The graph Transformer that a file describes, with exactly these weights."""
    read = Reader(data, what="the model")
    read.choice("form", (GraphTransformer.form,))
    left = dict(tensors)
    inputs = input_map_from(read.value("inputs"), left)
    if len(inputs.appended):
        raise InvalidFile("A graph Transformer has a dummy of its own and no elements behind its input.")
    width, layers = inputs.width, []
    described = read.items("layers")
    if not 1 <= len(described) <= _MOST_LAYERS:
        raise InvalidFile(f"A graph Transformer has 1 to {_MOST_LAYERS} layers; got {len(described)}.")
    for number, each in enumerate(described):
        layers.append(_layer_from(each, left, f"layers.{number}", width=width))
        width = layers[-1].out
    readout = Readout.taken(read.value("readout"), left, width=width)
    read.finish()
    if left:
        raise InvalidFile(f"The weights hold the tensor '{min(left)}', which belongs to nothing.")
    return GraphTransformer(inputs=inputs, layers=tuple(layers), readout=readout)


def _layer_from(data: object, tensors: dict[str, Tensor], prefix: str, *, width: int) -> GraphLayer:
    read = Reader(data, what="a layer")
    count = read.count("heads")
    inside = None if read.skip_null("feed_forward") else read.value("feed_forward")
    read.finish()
    if not 1 <= count <= 1 << 12:
        raise InvalidFile(f"A layer has 1 to {1 << 12} heads; got {count}.")
    heads = []
    for number in range(count):
        name = f"{prefix}.heads.{number}"
        query = taken(tensors, f"{name}.query", None, width)
        heads.append(
            GraphHead(
                query=query,
                key=taken(tensors, f"{name}.key", query.shape[0], width),
                value=taken(tensors, f"{name}.value", None, width),
                edge=taken(tensors, f"{name}.edge", 3),
            )
        )
    output = taken(tensors, f"{prefix}.output", width, sum(head.out for head in heads))
    psi = None
    if inside is not None:
        psi = FeedForward.taken(inside, tensors, f"{prefix}.feed_forward", inner=width)
    return GraphLayer(heads=tuple(heads), output=output, feed_forward=psi)
