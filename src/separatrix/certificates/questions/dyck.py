"""Strings of brackets: regions by an automaton that holds the open brackets on a stack.

Whether a string is a member is asked at its end. Members are one region. What is no member is cut by where it
goes wrong first, and how: at some position it closes nothing, or the wrong type, or opens too many; or it
goes wrong nowhere and ends with brackets open.

Which continuations a prefix of a member has is asked at every position, and regions are the answers.

An automaton does not know at which position it is. So every bracket is an option twice, plain and marked, and
the marked ones may stand at one position only, the one that the region is about.
"""

from __future__ import annotations

import itertools
from typing import Final, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.certificates.questions.interface import Automaton, Question, Region, Requirements
from separatrix.certificates.questions.listing import Questions, only, require_room
from separatrix.errors import InvalidInput
from separatrix.tasks.dyck import Dyck

__all__ = ["of_dyck"]

_MOST_STACKS: Final = 4096
_NOTHING, _WRONG_TYPE, _TOO_DEEP = "closes nothing", "closes the wrong type", "opens too many"


def of_dyck(task: Dyck) -> Questions:
    """The verdict at the end, or the continuations everywhere."""
    deepest, fitting = min(task.depth, task.n // 2), _fitting(task.types)
    if deepest > fitting:
        raise InvalidInput(
            f"dyck is certified where brackets can be open in at most {_MOST_STACKS:,} ways; with "
            f"types={task.types} and depth={task.depth} there are more. Try depth={fitting}, or use "
            "separatrix break, which works for any task."
        )
    regions = 3 * task.n + 2 if task.form == "recognise" else task.types + 1
    require_room(task.name, regions=regions, positions=task.n, options=4 * task.types)
    stacks = _Stacks(task.types, deepest)
    return _recognise(task, stacks) if task.form == "recognise" else _next(task, stacks)


@final
class _Stacks:
    """All stacks of open brackets, the empty one first, and what each bracket does to them."""

    def __init__(self, types: int, deepest: int) -> None:
        self.types, self.deepest = types, deepest
        self.all = [
            stack for height in range(deepest + 1) for stack in itertools.product(range(types), repeat=height)
        ]
        numbers = {stack: number for number, stack in enumerate(self.all)}
        self.after: list[list[int | str]] = []
        """The stack behind each bracket, as its number; or what is wrong with the bracket."""
        for stack in self.all:
            row: list[int | str] = []
            for bracket in range(2 * types):
                kind, closing = divmod(bracket, 2)
                if not closing:
                    row.append(numbers.get((*stack, kind), _TOO_DEEP))
                elif not stack:
                    row.append(_NOTHING)
                else:
                    row.append(numbers[stack[:-1]] if stack[-1] == kind else _WRONG_TYPE)
            self.after.append(row)
        self.plain: Int[Tensor, "stack option"] = torch.full((len(self.all), 4 * types), -1)
        """Where plain brackets lead that are right; marked ones lead nowhere yet."""
        for number, bracket in itertools.product(range(len(self.all)), range(2 * types)):
            found = self.after[number][bracket]
            if isinstance(found, int):
                self.plain[number, bracket] = found

    def ending(self, accepts: Bool[Tensor, "stack"]) -> Automaton:
        """Strings without a mistake that end with one of these stacks."""
        return Automaton(self.plain, accepts)

    def mistaken(self, mistake: str) -> Automaton:
        """Strings without a mistake up to the marked bracket, which makes this one; behind it all is free."""
        after = torch.cat([self.plain, torch.full((1, 4 * self.types), -1)])
        lost = len(self.all)
        after[lost, : 2 * self.types] = lost
        for stack, row in enumerate(self.after):
            for bracket, found in enumerate(row):
                if found == mistake:
                    after[stack, 2 * self.types + bracket] = lost
        return Automaton(after, only(lost + 1, lost))

    def passing(self, through: Bool[Tensor, "stack"]) -> Automaton:
        """Members that have one of these stacks behind the marked bracket."""
        count, marked = len(self.all), 2 * self.types
        later = self.plain.where(self.plain < 0, self.plain + count)
        before = self.plain.clone()
        behind = later[:, :marked]
        allowed = (behind >= 0) & through[self.plain[:, :marked].clamp_min(0)]
        before[:, marked:] = behind.where(allowed, -1)
        return Automaton(torch.cat([before, later]), only(2 * count, count))


def _recognise(task: Dyck, stacks: _Stacks) -> Questions:
    """For every last bracket: members, each first mistake at each position, and what is left open."""
    n, brackets = task.n, 2 * task.types
    options = torch.arange(brackets).repeat(n, 2)
    no, yes = (Requirements.of_class(answer, 2) for answer in (0, 1))
    empty = only(len(stacks.all), 0)
    members, left_open = stacks.ending(empty), stacks.ending(~empty)
    mistaken = {mistake: stacks.mistaken(mistake) for mistake in (_NOTHING, _WRONG_TYPE, _TOO_DEEP)}

    def make(last: int) -> Question:
        free = torch.ones(n, 2 * brackets, dtype=torch.bool)
        free[:, brackets:] = False
        free[n - 1] = only(2 * brackets, last)
        regions = []
        if _ends(task, last, member=True):
            regions.append(Region(target="1", allowed=free, requirements=yes, order=members))
        if _ends(task, last, member=False):
            regions.append(
                Region(target="0, ends with brackets open", allowed=free, requirements=no, order=left_open)
            )
        for place, mistake in itertools.product(range(n), mistaken):
            if not _errs(task, place, mistake, last):
                continue
            allowed = free.clone()
            allowed[place] = free[place].roll(brackets)
            target = f"0, {mistake} at position {place + 1}"
            regions.append(Region(target=target, allowed=allowed, requirements=no, order=mistaken[mistake]))
        return Question(
            query=f"strings that end in {task.vocabulary.word(last)}",
            asked=n - 1,
            options=options,
            regions=tuple(regions),
        )

    cells = sum(
        _ends(task, last, member=True)
        + _ends(task, last, member=False)
        + sum(_errs(task, place, mistake, last) for place in range(n) for mistake in mistaken)
        for last in range(brackets)
    )
    return Questions(brackets, cells, make)


def _heights(task: Dyck, steps: int) -> range:
    """How many brackets can be open after so many that made no mistake."""
    return range(steps % 2, min(steps, task.depth, task.n // 2) + 1, 2)


def _ends(task: Dyck, last: int, *, member: bool) -> bool:
    """Whether a string that ends in this bracket, without a mistake, can have closed all; or not have."""
    change = -1 if last % 2 else 1
    ends = {height + change for height in _heights(task, task.n - 1)} & {*_heights(task, task.n)}
    return 0 in ends if member else bool(ends - {0})


def _errs(task: Dyck, place: int, mistake: str, last: int) -> bool:
    """Whether a string that ends in this bracket can make this mistake here, its first."""
    heights = _heights(task, place)
    closing = mistake != _TOO_DEEP
    if place == task.n - 1 and last % 2 != closing:
        return False
    if mistake == _NOTHING:
        return 0 in heights
    if mistake == _WRONG_TYPE:
        return task.types > 1 and any(heights)
    return min(task.depth, task.n // 2) in heights


def _next(task: Dyck, stacks: _Stacks) -> Questions:
    """For every position and bracket there: the sets of continuations that can follow."""
    n, brackets = task.n, 2 * task.types
    options = torch.arange(brackets).repeat(n, 2)
    classes = task.target_space.size
    answer_of = torch.tensor([_continuations(task, stack) for stack in stacks.all])
    answers = [Requirements.of_class(answer, classes) for answer in range(classes)]
    passing = [stacks.passing(answer_of == answer) for answer in range(classes)]
    asked_at = [
        (place, bracket, found)
        for place in range(n)
        for bracket in range(brackets)
        if (found := _answers(task, place, bracket))
    ]

    def make(number: int) -> Question:
        place, bracket, found = asked_at[number]
        allowed = torch.ones(n, 2 * brackets, dtype=torch.bool)
        allowed[:, brackets:] = False
        allowed[place] = only(2 * brackets, brackets + bracket)
        return Question(
            query=f"{task.vocabulary.word(bracket)} at position {place + 1}",
            asked=place,
            options=options,
            regions=tuple(
                Region(
                    target=task.render_target(torch.tensor(answer)),
                    allowed=allowed,
                    requirements=answers[answer],
                    order=passing[answer],
                )
                for answer in found
            ),
        )

    return Questions(len(asked_at), sum(len(found) for _, _, found in asked_at), make)


def _continuations(task: Dyck, stack: tuple[int, ...]) -> int:
    """The class of a prefix that leaves these brackets open."""
    if not stack:
        return 0
    return 1 + stack[-1] + task.types * (len(stack) == task.depth)


def _answers(task: Dyck, place: int, bracket: int) -> tuple[int, ...]:
    """The classes behind a bracket at a place of a member, by the heights that there can be."""
    kind, closing = divmod(bracket, 2)
    left = task.n - 1 - place
    heights = [
        after
        for before in _heights(task, place)
        if 0 <= (after := before + 1 - 2 * closing) <= min(task.depth, left)
    ]
    tops = range(task.types) if closing else (kind,)
    found = {_continuations(task, (top,) * height) for height in heights for top in tops}
    return tuple(sorted(found))


def _fitting(types: int) -> int:
    """The greatest depth whose stacks are few enough."""
    depth, stacks = 0, 1
    while stacks + types ** (depth + 1) <= _MOST_STACKS:
        depth += 1
        stacks += types**depth
    return depth
