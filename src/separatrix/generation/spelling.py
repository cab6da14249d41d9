"""How the words of a row stand in the text that its searches read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

__all__ = ["AsWritten", "Spelling"]


class Spelling(ABC):
    """A row's words on their way into its text. It is told each of them once, in their order.

    A row has one of its own, made without arguments, so that what a word stands for may depend on the words
    before it.
    """

    @abstractmethod
    def word(self, word: bytes) -> bytes:
        """What a word outside a search adds to the text: words with a space behind each."""

    @abstractmethod
    def query(self, words: Sequence[bytes]) -> Sequence[bytes] | None:
        """The pieces of the pattern that the words of a search stand for; None if they stand for none."""


@final
class AsWritten(Spelling):
    """Every word stands for itself."""

    def word(self, word: bytes) -> bytes:
        """The word and a space."""
        return word + b" "

    def query(self, words: Sequence[bytes]) -> Sequence[bytes]:
        """The words are the pieces."""
        return words
