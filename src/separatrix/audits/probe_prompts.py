"""What a language model is asked in a probe: retrieval tasks as plain English, with worked examples before.

The examples are the task's own, drawn under a seed; only their words are other ones. Worked examples are the
same before every question and at every n, and short, so that what grows with n is the list alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar, Final, final

from separatrix.audits.walls import symbols_held
from separatrix.errors import InvalidInput
from separatrix.interop.answer_texts import answer_in_reasoning, answer_on_first_line
from separatrix.interop.asking import Prompt
from separatrix.randomness import Draws
from separatrix.registry import unknown_name
from separatrix.tasks.associative_recall import AssociativeRecall
from separatrix.tasks.byte_text import PAD, numbered_prompts
from separatrix.tasks.distractor_qa import DistractorQA
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.interface import Batch, Task
from separatrix.tasks.phone_book import PhoneBook

__all__ = ["PROBES", "Asked", "asked_of"]

_ADJECTIVES: Final = tuple(
    """
    amber ancient bent black blue bright broad broken bronze brown calm carved cheap clean cold copper
    cracked crooked dark deep dry dusty empty faded flat folded fragile gentle golden green grey heavy
    hollow huge iron large light little long loose narrow new old orange painted pale plain polished purple
    quiet red rough round rusty sharp shiny short silver small smooth square tall white yellow
    """.split()  # noqa: SIM905  a list of so many words is read more easily as a text
)
_NOUNS: Final = tuple(
    """
    anchor apple barrel basket bell blanket boat book bottle bowl brick brush bucket button candle carpet
    chain chair clock coat coin comb crown cup curtain desk door drum feather flute fork glass glove hammer
    hat helmet jar kettle key knife ladder lamp lantern letter map mask mirror needle oar paddle pan pearl
    pillow plate pot ring rope saddle scarf shell spoon table tent wheel
    """.split()  # noqa: SIM905
)
_FIRST_ROOM: Final = 100
_ROOMS: Final = 900
_SHOWN: Final = 4
"""Items of a worked example."""
_LIST_SHOTS: Final = 8
_AT_ONCE: Final = 64
_FACTS: Final = 7


class Asked(ABC):
    """A task as a probe asks it, and how much memory its answers take."""

    name: ClassVar[str]
    """The task's name."""
    counts: ClassVar[str]
    """What n counts."""
    stop: ClassVar[str] = "\n"
    """Where a completion ends."""
    most_tokens: ClassVar[int]
    """Tokens that may be written."""
    usual_shots: ClassVar[int] = 2
    most_shots: ClassVar[int] = _LIST_SHOTS
    theorem: ClassVar[str] = "S-P9"
    """What says that a memory too small for the list must fail."""
    needs: ClassVar[str]
    """The bits that a list of n takes."""

    @abstractmethod
    def largest_n(self, bits: int) -> int:
        """The largest n at which the lists that some question tells apart are no more than 2^bits."""

    @abstractmethod
    def texts(self, n: int, *, count: int, seed: int, shots: int) -> Iterator[tuple[str, str]]:
        """Prompt and right answer of the first examples; `InvalidInput` if the task has no such n."""

    @abstractmethod
    def answer_in(self, text: str) -> str | None:
        """The answer in a completion; None if there is none."""

    def prompts(self, n: int, *, count: int, seed: int, shots: int | None) -> list[Prompt]:
        """The questions at one n."""
        given = self.usual_shots if shots is None else shots
        if not 0 <= given <= self.most_shots:
            raise InvalidInput(
                f"{self.name} is asked after 0 to {self.most_shots} worked examples; got shots={given}. "
                f"Try {self.usual_shots}."
            )
        found = self.texts(n, count=count, seed=seed, shots=given)
        return [
            Prompt(question=number, order="random", n=n, text=text, answer=answer)
            for number, (text, answer) in enumerate(found)
        ]


@final
class _Positions(Asked):
    """Index lookup: a list of words, and which of them is number p?"""

    name = IndexLookup.name
    counts = "words in the list"
    most_tokens = 16
    theorem = "S-T3"
    needs = f"n·log₂{len(_NOUNS)}"

    def largest_n(self, bits: int) -> int:
        """Every list of words is told from every other by some position."""
        return symbols_held(bits, len(_NOUNS))

    def texts(self, n: int, *, count: int, seed: int, shots: int) -> Iterator[tuple[str, str]]:
        """The task's symbols are words; its lists have n of them."""
        task = IndexLookup(n=n, alphabet=len(_NOUNS), lengths="full")
        return _told(self._tell, task, replace(task, n=_SHOWN), count=count, seed=seed, shots=shots)

    def answer_in(self, text: str) -> str | None:
        """The line that goes on."""
        return answer_on_first_line(text)

    @staticmethod
    def _tell(row: Sequence[int], answer: int) -> tuple[str, str]:
        words = ", ".join(_NOUNS[symbol] for symbol in row[:-1])
        place = row[-1] - len(_NOUNS) + 1
        return f"List: {words}\nQuestion: Which word is number {place} in the list?\nAnswer:", _NOUNS[answer]


