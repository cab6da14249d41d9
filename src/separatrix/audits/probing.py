"""Probes: how well a language model from disk finds one thing among n, and where its memory must end.

Every question has one right answer, drawn with the list it is asked about. The wall is that of the model's
audit for these very lists: with so many bits of state, from some n on, no weights can answer them all. It is
about the worst list, and about what cannot be; the curve is what this model does on average.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from separatrix.audits.auditing import audit
from separatrix.audits.probe_prompts import Asked, asked_of
from separatrix.errors import InvalidFile, InvalidInput, SeparatrixError
from separatrix.evidence.html import grid, pairs
from separatrix.files import replace_file
from separatrix.interop.answer_log import answer_log
from separatrix.interop.answer_texts import normalised, same_answer
from separatrix.interop.asking import AT_ONCE, Contestant, Interview, Progress, Prompt, contestant_at
from separatrix.interop.causal_lm import Dtype, require_transformers
from separatrix.interop.completer import Completer
from separatrix.interop.model_folders import model_folder
from separatrix.record_checks import require_count, require_text, require_texts
from separatrix.records import JsonObject, Reader, Record
from separatrix.store.intervals import Interval, wilson

__all__ = ["LENGTHS", "Probe", "ProbeScore", "ProbeWall", "memory_of", "probe", "probed"]

LENGTHS: Final = (4, 8, 16, 32)
"""The sizes of a probe that is asked for none."""
_MOST_QUESTIONS: Final = 100_000
_MOST_LENGTHS: Final = 64
_NO_WALL: Final = "It keeps something for every token that it reads, so its memory sets no wall."


@final
@dataclass(frozen=True, kw_only=True)
class ProbeScore(Record):
    """How a model did at one n: `right` answers are exact, and those `contained` stand somewhere in its text.

    In `unanswered` texts no answer could be found.
    """

    SCHEMA = "separatrix.probe-score"

    n: int
    asked: int
    right: int
    contained: int
    unanswered: int

    def __post_init__(self) -> None:
        require_count("A score", n=self.n, right=self.right, unanswered=self.unanswered)
        require_count("A score", least=1, asked=self.asked)
        if not (self.right <= self.contained <= self.asked and self.right + self.unanswered <= self.asked):
            raise InvalidInput(
                f"A score has right ≤ contained ≤ asked and right + unanswered ≤ asked; got {self.right}, "
                f"{self.contained}, {self.asked} and {self.unanswered}."
            )

    @property
    def accuracy(self) -> float:
        """The share of exact answers."""
        return self.right / self.asked

    @property
    def interval(self) -> Interval:
        """Wilson's 95 % interval of the accuracy."""
        return wilson(self.right, self.asked)

    def to_fields(self) -> JsonObject:
        """The counts, and the accuracy with its interval for who reads the file."""
        return {
            "n": self.n,
            "asked": self.asked,
            "right": self.right,
            "contained": self.contained,
            "unanswered": self.unanswered,
            "accuracy": self.accuracy,
            "interval": list(self.interval),
        }

    @classmethod
    def from_fields(cls, read: Reader) -> ProbeScore:
        """Accuracy and interval follow from the counts, and are computed again."""
        names = ("n", "asked", "right", "contained", "unanswered")
        n, asked, right, contained, unanswered = (read.count(name) for name in names)
        read.value("accuracy")
        read.value("interval")
        return cls(n=n, asked=asked, right=right, contained=contained, unanswered=unanswered)


@final
@dataclass(frozen=True, kw_only=True)
class ProbeWall(Record):
    """The largest n whose lists so many bits of state can tell apart, and what says so."""

    SCHEMA = "separatrix.probe-wall"

    largest_n: int
    state_bits: int
    needs: str
    theorem: str

    def __post_init__(self) -> None:
        require_count("A wall", largest_n=self.largest_n, state_bits=self.state_bits)
        require_text("A wall", needs=self.needs, theorem=self.theorem)

    def to_fields(self) -> JsonObject:
        """The fields as JSON values."""
        return {
            "largest_n": self.largest_n,
            "state_bits": self.state_bits,
            "needs": self.needs,
            "theorem": self.theorem,
        }

    @classmethod
    def from_fields(cls, read: Reader) -> ProbeWall:
        """The wall whose fields `read` holds."""
        return cls(
            largest_n=read.count("largest_n"),
            state_bits=read.count("state_bits"),
            needs=read.text("needs"),
            theorem=read.text("theorem"),
        )


