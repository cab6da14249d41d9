"""Attention with other shares than softmax's, for Transformers that are trained with them.

    sparsemax       the nearest shares to the scores themselves (Martins and Astudillo, 2016): many are 0
    average-hard    the largest scores evenly, all others nothing

Sparsemax is differentiable almost everywhere: within the places that have a share, a share moves with its
own score and against their mean. Average-hard has no gradient, so backwards it is taken for softmax
(straight-through). Scores and shares are float32 at least, whatever the products around them are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from separatrix.models.key_value_cache import KeyValueMixer, longer
from separatrix.models.laws import Law, constant
from separatrix.models.members import Linear, taken
from separatrix.models.population import State

__all__ = ["AttentionName", "OtherAttention", "sparsemax"]

AttentionName = Literal["softmax", "sparsemax", "average-hard"]

Shares = Callable[[Float[Tensor, "*rows key"]], Float[Tensor, "*rows key"]]


def sparsemax(scores: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows key"]:
    """The point of the simplex nearest to the scores; -inf has no share, and some score must be finite.

    Which places have a share is found by sorting and has no gradient; given these, a share is the score less
    a threshold that makes all add up to 1, and its gradient is exact.
    """
    gaps = scores - scores.amax(-1, keepdim=True).detach()
    with torch.no_grad():
        ordered = gaps.sort(-1, descending=True).values.clamp_min(-2.0)  # who is 1 behind has no share
        count = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
        sums = ordered.cumsum(-1) - 1.0
        size = (ordered * count > sums).sum(-1, keepdim=True)
        chosen = gaps > sums.gather(-1, size - 1) / size
    inside = torch.where(chosen, gaps, 0.0)
    threshold = (inside.sum(-1, keepdim=True) - 1.0) / chosen.sum(-1, keepdim=True)
    return torch.where(chosen, (inside - threshold).clamp_min(0.0), 0.0)


def _average_hard(scores: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows key"]:
    soft = scores.softmax(-1)
    with torch.no_grad():
        largest = (scores == scores.amax(-1, keepdim=True)).to(scores.dtype)
        moved = largest / largest.sum(-1, keepdim=True) - soft
    return soft + moved


_SHARES: Final[Mapping[str, Shares]] = MappingProxyType(
    {"sparsemax": sparsemax, "average-hard": _average_hard}
)


class OtherAttention(KeyValueMixer):
    """shares(q kᵀ / √d) v for each head, then one map of all heads."""

    def __init__(
        self,
        members: int,
        width: int,
        heads: int,
        *,
        shares: str,
        law: Law,
        last: Law,
        causal: bool = True,
    ) -> None:
        """`shares` names the way from scores to shares; `last` is the law of the map back into the stream."""
        super().__init__(members, width, heads)
        self.causal, self.shares = causal, _SHARES[shares]
        self.inward = Linear(members, width, 3 * width, law=law, bias=constant(0))
        self.outward = Linear(members, width, width, law=last, bias=constant(0))

    def forward(
        self, x: Float[Tensor, "member batch pos width"], at: Int[Tensor, "member batch label"] | None = None
    ) -> Float[Tensor, "member batch label width"]:
        """What the positions `at` attend to; only theirs are scored."""
        query, key, value = self.inward(x).chunk(3, dim=-1)
        mask = None
        if self.causal:
            places = torch.arange(x.shape[2], device=x.device)
            asked = places.expand(*x.shape[:3]) if at is None else at
            mask = (places > asked.unsqueeze(-1)).flatten(0, 1).unsqueeze(1)
        return self.outward(self._mixed(taken(query, at), key, value, mask))  # type: ignore[no-any-return]

    def _mixed(
        self,
        query: Float[Tensor, "member batch label width"],
        key: Float[Tensor, "member batch pos width"],
        value: Float[Tensor, "member batch pos width"],
        behind: Bool[Tensor, "rows 1 label pos"] | None,
    ) -> Float[Tensor, "member batch label width"]:
        headed, keys, values = self.headed(query), self.headed(key), self.headed(value)
        scores = headed @ keys.transpose(2, 3) / math.sqrt(self.head_width)
        scores = scores.float() if scores.dtype == torch.bfloat16 else scores
        if behind is not None:
            scores = scores.masked_fill(behind, -math.inf)
        mixed = self.shares(scores).to(values.dtype) @ values
        return mixed.transpose(1, 2).reshape(query.shape)

    def step(
        self, x: Float[Tensor, "member batch width"], state: State
    ) -> tuple[Float[Tensor, "member batch width"], State]:
        """Attend from the newest position to the cache and itself."""
        query, key, value = self.inward(x).unsqueeze(2).chunk(3, dim=-1)
        keys, values = (longer(old, new) for old, new in zip(state, (key, value), strict=True))
        return self.outward(self._mixed(query, keys, values, None).squeeze(2)), (keys, values)
