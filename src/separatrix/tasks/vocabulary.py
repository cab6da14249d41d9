"""Words and their numbers: blocks of numbered words, never a stored list of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.errors import InvalidInput

__all__ = ["PAD", "Block", "Vocabulary", "numbered", "words"]

PAD = "<pad>"
_LONGEST_TEXT = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive words: `prefix` and a number that counts up from `first`, or the given `spelled` ones."""

    name: str
    size: int
    prefix: str = ""
    first: int = 0
    spelled: tuple[str, ...] = ()

    def word(self, place: int) -> str:
        """The word at this place of the block."""
        return self.spelled[place] if self.spelled else f"{self.prefix}{self.first + place}"

    def place(self, word: str) -> int | None:
        """The place of a word in the block, if it is there; only the canonical spelling is."""
        if self.spelled:
            return self.spelled.index(word) if word in self.spelled else None
        digits = word.removeprefix(self.prefix)
        if not word.startswith(self.prefix) or not re.fullmatch(r"0|[1-9][0-9]{0,17}", digits, re.ASCII):
            return None
        place = int(digits) - self.first
        return place if 0 <= place < self.size else None

    def describe(self) -> str:
        """The block as a range, for messages."""
        if self.spelled or self.size <= 3:
            return " ".join(self.word(place) for place in range(self.size))
        return f"{self.word(0)} … {self.word(self.size - 1)}"


def numbered(name: str, size: int, *, prefix: str = "", first: int = 0) -> Block:
    """A block of words such as s0 … s63 or 1 … 32."""
    return Block(name=name, size=size, prefix=prefix, first=first)


def words(name: str, *spelled: str) -> Block:
    """A block of words given one by one."""
    return Block(name=name, size=len(spelled), spelled=spelled)


class Vocabulary:
    """Blocks of words one after another, with padding last if the task's lengths vary."""

    def __init__(self, *blocks: Block, padded: bool = False, separator: str = " ") -> None:
        """`separator` stands between words in text; an empty one needs words of one character."""
        self._blocks = (*blocks, words("padding", PAD)) if padded else blocks
        self._separator = separator
        self._offsets = {}
        offset = 0
        for block in self._blocks:
            self._offsets[block.name] = offset
            offset += block.size
        self.size = offset
        self.pad: int | None = offset - 1 if padded else None

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks in order, without the padding."""
        return self._blocks if self.pad is None else self._blocks[:-1]

    @property
    def separator(self) -> str:
        """What stands between words in text; nothing, where every word is one character."""
        return self._separator

    def offset(self, block: str) -> int:
        """The token number of a block's first word."""
        return self._offsets[block]

    def token(self, word: str) -> int:
        """The number of a word."""
        for block in self._blocks:
            place = block.place(word)
            if place is not None:
                return self._offsets[block.name] + place
        raise InvalidInput(f"'{_shorten(word)}' is no word of this task; known are {self.describe()}.")

    def word(self, token: int) -> str:
        """The word of a number."""
        if not 0 <= token < self.size:
            raise InvalidInput(f"Token numbers run from 0 to {self.size - 1}; got {token}.")
        block = next(block for block in reversed(self._blocks) if token >= self._offsets[block.name])
        return block.word(token - self._offsets[block.name])

    def describe(self) -> str:
        """The words, blocks as ranges, without the padding."""
        return ", ".join(block.describe() for block in self._blocks if block.spelled != (PAD,))

    def render(self, row: Int[Tensor, "pos"]) -> str:
        """A row of token numbers as text, without its padding."""
        return self._separator.join(self.word(token) for token in row.tolist() if token != self.pad)

    def parse(self, text: str, *, length: int) -> Int[Tensor, "length"]:
        """Text as token numbers, padded to `length`."""
        if len(text) > _LONGEST_TEXT:
            raise InvalidInput(f"A text has at most {_LONGEST_TEXT:,} characters; got {len(text):,}.")
        spelled = text.split() if self._separator else list(text.strip())
        if len(spelled) > length or (self.pad is None and len(spelled) != length):
            wanted = f"exactly {length}" if self.pad is None else f"at most {length}"
            raise InvalidInput(f"This task's inputs have {wanted} words; got {len(spelled)}.")
        if PAD in spelled:
            raise InvalidInput(f"{PAD} is added by the software and is not written; leave it out.")
        tokens = [self.token(word) for word in spelled]
        tokens += [self.pad or 0] * (length - len(tokens))
        return torch.tensor(tokens, dtype=torch.int64)


def _shorten(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:37]}…"
