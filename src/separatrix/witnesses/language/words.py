"""W's words: numbers as points of a parabola, other words as unit vectors, read and written by the same ones.

A number i of a block has the coordinates (i, i², 1) in the block's own part of the embedding. To write the
number v the model puts (2v, −1, 1) there: the score of i is 2vi − i² + 1 = v² + 1 − (i − v)², largest at
i = v and at least 1 there. A block in which nothing is written has (0, 0, −1), so all its numbers score −1.
The coordinate of another word is 1 where it is written and −1 where it is not. The word that is written
thus leads by 1 at least.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from separatrix.models.explicit.codes import BlockCode, Code, OneHot, Parabola
from separatrix.registry import unknown_name
from separatrix.tasks.vocabulary import Block, Vocabulary
from separatrix.witnesses.language.forms import Field, Linear, Term, as_linear, constant, joined, total

__all__ = ["Words"]


@final
class Words:
    """The fields of a vocabulary's embedding, and linear forms of them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """A field for each block: three numbers where it is numbered, else one for each of its words."""
        self.parts: list[tuple[Block, Code, Field]] = []
        self._ids: dict[str, int] = {}
        for block in vocabulary.blocks:
            code: Code = OneHot(count=block.size)
            if not block.spelled:
                code = Parabola(count=block.size, first=block.first)
            low, high = code.entries
            field = Field(
                name=f"word: {block.name}",
                dim=code.dim,
                low=low,
                high=high,
                note=f"the {block.name} that stands here",
                square=code.square,
            )
            self.parts.append((block, code, field))
            for name in block.spelled or (block.name,):
                self._ids.setdefault(name, len(self._ids) + 1)
        self.code = BlockCode(parts=tuple(code for _, code, _ in self.parts))

    def number(self, block: str) -> Linear:
        """The number of a token of this block, 0 at others."""
        return self._numbered(block)[0]

    def square(self, block: str) -> Linear:
        """Its square."""
        return self._numbered(block)[1]

    def is_(self, name: str) -> Linear:
        """1 where this word stands, or a word of this block, else 0."""
        for block, _, field in self.parts:
            if name in block.spelled:
                return field[block.spelled.index(name)]
            if name == block.name:
                return total(field) if block.spelled else field[2]
        raise unknown_name("word", name, tuple(self._ids))

    def id(self, name: str) -> int:
        """What `kind` is at this word, or at a number of this block."""
        if name not in self._ids:
            raise unknown_name("word", name, tuple(self._ids))
        return self._ids[name]

    @property
    def kind(self) -> Linear:
        """One whole number that says which word stands here, or of which block the number is."""
        form = constant([0])
        for block, _, field in self.parts:
            for row, name in enumerate(block.spelled):
                form = form + self._ids[name] * field[row]
            if not block.spelled:
                form = form + self._ids[block.name] * field[2]
        return form

    def emitted(self, *, numbers: Mapping[str, tuple[Term, Term]], words: Mapping[str, Term]) -> Linear:
        """The vector whose product with the embedding is largest at the word that is to be written."""
        strange = {*numbers, *words} - self._ids.keys()
        if strange:
            raise unknown_name("word", min(strange), tuple(self._ids))
        rows: list[Linear] = []
        for block, _, _ in self.parts:
            if block.spelled:
                rows += [2 * as_linear(words.get(name, 0)) - 1 for name in block.spelled]
            elif block.name in numbers:
                flag, value = (as_linear(term) for term in numbers[block.name])
                rows += [2 * value, -flag, 2 * flag - 1]
            else:
                rows += [constant([0]), constant([0]), constant([-1])]
        return joined(rows)

    def _numbered(self, name: str) -> Field:
        for block, _, field in self.parts:
            if block.name == name and not block.spelled:
                return field
        known = tuple(block.name for block, _, _ in self.parts if not block.spelled)
        raise unknown_name("block of numbers", name, known)
