"""Prompts that ask the same questions amid more and more that is not needed.

A reading asks each question with its gold alone, which is all that it takes, and again with n paragraphs or
entries in all, in random order or with the gold last. The texts are those of the tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, final

from separatrix.errors import InvalidInput
from separatrix.interop.answer_texts import answer_in_reasoning, answer_on_first_line
from separatrix.interop.asking import ORDERS, Order, Prompt
from separatrix.randomness import Draws
from separatrix.tasks.byte_text import numbered_prompts
from separatrix.tasks.distractor_qa import DistractorQA
from separatrix.tasks.phone_book import PhoneBook

__all__ = ["BookReading", "ParagraphReading", "Reading"]

_PATIENCE: Final = 64
"""Draws for each question that is wanted: a small file gives the same ones again and again."""
_AT_ONCE: Final = 256
_ANSWER: Final = "\nAnswer: "


@dataclass(frozen=True, kw_only=True)
class Reading(ABC):
    """Questions, and the numbers n of paragraphs or entries they are asked amid."""

    name: ClassVar[str]
    """The task's name."""
    gold: ClassVar[int]
    """The n at which there is nothing but what the answer takes."""
    stop: ClassVar[str]
    """Where a completion ends."""

    questions: int
    ns: tuple[int, ...]
    orders: tuple[Order, ...] = ORDERS
    seed: int = 0
    most_tokens: int

    def __post_init__(self) -> None:
        if self.questions < 1:
            raise InvalidInput(f"{self.name} needs at least one question; got {self.questions}.")
        if not self.ns or sorted(set(self.ns)) != list(self.ns) or self.ns[0] != self.gold:
            raise InvalidInput(
                f"{self.name} is asked with n ascending from {self.gold}, the gold alone; got {self.ns}."
            )
        if not self.orders or not set(self.orders) <= set(ORDERS):
            raise InvalidInput(f"Orders are {' and '.join(ORDERS)}; got {self.orders}.")

    @abstractmethod
    def prompts(self) -> Iterator[Prompt]:
        """Every question in every order at every n."""

    @abstractmethod
    def answer_in(self, text: str) -> str | None:
        """The answer in a completion; None if there is none."""


@final
@dataclass(frozen=True, kw_only=True)
class ParagraphReading(Reading):
    """Distractor QA as W asks it: four worked examples with reasoning, n paragraphs, the question.

    Every question is another one. Of a small file that may be fewer than were wanted.
    """

    name = DistractorQA.name
    gold = 2
    stop = "\n\n"  # the empty line between one worked example and the next

    ns: tuple[int, ...] = (2, 4, 6, 8)
    most_tokens: int = 128
    shots: int = 4
    file: Path | None = None

    def prompts(self) -> Iterator[Prompt]:
        """The same questions for every n and order, since the task draws the gold by itself."""
        numbers = self._different()
        for order in self.orders:
            for n in self.ns:
                for number, prompt, continuation in numbered_prompts(
                    self._task(n, order), numbers, seed=self.seed
                ):
                    answer = continuation.rpartition(_ANSWER)[2]
                    yield Prompt(question=number, order=order, n=n, text=prompt, answer=answer)

    def answer_in(self, text: str) -> str | None:
        """After the reasoning."""
        return answer_in_reasoning(text)

    def _task(self, n: int, order: Order) -> DistractorQA:
        # Only questions that have paragraphs for the largest n, at every n.
        pool = 0 if self.file is None else max(self.ns)
        return DistractorQA(n=n, order=order, shots=self.shots, file=self.file, pool=pool)

    def _different(self) -> list[int]:
        """Numbers of examples that ask different questions, the first ones."""
        task, found = self._task(self.gold, "random"), dict[tuple[str, ...], int]()
        for start in range(0, _PATIENCE * self.questions, _AT_ONCE):
            for number, prompt, _ in numbered_prompts(task, range(start, start + _AT_ONCE), seed=self.seed):
                *_, first, second, question, _ = prompt.split("\n")
                found.setdefault((*sorted((first, second)), question), number)
            if len(found) >= self.questions:
                break
        return sorted(found.values())[: self.questions]


@final
@dataclass(frozen=True, kw_only=True)
class BookReading(Reading):
    """Phone book: n entries, then the name whose number is wanted.

    A question is drawn amid the most entries. At a smaller n a uniform choice of the others stays, each where
    it was, so that every n has the task's own law.
    """

    name = PhoneBook.name
    gold = 1
    stop = "\n"

    ns: tuple[int, ...] = (1, 8, 32)
    most_tokens: int = 24

    def prompts(self) -> Iterator[Prompt]:
        """The full book, thinned out."""
        most = max(self.ns)
        draws = Draws(seed=self.seed, stream="phone-book/thinned", batch=self.questions)
        ranks = draws.permutations("entries", most).tolist()
        full = list(numbered_prompts(PhoneBook(n=most), range(self.questions), seed=self.seed))
        for order in self.orders:
            for n in self.ns:
                for (number, prompt, continuation), rank in zip(full, ranks, strict=True):
                    text = _thinned(prompt, n, rank, order)
                    yield Prompt(question=number, order=order, n=n, text=text, answer=continuation.strip())

    def answer_in(self, text: str) -> str | None:
        """The line that goes on."""
        return answer_on_first_line(text)


def _thinned(prompt: str, n: int, rank: Sequence[int], order: Order) -> str:
    """The entry that is asked for and n − 1 others, those of the lowest rank."""
    header, *entries, question, cue = prompt.split("\n")
    gold = next(
        place for place, entry in enumerate(entries) if question.endswith(f" of {entry.partition(':')[0]}?")
    )
    others = sorted((place for place in range(len(entries)) if place != gold), key=lambda place: rank[place])
    kept = sorted((gold, *others[: n - 1]), key=lambda place: (order == "gold-last" and place == gold, place))
    return "\n".join((header, *(entries[place] for place in kept), question, cue))
