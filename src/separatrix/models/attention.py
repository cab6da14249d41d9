"""Softmax attention of several heads, masked or not, with or without rotary positions.

Where an answer is asked for at one position only, as in most of the papers' tasks, the last layer needs one
query. Its keys and values are then never formed: a score is ⟨x_t, W_k q⟩ and what is read out is
W_v Σ_t w_t x_t, so that the layer costs as much as reading its input a few times.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.models.kernels.exported import is_exporting
from separatrix.models.key_value_cache import KeyValueMixer, longer
from separatrix.models.laws import Law, constant
from separatrix.models.members import Linear, linear, taken
from separatrix.models.population import State

__all__ = ["Attention", "rotated"]


class Attention(KeyValueMixer):
    """softmax(q kᵀ / √d) v for each head, then one map of all heads."""

    def __init__(
        self,
        members: int,
        width: int,
        heads: int,
        *,
        law: Law,
        last: Law | None = None,
        bias: bool = True,
        causal: bool = True,
        rotary: bool = False,
    ) -> None:
        """`last` is the law of the map back into the stream, where it differs."""
        super().__init__(members, width, heads)
        self.causal, self.rotary = causal, rotary
        zero = constant(0) if bias else None
        self.inward = Linear(members, width, 3 * width, law=law, bias=zero)
        self.outward = Linear(members, width, width, law=last or law, bias=zero)

    def forward(
        self, x: Float[Tensor, "member batch pos width"], at: Int[Tensor, "member batch label"] | None = None
    ) -> Float[Tensor, "member batch label width"]:
        """What the positions `at` attend to."""
        if at is not None and at.shape[-1] == 1 and not self.rotary:
            return self.outward(self._at_one(x, at))  # type: ignore[no-any-return]
        query, key, value = self.inward(x).chunk(3, dim=-1)
        query, key, value = self.headed(query), self.headed(key), self.headed(value)
        if self.rotary:
            place = torch.arange(x.shape[2], device=x.device)
            query, key = rotated(query, place), rotated(key, place)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return taken(self.outward(mixed.transpose(1, 2).reshape(x.shape)), at)

    def _at_one(
        self, x: Float[Tensor, "member batch pos width"], at: Int[Tensor, "member batch 1"]
    ) -> Float[Tensor, "member batch 1 width"]:
        members, batch, length, width = x.shape
        heads, part = self.heads, self.head_width
        weight, bias = self.inward.weight, self.inward.bias
        _, to_key, to_value = weight.view(members, width, 3, heads, part).unbind(2)
        query = linear(
            taken(x, at), weight[..., :width].contiguous(), None if bias is None else bias[:, :width]
        )
        # Copies, not views, so that one member alone is multiplied in the same order as among others.
        # W_k q for every head: (member·head, batch, part) × (member·head, part, width).
        query = query.view(members, batch, heads, part).transpose(1, 2).flatten(0, 1)
        wanted = torch.bmm(query, to_key.permute(0, 2, 3, 1).flatten(0, 1).contiguous())
        wanted = wanted.view(members, heads, batch, width).permute(0, 2, 3, 1).flatten(0, 1).contiguous()
        scores = torch.bmm(x.flatten(0, 1), wanted)  # (member·batch, pos, head); the key's bias cancels
        scores = scores.float() if scores.dtype == torch.bfloat16 else scores
        if self.causal:
            behind = torch.arange(length, device=x.device).view(1, -1, 1) > at.reshape(-1, 1, 1)
            scores = scores.masked_fill(behind, -math.inf)
        weights = (scores / math.sqrt(part)).softmax(1).to(x.dtype)
        read = torch.bmm(weights.transpose(1, 2), x.flatten(0, 1)).view(members, batch, heads, width)
        read = read.transpose(1, 2).flatten(0, 1).contiguous()
        value = torch.bmm(read, to_value.transpose(1, 2).flatten(0, 1).contiguous()).view(
            members, heads, batch, part
        )
        value = value.transpose(1, 2).reshape(members, batch, 1, width)
        return value if bias is None else value + bias[:, 2 * width :].view(members, 1, 1, width)

    def step(
        self, x: Float[Tensor, "member batch width"], state: State
    ) -> tuple[Float[Tensor, "member batch width"], State]:
        """Attend from the newest position to the cache and itself."""
        keys, values = state
        query, key, value = self.inward(x).unsqueeze(2).chunk(3, dim=-1)
        if self.rotary:
            place = torch.tensor([keys.shape[2]], device=x.device)
            query, key = (
                rotated(self.headed(part), place).transpose(1, 2).reshape(part.shape) for part in (query, key)
            )
        keys, values = longer(keys, key), longer(values, value)
        headed = [self.headed(part) for part in (query, keys, values)]
        mixed = F.scaled_dot_product_attention(headed[0], headed[1], headed[2])
        return self.outward(mixed.transpose(1, 2).reshape(x.shape)), (keys, values)


def rotated(
    x: Float[Tensor, "rows head pos part"], place: Int[Tensor, "pos"], *, base: float = 10000.0
) -> Float[Tensor, "rows head pos part"]:
    """Each pair (i, i + d/2) of coordinates turned by place · base^(−2i/d) (Su et al., 2021)."""
    half = x.shape[-1] // 2
    # Nobody outside this package knows an operation of ours.
    turns = _plain_turns if is_exporting() else _turns
    cosine, sine = (turn.to(x.dtype) for turn in turns(place, half, base, x.dtype == torch.float64))
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)


@torch.library.custom_op("separatrix::turns", mutates_args=())
def _turns(place: Tensor, half: int, base: float, double: bool) -> tuple[Tensor, Tensor]:
    """Cosines and sines, (place, pair); opaque, or a compiler would form them anew for every number."""
    return _plain_turns(place, half, base, double)


def _plain_turns(place: Tensor, half: int, base: float, double: bool) -> tuple[Tensor, Tensor]:
    wide = torch.float64 if double else torch.float32
    frequency = base ** (-torch.arange(half, device=place.device, dtype=wide) / half)
    angle = place.to(wide).unsqueeze(1) * frequency
    return angle.cos(), angle.sin()


@_turns.register_fake
def _(place: Tensor, half: int, base: float, double: bool) -> tuple[Tensor, Tensor]:
    table = place.new_empty((place.shape[0], half), dtype=torch.float64 if double else torch.float32)
    return table, torch.empty_like(table)
