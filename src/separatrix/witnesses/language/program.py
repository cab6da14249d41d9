"""Programs: what a witness computes, in fields, heads and gadgets, before any number is chosen.

program = Program(task)
symbol = program.token("symbol", block="symbol", code=Digits(count=64))
wanted = program.token("wanted", block="index", code=code)
address = program.position("address", Own(), code, on=("symbol",))
with program.layer() as layer:
    found = layer.select("found", match=[(wanted, address)], value=symbol, rivals=address_rivals(code))
    clean = layer.step("answer", found, off=0, on=1)
program.answer_code(2 * clean - 1, code=Binary(count=64))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from separatrix.models.explicit.codes import Code, OneHot, SignCode
from separatrix.models.explicit.positions import PositionRule
from separatrix.registry import unknown_name
from separatrix.tasks import Task
from separatrix.tasks.interface import WordTask
from separatrix.tasks.vocabulary import Vocabulary
from separatrix.witnesses.language import gadgets, recurrences, saturation
from separatrix.witnesses.language.forms import Exact, Field, Linear, Term, as_linear
from separatrix.witnesses.language.operations import Gadget, HeadOperation, Memory, Rival
from separatrix.witnesses.language.words import Words

__all__ = [
    "Answer",
    "FlagSource",
    "LayerScript",
    "PlaceSource",
    "Program",
    "RealSource",
    "TokenSource",
    "address_rivals",
]

ONE: Final = "one"


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenSource:
    """A field that the tokens of one block of the vocabulary have: the code of their number in it."""

    field: Field
    block: str
    code: Code


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaceSource:
    """A field that positions have by their place, where a token of one of the blocks stands (None: any)."""

    field: Field
    rule: PositionRule
    code: Code
    blocks: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True, eq=False)
class FlagSource:
    """A number that positions have by the block of their token (None: every position)."""

    field: Field
    values: Mapping[str, Fraction] | None


@dataclass(frozen=True, kw_only=True, eq=False)
class RealSource:
    """A field that is some columns of a real input, times a factor."""

    field: Field
    columns: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """How a position's vector becomes its output: scores of classes, by a code or one by one, or a vector."""

    form: Linear
    code: Code | None
    scores: bool


