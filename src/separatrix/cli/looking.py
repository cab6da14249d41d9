"""Where the heads of a model with one layer look on one input, drawn with characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from rich.text import Text

from separatrix.cli.output import printable_line

if TYPE_CHECKING:
    from torch import Tensor

    from separatrix.evidence import Case, Coverage
    from separatrix.models.population import Population
    from separatrix.tasks import Task

__all__ = ["Looking", "drawn", "looking"]

_BARS: Final = " ▁▂▃▄▅▆▇█"
_NARROWEST: Final = len("others")
_GAP: Final = 2
_ASKS: Final = "asks"
_ANSWER: Final = "answer"
_COLOURS: Final = {_ASKS: "cyan", _ANSWER: "green"}


@final
@dataclass(frozen=True, kw_only=True)
class Looking:
    """From one position of an input: the share of each head's weight that every position has."""

    words: tuple[str, ...]
    """What stands at each position; a stroke where that is no word."""
    asked: int
    """The position that looks, counted from 0."""
    fixing: frozenset[int]
    """Positions that fix the right answer."""
    shares: tuple[tuple[float, ...], ...]
    """For each head, a share for each position."""


def looking(population: Population, task: Task, found: Coverage) -> Looking | None:
    """Where the heads look on the counterexample of a coverage; None if there is none."""
    from separatrix.certificates.one_layer.attention import attention_of

    place = next((place for place, case in enumerate(found.cases) if case.input is not None), None)
    if place is None:
        return None
    case = found.cases[place]
    row = _row(case, task)
    shares = attention_of(population, row, case.asked)
    seen = shares.shape[1]  # a causal model sees nothing behind the position that is asked
    return Looking(
        words=_words(task, row[:seen]),
        asked=case.asked,
        fixing=frozenset(each for each in _fixing(task, found.cases, place) if each < seen),
        shares=tuple(tuple(head.tolist()) for head in shares),
    )


def _fixing(task: Task, cases: Sequence[Case], place: int) -> frozenset[int]:
    """The positions that a case has fixed and its question has not.

    Cases come question by question, and region by region in each, so they are counted off.
    """
    import torch

    from separatrix.certificates.questions import questions_of

    case = cases[place]
    begins = [number for number in range(place + 1) if number == 0 or not _together(cases, number)]
    questions = questions_of(task)
    question = questions[len(begins) - 1] if len(begins) <= len(questions) else None
    region = place - begins[-1]
    if question is None or question.query != case.query or region >= len(question.regions):
        return frozenset()
    allowed = question.regions[region].allowed
    anywhere = torch.stack([each.allowed for each in question.regions]).any(0)
    fixed = (allowed.sum(1) == 1) & (anywhere.sum(1) > 1)
    return frozenset(int(each) for each in fixed.nonzero().flatten())


def _together(cases: Sequence[Case], number: int) -> bool:
    """Whether a case belongs to the same question as the one before it."""
    return (cases[number].query, cases[number].asked) == (cases[number - 1].query, cases[number - 1].asked)


def _row(case: Case, task: Task) -> Tensor:
    import torch

    from separatrix.records import thaw
    from separatrix.tasks import Reals

    kind = torch.float32 if isinstance(task.input_space, Reals) else torch.int64
    return torch.tensor(thaw(case.input), dtype=kind)


def _words(task: Task, row: Tensor) -> tuple[str, ...]:
    from separatrix.tasks.interface import WordTask

    if not isinstance(task, WordTask):
        return ("–",) * len(row)
    return tuple(printable_line(task.vocabulary.word(token)) for token in row.tolist())


def drawn(look: Looking, width: int) -> list[Text]:
    """A row for each head beneath the tokens; of a long input those that say most, and the rest in a sum."""
    labels = ["", "position", "token", *(f"head {number}" for number in range(1, len(look.shares) + 1))]
    margin = 2 + max(map(len, labels))
    marks = {look.asked: _ASKS} | dict.fromkeys(look.fixing, _ANSWER)
    cell = max(_NARROWEST, *(len(word) for word in look.words), len(str(len(look.words))))
    room = max(2, (width - margin) // (_GAP + cell))
    shown = _telling(look, room)
    hidden = [place for place in range(len(look.words)) if place not in shown]
    columns = [
        [
            marks.get(place, ""),
            str(place + 1),
            look.words[place],
            *(_bar(head[place]) for head in look.shares),
        ]
        for place in shown
    ]
    if hidden:
        others = [_bar(sum(head[place] for place in hidden)) for head in look.shares]
        columns.append(["", "others", "", *others])
    styles = [_COLOURS.get(column[0], "") for column in columns]
    lines = []
    for number, label in enumerate(labels):
        line = Text(f"  {label:<{margin - 2}}", no_wrap=True)
        for column, style in zip(columns, styles, strict=True):
            line.append(" " * _GAP).append(f"{column[number]:>{cell}}", style)
        line.rstrip()
        lines.append(line)
    return lines


def _telling(look: Looking, room: int) -> list[int]:
    """The positions to show, in order: the one that asks, those that fix the answer, then the heaviest."""
    everywhere = range(len(look.words))
    if len(look.words) <= room:
        return list(everywhere)

    def worth(place: int) -> tuple[bool, bool, float]:
        heaviest = max(head[place] for head in look.shares)
        return place == look.asked, place in look.fixing, heaviest

    # One column is left for the sum of the others.
    return sorted(sorted(everywhere, key=worth, reverse=True)[: room - 1])


def _bar(share: float) -> str:
    """A share as a bar of eight heights, and in percent."""
    height = 0 if share < 0.0005 else max(1, round(share * (len(_BARS) - 1)))
    return f"{_BARS[height]} {100 * share:3.0f}"
