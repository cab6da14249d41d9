"""Reading as W tests it: models from disk answer from two paragraphs amid 2, 4, 6 or 8.

The models are Hugging Face folders. A phone book asks the same of plain lookup.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from separatrix.errors import InvalidInput
from separatrix.experiments.cells import Budget
from separatrix.experiments.reading.comparing import ReadingScore, compare
from separatrix.experiments.reading.prompts import BookReading, ParagraphReading, Reading
from separatrix.experiments.reading.tiny_causal_lm import save_tiny_llama
from separatrix.interop.answer_log import answer_log
from separatrix.interop.asking import Contestant, Progress, contestant_at
from separatrix.interop.causal_lm import has_transformers, require_transformers

__all__ = ["NEEDS_MODELS", "PAPER_MODELS", "HotpotOutcome", "model_argument", "read_hotpot", "readings_of"]

PAPER_MODELS: Final = ("Transformer", "Hybrid", "RNN")
"""The names of W's models; a folder that is given one of them stands beside that model's numbers."""
_FOLDER: Final = "w-hotpot"
_NEEDS: Final = "w-hotpot needs the extra hf: pip install 'separatrix[hf]'."
_NAMING: Final = "Transformer=path/to/folder"
NEEDS_MODELS: Final = (
    "w-hotpot asks models that you have on disk; give each with --model NAME=FOLDER, such as "
    f"{_NAMING}, or try --budget smoke."
)
_READINGS: Final[Mapping[Budget, tuple[ParagraphReading, BookReading]]] = {
    "smoke": (
        ParagraphReading(questions=3, ns=(2, 4), most_tokens=8),
        BookReading(questions=3, ns=(1, 4), most_tokens=4),
    ),
    "quick": (ParagraphReading(questions=100), BookReading(questions=100)),
    "paper": (ParagraphReading(questions=1000), BookReading(questions=1000, ns=(1, 8, 32, 128))),
}


@dataclass(frozen=True, kw_only=True)
class HotpotOutcome:
    """What came of it: a score for each model, order and n of both tasks."""

    budget: Budget
    scores: tuple[ReadingScore, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: str = ""
    """Why nothing was run, where nothing was."""


def model_argument(text: str) -> tuple[str, Path]:
    """A model as it is named on the command line: NAME=FOLDER."""
    name, equals, folder = text.partition("=")
    if not (name.strip() and equals and folder.strip()):
        raise InvalidInput(f"A model is given as NAME=FOLDER, such as {_NAMING}; got {text[:80]!r}.")
    return name.strip(), Path(folder.strip()).expanduser()


def read_hotpot(
    models: Sequence[tuple[str, Path]],
    *,
    budget: Budget,
    store: Path,
    file: Path | None = None,
    device: str = "auto",
    paragraphs: Sequence[int] | None = None,
    entries: Sequence[int] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> HotpotOutcome:
    """Look the folders through, ask both tasks' questions of every model, and score what all can answer.

    `file` is Hotpot-QA's own in the distractor form; without it the questions are the task's invented ones.
    `paragraphs` and `entries` replace the numbers n that the budget has, for models of short context. With no
    models the smallest budget makes a tiny one. Answers go into the store, and a killed run goes on there.
    """
    readings = readings_of(budget, file, paragraphs, entries)
    if not models and budget != "smoke":
        raise InvalidInput(NEEDS_MODELS)
    if not models and not has_transformers():
        return HotpotOutcome(budget=budget, skipped=_NEEDS)
    require_transformers()
    with ExitStack() as stack:
        given = models or _tiny(Path(stack.enter_context(tempfile.TemporaryDirectory())), readings)
        contestants = _contestants(given, device)
        log = stack.enter_context(answer_log(store / _FOLDER))
        found = [compare(contestants, reading, log=log, progress=progress) for reading in readings]
    notes = [*_notes(made_here=not models, file=file), *log.notes]
    return HotpotOutcome(
        budget=budget,
        scores=tuple(score for comparison in found for score in comparison.scores),
        notes=(*notes, *(note for comparison in found for note in comparison.notes)),
    )


def readings_of(
    budget: Budget,
    file: Path | None = None,
    paragraphs: Sequence[int] | None = None,
    entries: Sequence[int] | None = None,
) -> tuple[ParagraphReading, BookReading]:
    """The questions of a budget, and what they are asked amid."""
    if budget not in _READINGS:
        raise InvalidInput(f"A budget is {', '.join(_READINGS)}; got {budget!r}.")
    hotpot, book = _READINGS[budget]
    hotpot = replace(hotpot, file=file, ns=tuple(paragraphs or hotpot.ns))
    return hotpot, replace(book, ns=tuple(entries or book.ns))


def _tiny(folder: Path, readings: Sequence[Reading]) -> list[tuple[str, Path]]:
    texts = [f"{prompt.text} {prompt.answer}" for reading in readings for prompt in reading.prompts()]
    save_tiny_llama(folder, texts)
    return [(PAPER_MODELS[0], folder)]


def _contestants(models: Sequence[tuple[str, Path]], device: str) -> list[Contestant]:
    return [contestant_at(name, Path(folder), device=device) for name, folder in models]


def _notes(*, made_here: bool, file: Path | None) -> list[str]:
    notes = []
    if made_here:
        notes.append(
            "The model is a tiny one with random weights, made to run every step; it has learned nothing."
        )
    if file is None:
        notes.append("The questions are the invented ones of distractor-qa; Hotpot-QA's own need its file.")
    return notes
