"""What a machine's rules read of the text: words and cells at fixed distances back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, final

from separatrix.generation.scripts.turing import CELL, LEFT_CELL, Room
from separatrix.tasks.machines import MOVES
from separatrix.witnesses.language.forms import Linear
from separatrix.witnesses.language.rules import Differs, Equals
from separatrix.witnesses.language.words import Words

__all__ = ["Entry", "Past", "entered"]


@final
@dataclass(frozen=True, eq=False)
class Past:
    """Entry i of a list tells of the token i back, 0 of the last one.

    `kinds` are the ids of words, `cells` the numbers of cells, negative on the left and 0 where none stands.
    """

    words: Words
    kinds: Sequence[Linear]
    cells: Sequence[Linear]

    def is_(self, back: int, word: str) -> Equals:
        """This word, or one of this block, stands there."""
        return Equals(self.kinds[back], self.words.id(word))

    def is_not(self, back: int, word: str) -> Differs:
        """Another word stands there, or none."""
        return Differs(self.kinds[back], self.words.id(word))

    def nothing(self, back: int) -> Equals:
        """The text does not reach so far back."""
        return Equals(self.kinds[back], 0)

    def holding(self, words: Mapping[int, str]) -> tuple[Equals, ...]:
        """Each of these words stands at its distance."""
        return tuple(self.is_(back, word) for back, word in words.items())


@final
@dataclass(frozen=True, eq=False)
class Entry:
    """A case of the head's next cell: it is `number` on its side of the tape, or there is no room for it."""

    when: tuple[Equals | Differs, ...]
    side: Literal["right", "left"] | None
    number: Linear


def entered(past: Past, room: Room, *, move: int, cell: int) -> list[Entry]:
    """The cases of the cell that is entered, where a move and the cell that it leaves stand so far back.

    Cells on the left have mirrored numbers in a block of their own, so between −1 and 0 the side changes.
    """
    here = past.cells[cell]
    on_right, on_left = past.is_(cell, CELL), past.is_(cell, LEFT_CELL)
    cases: list[tuple[str, tuple[Equals | Differs, ...], Literal["right", "left"] | None]] = [
        ("S", (on_right,), "right"),
        ("S", (on_left,), "left"),
        ("R", (on_right, Differs(here, room.right)), "right"),
        ("R", (on_right, Equals(here, room.right)), None),
        ("R", (on_left, Equals(here, -1)), "right"),
        ("R", (on_left, Differs(here, -1)), "left"),
        ("L", (on_right, Differs(here, 0)), "right"),
        ("L", (on_right, Equals(here, 0)), "left"),
        ("L", (on_left, Differs(here, -room.left)), "left"),
        ("L", (on_left, Equals(here, -room.left)), None),
    ]
    found = []
    for name, conditions, side in cases:
        number = here + MOVES[name]
        found.append(Entry((past.is_(move, name), *conditions), side, -number if side == "left" else number))
    return found
