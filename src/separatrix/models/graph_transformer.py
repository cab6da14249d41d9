"""A Transformer on graphs, after R's graph unit: attention between two vertices sees the edges between them.

An input is an adjacency matrix A. The stream begins with a learned vector for each vertex, the same for every
graph, and the graph itself enters through attention alone: the logit of vertices i and j passes through an
element-wise map κ that knows A_ij and A_ji. For each head κ(z) = (1 + s·e) z + b·e with the edge's features
e = (A_ij, A_ji, A_ij A_ji), so that each kind of pair, joined one way, the other, both or not at all, has a
slope and an offset of its own. Beside the vertices stands a dummy with a logit of its own and no value, as in
R's unit, so that what a vertex receives also tells how many edges it has.

Slopes begin alike, offsets with deviation 1, so that heads look along different kinds of edges from the
start; all else as in GPT-2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from separatrix.accounting import StatePart
from separatrix.models import MODELS
from separatrix.models.feed_forward import Perceptron
from separatrix.models.laws import constant, normal
from separatrix.models.members import LayerNorm, Linear, MemberModule, linear, taken
from separatrix.models.population import ModelConfig, Population, Signature
from separatrix.models.transformer import require_heads
from separatrix.options import option, require
from separatrix.tasks.interface import Classes, Reals

__all__ = ["GraphTransformer"]

_DEVIATION: Final = 0.02
_EDGE_FEATURES: Final = 3


class GraphAttention(MemberModule):
    """softmax(κ(q kᵀ / √d, A)) v for each head, a dummy beside the vertices; then one map of all heads."""

    def __init__(self, members: int, width: int, heads: int, *, last: float) -> None:
        """`last` is the deviation of the map back into the stream."""
        super().__init__(members)
        self.heads, self.head_width = heads, width // heads
        law = normal(_DEVIATION)
        self.query = Linear(members, width, width, law=law, bias=constant(0))
        self.pairs = Linear(members, width, 2 * width, law=law, bias=constant(0))
        self.outward = Linear(members, width, width, law=normal(last), bias=constant(0))
        self.slopes = self.parameter("slopes", (_EDGE_FEATURES, heads), constant(0))
        self.offsets = self.parameter("offsets", (_EDGE_FEATURES, heads), normal(1))
        self.dummy = self.parameter("dummy", (heads,), constant(0))

    def forward(
        self,
        x: Float[Tensor, "member batch vertex width"],
        edges: Float[Tensor, "member batch label vertex feature"],
        at: Int[Tensor, "member batch label"] | None,
    ) -> Float[Tensor, "member batch label width"]:
        """What the vertices `at` attend to; `edges` are the features of their pairs with all others."""
        asking = taken(x, at)
        key, value = map(self._headed, self.pairs(x).chunk(2, dim=-1))
        query = self._headed(self.query(asking))
        logits = query @ key.mT / math.sqrt(self.head_width)
        slope = linear(edges, self.slopes).movedim(-1, 2)
        offset = linear(edges, self.offsets).movedim(-1, 2)
        logits = (1 + slope) * logits + offset
        logits = logits.float() if logits.dtype == torch.bfloat16 else logits
        dummy = self.dummy.view(self.members, 1, self.heads, 1, 1).expand(*logits.shape[:-1], 1)
        weights = torch.cat([logits, dummy.to(logits.dtype)], dim=-1).softmax(-1)[..., :-1]
        mixed = weights.to(value.dtype) @ value
        return self.outward(mixed.transpose(2, 3).reshape(asking.shape))  # type: ignore[no-any-return]

    def _headed(
        self, x: Float[Tensor, "member batch vertex width"]
    ) -> Float[Tensor, "member batch head vertex part"]:
        return x.view(*x.shape[:3], self.heads, self.head_width).transpose(2, 3)


class GraphBlock(MemberModule):
    """Attention by edges, then the feed-forward map, each behind a norm."""

    def __init__(self, members: int, width: int, heads: int, inner: int, *, last: float) -> None:
        super().__init__(members)
        self.norm, self.second = LayerNorm(members, width), LayerNorm(members, width)
        self.attention = GraphAttention(members, width, heads, last=last)
        self.feed_forward = Perceptron(members, width, inner, law=normal(_DEVIATION), last=normal(last))

    def forward(
        self,
        x: Float[Tensor, "member batch vertex width"],
        edges: Float[Tensor, "member batch label vertex feature"],
        at: Int[Tensor, "member batch label"] | None,
    ) -> Float[Tensor, "member batch label width"]:
        """The stream behind this block, at the vertices `at`."""
        x = taken(x, at) + self.attention(self.norm(x), edges, at)
        return x + self.feed_forward(self.second(x))  # type: ignore[no-any-return]


@MODELS.register("graph-transformer")
class GraphTransformer(Population):
    """A vector for each vertex, blocks of attention by edges, a norm and the readout."""

    name = "graph-transformer"
    title = "Graph Transformer"
    source = "Sanford, Hsu and Telgarsky, 2023"

    @dataclass(frozen=True, kw_only=True)
    class Config(ModelConfig):
        """Depth, width and heads; `ffn` is four times the width unless said."""

        heads: int = option(4, help="attention heads of a block")
        ffn: int = option(0, help="inner width of the feed-forward map; 0 for four times the width")

        def validate(self) -> None:
            """Heads share the width evenly."""
            require_heads(self.owner, self.width, self.heads)
            require(self.ffn >= 0, f"{self.owner} needs ffn of at least 0; got ffn={self.ffn}.")

    config: Config

    def __init__(self, config: Config, signature: Signature, *, members: int) -> None:
        super().__init__(config, signature, members=members)
        _require_graph(signature)
        inner, heads = self.shape
        width, last = config.width, _DEVIATION / math.sqrt(2 * config.layers)
        self.vertices = Vertices(members, signature.length, width)
        self.blocks = nn.ModuleList(
            GraphBlock(members, width, heads, inner, last=last) for _ in range(config.layers)
        )
        self.norm = LayerNorm(members, width)
        law = normal(_DEVIATION if isinstance(signature.targets, Classes) else width**-0.5)
        self.readout = Linear(members, width, signature.out, law=law)

    @property
    def shape(self) -> tuple[int, int]:
        """Inner width and heads."""
        return self.config.ffn or 4 * self.config.width, self.config.heads

    @property
    def longest(self) -> int | None:
        """Vertices that have a vector."""
        return self.signature.length

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """It does not read token by token."""
        return ()

    def embeddings(self) -> Iterator[Float[Tensor, "member *shape"]]:
        """The vertices' vectors."""
        yield self.vertices.table

    def forward(
        self,
        inputs: Shaped[Tensor, "member batch pos width"],
        at: Int[Tensor, "member batch label"] | None = None,
    ) -> Float[Tensor, "member batch label out"]:
        """The outputs at the vertices `at`: the last block and the readout are computed there only."""
        self.check_length(inputs, self.longest)
        batch, rows, columns = inputs.shape[1:]
        require(
            rows == columns,
            f"graph-transformer reads square adjacency matrices; got {rows} rows of {columns} numbers.",
        )
        ahead = inputs.to(self.vertices.table.dtype)
        back = ahead.transpose(2, 3)
        edges = torch.stack([ahead, back, ahead * back], dim=-1)
        x = self.vertices.table[:, :rows].unsqueeze(1).expand(-1, batch, -1, -1)
        last = len(self.blocks) - 1
        for place, block in enumerate(self.blocks):
            asked = at if place == last else None
            x = block(x, _rows(edges, asked), asked)
        return self.readout(self.norm(x))  # type: ignore[no-any-return]


class Vertices(MemberModule):
    """A learned vector for each vertex."""

    def __init__(self, members: int, count: int, width: int) -> None:
        super().__init__(members)
        self.table = self.parameter("table", (count, width), normal(_DEVIATION))


def _rows(
    edges: Float[Tensor, "member batch vertex other feature"], at: Int[Tensor, "member batch label"] | None
) -> Float[Tensor, "member batch label other feature"]:
    return edges if at is None else taken(edges.flatten(3), at).view(*at.shape, *edges.shape[3:])


def _require_graph(signature: Signature) -> None:
    inputs, length = signature.inputs, signature.length
    found = f"{length} rows of {inputs.width} numbers" if isinstance(inputs, Reals) else f"{length} tokens"
    require(
        isinstance(inputs, Reals) and inputs.width == length,
        "graph-transformer reads an adjacency matrix, n rows of n zeros and ones; this task's inputs are "
        f"{found}. Take cycle3 or cycle5, or another model.",
    )
