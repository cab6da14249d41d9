"""Who still finds the answer when there is more to read? Several models, the same questions, one score each.

As in W, only questions that every compared model answers with the gold alone are scored: what is lost at a
larger n is then lost to reading, not to reasoning. Such questions alone are asked at larger n. Answers go to
disk as they come, and what is there is not asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import final

from separatrix.errors import InvalidInput
from separatrix.experiments.reading.prompts import Reading
from separatrix.interop.answer_log import Answer, AnswerLog
from separatrix.interop.answer_texts import same_answer
from separatrix.interop.asking import AT_ONCE, Contestant, Interview, Order, Progress, Prompt
from separatrix.record_checks import require_count, require_measured, require_text
from separatrix.records import JsonObject, Reader, Record
from separatrix.store.intervals import Interval, wilson

__all__ = ["Comparison", "ReadingScore", "compare"]


@final
@dataclass(frozen=True, kw_only=True)
class ReadingScore(Record):
    """How many questions one model got right in one order at one n.

    `asked` were put to every model with the gold alone, `kept` are those that all of them then answered, and
    only these count; `right` of these were answered here, and in `unanswered` no answer could be found.
    """

    SCHEMA = "separatrix.reading-score"

    task: str
    model: str
    config_sha256: str
    order: Order
    n: int
    asked: int
    kept: int
    right: int
    unanswered: int
    seconds: float

    def __post_init__(self) -> None:
        require_text("A score", task=self.task, model=self.model, config_sha256=self.config_sha256)
        require_count("A score", n=self.n, asked=self.asked, kept=self.kept)
        require_count("A score", right=self.right, unanswered=self.unanswered)
        require_measured("A score", "seconds", self.seconds)
        if not self.right + self.unanswered <= self.kept <= self.asked:
            raise InvalidInput(
                f"A score has right + unanswered ≤ kept ≤ asked; got {self.right} + {self.unanswered}, "
                f"{self.kept} and {self.asked}."
            )

    @property
    def accuracy(self) -> float | None:
        """The share of the kept questions that is right; None if none was kept."""
        return self.right / self.kept if self.kept else None

    @property
    def interval(self) -> Interval | None:
        """Wilson's 95 % interval of the accuracy."""
        return wilson(self.right, self.kept) if self.kept else None

    def to_fields(self) -> JsonObject:
        """The counts, and the accuracy with its interval for who reads the file."""
        return {
            "task": self.task,
            "model": self.model,
            "config_sha256": self.config_sha256,
            "order": self.order,
            "n": self.n,
            "asked": self.asked,
            "kept": self.kept,
            "right": self.right,
            "unanswered": self.unanswered,
            "seconds": self.seconds,
            "accuracy": self.accuracy,
            "interval": None if self.interval is None else list(self.interval),
        }

    @classmethod
    def from_fields(cls, read: Reader) -> ReadingScore:
        """Accuracy and interval follow from the counts, and are computed again."""
        score = cls(
            task=read.text("task"),
            model=read.text("model"),
            config_sha256=read.text("config_sha256"),
            order=read.choice("order", ("random", "gold-last")),
            n=read.count("n"),
            asked=read.count("asked"),
            kept=read.count("kept"),
            right=read.count("right"),
            unanswered=read.count("unanswered"),
            seconds=read.measured("seconds"),
        )
        read.value("accuracy")
        read.value("interval")
        return score


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The scores of all models, and what to know about them."""

    scores: tuple[ReadingScore, ...]
    notes: tuple[str, ...]


def compare(
    contestants: Sequence[Contestant],
    reading: Reading,
    *,
    log: AnswerLog,
    at_once: int = AT_ONCE,
    progress: Callable[[Progress], None] | None = None,
) -> Comparison:
    """Ask with the gold alone, keep what everybody answers, ask that amid more, and score."""
    _require_different(contestants)
    prompts = list(reading.prompts())
    interview = Interview(
        task=reading.name,
        most_tokens=reading.most_tokens,
        stop=reading.stop,
        log=log,
        at_once=at_once,
        progress=progress,
    )
    hall = _Hall(reading=reading, interview=interview)
    alone = [prompt for prompt in prompts if prompt.n == reading.gold]
    hall.ask(contestants, alone)
    kept = hall.answered_by_all(contestants, alone)
    hall.ask(contestants, [prompt for prompt in prompts if prompt.question in kept])
    scores = tuple(
        hall.score(contestant, order, n, prompts, kept)
        for contestant in contestants
        for order in reading.orders
        for n in reading.ns
    )
    return Comparison(scores=scores, notes=_notes(reading, alone, kept))


@dataclass(frozen=True, kw_only=True)
class _Hall:
    """Where models are compared: what is asked, and the interview in which it is."""

    reading: Reading
    interview: Interview

    def ask(self, contestants: Iterable[Contestant], prompts: Sequence[Prompt]) -> None:
        """One model after another."""
        for contestant in contestants:
            self.interview.ask(contestant, prompts)

    def answer(self, contestant: Contestant, prompt: Prompt) -> Answer:
        """What a model wrote, which by now is there."""
        answer = self.interview.answer(contestant, prompt)
        assert answer is not None
        return answer

    def given(self, contestant: Contestant, prompt: Prompt) -> str | None:
        """The answer that a model gave."""
        return self.reading.answer_in(self.answer(contestant, prompt).text)

    def answered_by_all(self, contestants: Sequence[Contestant], alone: Sequence[Prompt]) -> frozenset[int]:
        """Numbers of the questions that nobody got wrong."""
        numbers = {prompt.question for prompt in alone}
        wrong = {
            prompt.question
            for contestant in contestants
            for prompt in alone
            if not same_answer(self.given(contestant, prompt), prompt.answer)
        }
        return frozenset(numbers - wrong)

    def score(
        self, contestant: Contestant, order: Order, n: int, prompts: Iterable[Prompt], kept: Collection[int]
    ) -> ReadingScore:
        """Count one cell."""
        here = [prompt for prompt in prompts if (prompt.order, prompt.n) == (order, n)]
        counted = [prompt for prompt in here if prompt.question in kept]
        answers = [self.given(contestant, prompt) for prompt in counted]
        return ReadingScore(
            task=self.reading.name,
            model=contestant.name,
            config_sha256=contestant.config_sha256,
            order=order,
            n=n,
            asked=len(here),
            kept=len(counted),
            right=sum(
                same_answer(given, prompt.answer) for given, prompt in zip(answers, counted, strict=True)
            ),
            unanswered=answers.count(None),
            seconds=sum(self.answer(contestant, prompt).seconds for prompt in counted),
        )


def _notes(reading: Reading, alone: Sequence[Prompt], kept: Collection[int]) -> tuple[str, ...]:
    asked = len({prompt.question for prompt in alone})
    notes = []
    if asked < reading.questions:
        notes.append(
            f"{reading.name}: {reading.questions:,} questions were wanted, and {asked:,} were found."
        )
    if not kept:
        notes.append(
            f"{reading.name}: none of {asked:,} questions was answered by every model with the gold alone, "
            "so there is nothing to score."
        )
    return tuple(notes)


def _require_different(contestants: Sequence[Contestant]) -> None:
    names = [contestant.name for contestant in contestants]
    if not names:
        raise InvalidInput("A comparison needs at least one model; got none.")
    if len(set(names)) < len(names):
        raise InvalidInput(f"Models that are compared need different names; got {', '.join(names)}.")
