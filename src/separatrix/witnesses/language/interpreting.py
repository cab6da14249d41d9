"""Running a program on one input without weights: what the symbolic and the exact evaluator share.

Both walk through the program's operations at every position. They differ in what a number is, and in what a
head and a gadget do with numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Generic, TypeAlias, TypeVar

import torch
from jaxtyping import Shaped
from torch import Tensor

from separatrix.tasks.vocabulary import Vocabulary
from separatrix.witnesses.language.forms import Field, Linear, Matrix
from separatrix.witnesses.language.operations import Gadget, HeadOperation, Memory
from separatrix.witnesses.language.program import FlagSource, PlaceSource, Program, RealSource, TokenSource

__all__ = ["Evaluator", "Held"]

Number = TypeVar("Number")
Held: TypeAlias = dict[Field, tuple[Any, ...]]
"""What one position holds: a vector of numbers for each field."""


class Evaluator(ABC, Generic[Number]):
    """Evaluates programs in one kind of number."""

    @abstractmethod
    def number(self, value: Fraction) -> Number:
        """An exact number as one of this kind."""

    @abstractmethod
    def plus(self, left: Number, right: Number) -> Number:
        """The sum of two."""

    @abstractmethod
    def times(self, left: Number, right: Number) -> Number:
        """The product of two."""

    @abstractmethod
    def attend(
        self, head: HeadOperation, logits: list[Number], values: list[tuple[Number, ...]]
    ) -> tuple[Number, ...]:
        """What a head returns, given the logits for a scale of 1 and the values of the keys it sees."""

    @abstractmethod
    def compute(self, gadget: Gadget, held: Held) -> tuple[Number, ...]:
        """What a gadget returns at a position."""

    def run(self, program: Program, row: Shaped[Tensor, "pos *width"]) -> list[Held]:
        """What every position of the input, and every element of the model's own, holds at the end."""
        held = self._inputs(program, row)
        count = len(held) - len(program.elements)
        for layer in program.layers:
            fresh = self._memories(layer.memories, held)
            for place, query in enumerate(held):
                seen = held[: place + 1] if program.causal and place < count else held
                fresh[place] |= {head.result: self._head(head, query, seen) for head in layer.heads}
            for here, found in zip(held, fresh, strict=True):
                here.update(found)
            for here in held:
                for gadget in layer.gadgets:
                    here[gadget.result] = self.compute(gadget, here)
        return held

    def _memories(self, memories: Sequence[Memory], held: Sequence[Held]) -> list[Held]:
        """What recurrences return at every position, from one to the next."""
        found: list[Held] = [{} for _ in held]
        for memory in memories:
            state = [self.number(Fraction(0))] * memory.feed.out
            for place, here in enumerate(held):
                fed = self.form(memory.feed, here)
                moved = self._through(memory.transition, state)
                state = [self.plus(a, b) for a, b in zip(moved, fed, strict=True)]
                found[place][memory.result] = tuple(self._through(memory.output, state))
        return found

    def _through(self, matrix: Matrix, vector: Sequence[Number]) -> list[Number]:
        """A matrix times a vector, its zeros left out."""
        return [
            self._sum([self.times(self.number(a), b) for a, b in zip(row, vector, strict=True) if a])
            for row in matrix
        ]

    def outputs(self, program: Program, row: Shaped[Tensor, "pos *width"]) -> list[tuple[Number, ...]]:
        """The outputs at the positions of the input."""
        answer = program.answer
        assert answer is not None
        found = []
        for here in self.run(program, row)[: self.length(program, row)]:
            image = self.form(answer.form, here)
            if answer.code is not None:
                rows = answer.code.rows(torch.arange(answer.code.count)).tolist()
                image = tuple(self._dot([self.number(Fraction(x)) for x in each], image) for each in rows)
            found.append(image)
        return found

    def form(self, form: Linear, held: Held) -> tuple[Number, ...]:
        """The numbers of a form at a position."""
        result = [self.number(value) for value in form.offset]
        for field, matrix in form.parts.items():
            for row, coefficients in enumerate(matrix):
                for coefficient, value in zip(coefficients, held[field], strict=True):
                    if coefficient:
                        result[row] = self.plus(result[row], self.times(self.number(coefficient), value))
        return tuple(result)

    def length(self, program: Program, row: Shaped[Tensor, "pos *width"]) -> int:
        """Positions of the input without padding."""
        if program.on_words:
            pad = program.vocabulary.pad
            return len(row) if pad is None else int((row != pad).sum())
        filled = (row != 0).any(1).nonzero()
        return int(filled[-1]) + 1 if len(filled) else 0

    def _head(self, head: HeadOperation, query: Held, seen: Sequence[Held]) -> tuple[Number, ...]:
        asked = [self.form(each, query) for each, _ in head.match]
        logits = []
        for key in seen:
            offered = [self.form(each, key) for _, each in head.match]
            logits.append(self._sum([self._dot(q, k) for q, k in zip(asked, offered, strict=True)]))
        return self.attend(head, logits, [self.form(head.value, key) for key in seen])

    def _dot(self, left: Sequence[Number], right: Sequence[Number]) -> Number:
        return self._sum([self.times(a, b) for a, b in zip(left, right, strict=True)])

    def _sum(self, terms: list[Number]) -> Number:
        result = self.number(Fraction(0))
        for term in terms:
            result = self.plus(result, term)
        return result

    def _inputs(self, program: Program, row: Shaped[Tensor, "pos *width"]) -> list[Held]:
        length = self.length(program, row)
        found: list[Held] = []
        for place in range(length):
            here: Held = {}
            for source in program.sources:
                here[source.field] = tuple(
                    self.number(Fraction(value)) for value in _vector(program, source, row, place, length)
                )
            found.append(here)
        for element in program.elements:
            own: Held = {}
            for source in program.sources:
                always = isinstance(source, FlagSource) and source.values is None
                vector = element.get(source.field, (Fraction(int(always)),) * source.field.dim)
                own[source.field] = tuple(self.number(value) for value in vector)
            found.append(own)
        return found


def _vector(
    program: Program,
    source: TokenSource | PlaceSource | FlagSource | RealSource,
    row: Shaped[Tensor, "pos *width"],
    place: int,
    length: int,
) -> list[float]:
    """One field at one place, from the definitions alone."""
    block = _block(program.vocabulary, int(row[place])) if program.on_words else ""
    absent = [0.0] * source.field.dim
    match source:
        case TokenSource():
            if block != source.block:
                return absent
            number = int(row[place]) - program.vocabulary.offset(block)
            return list(source.code.rows(torch.tensor([number]))[0].tolist())
        case PlaceSource():
            if source.blocks is not None and block not in source.blocks:
                return absent
            numbers = source.rule.numbers(torch.tensor([[place]]), torch.tensor([[length]]))
            return list(source.code.rows(numbers)[0, 0].tolist())
        case FlagSource():
            return [1.0] if source.values is None else [float(source.values.get(block, 0))]
        case RealSource():
            return [float(row[place, column]) for column in source.columns]


def _block(vocabulary: Vocabulary, token: int) -> str:
    return next(
        block.name
        for block in vocabulary.blocks
        if vocabulary.offset(block.name) <= token < vocabulary.offset(block.name) + block.size
    )
