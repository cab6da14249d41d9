"""The linear Transformer: attention whose weights are ⟨φ(q), φ(k)⟩ with φ = elu + 1, and so a recurrent net.

What a position reads is Σ φ(q_t)·φ(k_s) v_s over its own normaliser Σ φ(q_t)·φ(k_s): all it needs of the past
is the sum of φ(k_s) v_sᵀ and that of φ(k_s). Blocks are GPT-2's, with learned absolute positions unless there
are to be none, and so are the initial weights, unless they are to go by the number of a map's inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from separatrix.accounting import StatePart, recurrent_state
from separatrix.models import MODELS
from separatrix.models.beginnings import BegunConfig
from separatrix.models.feed_forward import Perceptron
from separatrix.models.kernels.choice import Backend
from separatrix.models.kernels.decayed_attention import (
    attention_at,
    attention_with_totals,
    one_step,
    wide_type,
)
from separatrix.models.laws import Law, constant
from separatrix.models.members import LayerNorm, Linear, linear, taken
from separatrix.models.population import State
from separatrix.models.stack import Block, Mixer, Reading, SeamedStack
from separatrix.models.transformer import require_heads
from separatrix.options import option, require

__all__ = ["LinearAttention", "LinearTransformer"]

_LEAST_TOTAL = 1e-6
"""Added to a normaliser, which is positive but may be as small as it likes."""


class LinearAttention(Mixer):
    """φ(q)·φ(k) v, summed over the past and divided by the sum of the weights, for each head."""

    def __init__(
        self, members: int, width: int, heads: int, *, law: Law, last: Law, backend: Backend = "auto"
    ) -> None:
        """`last` is the law of the map back into the stream."""
        super().__init__(members)
        self.width, self.heads, self.head_width, self.backend = width, heads, width // heads, backend
        self.inward = Linear(members, width, 3 * width, law=law, bias=constant(0))
        self.outward = Linear(members, width, width, law=last, bias=constant(0))

    @property
    def seam(self) -> int:
        """None: sums leave out what belongs to another input."""
        return 0

    def forward(
        self,
        x: Float[Tensor, "member batch pos width"],
        at: Int[Tensor, "member batch label"] | None = None,
        begins: Int[Tensor, "member batch"] | None = None,
    ) -> Float[Tensor, "member batch label width"]:
        """What the positions `at` read."""
        rows = None if begins is None else begins.flatten()
        if at is not None and at.shape[-1] <= self.head_width:
            return self.outward(self._at_few(x, at, rows))  # type: ignore[no-any-return]
        query, key, value = (self._headed(part) for part in self.inward(x).chunk(3, dim=-1))
        query, key = _positive(query), _positive(key)
        read, total = attention_with_totals(query, key, value, begins=rows, backend=self.backend)
        return taken(self.outward(_shares(read, total).reshape(x.shape)), at)

    def _at_few(
        self,
        x: Float[Tensor, "member batch pos width"],
        at: Int[Tensor, "member batch label"],
        begins: Int[Tensor, "row"] | None,
    ) -> Float[Tensor, "member batch label width"]:
        """Queries at a few positions; their keys and values are formed everywhere."""
        weight, bias, asked = self.inward.weight, self.inward.bias, taken(x, at)
        assert bias is not None
        query = linear(asked, weight[..., : self.width], bias[:, : self.width])
        behind = linear(x, weight[..., self.width :], bias[:, self.width :])
        key, value = (self._headed(part) for part in behind.chunk(2, dim=-1))
        query = _positive(self._headed(query))
        read, total = attention_at(query, _positive(key), value, at.flatten(0, 1), begins=begins)
        return _shares(read, total).reshape(asked.shape)

    def _headed(self, x: Float[Tensor, "member batch pos width"]) -> Float[Tensor, "row pos head part"]:
        """Members are folded into the batch."""
        return x.reshape(-1, x.shape[2], self.heads, self.head_width)

    def start(self, batch: int, like: Tensor) -> State:
        """Nothing read: no products of keys and values, no keys."""
        return (
            like.new_zeros(self.members, batch, self.heads, self.head_width, self.head_width),
            like.new_zeros(self.members, batch, self.heads, self.head_width),
        )

    def step(
        self, x: Float[Tensor, "member batch width"], state: State
    ) -> tuple[Float[Tensor, "member batch width"], State]:
        """Add the newest key and value, then read."""
        products, keys = state
        shape = (*x.shape[:2], self.heads, self.head_width)
        query, key, value = (part.reshape(shape) for part in self.inward(x).chunk(3, dim=-1))
        query, key = _positive(query), _positive(key)
        read, products = one_step(query, key, value, products)
        keys = keys + key
        total = (query.to(keys.dtype) * keys).sum(-1)
        return self.outward(_shares(read, total).to(x.dtype).reshape(x.shape)), (products, keys)

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """A matrix and a vector for each head."""
        products = self.heads * self.head_width**2
        return (
            recurrent_state(numbers=products, precision_bits=precision, name="attention state"),
            recurrent_state(numbers=self.width, precision_bits=precision, name="normaliser"),
        )


@MODELS.register("linear-transformer")
class LinearTransformer(SeamedStack):
    """Linear attention and a feed-forward map in every block; a position knows its number, or not."""

    name = "linear-transformer"
    title = "Linear Transformer"
    source = "Katharopoulos et al., 2020"

    @dataclass(frozen=True, kw_only=True)
    class Config(BegunConfig):
        """Depth, width and heads; `ffn` is four times the width unless said."""

        heads: int = option(4, help="attention heads of a block")
        ffn: int = option(0, help="inner width of the feed-forward map; 0 for four times the width")
        positions: Literal["learned", "none"] = option(
            "learned", help="a learned table of positions, or none", newer=True
        )

        def validate(self) -> None:
            """Heads share the width evenly."""
            require_heads(self.owner, self.width, self.heads)
            require(self.ffn >= 0, f"LinearTransformer needs ffn of at least 0; got ffn={self.ffn}.")

    config: Config

    @property
    def shape(self) -> tuple[int, int]:
        """Inner width and heads."""
        return self.config.ffn or 4 * self.config.width, self.config.heads

    def make_reading(self) -> Reading:
        """A token table, and mostly one of positions."""
        return Reading(
            self.members,
            self.config.width,
            self.signature,
            embedding=self.config.embedding,
            positions=self.config.positions == "learned",
            deviation=self.config.beginning(self.depth).table,
        )

    def make_block(self, place: int) -> Block:
        """Linear attention, then the feed-forward map, each behind a norm."""
        members, width = self.members, self.config.width
        inner, heads = self.shape
        begin = self.config.beginning(self.depth)
        attention = LinearAttention(members, width, heads, law=begin.inward(width), last=begin.back(width))
        feed_forward = Perceptron(members, width, inner, law=begin.inward(width), last=begin.back(inner))
        return Block(attention, LayerNorm(members, width), feed_forward, LayerNorm(members, width))

    def make_norm(self) -> nn.Module:
        """LayerNorm."""
        return LayerNorm(self.members, self.config.width)


def _positive(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """elu + 1, that is 1 + x or e^x, formed in float32 so that a small e^x does not drown in the 1."""
    wide = x.to(wide_type(x))
    return torch.where(wide > 0, wide + 1, wide.clamp(max=0).exp()).to(x.dtype)


def _shares(
    read: Float[Tensor, "*row head part"], total: Float[Tensor, "*row head"]
) -> Float[Tensor, "*row head part"]:
    """What was read, over the sum of the weights it was read with."""
    return (read / (total.unsqueeze(-1) + _LEAST_TOTAL)).to(read.dtype)
