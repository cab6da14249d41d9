"""Where questions with paragraphs come from: the interface of the two sources of `distractor-qa`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from jaxtyping import Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks.byte_text import Pieces

__all__ = ["Order", "Source", "shuffled"]

Order = Literal["random", "gold-last"]


class Source(ABC):
    """Questions as pieces of text: paragraphs, question and cue, then the continuation."""

    pieces: Pieces
    prompt_pieces: int
    """How many of an example's pieces make up its prompt."""
    longest: int
    """The most bytes of an example."""
    longest_continuation: int
    """The most bytes of what follows a prompt."""
    cut: int
    """The bytes of the paragraphs in the example that stands for the split between book and question."""
    prompt: int
    """The bytes of that example's prompt: the paragraphs, the question and the cue."""

    @abstractmethod
    def draw(self, draws: Draws) -> Int[Tensor, "batch piece"]:
        """Random examples."""

    @abstractmethod
    def count(self) -> int:
        """How many examples there are."""

    @abstractmethod
    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch piece"]:
        """The examples with these numbers, each once."""

    @abstractmethod
    def continuation(self, paragraphs: list[str], question: str) -> str:
        """What follows a prompt with these lines; `InvalidInput` if they are none of this source's."""


def shuffled(
    draws: Draws, count: int, gold: Int[Tensor, "batch two"], order: Order
) -> Int[Tensor, "batch count"]:
    """Paragraph numbers in uniform order, or uniform but for the gold ones, which come last."""
    keys = draws.keys("order", count)
    if order == "gold-last":
        # Keys have 62 bits, so one more bit puts these two behind all others.
        keys.scatter_add_(1, gold, keys.new_full(gold.shape, 1 << 62))
    return keys.argsort(dim=1, stable=True)
