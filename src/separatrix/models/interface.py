"""What a sequence model is: it answers at every position, and it knows its size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from separatrix.accounting import Size

__all__ = ["CausalModel", "SequenceModel"]

State = TypeVar("State")


class SequenceModel(ABC):
    """Inputs of a task in, an output at every position out: scores of classes, or vectors."""

    @abstractmethod
    def forward(self, inputs: Shaped[Tensor, "*lead pos *width"]) -> Float[Tensor, "*lead pos out"]:
        """The outputs at every position."""

    @abstractmethod
    def size(self, n: int, precision: int) -> Size:
        """Every count of the model on inputs of n positions, with numbers of so many bits."""


class CausalModel(SequenceModel, Generic[State]):
    """A model whose output at a position depends on nothing behind it, so that it can read token by token.

    `step` from `start` gives position by position what `forward` gives at once. A state is used once: a
    model may go on writing into it.
    """

    @abstractmethod
    def start(self, batch: int, *, device: torch.device | str = "cpu") -> State:
        """The state before the first token."""

    @abstractmethod
    def step(
        self, token: Shaped[Tensor, "batch *width"], state: State
    ) -> tuple[Float[Tensor, "batch out"], State]:
        """The output at the next position, and the state after it."""

    @property
    def longest(self) -> int | None:
        """The longest text it was made for; None if any length will do."""
        return None

    @abstractmethod
    def kept(self, state: State, rows: Int[Tensor, "row"]) -> State:
        """The state of these rows of the batch, for going on without the others."""

    def reserve(self, state: State, positions: int) -> State:
        """The same state with room for so many more positions, if it grows by them: it then grows in place.

        Whoever goes on for long saves copies by it; nothing else changes.
        """
        return state

    def read(
        self, tokens: Shaped[Tensor, "batch pos *width"], state: State
    ) -> tuple[Float[Tensor, "batch out"], State]:
        """The output at the last of several positions, and the state after it."""
        for place in range(tokens.shape[1]):
            outputs, state = self.step(tokens[:, place], state)
        return outputs, state
