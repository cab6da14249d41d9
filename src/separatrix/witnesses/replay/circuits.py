"""Recurrent networks whose step is a circuit: gates in order, each a given bit or made of two earlier gates.

>>> parity = RecurrentCircuit(
...     name="parity",
...     reads={"a": (0,), "b": (1,)},
...     writes=("EVEN", "ODD"),
...     start=(0,),
...     gates=(InputBit(0), StateBit(0), Xor(0, 1)),
...     state=(2,),
...     output=(2,),
... )
>>> parity.run(["b", "a", "b", "b"]).answer
'ODD'
>>> " ".join(parity.chain(["b", "b"]))
'1 0 1 b 1 1 0 EVEN'

The network reads n words. What it writes before the last of them is of no use; from then on it reads its own
words, until it writes one that is not among those it reads: its answer. So a chain of thought of its own is
nothing special, and a network that answers at once has none.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, final

from separatrix.errors import InvalidInput

__all__ = [
    "BEGIN",
    "BITS",
    "EQUALS",
    "And",
    "Constant",
    "Gate",
    "InputBit",
    "RecurrentCircuit",
    "Run",
    "StateBit",
    "Step",
    "Xor",
]

BEGIN: Final = "<s>"
EQUALS: Final = "="
BITS: Final = ("0", "1")
"""The words of gate values."""

_RESERVED: Final = (BEGIN, EQUALS, *BITS, "<pad>")
MOST_GATES: Final = 1 << 12
MOST_BITS: Final = 16


@final
@dataclass(frozen=True)
class Constant:
    """A fixed bit."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@final
@dataclass(frozen=True)
class InputBit:
    """A bit of the word that is read."""

    place: int

    def __str__(self) -> str:
        return f"input {self.place}"


@final
@dataclass(frozen=True)
class StateBit:
    """A bit of the state before the step."""

    place: int

    def __str__(self) -> str:
        return f"state {self.place}"


@final
@dataclass(frozen=True)
class And:
    """Both of two earlier gates."""

    first: int
    second: int

    def __str__(self) -> str:
        return f"gate {self.first} AND gate {self.second}"


@final
@dataclass(frozen=True)
class Xor:
    """One of two earlier gates, and not the other."""

    first: int
    second: int

    def __str__(self) -> str:
        return f"gate {self.first} XOR gate {self.second}"


Gate: TypeAlias = Constant | InputBit | StateBit | And | Xor


