"""R's attention of order three: a position attends to pairs of positions.

softmax((XQ)((XK₁)⋆(XK₂))ᵀ)((XV₁)⋆(XV₂)), where row (j, k) of A⋆B is the product of A_j and B_k coordinate by
coordinate. So the logit of a pair is Σ_c q_c a_jc b_kc, and what is read out is the weighted mean of products
of two values. On n positions that is n³ logits for each head: it decides Match3 in one layer, and nobody
would run it on long texts.

The frame is the Transformer's, without a mask. Queries, keys and values begin with deviation 1/√width rather
than 0.02, because a product of two small keys would leave nothing to attend by; all else as in GPT-2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from separatrix.accounting import StatePart
from separatrix.errors import TooLarge
from separatrix.models import MODELS
from separatrix.models.feed_forward import Perceptron
from separatrix.models.laws import constant, normal
from separatrix.models.members import LayerNorm, Linear, taken
from separatrix.models.stack import Block, Frame, Mixing, Reading, StackConfig
from separatrix.models.transformer import require_heads
from separatrix.options import option, require

__all__ = ["ThirdOrder", "ThirdOrderAttention"]

_DEVIATION: Final = 0.02
_LONGEST: Final = 512
_MOST_LOGITS: Final = 1 << 31


class ThirdOrderAttention(Mixing):
    """Several heads of order three, then one map of all of them."""

    def __init__(self, members: int, width: int, heads: int, *, last: float) -> None:
        """`last` is the deviation of the map back into the stream."""
        super().__init__(members)
        self.heads, self.head_width = heads, width // heads
        law = normal(width**-0.5)
        self.query = Linear(members, width, width, law=law, bias=constant(0))
        self.pairs = Linear(members, width, 4 * width, law=law, bias=constant(0))
        self.outward = Linear(members, width, width, law=normal(last), bias=constant(0))

    def forward(
        self, x: Float[Tensor, "member batch pos width"], at: Int[Tensor, "member batch label"] | None = None
    ) -> Float[Tensor, "member batch label width"]:
        """The weighted mean of products of two values, for the positions `at`."""
        asking = taken(x, at)
        count = math.prod(asking.shape[:3]) * self.heads * x.shape[2] ** 2
        if count > _MOST_LOGITS:
            raise TooLarge(
                f"third-order attends to pairs of positions, which here takes {count:,} logits at once, and "
                f"at most {_MOST_LOGITS:,} are formed; take a smaller batch or a shorter input."
            )
        query = self._headed(self.query(asking))
        first_key, second_key, first_value, second_value = map(self._headed, self.pairs(x).chunk(4, dim=-1))
        # Q ⋆ K₁ has a row for each (query, j); its product with K₂ are the logits, never times the width.
        rows, labels, length = query.shape[0], query.shape[1], x.shape[2]
        asked = (query.unsqueeze(2) * first_key.unsqueeze(1)).view(rows, labels * length, self.head_width)
        logits = torch.bmm(asked, second_key.mT).view(rows, labels, length * length)
        logits = logits.float() if logits.dtype == torch.bfloat16 else logits
        weights = (logits / math.sqrt(self.head_width)).softmax(-1).to(asked.dtype)
        inner = torch.bmm(weights.view(rows, labels * length, length), second_value)
        mixed = (inner.view(rows, labels, length, self.head_width) * first_value.unsqueeze(1)).sum(2)
        members, batch = x.shape[:2]
        mixed = mixed.view(members, batch, self.heads, labels, self.head_width).transpose(2, 3)
        return self.outward(mixed.reshape(asking.shape))  # type: ignore[no-any-return]

    def _headed(self, x: Float[Tensor, "member batch pos width"]) -> Float[Tensor, "rows pos part"]:
        """Members, examples and heads are one axis."""
        members, batch, length, _ = x.shape
        parts = x.view(members, batch, length, self.heads, self.head_width).transpose(2, 3)
        return parts.reshape(members * batch * self.heads, length, self.head_width)


@MODELS.register("third-order")
class ThirdOrder(Frame):
    """Attention to pairs and a feed-forward map in every block; a position knows its number."""

    name = "third-order"
    title = "Third-order attention"
    source = "Sanford, Hsu and Telgarsky, 2023"

    @dataclass(frozen=True, kw_only=True)
    class Config(StackConfig):
        """Depth, width and heads; `ffn` is four times the width unless said."""

        heads: int = option(1, help="attention heads of a block")
        ffn: int = option(0, help="inner width of the feed-forward map; 0 for four times the width")

        def validate(self) -> None:
            """Heads share the width evenly."""
            require_heads(self.owner, self.width, self.heads)
            require(self.ffn >= 0, f"{self.owner} needs ffn of at least 0; got ffn={self.ffn}.")

    config: Config

    @property
    def shape(self) -> tuple[int, int]:
        """Inner width and heads."""
        return self.config.ffn or 4 * self.config.width, self.config.heads

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """It does not read token by token."""
        return ()

    def make_reading(self) -> Reading:
        """Token and position tables."""
        if self.signature.length > _LONGEST:
            raise TooLarge(
                f"third-order computes n³ logits on n positions and takes inputs of up to {_LONGEST}; this "
                f"task's have {self.signature.length}. Take a smaller n, or a transformer."
            )
        return Reading(
            self.members,
            self.config.width,
            self.signature,
            embedding=self.config.embedding,
            positions=True,
            deviation=_DEVIATION,
        )

    def make_block(self, place: int) -> Block:
        """Attention, then the feed-forward map, each behind a norm."""
        members, width = self.members, self.config.width
        inner, heads = self.shape
        last = _DEVIATION / math.sqrt(2 * self.config.layers)
        attention = ThirdOrderAttention(members, width, heads, last=last)
        feed_forward = Perceptron(members, width, inner, law=normal(_DEVIATION), last=normal(last))
        return Block(attention, LayerNorm(members, width), feed_forward, LayerNorm(members, width))

    def make_norm(self) -> nn.Module:
        """LayerNorm."""
        return LayerNorm(self.members, self.config.width)
