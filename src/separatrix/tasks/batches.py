"""What tasks hand out: spaces of inputs and targets, labels, batches, and splits of the positions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from separatrix.errors import InvalidInput

__all__ = ["Asking", "Batch", "Classes", "Labels", "Partition", "Reals", "Tokens", "Vectors"]


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Inputs are int64 token numbers below `size`, shape (batch, pos); `pad` fills a row behind its end."""

    size: int
    pad: int | None = None


@dataclass(frozen=True, kw_only=True)
class Reals:
    """Inputs are float32 rows of `width` numbers, shape (batch, pos, width)."""

    width: int


@dataclass(frozen=True, kw_only=True)
class Classes:
    """Targets are int64 class numbers below `size`, shape (batch, pos)."""

    size: int


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """Targets are float32 vectors of `width`, shape (batch, pos, width).

    An answer is right if its Euclidean distance from the target is strictly less than `tolerance`.
    """

    width: int
    tolerance: float


@dataclass(frozen=True, kw_only=True)
class Asking:
    """How many labels an input has at most, and whether one may depend on what stands behind it.

    A model is trained at labelled positions only, and one that reads from left to right cannot look ahead.
    """

    most: int = 1
    ahead: bool = False


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The right answers: `targets` where `mask` is true, zero elsewhere."""

    targets: Shaped[Tensor, "batch pos *width"]
    mask: Bool[Tensor, "batch pos"]

    @property
    def answer(self) -> Shaped[Tensor, "batch *width"]:
        """Each example's last label: the answer itself where there is one, the verdict after a chain."""
        positions = torch.arange(self.mask.shape[1], device=self.mask.device)
        last = torch.where(self.mask, positions, -1).amax(1)
        return self.targets[torch.arange(len(last), device=last.device), last]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Examples ready for a model and a loss. `lengths` counts each example's positions without padding."""

    inputs: Shaped[Tensor, "batch pos *width"]
    targets: Shaped[Tensor, "batch pos *target_width"]
    mask: Bool[Tensor, "batch pos"]
    lengths: Int[Tensor, "batch"]

    @staticmethod
    def joined(parts: Sequence[Batch]) -> Batch:
        """The examples of several batches of one task, one after another."""
        fields = (field.name for field in dataclasses.fields(Batch))
        return Batch(**{name: torch.cat([getattr(part, name) for part in parts]) for name in fields})

    @property
    def labels(self) -> Labels:
        """Targets and mask, as `Task.solve` returns them."""
        return Labels(targets=self.targets, mask=self.mask)


@dataclass(frozen=True, kw_only=True)
class Partition:
    """A split of the input positions between two parties, for communication arguments.

    `written` are positions that neither party is given: what a model has to write itself, a chain of thought
    or the answers that teacher forcing puts behind the queries.
    """

    alice: tuple[int, ...]
    bob: tuple[int, ...]
    written: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        held = sorted((*self.alice, *self.bob, *self.written))
        if held != list(range(len(held))):
            raise InvalidInput("A partition gives every position, counted from 0, to exactly one party.")

    @staticmethod
    def prefix(length: int, cut: int, *, given: int | None = None) -> Partition:
        """Alice holds the first `cut` positions, Bob the rest: the split that binds recurrent models.

        Where only the first `given` positions are an input proper, those behind them are `written`.
        """
        end = length if given is None else given
        return Partition(
            alice=tuple(range(cut)), bob=tuple(range(cut, end)), written=tuple(range(end, length))
        )

    @staticmethod
    def odd_even(length: int) -> Partition:
        """Alice holds positions 1, 3, 5, …, counted from one, and Bob the others."""
        return Partition(alice=tuple(range(0, length, 2)), bob=tuple(range(1, length, 2)))
