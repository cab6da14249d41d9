"""W, on Hotpot-QA: Transformer, hybrid and RNN answer from two paragraphs amid more and more others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import Cell, Measured, Panel, Study
from separatrix.experiments.protocols import Settings
from separatrix.experiments.reading.hotpot import NEEDS_MODELS, PAPER_MODELS, read_hotpot, readings_of
from separatrix.experiments.reading.prompts import Reading
from separatrix.interop.asking import ORDERS

if TYPE_CHECKING:
    from separatrix.experiments.reading.hotpot import HotpotOutcome
    from separatrix.store import Store


@EXPERIMENTS.register("w-hotpot")
def w_hotpot(settings: Settings) -> Study:
    """Paragraphs and a phone book, in random order and with what is asked for last; nothing is trained."""
    paragraphs, book = readings_of(settings.budget, settings.file)
    asked = _Asked(settings)
    return Study(
        name="w-hotpot",
        title="Questions amid paragraphs that do not matter",
        work="W",
        where="figure on Hotpot-QA",
        claim="An RNN loses what it read before it knew the question: it falls furthest as paragraphs are "
        "added, and less where the two that matter come last.",
        budget=settings.budget,
        panels=(
            Panel(
                name="hotpot",
                title="Distractor QA, four worked examples",
                column_name="paragraphs",
                cells=tuple(_cells(asked, settings, paragraphs)),
                published="w_hotpot",
            ),
            Panel(
                name="phone-book",
                title="Phone book",
                column_name="entries",
                cells=tuple(_cells(asked, settings, book)),
            ),
        ),
        refusal=NEEDS_MODELS if not settings.models and not settings.small else "",
    )


class _Asked:
    """The comparison behind all cells: made when the first of them is measured, and then known."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._found: dict[str, HotpotOutcome] = {}

    def measure(self, reading: Reading, model: str, order: str, n: int) -> Callable[[Store], Measured]:
        """How a cell is measured; no number where no question was kept, or nobody can be asked."""

        def measured(store: Store) -> Measured:
            outcome = self._in(store)
            score = next(
                (
                    one
                    for one in outcome.scores
                    if (one.task, one.model, one.order, one.n) == (reading.name, model, order, n)
                ),
                None,
            )
            if score is None:
                return Measured(right=0, examples=0, note=outcome.skipped)
            kept = f"{score.kept:,} of {score.asked:,} questions kept"
            return Measured(right=score.right, examples=score.kept, seconds=score.seconds, note=kept)

        return measured

    def _in(self, store: Store) -> HotpotOutcome:
        place = str(store.path)
        if place not in self._found:
            settings = self._settings
            self._found[place] = read_hotpot(
                settings.models,
                budget=settings.budget,
                store=store.path,
                file=settings.file,
                device=settings.device,
            )
        return self._found[place]


def _cells(asked: _Asked, settings: Settings, reading: Reading) -> Iterator[Cell]:
    for model in _names(settings):
        for order in ORDERS:
            for n in reading.ns:
                yield Cell(row=f"{model}, {order}", column=n, measure=asked.measure(reading, model, order, n))


def _names(settings: Settings) -> Sequence[str]:
    """The user's models, or the paper's where there are none."""
    if settings.models:
        return [name for name, _ in settings.models]
    return PAPER_MODELS[:1] if settings.small else PAPER_MODELS
