"""A task's questions one after another, each made when it is looked at."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final, overload

import torch
from jaxtyping import Bool
from torch import Tensor

from separatrix.certificates.questions.interface import Question
from separatrix.errors import InvalidInput

__all__ = ["Questions", "only", "pair", "require_room", "written"]

_ROOM: Final = 1 << 29
"""What the regions of one question may hold, in options."""


@final
@dataclass(frozen=True, eq=False)
class Questions(Sequence[Question]):
    """So many questions with so many regions in all, and how to make the one with a number."""

    total: int
    cells: int
    """Regions of all questions together."""
    make: Callable[[int], Question]

    def __len__(self) -> int:
        return self.total

    @overload
    def __getitem__(self, number: int) -> Question: ...

    @overload
    def __getitem__(self, number: slice) -> Questions: ...

    def __getitem__(self, number: int | slice) -> Question | Questions:
        if isinstance(number, slice):
            return self._part(range(self.total)[number])
        return self.make(range(self.total)[number])

    def _part(self, numbers: range) -> Questions:
        """Some of the questions; their regions are counted by making them."""
        cells = sum(len(self.make(number).regions) for number in numbers)
        return Questions(len(numbers), cells, lambda number: self.make(numbers[number]))


def pair(lengths: range, number: int) -> tuple[int, int]:
    """The pair (k, p) with this number, among all k of the lengths with all p from 0 to k − 1."""

    def before(length: int) -> int:
        return (length * (length - 1) - lengths.start * (lengths.start - 1)) // 2

    length = lengths[bisect_right(lengths, number, key=before) - 1]
    return length, number - before(length)


def only(options: int, *chosen: int) -> Bool[Tensor, "option"]:
    """Only these of so many options."""
    allowed = torch.zeros(options, dtype=torch.bool)
    allowed[list(chosen)] = True
    return allowed


def written(number: int) -> str:
    """A count with its digits, or its power of ten where they are many: some have thousands of digits."""
    return f"{number:,}" if number < 10**12 else f"about 10^{int((number.bit_length() - 1) * math.log10(2))}"


def require_room(name: str, *, regions: int, positions: int, options: int) -> None:
    """Refuse a task of which a single question would not fit into memory."""
    held = regions * positions * options
    if held > _ROOM:
        raise InvalidInput(
            f"A question of {name} would have {regions:,} regions of {positions:,} positions with "
            f"{options:,} options each; at most {_ROOM:,} options in all are held. Choose a smaller n or "
            "fewer symbols, or use separatrix break, which works for any task."
        )