class LayerScript:
    """Heads, or memories, and gadgets of one layer, in the order they were written."""

    def __init__(self, program: Program, number: int, *, recurrent: bool = False) -> None:
        """Layer `number`, counted from 1."""
        self.heads: list[HeadOperation] = []
        self.memories: list[Memory] = []
        self.gadgets: list[Gadget] = []
        self.recurrent = recurrent
        self._program, self._number = program, number

    def select(
        self,
        name: str,
        *,
        match: Sequence[tuple[Term, Term]],
        value: Term,
        rivals: Sequence[Rival],
        within: Exact | None = None,
        hard: bool = False,
    ) -> Field:
        """The value at the key where Σ ⟨query, key⟩ is largest, up to noise.

        A `hard` head returns it without noise, and where several keys are equally good, their mean.
        """
        pairs = tuple((self._constants(query), self._constants(key)) for query, key in match)
        assert pairs, "a head that selects compares something"
        borne = None if within is None else Fraction(within)
        return self._head(name, pairs, value, tuple(rivals), borne, hard=hard)

    def average(self, name: str, value: Term) -> Field:
        """The mean of a value over all positions that are seen."""
        return self._head(name, (), value, (), Fraction(0))

    def _head(
        self,
        name: str,
        pairs: tuple[tuple[Linear, Linear], ...],
        value: Term,
        rivals: tuple[Rival, ...],
        within: Fraction | None,
        *,
        hard: bool = False,
    ) -> Field:
        assert not self.recurrent, "a recurrent layer has no heads"
        form = self._constants(value)
        bounds = form.bounds()
        result = Field(
            name=name,
            dim=form.out,
            low=min(low for low, _ in bounds),
            high=max(high for _, high in bounds),
            note=f"attended {form}",
            since=self._number,
            noisy=bool(pairs) and not hard,
        )
        self.heads.append(
            HeadOperation(result=result, match=pairs, value=form, rivals=rivals, within=within, hard=hard)
        )
        return result

    def window(self, name: str, term: Term, *, length: int) -> list[Linear]:
        """What the tokens before this one had there: one token back, two, … `length`; 0 before the first."""
        form = self._constants(term)
        bounds = form.bounds()
        low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
        made = self._numbers(name, min(Fraction(0), low), max(Fraction(0), high))
        field = self._remember(recurrences.window(made, form, length=length))
        return [field[back * form.out : (back + 1) * form.out] for back in range(length)]

    def running_sum(self, name: str, term: Term, *, low: Exact, high: Exact) -> Field:
        """The sum over all tokens up to this one, which lies within [low, high]."""
        made = self._numbers(name, Fraction(low), Fraction(high))
        return self._remember(recurrences.running_sum(made, self._constants(term)))

    def linear(
        self,
        name: str,
        *,
        transition: Sequence[Sequence[Exact]],
        feed: Term,
        output: Sequence[Sequence[Exact]],
        low: Exact,
        high: Exact,
    ) -> Field:
        """Any linear recurrence: state ← transition·state + feed; the result is output·state."""
        made = self._numbers(name, Fraction(low), Fraction(high))
        return self._remember(
            recurrences.linear(made, self._constants(feed), transition=transition, output=output)
        )

    def _remember(self, memory: Memory) -> Field:
        assert self.recurrent, "memories belong to recurrent layers"
        self.memories.append(memory)
        return memory.result

    def step(self, name: str, term: Term, *, off: Exact, on: Exact) -> Field:
        """0 up to `off`, 1 from `on` on."""
        return self._add(gadgets.step(self._bits(name), term, off=off, on=on))

    def saturate(self, name: str, term: Term, *, noise: Exact) -> Field:
        """0 up to `−noise`, 1 from `1 + noise` on, exactly so where the number is off by at most `noise`.

        What lies between the two nested units has no place in the stream.
        """
        bounds = as_linear(term).bounds()
        most = max(Fraction(0), *(1 - low for low, _ in bounds))

        def inner(dim: int) -> Field:
            return Field(
                name=f"{name}, lacking",
                dim=dim,
                low=Fraction(0),
                high=most,
                note="computed",
                since=self._number,
                inner=True,
            )

        lack = self._add(saturation.shortfall(inner, term, noise=noise))
        return self._add(saturation.saturated(self._bits(name), lack))

    def differs(self, name: str, first: Term, second: Term, *, apart: Exact) -> Field:
        """Whether two numbers, equal or `apart`, differ."""
        return self._add(gadgets.differs(self._bits(name), first, second, apart=apart))

    def truth_table(self, name: str, bits: Sequence[Term], table: Sequence[Exact] | Term) -> Field:
        """The entry of a table that exact bits name."""
        return self._add(gadgets.truth_table(self._bits(name), bits, table))

    def xor(self, name: str, first: Term, second: Term) -> Field:
        """Whether two exact bits differ."""
        return self.truth_table(name, (first, second), (0, 1, 1, 0))

    def product(self, name: str, first: Term, second: Term) -> Field:
        """Both of two exact bits."""
        return self.truth_table(name, (first, second), (0, 0, 0, 1))

    def either(self, name: str, bits: Term) -> Field:
        """Any of some exact bits."""
        return self._add(gadgets.either(self._bits(name), bits))

    def indicator(self, name: str, number: Term, value: Exact, *, noise: bool = False) -> Field:
        """Whether a whole number is a given one."""
        return self._add(gadgets.indicator(self._bits(name), number, value, noise=noise))

    def lookup(self, name: str, number: Term, table: Sequence[Exact]) -> Field:
        """The entry of a table that a whole number names."""
        ends = [Fraction(value) for value in table]
        return self._add(gadgets.lookup(self._numbers(name, min(ends), max(ends)), number, table))

    def copied(self, name: str, term: Term) -> Field:
        """The number itself."""
        bounds = as_linear(term).bounds()
        low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
        return self._add(gadgets.copied(self._numbers(name, low, high), term))

    def gadget(
        self, make: Callable[[Callable[[int], Field]], Gadget], name: str, low: Exact, high: Exact
    ) -> Field:
        """A gadget of one's own, whose result lies within [low, high]."""
        return self._add(make(self._numbers(name, Fraction(low), Fraction(high))))

    def _add(self, gadget: Gadget) -> Field:
        self.gadgets.append(gadget)
        return gadget.result

    def _bits(self, name: str) -> Callable[[int], Field]:
        return self._numbers(name, Fraction(0), Fraction(1))

    def _numbers(self, name: str, low: Fraction, high: Fraction) -> Callable[[int], Field]:
        def result(dim: int) -> Field:
            return Field(name=name, dim=dim, low=low, high=high, note="computed", since=self._number)

        return result

    def _constants(self, term: Term) -> Linear:
        """Attention has no biases: a constant is a multiple of the field that is 1 everywhere."""
        form = as_linear(term)
        if not form.has_offset:
            return form
        column = np.array([[value] for value in form.offset], dtype=object)
        return Linear({**form.parts, self._program.one: column}, (Fraction(0),) * form.out)


