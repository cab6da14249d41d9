"""RetNet: retention, which is attention without softmax, fading with distance, each head at its own rate.

Head h fades by γ_h = 1 − 2^(−5−h), the paper's rule (some later code spaces the rates between 1/32 and 1/512
whatever the number of heads). Queries and keys are turned by their positions, so that a product knows the
distance; keys are divided by the root of a head's width; what a head reads is normalised on its own, which
takes out the growth of the sum, then gated. As in the paper values are twice as wide as keys and the
feed-forward map is half as wide as a Transformer's: 12 · width² weights a block, as there.

Initial weights follow the paper's code: Xavier's uniform law, with gain 2^(−5/2) for queries, keys, values
and gates and 1 for the way back; the feed-forward map uniform within 1/√in, its biases zero; token table and
readout normal with deviation 1/√width. Heads are normalised without weights of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from separatrix.accounting import StatePart, recurrent_state
from separatrix.models import MODELS
from separatrix.models.attention import rotated
from separatrix.models.feed_forward import Perceptron
from separatrix.models.kernels.choice import Backend
from separatrix.models.kernels.decayed_attention import (
    attention_at,
    decayed_attention,
    one_step,
    wide_type,
)
from separatrix.models.laws import Law, Numbers, normal, within
from separatrix.models.members import LayerNorm, Linear, linear, taken
from separatrix.models.population import State
from separatrix.models.stack import Block, Mixer, Reading, SeamedStack, StackConfig
from separatrix.models.transformer import require_heads
from separatrix.options import option, require

__all__ = ["RetNet", "Retention"]

_GAIN = 2**-2.5
_EPSILON = 1e-6


class Retention(Mixer):
    """γ^(t−s) ⟨q_t, k_s⟩ v_s summed over the past, normalised by head, gated, and mapped back."""

    def __init__(
        self, members: int, width: int, heads: int, *, expand: int = 2, backend: Backend = "auto"
    ) -> None:
        """Values are `expand` times as wide as queries and keys."""
        super().__init__(members)
        self.width, self.heads, self.head_width, self.backend = width, heads, width // heads, backend
        self.inner = expand * width
        self.widths = [width, width, self.inner, self.inner]  # query, key, value, gate
        law = _side_by_side(width, self.widths, gain=_GAIN)
        self.inward = Linear(members, width, sum(self.widths), law=law)
        self.outward = Linear(members, self.inner, width, law=_side_by_side(self.inner, [width], gain=1))

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
        """What the positions `at` retain."""
        rows = None if begins is None else begins.flatten()
        if at is not None and at.shape[-1] <= self.head_width:
            return self._at_few(x, at, rows)
        # One product for each: their gradients come from different places, and joining them costs more.
        maps = torch.split(self.inward.weight, self.widths, dim=-1)
        query, key, value, gate = (linear(x, weight) for weight in maps)
        place = torch.arange(x.shape[2], device=x.device)
        query, key = self._turned(query, place), self._scaled(self._turned(key, place))
        read = decayed_attention(
            query, key, self._headed(value), self._log_decay(x), begins=rows, backend=self.backend
        )
        return taken(self._gated(read, gate), at)

    def _at_few(
        self,
        x: Float[Tensor, "member batch pos width"],
        at: Int[Tensor, "member batch label"],
        begins: Int[Tensor, "row"] | None,
    ) -> Float[Tensor, "member batch label width"]:
        """Queries and gates at a few positions; keys and values are formed everywhere."""
        weight, asked = self.inward.weight, taken(x, at)
        parts = [self.width, self.width + self.inner, self.inner]
        to_query, to_key_value, to_gate = torch.split(weight, parts, dim=-1)
        query, gate = linear(asked, to_query), linear(asked, to_gate)
        key, value = torch.split(linear(x, to_key_value), [self.width, self.inner], dim=-1)
        # All queries in one row, since each has a place of its own.
        query = self._turned(query.reshape(1, 1, -1, self.width), at.flatten())
        query = query.view(-1, at.shape[-1], self.heads, self.head_width)
        key = self._scaled(self._turned(key, torch.arange(x.shape[2], device=x.device)))
        value, decay = self._headed(value), self._log_decay(x)
        read, _ = attention_at(query, key, value, at.flatten(0, 1), decay, begins=begins)
        return self._gated(read, gate)

    def _turned(
        self, x: Float[Tensor, "member batch pos width"], place: Int[Tensor, "pos"]
    ) -> Float[Tensor, "row pos head part"]:
        """Heads of queries or keys, turned by their places in float32 and rounded once."""
        headed = self._headed(x).transpose(1, 2)
        return rotated(headed.to(wide_type(x)), place).to(x.dtype).transpose(1, 2)

    def _scaled(self, key: Float[Tensor, "*row head part"]) -> Float[Tensor, "*row head part"]:
        return key / math.sqrt(self.head_width)

    def _headed(self, x: Float[Tensor, "member batch pos wide"]) -> Float[Tensor, "row pos head part"]:
        """Members are folded into the batch."""
        return x.reshape(-1, x.shape[2], self.heads, x.shape[-1] // self.heads)

    def _log_decay(self, x: Tensor) -> Float[Tensor, "head"]:
        """log γ_h; formed where the numbers are, so that every precision has its own exact one."""
        number = torch.arange(self.heads, device=x.device, dtype=wide_type(x))
        return torch.log1p(-torch.exp2(-5 - number))

    def _gated(
        self, read: Float[Tensor, "*row head part"], gate: Float[Tensor, "member *lead wide"]
    ) -> Float[Tensor, "member *lead width"]:
        """Each head at mean 0 and variance 1, times the gate, back into the stream."""
        normal_read = F.layer_norm(read.to(wide_type(read)), read.shape[-1:], eps=_EPSILON)
        gated = F.silu(gate) * normal_read.to(gate.dtype).reshape(gate.shape)
        return self.outward(gated)  # type: ignore[no-any-return]

    def start(self, batch: int, like: Tensor) -> State:
        """Nothing retained, and no positions read."""
        part = self.inner // self.heads
        return like.new_zeros(self.members, batch, self.heads, self.head_width, part), 0

    def step(
        self, x: Float[Tensor, "member batch width"], state: State
    ) -> tuple[Float[Tensor, "member batch width"], State]:
        """Let the state fade, add the newest key and value, and read."""
        retained, place = state
        query, key, value, gate = torch.split(self.inward(x), self.widths, dim=-1)
        here = torch.full((1,), place, device=x.device)
        query, key = (
            self._turned(part.unsqueeze(2), here).reshape(*x.shape[:2], self.heads, self.head_width)
            for part in (query, key)
        )
        value = value.reshape(*x.shape[:2], self.heads, -1)
        read, retained = one_step(query, self._scaled(key), value, retained, self._log_decay(retained))
        return self._gated(read, gate), (retained, place + 1)

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """A matrix of keys by values for each head."""
        numbers = self.head_width * self.inner
        return (recurrent_state(numbers=numbers, precision_bits=precision, name="retention state"),)


@MODELS.register("retnet")
class RetNet(SeamedStack):
    """Retention and a feed-forward map in every block; positions turn queries and keys."""

    name = "retnet"
    title = "RetNet"
    source = "Sun et al., 2023"

    @dataclass(frozen=True, kw_only=True)
    class Config(StackConfig):
        """Depth, width and heads; `ffn` is twice the width unless said."""

        heads: int = option(4, help="retention heads of a block")
        ffn: int = option(0, help="inner width of the feed-forward map; 0 for twice the width")
        expand: int = option(2, help="how many times as wide as keys values are")

        def validate(self) -> None:
            """Heads share the width evenly, and each has pairs of coordinates to turn."""
            require_heads(self.owner, self.width, self.heads)
            require(
                self.width // self.heads % 2 == 0,
                "RetNet turns pairs of coordinates, so that a head needs an even width; got "
                f"width={self.width} and heads={self.heads}. Try width={2 * self.width}.",
            )
            require(self.ffn >= 0, f"RetNet needs ffn of at least 0; got ffn={self.ffn}.")
            require(1 <= self.expand <= 64, f"RetNet needs expand of 1 to 64; got expand={self.expand}.")

    config: Config

    @property
    def shape(self) -> tuple[int, int]:
        """Inner width and heads."""
        return self.config.ffn or 2 * self.config.width, self.config.heads

    def make_reading(self) -> Reading:
        """A token table; positions come in with the queries and keys."""
        width = self.config.width
        return Reading(
            self.members,
            width,
            self.signature,
            embedding=self.config.embedding,
            deviation=1 / math.sqrt(width),
        )

    def make_block(self, place: int) -> Block:
        """Retention, then the feed-forward map, each behind a norm."""
        members, width = self.members, self.config.width
        inner, heads = self.shape
        retention = Retention(members, width, heads, expand=self.config.expand)
        law, last = within(width), within(inner)
        feed_forward = Perceptron(members, width, inner, law=law, last=last)
        return Block(retention, LayerNorm(members, width), feed_forward, LayerNorm(members, width))

    def make_norm(self) -> nn.Module:
        """LayerNorm."""
        return LayerNorm(self.members, self.config.width)

    def make_readout(self) -> Linear:
        """From the stream to scores of classes, or to a vector."""
        law = normal(1 / math.sqrt(self.config.width))
        return Linear(self.members, self.config.width, self.signature.out, law=law)


def _side_by_side(wide: int, outs: list[int], *, gain: float) -> Law:
    """Xavier's law, uniform within gain · √(6 / (in + out)), for maps that are columns of one matrix."""
    bounds = torch.cat(
        [torch.full((out,), gain * math.sqrt(6 / (wide + out)), dtype=torch.float64) for out in outs]
    )

    def law(numbers: Numbers) -> Tensor:
        return (2 * numbers.uniform() - 1) * bounds

    return law