@final
class _Rooms(Asked):
    """Associative recall: things and the rooms they are in, and in which room is one of them?"""

    name = AssociativeRecall.name
    counts = "things with their rooms"
    most_tokens = 12
    needs = f"n·log₂{_ROOMS}"

    def largest_n(self, bits: int) -> int:
        """The things are known beforehand; every list of rooms is told from every other."""
        return symbols_held(bits, _ROOMS)

    def texts(self, n: int, *, count: int, seed: int, shots: int) -> Iterator[tuple[str, str]]:
        """The task's keys are things, its labels rooms."""
        keys = len(_ADJECTIVES) * len(_NOUNS)
        if n > keys:
            raise InvalidInput(f"{self.name} is asked with at most {keys:,} things; got n={n}.")
        task = AssociativeRecall(n=n, keys=keys, values=_ROOMS, lengths="full")
        return _told(self._tell, task, replace(task, n=_SHOWN), count=count, seed=seed, shots=shots)

    def answer_in(self, text: str) -> str | None:
        """What the sentence ends with."""
        return answer_on_first_line(text)

    @staticmethod
    def _tell(row: Sequence[int], answer: int) -> tuple[str, str]:
        things = [_thing(token - _ROOMS) for token in row[::2]]
        *listed, wanted = things
        entries = "".join(
            f"The {thing} is in room {_FIRST_ROOM + room}.\n"
            for thing, room in zip(listed, row[1::2], strict=True)
        )
        question = f"Question: In which room is the {wanted}?\nAnswer: The {wanted} is in room"
        return f"{entries}{question}", f"{_FIRST_ROOM + answer}."


@final
class _Numbers(Asked):
    """Phone book: names with their numbers, and what is the number of one of them?"""

    name = PhoneBook.name
    counts = "entries"
    most_tokens = 24
    needs = "n·log₂10⁷"

    def largest_n(self, bits: int) -> int:
        """The names are known beforehand; every list of numbers is told from every other."""
        return symbols_held(bits, 10 ** PhoneBook(n=1).digits)

    def texts(self, n: int, *, count: int, seed: int, shots: int) -> Iterator[tuple[str, str]]:
        """The task's own text."""
        worked = _worked(self._tell, PhoneBook(n=_SHOWN), seed=seed, shots=shots)
        for _, prompt, continuation in numbered_prompts(PhoneBook(n=n), range(count), seed=seed):
            yield f"{worked}{prompt}", continuation.strip()

    def answer_in(self, text: str) -> str | None:
        """The line that goes on."""
        return answer_on_first_line(text)

    @staticmethod
    def _tell(row: Sequence[int], _: int) -> tuple[str, str]:
        prompt, cue, answer = bytes(byte for byte in row if byte != PAD).decode().rpartition("\nAnswer: ")
        return f"{prompt}{cue.rstrip()}", answer


@final
class _Paragraphs(Asked):
    """Distractor QA: two paragraphs amid others have the answer, which is written after the reasoning."""

    name = DistractorQA.name
    counts = "paragraphs"
    stop = "\n\n"
    most_tokens = 128
    usual_shots = 4
    most_shots = 4
    needs = f"⌊n/2⌋·log₂{_FACTS**2}"

    def largest_n(self, bits: int) -> int:
        """One person in each of ⌊n/2⌋ towns: its market day and its river can both be asked for."""
        return 2 * symbols_held(bits, _FACTS**2) + 1

    def texts(self, n: int, *, count: int, seed: int, shots: int) -> Iterator[tuple[str, str]]:
        """The task's own text, with its own worked examples."""
        for _, prompt, continuation in numbered_prompts(
            DistractorQA(n=n, shots=shots, facts=_FACTS), range(count), seed=seed
        ):
            yield prompt, continuation.rpartition("\nAnswer: ")[2]

    def answer_in(self, text: str) -> str | None:
        """After the reasoning."""
        return answer_in_reasoning(text)


PROBES: Final[Mapping[str, Asked]] = MappingProxyType(
    {asked.name: asked for asked in (_Numbers(), _Rooms(), _Positions(), _Paragraphs())}
)
"""The tasks that a model can be asked, by name."""


def asked_of(name: str) -> Asked:
    """The probe of this name; one that there is not is answered with those there are."""
    if name not in PROBES:
        raise unknown_name("probe", name, tuple(PROBES))
    return PROBES[name]


_Tell = Callable[[Sequence[int], int], tuple[str, str]]
"""A row of the task and its answer as prompt and answer in words."""


def _told(
    tell: _Tell, task: Task, small: Task, *, count: int, seed: int, shots: int
) -> Iterator[tuple[str, str]]:
    """The worked examples, and behind them each of the first examples of a task."""
    worked = _worked(tell, small, seed=seed, shots=shots)
    for start in range(0, count, _AT_ONCE):
        for prompt, answer in _in_words(
            tell, task.sample(min(_AT_ONCE, count - start), seed=seed, start=start)
        ):
            yield f"{worked}{prompt}", answer


def _worked(tell: _Tell, small: Task, *, seed: int, shots: int) -> str:
    """Examples with their answers, from a stream of their own, so that none of them is asked later."""
    if not shots:
        return ""
    batch = small.draw(Draws(seed=seed, stream=f"{small.name}/worked", batch=shots))
    return "".join(f"{prompt} {answer}\n\n" for prompt, answer in _in_words(tell, batch))


def _in_words(tell: _Tell, batch: Batch) -> Iterator[tuple[str, str]]:
    answers = batch.labels.answer.tolist()
    for row, answer in zip(batch.inputs.tolist(), answers, strict=True):
        yield tell(row, answer)


def _thing(number: int) -> str:
    """Things that follow each other differ in both words."""
    rounds, place = divmod(number, len(_ADJECTIVES))
    return f"{_ADJECTIVES[place]} {_NOUNS[(27 * place + rounds) % len(_NOUNS)]}"