class Program:
    """Fields of the input, layers, and the answer."""

    def __init__(
        self,
        task: Task,
        *,
        causal: bool = False,
        gated: bool = False,
        vocabulary: Vocabulary | None = None,
        longest: int | None = None,
    ) -> None:
        """For inputs of this task, or for texts of another vocabulary that are made of them.

        `gated` is W's form: every layer is x + A(x) + g(x + A(x)) with one gated hidden layer in g, so that
        no gadget of a layer reads the result of another. `longest` is the longest text there may be.
        """
        self.task, self.causal, self.gated = task, causal, gated
        self.longest = task.length if longest is None else longest
        self._vocabulary = vocabulary
        self.sources: list[TokenSource | PlaceSource | FlagSource | RealSource] = []
        self.elements: list[dict[Field, tuple[Fraction, ...]]] = []
        self.layers: list[LayerScript] = []
        self.answer: Answer | None = None
        self._one: Field | None = None
        self._words: Words | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that its inputs are made of."""
        if self._vocabulary is not None:
            return self._vocabulary
        assert isinstance(self.task, WordTask), "only words have a vocabulary"
        return self.task.vocabulary

    @property
    def own_words(self) -> bool:
        """Whether its vocabulary is another than the task's."""
        return self._vocabulary is not None

    @property
    def on_words(self) -> bool:
        """Whether its inputs are words."""
        return self._vocabulary is not None or isinstance(self.task, WordTask)

    def words(self) -> Words:
        """W's embedding of all words, the same at every call."""
        if self._words is None:
            self._words = Words(self.vocabulary)
            for block, code, field in self._words.parts:
                self.sources.append(TokenSource(field=field, block=block.name, code=code))
        return self._words

    @property
    def one(self) -> Field:
        """The field that is 1 at every position, and at the model's own elements."""
        if self._one is None:
            self._one = Field(name=ONE, dim=1, low=Fraction(1), high=Fraction(1), note="the constant 1")
            self.sources.append(FlagSource(field=self._one, values=None))
        return self._one

    def token(self, name: str, *, block: str, code: Code) -> Field:
        """What the tokens of a block say: their number in it, by its code; 0 at other tokens."""
        blocks = tuple(each.name for each in self.vocabulary.blocks)
        if block not in blocks:
            raise unknown_name(f"block of tokens in {self.task.name}, for the field {name},", block, blocks)
        field = _coded(name, code, f"{type(code).__name__} of the {block} token")
        self.sources.append(TokenSource(field=field, block=block, code=code))
        return field

    def position(
        self, name: str, rule: PositionRule, code: Code, *, on: Sequence[str] | None = None
    ) -> Field:
        """What a place knows: the number its rule gives, by a code; at tokens of the given blocks only."""
        blocks = None if on is None else tuple(on)
        where = "" if blocks is None else f" at {', '.join(blocks)} tokens"
        field = _coded(name, code, f"{type(code).__name__} of the place ({rule.kind}){where}")
        self.sources.append(PlaceSource(field=field, rule=rule, code=code, blocks=blocks))
        return field

    def flag(self, name: str, values: Mapping[str, Exact]) -> Field:
        """A number for each block of tokens, 0 for those that are not named."""
        exact = {block: Fraction(value) for block, value in values.items()}
        low, high = min([Fraction(0), *exact.values()]), max([Fraction(0), *exact.values()])
        shown = ", ".join(f"{value} at {block}" for block, value in exact.items())
        field = Field(name=name, dim=1, low=low, high=high, note=shown)
        self.sources.append(FlagSource(field=field, values=exact))
        return field

    def reals(self, name: str, columns: Sequence[int], *, low: Exact, high: Exact) -> Field:
        """Columns of a real input."""
        field = Field(
            name=name,
            dim=len(columns),
            low=Fraction(low),
            high=Fraction(high),
            note=f"columns {columns[0]} to {columns[-1]} of the input",
        )
        self.sources.append(RealSource(field=field, columns=tuple(columns)))
        return field

    def element(self, values: Mapping[Field, Sequence[Exact]]) -> None:
        """An element of the model's own behind every input; fields that are not named are 0 there."""
        self.elements.append(
            {field: tuple(Fraction(value) for value in vector) for field, vector in values.items()}
        )

    @contextmanager
    def layer(self) -> Iterator[LayerScript]:
        """The next layer, of attention."""
        script = LayerScript(self, len(self.layers) + 1)
        yield script
        assert script.heads or self.gated, "a layer has a head"
        self.layers.append(script)

    @contextmanager
    def recurrent_layer(self) -> Iterator[LayerScript]:
        """The next layer, with a linear recurrence in the place of attention."""
        assert self.gated, "recurrent layers have W's form"
        script = LayerScript(self, len(self.layers) + 1, recurrent=True)
        yield script
        self.layers.append(script)

    def answer_code(self, term: Term, *, code: Code) -> None:
        """Class v scores ⟨code(v), form⟩."""
        form = as_linear(term)
        assert form.out == code.dim
        self.answer = Answer(form=form, code=code, scores=True)

    def answer_words(self, *, numbers: Mapping[str, tuple[Term, Term]], words: Mapping[str, Term]) -> None:
        """The next word: a number of a block where its flag is 1, or the word whose flag is 1.

        A block's value must be 0 where its flag is. Exactly one flag is 1 where the answer matters.
        """
        known = self.words()
        self.answer_code(known.emitted(numbers=numbers, words=words), code=known.code)

    def answer_scores(self, term: Term) -> None:
        """Class v scores coordinate v."""
        self.answer = Answer(form=as_linear(term), code=None, scores=True)

    def answer_vector(self, term: Term) -> None:
        """The vector itself."""
        self.answer = Answer(form=as_linear(term), code=None, scores=False)

    def __str__(self) -> str:
        lines = [f"{source.field.name}: {source.field.note}" for source in self.sources]
        for number, layer in enumerate(self.layers, start=1):
            written = (*layer.heads, *layer.memories, *layer.gadgets)
            lines += [f"layer {number}: {operation}" for operation in written]
        return "\n".join(lines)


def address_rivals(code: Code, *, silent: int = 0) -> tuple[Rival, ...]:
    """The rivals of an address among all others, and `silent` keys that have none, whose product is 0.

    An address of signs has a product smaller by 2w with another at Hamming distance w; unit vectors are
    orthogonal, so every other is as far as a key without an address.
    """
    if isinstance(code, SignCode):
        others = [Rival(gap=Fraction(2 * far), count=count) for far, count in code.distances().items()]
    else:
        assert isinstance(code, OneHot), "addresses are signs or unit vectors"
        others = [Rival(gap=code.square, count=code.count - 1)]
    return (*others, Rival(gap=code.square, count=silent))


def _coded(name: str, code: Code, note: str) -> Field:
    low, high = code.entries
    return Field(name=name, dim=code.dim, low=low, high=high, note=note, square=code.square)
