"""What trained models do on every input: accuracy on samples beside what is proved, broken and unknown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from separatrix.atlas.coverage import RECORD, CoverageRecord, CoverageRow
from separatrix.atlas.coverage_drawings import MOST_CELLS, RETRIEVAL, draw_attention, draw_grid
from separatrix.errors import InvalidFile
from separatrix.evidence import TaskSpec
from separatrix.evidence.specs import as_text
from separatrix.models import MODELS
from separatrix.records import JsonValue, thaw
from separatrix.tasks import TASKS
from separatrix.tasks.batches import Classes
from separatrix.tasks.specs import defaults_of, task_of

__all__ = [
    "MOST_GRIDS",
    "CoverageCard",
    "CoveragePlot",
    "CoverageSection",
    "Segment",
    "collect_coverage",
    "share",
]

MOST_GRIDS: Final = 6
"""A picture for each retrieval task and length, up to so many."""
_LEAST_SEEN: Final = 1.0
"""A share of the bar that is there at all is drawn at least so wide, in hundredths of it."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of the bar of verdicts, in hundredths of its width."""

    verdict: str
    count: int
    start: float
    width: float


@dataclass(frozen=True, kw_only=True)
class CoverageCard:
    """A trained model's row, with its parts in words."""

    row: CoverageRow
    parameters: str
    segments: tuple[Segment, ...]
    answered: str

    @property
    def accuracy(self) -> str:
        """On the samples of its test."""
        return share(self.row.right, self.row.examples)

    @property
    def model(self) -> str:
        """Its architecture with layers and width."""
        return f"{self.row.model}-({self.row.layers},{self.row.width})"

    @property
    def asked(self) -> str:
        """Which queries, where not all were."""
        return "" if self.row.every == 1 else f"one query in {self.row.every} asked"

    @property
    def recipe(self) -> str:
        """What else tells runs of one model apart."""
        decay = f", weight decay {self.row.weight_decay:g}" if self.row.weight_decay else ""
        return f"learning rate {self.row.lr:g}{decay}"


@dataclass(frozen=True, kw_only=True)
class CoveragePlot:
    """A drawing that belongs to one model, and in words what it shows."""

    card: CoverageCard
    plot: str
    says: str


@dataclass(frozen=True, kw_only=True)
class CoverageSection:
    """Every model, grids of a few, one counterexample; nothing of all that without a record."""

    cards: tuple[CoverageCard, ...] = ()
    grids: tuple[CoveragePlot, ...] = ()
    broken: CoveragePlot | None = None
    made: str = ""


def collect_coverage(record: CoverageRecord) -> CoverageSection:
    """The section that a record makes."""
    cards = tuple(_card(row) for row in sorted(record.rows, key=_order))
    return CoverageSection(
        cards=cards,
        grids=tuple(_grid(card, number) for number, card in enumerate(_for_grids(cards), 1)),
        broken=_broken(cards),
        made=", ".join(f"{name} {value}" for name, value in record.provenance),
    )


def share(part: int, whole: int) -> str:
    """In per cent; rounding makes neither all of it nor nothing."""
    if part in (0, whole):
        return "100\N{NO-BREAK SPACE}%" if part else "0\N{NO-BREAK SPACE}%"
    return f"{min(max(100 * part / whole, 0.01), 99.99):.2f}\N{NO-BREAK SPACE}%"


def _order(row: CoverageRow) -> tuple[object, ...]:
    """By task, length and model; what was trained against counterexamples behind its like that was not."""
    return (
        _place(row.task.name, TASKS.names()),
        row.n,
        str(row.task),
        _place(row.model, MODELS.names()),
        row.layers,
        row.width,
        row.lr,
        row.weight_decay,
        row.steps,
        row.seed,
        row.against is not None,
        row.run,
    )


def _place(name: str, names: Sequence[str]) -> tuple[int, str]:
    return (names.index(name) if name in names else len(names), name)


def _card(row: CoverageRow) -> CoverageCard:
    broken = row.counterexample
    return CoverageCard(
        row=row,
        parameters=_parameters(row.task),
        segments=_segments(row),
        answered="" if broken is None else _word(row.task, broken.answered),
    )


def _parameters(spec: TaskSpec) -> str:
    """What is not n and not the default."""
    usual = defaults_of(TASKS.get(spec.name))
    changed = {name: value for name, value in spec.params.items() if name != "n" and usual.get(name) != value}
    return ", ".join(
        f"{name}={value if isinstance(value, str) else as_text(value)}" for name, value in changed.items()
    )


def _segments(row: CoverageRow) -> tuple[Segment, ...]:
    counts = {"proved": row.proved, "broken": row.refuted, "unknown": row.unknown}
    widths = {
        verdict: max(100 * count / row.cases, _LEAST_SEEN) if count else 0.0
        for verdict, count in counts.items()
    }
    largest = max(counts, key=lambda verdict: counts[verdict])
    widths[largest] -= math.fsum(widths.values()) - 100
    found, start = [], 0.0
    for verdict, count in counts.items():
        found.append(Segment(verdict=verdict, count=count, start=start, width=widths[verdict]))
        start += widths[verdict]
    return tuple(found)


def _word(spec: TaskSpec, answered: JsonValue) -> str:
    """An answer as its task writes it; one that the task cannot have is refused."""
    task = task_of(spec)
    space = task.target_space
    if isinstance(space, Classes):
        fits = type(answered) is int and 0 <= answered < space.size
    else:
        fits = (
            isinstance(answered, tuple)
            and [type(each) in (int, float) for each in answered] == [True] * space.width
        )
    if not fits:
        raise InvalidFile(
            f"'{RECORD}' has an answer to {spec.name} that it cannot have: {as_text(answered)}."
        )
    return task.render_target(torch.tensor(thaw(answered)))


def _for_grids(cards: Sequence[CoverageCard]) -> list[CoverageCard]:
    """For each retrieval task and length the model of which the least is proved."""
    chosen: dict[tuple[str, int], CoverageCard] = {}
    for card in cards:
        row, key = card.row, (card.row.task.name, card.row.n)
        if row.task.name in RETRIEVAL and row.cases <= MOST_CELLS:
            held = chosen.get(key)
            if held is None or _failing(row) > _failing(held.row):
                chosen[key] = card
    return list(chosen.values())[:MOST_GRIDS]


def _failing(row: CoverageRow) -> tuple[float, float]:
    return row.refuted / row.cases, row.unknown / row.cases


def _grid(card: CoverageCard, number: int) -> CoveragePlot:
    plot, says = draw_grid(card.row, f"coverage-grid-{number}")
    return CoveragePlot(card=card, plot=plot, says=says)


def _broken(cards: Sequence[CoverageCard]) -> CoveragePlot | None:
    """One that says most: of a model without a mistake on samples, of a retrieval task, and short."""
    candidates = [(*_telling(card), number) for number, card in enumerate(cards) if card.row.counterexample]
    if not candidates:
        return None
    card = cards[min(candidates)[-1]]
    plot, says = draw_attention(card.row, card.answered, "coverage-broken")
    return CoveragePlot(card=card, plot=plot, says=says)


def _telling(card: CoverageCard) -> tuple[bool, bool, int]:
    row = card.row
    assert row.counterexample is not None
    flawless = row.right == row.examples and row.sampled_right == row.sampled
    return not flawless, row.task.name not in RETRIEVAL, len(row.counterexample.tokens)