@final
@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: the word read, the value of every gate, the state behind it, the word written."""

    read: str
    values: tuple[int, ...]
    state: tuple[int, ...]
    written: str


@final
@dataclass(frozen=True, kw_only=True)
class Run:
    """All steps, and the answer; None if there was none within the steps allowed."""

    steps: tuple[Step, ...]
    answer: str | None


@final
@dataclass(frozen=True, kw_only=True)
class RecurrentCircuit:
    """Words with their bits, a start state, gates by id from 0, and which gates are state and output.

    `writes` has a word for every number that the output's bits spell, the first bit counting most. A word
    that is also read goes on as a chain of thought; any other is an answer. No word is `<s>`, `=`, `0` or
    `1`, which the chains of gate values need.
    """

    name: str
    reads: Mapping[str, tuple[int, ...]] = field(hash=False)
    writes: tuple[str, ...]
    start: tuple[int, ...]
    gates: tuple[Gate, ...]
    state: tuple[int, ...]
    output: tuple[int, ...]

    def __post_init__(self) -> None:
        self._check_words()
        if not 1 <= len(self.gates) <= MOST_GATES:
            raise self._error(f"has {len(self.gates)} gates; give it 1 to {MOST_GATES:,}")
        if not _are_bits(self.start):
            raise self._error(f"starts in {self.start}; a state is made of zeros and ones")
        if len(self.state) != len(self.start):
            raise self._error(
                f"names {len(self.state)} gates as the next state, which has {len(self.start)} bits; "
                "name one for each"
            )
        for number, gate in enumerate(self.gates):
            self._check_gate(number, gate)
        for what, chosen in (("state", self.state), ("output", self.output)):
            for number in chosen:
                if not 0 <= number < len(self.gates):
                    raise self._error(
                        f"takes gate {number} for its {what}; its gates are 0 to {len(self.gates) - 1}"
                    )

    def _check_words(self) -> None:
        for word in dict.fromkeys((*self.reads, *self.writes)):
            if word in _RESERVED or not re.fullmatch(r"\S{1,40}", word):
                raise self._error(
                    f"has the word '{word[:40]}'; a word has 1 to 40 characters, no space, "
                    f"and is none of {' '.join(_RESERVED)}"
                )
        widths = {len(bits) for bits in self.reads.values()}
        if len(widths) != 1 or not all(map(_are_bits, self.reads.values())) or max(widths) > MOST_BITS:
            raise self._error(
                f"reads words of {sorted(widths)} bits; give all of them the same number of bits, "
                f"at most {MOST_BITS}"
            )
        if not 1 <= len(self.output) <= MOST_BITS or len(self.writes) != 1 << len(self.output):
            raise self._error(
                f"has {len(self.writes)} words to write for {len(self.output)} bits of output; "
                f"give a word for each value of 1 to {MOST_BITS} bits"
            )
        if not self.answers:
            raise self._error("reads every word that it writes, so it never answers; add an answer")

    def _check_gate(self, number: int, gate: Gate) -> None:
        match gate:
            case Constant(value):
                fits = value in (0, 1)
            case InputBit(place):
                fits = 0 <= place < self.input_bits
            case StateBit(place):
                fits = 0 <= place < len(self.start)
            case And(first, second) | Xor(first, second):
                fits = 0 <= first < number and 0 <= second < number
        if not fits:
            raise self._error(
                f"has gate {number} = {gate}; a gate is a constant 0 or 1, one of {self.input_bits} bits of "
                f"the input or {len(self.start)} of the state, or takes gates with smaller numbers"
            )

    def _error(self, what: str) -> InvalidInput:
        return InvalidInput(f"The circuit {self.name[:40]} {what}.")

    @property
    def input_bits(self) -> int:
        """Bits of a word that is read."""
        return len(next(iter(self.reads.values()), ()))

    @property
    def answers(self) -> tuple[str, ...]:
        """The words that end a run, each once."""
        return tuple(dict.fromkeys(word for word in self.writes if word not in self.reads))

    @property
    def thinks(self) -> bool:
        """Whether it may write words that it then reads."""
        return any(word in self.reads for word in self.writes)

    def evaluate(self, bits: Sequence[int], state: Sequence[int]) -> tuple[int, ...]:
        """The value of every gate, in order."""
        values: list[int] = []
        for gate in self.gates:
            match gate:
                case Constant(value):
                    values.append(value)
                case InputBit(place):
                    values.append(bits[place])
                case StateBit(place):
                    values.append(state[place])
                case And(first, second):
                    values.append(values[first] & values[second])
                case Xor(first, second):
                    values.append(values[first] ^ values[second])
        return tuple(values)

    def step(self, word: str, state: Sequence[int]) -> Step:
        """Read one word in a state."""
        if word not in self.reads:
            known = " ".join(itertools.islice(self.reads, 20))
            raise self._error(f"reads {known}; got '{word[:40]}'")
        values = self.evaluate(self.reads[word], state)
        number = int("".join(str(values[gate]) for gate in self.output), 2)
        return Step(
            read=word,
            values=values,
            state=tuple(values[gate] for gate in self.state),
            written=self.writes[number],
        )

    def run(self, words: Sequence[str], *, most_steps: int | None = None) -> Run:
        """Read the words, then its own, until it answers, in at most so many steps (None: as many as words).

        One word at least is needed, since the answer is written after a word was read.
        """
        if not words:
            raise self._error("needs one word or more; got none")
        steps = tuple(self._steps(words, len(words) if most_steps is None else most_steps))
        last = steps[-1].written if len(steps) >= len(words) else None
        return Run(steps=steps, answer=last if last in self.answers else None)

    def _steps(self, words: Sequence[str], most: int) -> Iterator[Step]:
        state, word = self.start, words[0]
        for number in range(1, most + 1):
            step = self.step(word, state)
            yield step
            state = step.state
            if number < len(words):
                word = words[number]
            elif step.written in self.answers:
                return
            else:
                word = step.written

    def chain(self, words: Sequence[str], *, most_steps: int | None = None) -> list[str]:
        """The replay: for every step its gate values, then the word read next or, at the end, the answer."""
        run = self.run(words, most_steps=most_steps)
        chain = []
        for number, step in enumerate(run.steps, start=1):
            chain += [BITS[value] for value in step.values]
            chain.append(words[number] if number < len(words) else step.written)
        return chain

    def __str__(self) -> str:
        lines = [f"{self.name}: {len(self.gates)} gates, {len(self.start)} bits of state"]
        lines += [f"  {number} = {gate}" for number, gate in enumerate(self.gates)]
        lines.append(f"  next state: {', '.join(f'gate {gate}' for gate in self.state) or 'none'}")
        lines.append(f"  output: {', '.join(f'gate {gate}' for gate in self.output)}")
        return "\n".join(lines)


def _are_bits(values: Sequence[int]) -> bool:
    return all(value in (0, 1) for value in values)