@final
@dataclass(frozen=True, kw_only=True)
class Probe(Record):
    """What a probe found: a score for each n, and the wall of the model's memory or why there is none.

    `grows` says whether the model keeps something for every token that it reads; None if nobody could tell.
    """

    SCHEMA = "separatrix.probe"

    source: str
    model_type: str
    config_sha256: str
    task: str
    counts: str
    shots: int
    seed: int
    scores: tuple[ProbeScore, ...]
    grows: bool | None
    wall: ProbeWall | None
    about_wall: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_text("A probe", source=self.source, model_type=self.model_type, task=self.task)
        require_text("A probe", config_sha256=self.config_sha256, about_wall=self.about_wall)
        require_count("A probe", shots=self.shots, seed=self.seed)
        require_texts("A probe", "notes", self.notes)
        lengths = [score.n for score in self.scores]
        if not lengths or lengths != sorted(set(lengths)):
            raise InvalidInput(f"A probe has a score for each n, ascending; got n = {lengths}.")

    @property
    def title(self) -> str:
        """The name of the model's folder."""
        return Path(self.source).absolute().name or self.source

    def to_fields(self) -> JsonObject:
        """Everything as JSON values."""
        return {
            "source": self.source,
            "model_type": self.model_type,
            "config_sha256": self.config_sha256,
            "task": self.task,
            "counts": self.counts,
            "shots": self.shots,
            "seed": self.seed,
            "scores": [score.to_fields() for score in self.scores],
            "grows": self.grows,
            "wall": None if self.wall is None else self.wall.to_fields(),
            "about_wall": self.about_wall,
            "notes": list(self.notes),
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Probe:
        """The probe whose fields `read` holds."""
        return cls(
            source=read.text("source"),
            model_type=read.text("model_type"),
            config_sha256=read.text("config_sha256"),
            task=read.text("task"),
            counts=read.text("counts"),
            shots=read.count("shots"),
            seed=read.count("seed"),
            scores=read.records("scores", ProbeScore),
            grows=_optional_truth(read, "grows"),
            wall=read.optional_record("wall", ProbeWall),
            about_wall=read.text("about_wall"),
            notes=read.texts("notes"),
        )

    def _repr_html_(self) -> str:
        header = ("n", "asked", "right", "95 % interval", "contained", "no answer")
        table = grid(f"{self.title} ({self.model_type}) on {self.task}", header, map(_cells, self.scores))
        return table + pairs("Its memory", [("wall", self.about_wall), ("notes", " ".join(self.notes))])


def probe(
    folder: Path | str,
    *,
    task: str,
    n: Iterable[int] = LENGTHS,
    count: int = 100,
    seed: int = 0,
    shots: int | None = None,
    device: str = "auto",
    dtype: Dtype = "auto",
    out: Path | str | None = None,
    at_once: int = AT_ONCE,
    progress: Callable[[Progress], None] | None = None,
) -> Probe:
    """Ask a causal language model from a Hugging Face folder to find one thing among n, for each n.

    `task` is phone-book, associative-recall, index-lookup or distractor-qa; `count` questions are asked at
    each n, each behind `shots` worked examples. Into `out` go the answers as they come, the result and its
    figure; a probe that was interrupted goes on there. Lengths that the model has no positions for are left
    out with a note.
    """
    asked = asked_of(task)
    lengths = _require_lengths(n)
    prompts = [prompt for length in lengths for prompt in _prompts(asked, length, count, seed, shots)]
    model_folder(folder)
    require_transformers()
    contestant = contestant_at(Path(folder).absolute().name, Path(folder), device=device, dtype=dtype)
    with ExitStack() as stack:
        kept = Path(stack.enter_context(tempfile.TemporaryDirectory())) if out is None else Path(out)
        log = stack.enter_context(answer_log(kept))
        interview = Interview(
            task=asked.name,
            most_tokens=asked.most_tokens,
            stop=asked.stop,
            log=log,
            at_once=at_once,
            progress=progress,
        )
        found = probed(
            contestant, asked, prompts, interview=interview, source=str(folder), shots=shots, seed=seed
        )
        if out is not None:
            _write(found, kept)
    return found


def probed(
    contestant: Contestant,
    asked: Asked,
    prompts: Sequence[Prompt],
    *,
    interview: Interview,
    source: str,
    shots: int | None,
    seed: int,
) -> Probe:
    """Ask what is not answered yet, and score every n that could be asked."""
    notes = list(interview.log.notes)

    def look(model: Completer) -> Collection[int]:
        left_out, why = _too_long(model, asked, prompts)
        if left_out:
            notes.append(f"Left out n = {', '.join(map(str, left_out))}: {why}")
        return left_out

    interview.ask(contestant, prompts, look=look)
    memory = memory_of(Path(source), asked)
    return Probe(
        source=source,
        model_type=model_folder(source).model_type,
        config_sha256=contestant.config_sha256,
        task=asked.name,
        counts=asked.counts,
        shots=asked.usual_shots if shots is None else shots,
        seed=seed,
        scores=_scores(contestant, asked, prompts, interview),
        grows=memory.grows,
        wall=memory.wall,
        about_wall=memory.in_words,
        notes=(*notes, *memory.notes),
    )


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a model's audit says about these lists: whether its state grows, its wall, and that in words."""

    grows: bool | None
    wall: ProbeWall | None
    in_words: str
    notes: tuple[str, ...] = ()


def memory_of(folder: Path, asked: Asked) -> Memory:
    """The wall that a model's audit sets for the lists of a probe, or why there is none."""
    try:
        found = audit(folder)
    except SeparatrixError as error:
        return Memory(grows=None, wall=None, in_words=f"Its memory could not be counted: {error}")
    notes = ("Its type is not known; it was counted as a usual Transformer.",) if found.generic else ()
    bits = found.bounded_bits
    if found.grows:
        part = f" The part of it that stops growing would by itself end at n = {asked.largest_n(bits):,}."
        return Memory(grows=True, wall=None, in_words=f"{_NO_WALL}{part if bits else ''}", notes=notes)
    wall = ProbeWall(
        largest_n=asked.largest_n(bits), state_bits=bits, needs=asked.needs, theorem=asked.theorem
    )
    in_words = (
        f"All that it carries is {bits:,} bits, and n {asked.counts} need {asked.needs}: beyond "
        f"n = {wall.largest_n:,} it is wrong on some list, whatever its weights ({asked.theorem})."
    )
    return Memory(grows=False, wall=wall, in_words=in_words, notes=notes)


def _require_lengths(n: Iterable[int]) -> tuple[int, ...]:
    lengths = tuple(n)
    if not 1 <= len(lengths) <= _MOST_LENGTHS:
        raise InvalidInput(f"A probe is made for 1 to {_MOST_LENGTHS} sizes n; got {len(lengths)}.")
    for length in lengths:
        if isinstance(length, bool) or not isinstance(length, int):
            raise InvalidInput(f"n is a whole number; got {length!r}.")
    return tuple(sorted(set(lengths)))


def _prompts(asked: Asked, n: int, count: int, seed: int, shots: int | None) -> list[Prompt]:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_QUESTIONS:
        raise InvalidInput(f"A probe asks 1 to {_MOST_QUESTIONS:,} questions; got count={count}. Try 100.")
    return asked.prompts(n, count=count, seed=seed, shots=shots)


def _too_long(model: Completer, asked: Asked, prompts: Sequence[Prompt]) -> tuple[list[int], str]:
    """The n that the model has no room for, and its own words for the first; all of them are refused."""
    lengths = sorted({prompt.n for prompt in prompts})
    for place, n in enumerate(lengths):
        why = model.refusal(
            [prompt.text for prompt in prompts if prompt.n == n], most_tokens=asked.most_tokens
        )
        if why is not None and place == 0:
            raise InvalidInput(f"{asked.name} with n = {n} is too long: {why}")
        if why is not None:
            return lengths[place:], why  # lists only get longer
    return [], ""


def _scores(
    contestant: Contestant, asked: Asked, prompts: Sequence[Prompt], interview: Interview
) -> tuple[ProbeScore, ...]:
    scores = []
    for n in sorted({prompt.n for prompt in prompts}):
        here = [prompt for prompt in prompts if prompt.n == n]
        texts = [found.text for prompt in here if (found := interview.answer(contestant, prompt)) is not None]
        if len(texts) < len(here):
            continue
        given = [asked.answer_in(text) for text in texts]
        right = [prompt.answer for prompt in here]
        exact = list(map(same_answer, given, right))
        contained = [_is_contained(answer, text) for answer, text in zip(right, texts, strict=True)]
        scores.append(
            ProbeScore(
                n=n,
                asked=len(here),
                right=sum(exact),
                contained=sum(map(max, exact, contained)),
                unanswered=given.count(None),
            )
        )
    return tuple(scores)


def _is_contained(answer: str, text: str) -> bool:
    """Whether the words of an answer stand in a text, side by side and in their order."""
    return f" {normalised(answer)} " in f" {normalised(text)} "


def _write(found: Probe, folder: Path) -> None:
    # matplotlib is needed for figures only.
    from separatrix.audits.probe_plots import plot_probe  # noqa: PLC0415

    text = json.dumps(found.to_json(), indent=2, ensure_ascii=False)
    replace_file(folder / f"{found.task}.json", f"{text}\n".encode())
    for kind in ("svg", "png"):
        plot_probe(found, folder / f"{found.task}.{kind}")


def _optional_truth(read: Reader, name: str) -> bool | None:
    value = read.value(name)
    if value is None or isinstance(value, bool):
        return value
    raise InvalidFile(f"Field '{name}' of {read.what} must be true, false or null.")


def _cells(score: ProbeScore) -> tuple[str, ...]:
    low, high = score.interval
    return (
        f"{score.n:,}",
        f"{score.asked:,}",
        f"{score.right:,}",
        f"{100 * low:.1f} – {100 * high:.1f} %",
        f"{score.contained:,}",
        f"{score.unanswered:,}",
    )
