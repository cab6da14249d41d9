"""The Transformer in LLaMA's form: RMSNorm, rotary positions, SwiGLU, no biases.

Positions turn queries and keys, so there is no table of them and any length can be read. Initial weights are
GPT-2's, or go by the number of a map's inputs; norms begin as one.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from separatrix.models import MODELS
from separatrix.models.attention import Attention
from separatrix.models.beginnings import BegunConfig
from separatrix.models.feed_forward import Gated, gated_width
from separatrix.models.members import RMSNorm
from separatrix.models.stack import Block, Reading, Stack
from separatrix.models.transformer import require_heads
from separatrix.options import option, require

__all__ = ["Llama"]


@MODELS.register("llama")
class Llama(Stack):
    """Attention by rotary positions and a gated map in every block; a position knows how far others are."""

    name = "llama"
    title = "Transformer (LLaMA)"
    source = "Touvron et al., 2023"

    @dataclass(frozen=True, kw_only=True)
    class Config(BegunConfig):
        """Depth, width and heads; `ffn` is 8/3 of the width, rounded up to a multiple of 8, unless said."""

        heads: int = option(4, help="attention heads of a block")
        ffn: int = option(0, help="inner width of the feed-forward map; 0 for 8/3 of the width")
        causal: bool = option(True, help="attend to the left only")

        def validate(self) -> None:
            """Heads share the width evenly, and each turns its numbers in pairs."""
            require_heads(self.owner, self.width, self.heads)
            require(
                self.width // self.heads % 2 == 0,
                f"{self.owner} turns the numbers of a head in pairs; got width={self.width} and "
                f"heads={self.heads}, which gives a head {self.width // self.heads}. "
                f"Try width={2 * self.width}.",
            )
            require(self.ffn >= 0, f"{self.owner} needs ffn of at least 0; got ffn={self.ffn}.")

    config: Config

    @property
    def shape(self) -> tuple[int, int]:
        """Inner width and heads."""
        inner = gated_width(self.config.width)
        return self.config.ffn or inner, self.config.heads

    @property
    def is_causal(self) -> bool:
        """As the config says."""
        return self.config.causal

    def make_reading(self) -> Reading:
        """The token table alone."""
        return Reading(
            self.members,
            self.config.width,
            self.signature,
            embedding=self.config.embedding,
            deviation=self.config.beginning(self.depth).table,
        )

    def make_block(self, place: int) -> Block:
        """Attention, then the gated map, each behind a norm."""
        members, width = self.members, self.config.width
        inner, heads = self.shape
        begin = self.config.beginning(self.depth)
        law, last = begin.inward(width), begin.back(width)
        attention = Attention(
            members, width, heads, law=law, last=last, bias=False, causal=self.config.causal, rotary=True
        )
        feed_forward = Gated(members, width, inner, law=law, last=begin.back(inner))
        return Block(attention, RMSNorm(members, width), feed_forward, RMSNorm(members, width))

    def make_norm(self) -> nn.Module:
        """RMSNorm."""
        return RMSNorm(self.members, self.config.width)
