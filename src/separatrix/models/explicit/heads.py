"""Attention heads: what each keeps of every position, and what a query makes of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

from jaxtyping import Bool, Float
from torch import Tensor

from separatrix.models.explicit.linear import affine, taken
from separatrix.precision import Numbers, NumberSystem

__all__ = ["AttentionHead", "Head", "HeadAround"]


class AttentionHead(ABC):
    """One head. `keep` is computed once for every position, `attend` for those that ask."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def out(self) -> int:
        """Coordinates of what it returns."""

    @property
    @abstractmethod
    def inner(self) -> int:
        """m, the inner width: coordinates that logits are made of."""

    @property
    @abstractmethod
    def kept(self) -> int:
        """Numbers kept of a position."""

    @abstractmethod
    def keep(self, system: NumberSystem, stream: Numbers) -> tuple[Numbers, ...]:
        """Keys and values of positions, (batch, pos, ·) each."""

    @abstractmethod
    def attend(
        self,
        system: NumberSystem,
        stream: Numbers,
        kept: tuple[Numbers, ...],
        mask: Bool[Tensor, "batch query key"],
    ) -> Numbers:
        """What the positions of `stream`, (batch, query, width), get from those kept that the mask shows."""

    @abstractmethod
    def logits_at_once(self, keys: int) -> int:
        """Logits that one query needs at a time, for choosing how many queries to take at once."""

    @abstractmethod
    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """Its weights by name."""

    @property
    def parameters(self) -> int:
        """Numbers in it."""
        return sum(tensor.numel() for tensor in self.tensors("").values())


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadAround(AttentionHead):
    """A head with the weights of another that attends in a way of its own; `attend` is left to be written."""

    kind: ClassVar[str] = "around"

    head: AttentionHead

    @property
    def out(self) -> int:
        """As the head within."""
        return self.head.out

    @property
    def inner(self) -> int:
        """As the head within."""
        return self.head.inner

    @property
    def kept(self) -> int:
        """As the head within."""
        return self.head.kept

    def keep(self, system: NumberSystem, stream: Numbers) -> tuple[Numbers, ...]:
        """As the head within."""
        return self.head.keep(system, stream)

    def logits_at_once(self, keys: int) -> int:
        """As the head within."""
        return self.head.logits_at_once(keys)

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """As the head within."""
        return self.head.tensors(prefix)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Head(AttentionHead):
    """softmax(X Wqᵀ Wk Xᵀ) X Wvᵀ. Logits are not divided by anything."""

    kind: ClassVar[str] = "standard"

    query: Float[Tensor, "inner width"]
    key: Float[Tensor, "inner width"]
    value: Float[Tensor, "out width"]

    @property
    def out(self) -> int:
        """Rows of Wv."""
        return self.value.shape[0]

    @property
    def inner(self) -> int:
        """Rows of Wq and Wk."""
        return self.query.shape[0]

    @property
    def kept(self) -> int:
        """A key and a value."""
        return self.inner + self.out

    def keep(self, system: NumberSystem, stream: Numbers) -> tuple[Numbers, ...]:
        """Keys, values."""
        return affine(system, stream, self.key), affine(system, stream, self.value)

    def attend(
        self,
        system: NumberSystem,
        stream: Numbers,
        kept: tuple[Numbers, ...],
        mask: Bool[Tensor, "batch query key"],
    ) -> Numbers:
        """The papers' attention, rounded as the system does it."""
        keys, values = kept
        return system.attention(affine(system, stream, self.query), keys, values, mask=mask)

    def logits_at_once(self, keys: int) -> int:
        """One for each key."""
        return keys

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """The three matrices."""
        return {f"{prefix}.query": self.query, f"{prefix}.key": self.key, f"{prefix}.value": self.value}

    @classmethod
    def taken(cls, tensors: dict[str, Tensor], prefix: str, *, width: int) -> Head:
        """The head of these names, removed from `tensors`."""
        query = taken(tensors, f"{prefix}.query", None, width)
        return cls(
            query=query,
            key=taken(tensors, f"{prefix}.key", query.shape[0], width),
            value=taken(tensors, f"{prefix}.value", None, width),
        )
