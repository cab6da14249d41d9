"""Who still finds the answer when there is more to read? Several models, the same questions, one score each.

As in W, only questions that every compared model answers with the gold alone are scored: what is lost at a
larger n is then lost to reading, not to reasoning. Such questions alone are asked at larger n. Answers go to
disk as they come, and what is there is not asked again.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import torch

from separatrix.errors import InvalidInput
from separatrix.experiments.reading.answer_log import Answer, AnswerLog
from separatrix.experiments.reading.answer_texts import same_answer
from separatrix.experiments.reading.prompts import Order, Prompt, Reading
from separatrix.interop.causal_lm import Dtype, load_causal_lm
from separatrix.interop.completer import Completer
from separatrix.interop.model_folders import model_folder
from separatrix.records import JsonObject, Reader, Record, require_count, require_measured, require_text
from separatrix.store.intervals import Interval, wilson
from separatrix.store.keys import key_of

__all__ = ["AT_ONCE", "Comparison", "Contestant", "Progress", "ReadingScore", "compare", "contestant_at"]

AT_ONCE: Final = 16
"""Prompts that a model is given side by side, and answers that go to disk together."""


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A model that is compared: what it is called, what it is, and how to open it.

    `identity` is a hash of everything that decides what it writes; answers on disk are its own by that.
    """

    name: str
    config_sha256: str
    identity: str
    open: Callable[[], Completer]


def contestant_at(name: str, folder: Path, *, device: str, dtype: Dtype = "auto") -> Contestant:
    """The model in a Hugging Face folder, looked through and hashed now, loaded when it is asked."""
    found = model_folder(folder)
    return Contestant(
        name=name,
        config_sha256=found.config_sha256,
        identity=key_of({"folder": found.sha256(), "dtype": dtype}),
        open=lambda: load_causal_lm(folder, device=device, dtype=dtype),
    )


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


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How many of the prompts that a model has to answer by now are answered."""

    task: str
    model: str
    done: int
    of: int


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
    hall = _Hall(reading=reading, log=log, at_once=at_once, progress=progress)
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
    """Where models are asked: what is asked, the answers so far, and who is told of them."""

    reading: Reading
    log: AnswerLog
    at_once: int
    progress: Callable[[Progress], None] | None

    def ask(self, contestants: Iterable[Contestant], prompts: Sequence[Prompt]) -> None:
        """One model after another; one that has answered everything is not opened."""
        for contestant in contestants:
            wanted: dict[str, Prompt] = {}
            for prompt in prompts:  # with the gold alone both orders read the same
                wanted.setdefault(self.key(contestant, prompt), prompt)
            open_keys = [key for key in wanted if key not in self.log]
            if not open_keys:
                continue
            # The longest first: if memory or context do not suffice, that shows at once.
            open_keys.sort(key=lambda key: len(wanted[key].text), reverse=True)
            model = contestant.open()
            for first in range(0, len(open_keys), self.at_once):
                self._ask_some(
                    contestant, model, {key: wanted[key] for key in open_keys[first : first + self.at_once]}
                )
                self._tell(contestant, wanted)
            del model
            _free_memory()

    def _ask_some(self, contestant: Contestant, model: Completer, asked: dict[str, Prompt]) -> None:
        began = time.perf_counter()
        texts = model.complete(
            [prompt.text for prompt in asked.values()],
            most_tokens=self.reading.most_tokens,
            stop=self.reading.stop,
        )
        seconds = (time.perf_counter() - began) / len(asked)
        self.log.append(
            Answer(
                key=key,
                model=contestant.name,
                task=self.reading.name,
                order=prompt.order,
                n=prompt.n,
                question=prompt.question,
                text=text,
                seconds=seconds,
            )
            for (key, prompt), text in zip(asked.items(), texts, strict=True)
        )

    def _tell(self, contestant: Contestant, wanted: Collection[str]) -> None:
        if self.progress is not None:
            done = sum(key in self.log for key in wanted)
            self.progress(Progress(task=self.reading.name, model=contestant.name, done=done, of=len(wanted)))

    def key(self, contestant: Contestant, prompt: Prompt) -> str:
        """What decides an answer: who is asked, what, and how much may be written."""
        return key_of(
            {
                "model": contestant.identity,
                "prompt": prompt.text,
                "most_tokens": self.reading.most_tokens,
                "stop": self.reading.stop,
            }
        )

    def given(self, contestant: Contestant, prompt: Prompt) -> str | None:
        """The answer that a model gave."""
        return self.reading.answer_in(self.log[self.key(contestant, prompt)].text)

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
            seconds=sum(self.log[self.key(contestant, prompt)].seconds for prompt in counted),
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


def _free_memory() -> None:
    """Make room for the next model on the same device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
