"""Keys and values of the past, which every kind of attention carries from step to step."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.accounting import StatePart, kv_cache
from separatrix.models.population import State
from separatrix.models.stack import Mixer

__all__ = ["KeyValueMixer", "longer"]


class KeyValueMixer(Mixer):
    """A mixer of several heads whose state is a key and a value for every position."""

    def __init__(self, members: int, width: int, heads: int) -> None:
        super().__init__(members)
        self.width, self.heads, self.head_width = width, heads, width // heads

    def headed(self, x: Float[Tensor, "member batch pos width"]) -> Float[Tensor, "rows head pos part"]:
        """Members are folded into the batch; heads come before positions."""
        return x.reshape(-1, x.shape[2], self.heads, self.head_width).transpose(1, 2)

    def start(self, batch: int, like: Tensor) -> State:
        """An empty cache."""
        empty = like.new_empty(self.members, batch, 0, self.width)
        return empty, empty

    def reserve(self, state: State, positions: int) -> State:
        """The cache at the beginning of a longer one."""
        return tuple(_with_room(cache, positions) for cache in state)

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """A key and a value for every position."""
        return (kv_cache(layers=1, heads=self.heads, head_width=self.head_width, precision_bits=precision),)


def _with_room(
    cache: Float[Tensor, "member batch pos width"], positions: int
) -> Float[Tensor, "member batch pos width"]:
    """The cache as the beginning of a tensor with so many more positions."""
    members, batch, length, width = cache.shape
    longer = cache.new_empty(members, batch, length + positions, width)
    longer[:, :, :length] = cache
    return longer[:, :, :length]


def longer(
    cache: Float[Tensor, "member batch pos width"], new: Float[Tensor, "member batch 1 width"]
) -> Float[Tensor, "member batch longer width"]:
    """The cache with one more position: in place where it was given room, else as a copy.

    A gradient needs what was there before, so there it is always a copy.
    """
    whole, length = _whole(cache), cache.shape[2]
    if whole is None or torch.is_grad_enabled():
        return torch.cat([cache, new], dim=2)
    whole[:, :, length] = new[:, :, 0]
    return whole[:, :, : length + 1]


def _whole(
    cache: Float[Tensor, "member batch pos width"],
) -> Float[Tensor, "member batch longer width"] | None:
    """The longer tensor that a cache is the beginning of, if it is one; rows or columns of one are none."""
    whole = cache._base
    if whole is None or whole.dim() != cache.dim() or whole.shape[2] <= cache.shape[2]:
        return None
    rest = [(each.shape[:2], each.shape[3], each.stride(), each.storage_offset()) for each in (whole, cache)]
    return whole if rest[0] == rest[1] else None
