"""The hybrid: any recurrent stack, then exactly one Transformer block on what it gives out.

The recurrent blocks, their initial weights and the way inputs come in are those of the base architecture. The
block behind them is LLaMA's: RMSNorm, causal attention by rotary positions, SwiGLU, no biases. It carries the
state of every recurrent block and one cache of keys and values.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

from torch import nn

from separatrix.models import MODELS
from separatrix.models.attention import Attention
from separatrix.models.beginnings import BegunConfig
from separatrix.models.feed_forward import Gated, gated_width
from separatrix.models.members import RMSNorm
from separatrix.models.population import Population
from separatrix.models.stack import Block, Reading, Stack, StackConfig
from separatrix.models.transformer import require_heads
from separatrix.options import option, require

__all__ = ["Hybrid"]


@MODELS.register("hybrid")
class Hybrid(Stack):
    """Recurrent blocks that pass over the input, and one block that looks back at all of it."""

    name = "hybrid"
    title = "Hybrid (recurrent + one Transformer block)"
    source = "Wen, Dang, Lyu, 2024"

    @dataclass(frozen=True, kw_only=True)
    class Config(BegunConfig):
        """The recurrent stack by name and depth; `ffn` is 8/3 of the width, rounded up to 8s, unless said."""

        base: str = option(
            "mamba", help="recurrent stack: mamba, lstm, linear-transformer, retnet, dss or linear-rnn"
        )
        layers: int = option(2, help="recurrent blocks; the Transformer block comes on top")
        heads: int = option(4, help="heads of the Transformer block, and of a base that has heads")
        ffn: int = option(0, help="inner width of the Transformer block's map; 0 for 8/3 of the width")

        def validate(self) -> None:
            """The base is a stack of blocks; heads share the width evenly and turn their numbers in pairs."""
            require(isinstance(self.base, str), f"Hybrid names its base in text; got base={self.base!r}.")
            require(
                issubclass(MODELS.get(self.base), Stack),
                f"Hybrid is built on a stack of recurrent blocks, and {self.base} is none. Try base=lstm.",
            )
            require_heads(self.owner, self.width, self.heads)
            require(
                self.width // self.heads % 2 == 0,
                f"Hybrid turns the numbers of a head in pairs; got width={self.width} and "
                f"heads={self.heads}, which gives a head {self.width // self.heads}. "
                f"Try width={2 * self.width}.",
            )
            require(self.ffn >= 0, f"Hybrid needs ffn of at least 0; got ffn={self.ffn}.")
            self.of_base()

        def of_base(self) -> StackConfig:
            """The base's own config: every option that both have, but for the map's inner width."""
            kind = MODELS.get(self.base).Config
            known = {field.name for field in dataclasses.fields(kind)} - {"base", "ffn"}
            config = kind(
                **{
                    field.name: getattr(self, field.name)
                    for field in dataclasses.fields(self)
                    if field.name in known
                }
            )
            assert isinstance(config, StackConfig)
            return config

    config: Config

    @property
    def depth(self) -> int:
        """The recurrent blocks and the one behind them."""
        return self.config.layers + 1

    @property
    def shape(self) -> tuple[int, int]:
        """Inner width and heads of the Transformer block."""
        inner = gated_width(self.config.width)
        return self.config.ffn or inner, self.config.heads

    @cached_property
    def _parts(self) -> tuple[Reading, tuple[nn.Module, ...]]:
        """How inputs come in, and the recurrent blocks, taken from a population of the base.

        In a tuple, so that each is registered once, where it stands in this model.
        """
        base: Population = MODELS.get(self.config.base)(
            self.config.of_base(), self.signature, members=self.members
        )
        assert isinstance(base, Stack)
        require(
            base.is_causal and not any(part.bits_per_position for part in base.state_parts(1)),
            f"Hybrid puts one Transformer block behind a recurrent stack, whose state does not grow with the "
            f"input; got base={self.config.base}. Try base=mamba.",
        )
        return base.reading, tuple(base.blocks)

    def make_reading(self) -> Reading:
        """As the base reads."""
        return self._parts[0]

    def make_block(self, place: int) -> nn.Module:
        """A block of the base, or behind all of them the Transformer block."""
        if place < self.config.layers:
            return self._parts[1][place]
        members, width = self.members, self.config.width
        inner, heads = self.shape
        begin = self.config.beginning(self.depth)
        law, last = begin.inward(width), begin.back(width)
        attention = Attention(members, width, heads, law=law, last=last, bias=False, rotary=True)
        feed_forward = Gated(members, width, inner, law=law, last=begin.back(inner))
        return Block(attention, RMSNorm(members, width), feed_forward, RMSNorm(members, width))

    def make_norm(self) -> nn.Module:
        """RMSNorm."""
        return RMSNorm(self.members, self.config.width)
