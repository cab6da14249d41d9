"""The one thing that is asked of a language model: to write on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

__all__ = ["Completer"]


class Completer(ABC):
    """Writes on from texts; the same text is always continued in the same way."""

    @abstractmethod
    def refusal(self, prompts: Sequence[str], *, most_tokens: int) -> str | None:
        """Why it cannot write so many tokens after these prompts, in a sentence; None if it can."""

    @abstractmethod
    def complete(self, prompts: Sequence[str], *, most_tokens: int, stop: str) -> list[str]:
        """What follows each prompt: at most so many tokens, and nothing from the first `stop` on."""
