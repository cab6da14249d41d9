"""The Transformer in GPT-2's form: norms before the blocks, learned absolute positions, GELU.

Initial weights as in GPT-2, normal with deviation 0.02, those that lead back into the stream divided by
√(2 · layers), or by the number of a map's inputs; biases zero, norms one.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from separatrix.models import MODELS
from separatrix.models.attention import Attention
from separatrix.models.beginnings import BegunConfig
from separatrix.models.feed_forward import Perceptron
from separatrix.models.members import LayerNorm
from separatrix.models.other_attention import AttentionName, OtherAttention
from separatrix.models.stack import Block, Mixer, Reading, Stack
from separatrix.options import option, require

__all__ = ["Transformer"]


@MODELS.register("transformer")
class Transformer(Stack):
    """Attention and a feed-forward map in every block; a position knows its number."""

    name = "transformer"
    title = "Transformer (GPT-2)"
    source = "Radford et al., 2019"

    @dataclass(frozen=True, kw_only=True)
    class Config(BegunConfig):
        """Depth, width and heads; `ffn` is four times the width unless said."""

        heads: int = option(4, help="attention heads of a block")
        ffn: int = option(0, help="inner width of the feed-forward map; 0 for four times the width")
        causal: bool = option(True, help="attend to the left only")
        attention: AttentionName = option(
            "softmax", help="shares of a head: softmax, sparsemax or average-hard", newer=True
        )

        def validate(self) -> None:
            """Heads share the width evenly."""
            require_heads(self.owner, self.width, self.heads)
            require(self.ffn >= 0, f"Transformer needs ffn of at least 0; got ffn={self.ffn}.")

    config: Config

    @property
    def shape(self) -> tuple[int, int]:
        """Inner width and heads."""
        return self.config.ffn or 4 * self.config.width, self.config.heads

    @property
    def is_causal(self) -> bool:
        """As the config says."""
        return self.config.causal

    def make_reading(self) -> Reading:
        """Token and position tables."""
        return Reading(
            self.members,
            self.config.width,
            self.signature,
            embedding=self.config.embedding,
            positions=True,
            deviation=self.config.beginning(self.depth).table,
        )

    def make_block(self, place: int) -> Block:
        """Attention, then the feed-forward map, each behind a norm."""
        members, width = self.members, self.config.width
        inner, heads = self.shape
        begin = self.config.beginning(self.depth)
        law, last = begin.inward(width), begin.back(width)
        shares, causal = self.config.attention, self.config.causal
        attention: Mixer = (
            Attention(members, width, heads, law=law, last=last, causal=causal)
            if shares == "softmax"
            else OtherAttention(members, width, heads, shares=shares, law=law, last=last, causal=causal)
        )
        feed_forward = Perceptron(members, width, inner, law=law, last=begin.back(inner))
        return Block(attention, LayerNorm(members, width), feed_forward, LayerNorm(members, width))

    def make_norm(self) -> nn.Module:
        """LayerNorm."""
        return LayerNorm(self.members, self.config.width)


def require_heads(owner: str, width: int, heads: int) -> None:
    """Refuse a width that heads cannot share evenly."""
    require(heads >= 1, f"{owner} needs at least one head; got heads={heads}.")
    if width % heads:
        near = width // heads * heads or heads
        require(
            False,
            f"{owner} shares its width evenly among its heads; got width={width} and heads={heads}. "
            f"Try width={near}.",
        )
