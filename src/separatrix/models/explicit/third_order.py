"""R's unit of order three: attention over pairs of positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from jaxtyping import Bool, Float
from torch import Tensor

from separatrix.models.explicit.heads import AttentionHead
from separatrix.models.explicit.linear import affine, taken
from separatrix.precision import Numbers, NumberSystem

__all__ = ["ThirdOrderHead"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ThirdOrderHead(AttentionHead):
    """softmax((XQ)((XK₁)⋆(XK₂))ᵀ)((XV₁)⋆(XV₂)), where row (j, k) of A⋆B is the product of A_j and B_k.

    So a query sees every pair (j, k) of positions with the logit Σ_c q_c a_jc b_kc, and gets the mean of the
    coordinate-wise products of values. In fixed point a product of two keys is rounded before it meets the
    query, and so is a product of two values.
    """

    kind: ClassVar[str] = "third-order"

    query: Float[Tensor, "inner width"]
    first_key: Float[Tensor, "inner width"]
    second_key: Float[Tensor, "inner width"]
    first_value: Float[Tensor, "out width"]
    second_value: Float[Tensor, "out width"]

    @property
    def out(self) -> int:
        """Rows of V₁ and V₂."""
        return self.first_value.shape[0]

    @property
    def inner(self) -> int:
        """Rows of Q, K₁ and K₂."""
        return self.query.shape[0]

    @property
    def kept(self) -> int:
        """Two keys and two values."""
        return 2 * (self.inner + self.out)

    def keep(self, system: NumberSystem, stream: Numbers) -> tuple[Numbers, ...]:
        """Both keys, both values."""
        maps = (self.first_key, self.second_key, self.first_value, self.second_value)
        return tuple(affine(system, stream, each) for each in maps)

    def attend(
        self,
        system: NumberSystem,
        stream: Numbers,
        kept: tuple[Numbers, ...],
        mask: Bool[Tensor, "batch query key"],
    ) -> Numbers:
        """Standard attention over the list of all pairs."""
        keys = _pairs(system, kept[0], kept[1])
        values = _pairs(system, kept[2], kept[3])
        both = (mask[..., :, None] & mask[..., None, :]).flatten(-2)
        return system.attention(affine(system, stream, self.query), keys, values, mask=both)

    def logits_at_once(self, keys: int) -> int:
        """One for each pair."""
        return keys * keys

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """The five matrices."""
        return {
            f"{prefix}.query": self.query,
            f"{prefix}.first_key": self.first_key,
            f"{prefix}.second_key": self.second_key,
            f"{prefix}.first_value": self.first_value,
            f"{prefix}.second_value": self.second_value,
        }

    @classmethod
    def taken(cls, tensors: dict[str, Tensor], prefix: str, *, width: int) -> ThirdOrderHead:
        """The head of these names, removed from `tensors`."""
        query = taken(tensors, f"{prefix}.query", None, width)
        inner = query.shape[0]
        first = taken(tensors, f"{prefix}.first_value", None, width)
        return cls(
            query=query,
            first_key=taken(tensors, f"{prefix}.first_key", inner, width),
            second_key=taken(tensors, f"{prefix}.second_key", inner, width),
            first_value=first,
            second_value=taken(tensors, f"{prefix}.second_value", first.shape[0], width),
        )


def _pairs(system: NumberSystem, first: Numbers, second: Numbers) -> Numbers:
    """(batch, pos, c) twice to (batch, pos·pos, c), the products."""
    batch, places, inner = first.shape
    product = system.multiply(first[:, :, None, :], second[:, None, :, :])
    return product.reshape(batch, places * places, inner)
