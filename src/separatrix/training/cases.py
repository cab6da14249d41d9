"""Cases to attack: questions with a right answer each, laid out so that all have the same shape.

What may stand at a position is a letter: a token, or a row of reals. A case says which letters may stand
where, and behind the end of a short input there is padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, islice
from typing import Final, final

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from separatrix.certificates.questions import Automaton, Question, Questions, Region
from separatrix.randomness import Draws
from separatrix.tasks.interface import Batch, Task, Tokens

__all__ = ["Cases", "cases_at"]

_STREAM: Final = "against"
_QUESTIONS: Final = 32
"""A question is costly to make and has many answers, so a few of them are asked with several answers each."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Cases:
    """Questions side by side, and of each as many cases as of any other."""

    task: Task
    letters: Shaped[Tensor, "letter *width"]
    letter_of: Int[Tensor, "question pos option"]
    asked: Int[Tensor, "question"]
    own: Shaped[Tensor, "question *width"]
    """What stands at the asked position."""
    lengths: Int[Tensor, "question"]
    allowed: Bool[Tensor, "question case pos letter"]
    options: Bool[Tensor, "question case pos option"]
    directions: Float[Tensor, "question case rival out"]
    offsets: Float[Tensor, "question case rival"]
    orders: tuple[Automaton, ...]
    """Where sequences of options are ordered, in which ways."""
    order: Int[Tensor, "question case"]
    """Which of the ways; −1 where positions are free of one another."""

    @property
    def positions(self) -> int:
        """Positions of an input, padding included."""
        return self.allowed.shape[2]

    def parts(self, questions: int) -> Iterator[tuple[int, Cases]]:
        """So many questions after others, with the number of the first."""
        for first in range(0, len(self.asked), questions):
            some = slice(first, first + questions)
            yield (
                first,
                replace(
                    self,
                    letter_of=self.letter_of[some],
                    asked=self.asked[some],
                    own=self.own[some],
                    lengths=self.lengths[some],
                    allowed=self.allowed[some],
                    options=self.options[some],
                    directions=self.directions[some],
                    offsets=self.offsets[some],
                    order=self.order[some],
                ),
            )

    def least(
        self, costs: Float[Tensor, "question case start pos letter"]
    ) -> Int[Tensor, "question case start pos"]:
        """The letters of the inputs that cost least."""
        found = costs.masked_fill(~self.allowed.unsqueeze(2), torch.inf).argmin(4)
        for number, automaton in enumerate(self.orders):
            question, case = (self.order == number).nonzero(as_tuple=True)
            some = costs[question, case]
            letter_of = self.letter_of[question].unsqueeze(1).expand(-1, some.shape[1], -1, -1)
            by_option = some.gather(3, letter_of).masked_fill(
                ~self.options[question, case].unsqueeze(1), torch.inf
            )
            chosen = automaton.least(by_option.flatten(0, 1)).options.view(*some.shape[:3], 1)
            found[question, case] = letter_of.gather(3, chosen).squeeze(3)
        return found

    def batch(self, question: Int[Tensor, "row"], letters: Int[Tensor, "row pos"]) -> Batch:
        """The inputs that these letters spell in these questions, with their right answers."""
        inputs = self.letters[letters]
        inputs[torch.arange(len(question), device=question.device), self.asked[question]] = self.own[question]
        inputs = inputs.cpu()  # where all tasks are solved
        labels = self.task.solve(inputs)
        return Batch(
            inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=self.lengths[question].cpu()
        )


def cases_at(step: int, task: Task, questions: Questions, count: int, *, device: torch.device) -> Cases:
    """About so many cases, where there are as many; the step decides which.

    A question with fewer answers than others is asked with some of them again.
    """
    draws = Draws(seed=0, stream=_STREAM, batch=1, start=step)
    among = min(len(questions), 1 << 31)
    numbers = draws.distinct("questions", min(_QUESTIONS, count, among), among)[0].tolist()
    asked = [questions[number] for number in numbers]
    each = min(-(-count // len(asked)), max(len(question.regions) for question in asked))
    chosen = []
    for number, question in zip(numbers, asked, strict=True):
        answers = len(question.regions)
        places = draws.distinct(f"answers to {number}", min(each, answers), answers)[0].tolist()
        regions = islice(cycle(question.regions[place] for place in places), each)
        chosen.append(replace(question, regions=tuple(regions)))
    return _laid_out(task, chosen, device)


def _laid_out(task: Task, questions: Sequence[Question], device: torch.device) -> Cases:
    letters, letter_of = _letters(task, questions)
    options = torch.stack([_options(question, task.length) for question in questions])
    allowed = torch.zeros(*options.shape[:3], len(letters), dtype=torch.bool)
    question, case, place, option = options.nonzero(as_tuple=True)
    allowed[question, case, place, letter_of[question, place, option]] = True
    regions = [each.regions for each in questions]
    orders, order = _orders(regions, device)
    return Cases(
        task=task,
        letters=letters.to(device),
        letter_of=letter_of.to(device),
        asked=torch.tensor([each.asked for each in questions], device=device),
        own=torch.stack([_own(each) for each in questions]).to(device),
        lengths=torch.tensor([each.length for each in questions], device=device),
        allowed=allowed.to(device),
        options=options.to(device),
        directions=_stacked([[each.requirements.directions for each in row] for row in regions]).to(device),
        offsets=_stacked([[each.requirements.offsets for each in row] for row in regions]).to(device),
        orders=orders,
        order=order,
    )


def _stacked(rows: Sequence[Sequence[Tensor]]) -> Tensor:
    return torch.stack([torch.stack(list(row)) for row in rows])


def _letters(
    task: Task, questions: Sequence[Question]
) -> tuple[Shaped[Tensor, "letter *width"], Int[Tensor, "question pos option"]]:
    """Everything that may stand anywhere, and which letter an option is; behind the end it is padding."""
    if not isinstance(task.input_space, Tokens):
        rows = questions[0].options[0]
        assert all(torch.equal(each.options, rows.expand_as(each.options)) for each in questions)
        return rows, torch.arange(len(rows)).expand(len(questions), task.length, -1)
    tokens = torch.full(
        (len(questions), task.length, questions[0].options.shape[1]), task.input_space.pad or 0
    )
    for row, question in zip(tokens, questions, strict=True):
        row[: question.length] = question.options
        # What stands at the asked position is told apart, so it need not be a letter.
        row[question.asked] = question.options[question.asked - 1]
    letters, letter_of = torch.unique(tokens, return_inverse=True)
    return letters, letter_of


def _options(question: Question, length: int) -> Bool[Tensor, "case pos option"]:
    """What each region allows, and behind its end the first option, which is padding there."""
    allowed = torch.stack([region.allowed for region in question.regions])
    options = torch.zeros(len(allowed), length, allowed.shape[2], dtype=torch.bool)
    options[:, question.length :, 0] = True
    options[:, : question.length] = allowed
    return options


def _own(question: Question) -> Shaped[Tensor, "*width"]:
    return question.options[question.asked, int(question.regions[0].allowed[question.asked].int().argmax())]


def _orders(
    regions: Sequence[Sequence[Region]], device: torch.device
) -> tuple[tuple[Automaton, ...], Int[Tensor, "question case"]]:
    """The automata that regions share, each once, and whose each region is."""
    known = {id(each.order): each.order for each in chain(*regions) if each.order is not None}
    number = {key: place for place, key in enumerate(known)}
    order = [[number.get(id(each.order), -1) for each in row] for row in regions]
    moved = (Automaton(each.after.to(device), each.accepts.to(device)) for each in known.values())
    return tuple(moved), torch.tensor(order, device=device)
