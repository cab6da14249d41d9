"""Runs of Turing machines as texts: how three kinds of models write them, and how a run is read back.

By searches, each step looks its cell up, first among the writes and then on the input, and then says what it
writes there. Cell 0 of the tape `0 1`, read for the first time:

    <s> 0 1 = right
    <StartSearch> .*\\s@0 \\s(\\S+)\\s <EndSearch> FAILED
    <StartSearch> ^<s>(?:\\s\\S+){0 }\\s(\\S+)\\s(?:\\S+\\s)*?=\\s <EndSearch> 0
    @0 0 R right

Where attention looks things up a step is five words: cell, symbol read, symbol written, move, next state:

    <s> 0 1 = right
    @0 0 0 R right

On a tape that the model carries in its state each step is the whole configuration, the state in front of the
cell that it reads, and `|` where the tape ends:

    <s> 0 1 = | _
    0 right 1 _ | _

The last word of every run is the halting state, or FULL where the head has left the cells there is room for.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal, NamedTuple, TypeAlias, final

from jaxtyping import Int
from torch import Tensor

from separatrix.errors import InvalidInput, TooLarge
from separatrix.generation.scripts.base import Script
from separatrix.tasks.machine_runs import MachineRuns
from separatrix.tasks.machines import MOVES, Execution, Machine, Step, Transition
from separatrix.tasks.turing import Turing
from separatrix.tasks.vocabulary import Block, Vocabulary, numbered, words

__all__ = [
    "CELL",
    "CELL_END",
    "FULL",
    "INPUT_END",
    "LEFT_CELL",
    "SEEK",
    "SEEK_INPUT",
    "SEEK_LEFT",
    "WALL",
    "HybridScript",
    "Room",
    "RunTask",
    "SearchScript",
    "TapeScript",
    "TuringScript",
    "halted_mark",
]

RunTask: TypeAlias = Turing | MachineRuns

# A block's name has a space in it, so that no state or symbol of a machine is called the same.
CELL, LEFT_CELL = "cell on the right", "cell on the left"
SEEK, SEEK_LEFT, SEEK_INPUT = "cell sought", "left cell sought", "input cell sought"
CELL_END: Final = r"\s(\S+)\s"
INPUT_END: Final = r"}\s(\S+)\s(?:\S+\s)*?=\s"
"""The ends of the two patterns. `=` stands once in a text, so the second finds no cell behind the input."""
FULL: Final = "FULL"
WALL: Final = "|"
_MOST_SOUGHT: Final = 10_000
_LONGEST_LINE: Final = 1024


class Room(NamedTuple):
    """The most steps of a run, and the cells it may visit: −left … right, where the input begins at 0."""

    steps: int
    left: int
    right: int


class TuringScript(Script):
    """What the three ways of writing a run share: the prompt is the task's, the answer the halting state."""

    def __init__(self, task: RunTask) -> None:
        """For the machine of this task, within its sizes."""
        self._task = task
        taken = Vocabulary(*self._own_blocks())
        for word in (*self.machine.states, *self.machine.alphabet):
            if any(block.place(word) is not None for block in taken.blocks):
                raise InvalidInput(
                    f"Machine {self.machine.name} uses the word '{word}', which stands for something else in "
                    f"the text of a run; rename it, other than {taken.describe()}."
                )

    @property
    def task(self) -> RunTask:
        """The task whose inputs it puts."""
        return self._task

    @property
    def machine(self) -> Machine:
        """The machine that runs."""
        return self._task.program

    @cached_property
    def room(self) -> Room:
        """What the task makes room for; there is always a cell on either side of the input."""
        reach = self._task.reach
        right = max(reach.space - reach.left - 1, self._task.n)
        return Room(steps=reach.steps, left=max(1, reach.left), right=right)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """States, symbols and marks of the task, then words of this way to write."""
        machine = self.machine
        return Vocabulary(
            words("machine state", *machine.live, *machine.halting),
            words("tape symbol", *machine.alphabet),
            words("end of input", "<s>", "="),
            *self._own_blocks(),
        )

    @cached_property
    def answers(self) -> frozenset[int]:
        """The halting states, and FULL, which answers nothing."""
        return frozenset(self.vocabulary.token(word) for word in (*self.machine.halting, FULL))

    def prompt(self, row: Int[Tensor, "pos"]) -> list[int]:
        """The tape between its marks, without what a task puts behind it."""
        given = [self._task.vocabulary.word(token) for token in row.tolist()]
        return [self.vocabulary.token(word) for word in given[: given.index("=") + 1]]

    def answer(self, written: Sequence[int]) -> int | None:
        """The halting state as the task numbers it."""
        last = self.vocabulary.word(written[-1]) if written else FULL
        return self._task.vocabulary.token(last) if last in self.machine.halting else None

    def told(self, prompt: Sequence[int], written: Sequence[int]) -> Execution:
        """The run as the text has it, up to its last whole step: nothing is computed that was not written."""
        spelled = [self.vocabulary.word(token) for token in (*prompt, *written)]
        return self._told(spelled[1 : spelled.index("=")], spelled)

    @abstractmethod
    def _own_blocks(self) -> tuple[Block, ...]:
        """Words that are none of the task's states, symbols and ends."""

    @abstractmethod
    def _told(self, tape: Sequence[str], spelled: Sequence[str]) -> Execution:
        """The run that the words tell of."""

    def _execution(
        self, tape: Sequence[str], steps: Iterable[Step], last: str, left: Mapping[int, str] | None = None
    ) -> Execution:
        """Steps put together; `left` are cells as they were at the end, where the text says so itself."""
        machine = self.machine
        cells = {0: machine.blank, **dict(enumerate(tape))}
        visited = [min(cells), max(cells)]
        known = tuple(itertools.takewhile(self._makes_sense, steps))
        head, state = 0, machine.start
        for step in known:
            cells[step.cell] = step.rule.write
            head, state = step.cell + MOVES[step.rule.move], step.rule.state
            visited.append(head)
        cells.update(left or {})
        outcome: Literal["halted", "out of steps", "out of space"] = "out of steps"
        if last in machine.halting:
            outcome = "halted"
        elif last == FULL:
            outcome = "out of space"
        return Execution(
            outcome=outcome,
            state=state,
            head=head,
            first=min(visited),
            tape=tuple(cells.get(cell, machine.blank) for cell in range(min(visited), max(visited) + 1)),
            steps=known,
        )

    def _makes_sense(self, step: Step) -> bool:
        """Whether every word stands where such a word belongs; a model may write anything."""
        _, write, move = step.rule
        symbols = {step.read, write} <= {*self.machine.alphabet}
        return symbols and {step.state, step.rule.state} <= {*self.machine.states} and move in MOVES


class _StepScript(TuringScript):
    """Runs written step by step: `@3` is cell 3 and `@-3` the third one left of the input."""

    def _cells(self) -> tuple[Block, Block]:
        room = self.room
        return (
            numbered(CELL, room.right + 1, prefix="@"),
            numbered(LEFT_CELL, room.left, prefix="@-", first=1),
        )

    def _cell(self, word: str) -> int | None:
        block, left = self._cells()
        place, mirrored = block.place(word), left.place(word)
        return -1 - mirrored if mirrored is not None else place


@final
class SearchScript(_StepScript):
    """W-5.4: each step searches the text for what its cell holds."""

    kind = "turing-searches"
    searches = True

    def __init__(self, task: RunTask) -> None:
        """For the machine of this task, within its sizes."""
        super().__init__(task)
        if self.room.right > _MOST_SOUGHT:
            raise TooLarge(
                f"Cells are sought up to number {_MOST_SOUGHT:,}, the largest count in a search; got room up "
                f"to {self.room.right:,}. Try a shorter tape, or less room to the right."
            )

    @property
    def limit(self) -> int:
        """The first state, and at most 14 words a step, of which 5 look up the input."""
        return 1 + 14 * self.room.steps + 1

    def _own_blocks(self) -> tuple[Block, ...]:
        room = self.room
        return (
            words("move", *MOVES),
            words("search word", "<StartSearch>", "<EndSearch>", "FAILED", CELL_END, INPUT_END, FULL),
            *self._cells(),
            numbered(SEEK, room.right + 1, prefix=r".*\s@"),
            numbered(SEEK_LEFT, room.left, prefix=r".*\s@-", first=1),
            numbered(SEEK_INPUT, room.right + 1, prefix=r"^<s>(?:\s\S+){"),
        )

    def _told(self, tape: Sequence[str], spelled: Sequence[str]) -> Execution:
        """`result @cell written move state`, and a result FAILED is a blank."""
        steps, state = [], self.machine.start
        for place, word in enumerate(spelled[:-3]):
            cell = self._cell(word)
            if cell is not None:
                found = spelled[place - 1]
                read = self.machine.blank if found == "FAILED" else found
                write, move, after = spelled[place + 1 : place + 4]
                steps.append(Step(cell, state, read, Transition(after, write, move)))
                state = after
        return self._execution(tape, steps, spelled[-1])


@final
class HybridScript(_StepScript):
    """W-5.8: attention knows what a cell holds, so that a step is five words."""

    kind = "turing-hybrid"

    @property
    def limit(self) -> int:
        """The first state and five words a step."""
        return 1 + 5 * self.room.steps + 1

    def _own_blocks(self) -> tuple[Block, ...]:
        return (words("move", *MOVES), words("end of room", FULL), *self._cells())

    def _told(self, tape: Sequence[str], spelled: Sequence[str]) -> Execution:
        """`@cell read written move state`."""
        steps, state = [], self.machine.start
        for place, word in enumerate(spelled[:-4]):
            cell = self._cell(word)
            if cell is not None:
                read, write, move, after = spelled[place + 1 : place + 5]
                steps.append(Step(cell, state, read, Transition(after, write, move)))
                state = after
        return self._execution(tape, steps, spelled[-1])


def halted_mark(state: str) -> str:
    """How a halting state stands in the last configuration, so that the state itself can be the last word."""
    return f">{state}"


@final
class TapeScript(TuringScript):
    """W-4.1: each step is the whole configuration, one turn of a ring of cells with a wall and the state."""

    kind = "turing-tape"

    def __init__(self, task: RunTask) -> None:
        """For the machine of this task, within its sizes."""
        super().__init__(task)
        if self.line > _LONGEST_LINE:
            raise TooLarge(
                f"A tape in the state is carried up to {_LONGEST_LINE - 2} cells; got room for "
                f"{self.line - 2:,}. Try less room, or a model that looks its cells up."
            )

    @property
    def line(self) -> int:
        """Words of a configuration: the cells, the wall and the state."""
        return self.room.left + 1 + self.room.right + 2

    @property
    def limit(self) -> int:
        """A line for each step and for the last configuration, and where the head has moved to by then."""
        return (self.room.steps + 1) * self.line + self.room.right + 2

    def _own_blocks(self) -> tuple[Block, ...]:
        return (
            words("halted state", *(halted_mark(state) for state in self.machine.halting)),
            words("end of room", WALL, FULL),
        )

    def _told(self, tape: Sequence[str], spelled: Sequence[str]) -> Execution:
        """A state one line on has moved by as much as the distance is off; `<s>` is the first state.

        What a step has written stands behind the next state, or in front of it if the head went right.
        """
        machine = self.machine
        states = {word: word for word in machine.live} | {halted_mark(word): word for word in machine.halting}
        states["<s>"] = machine.start
        symbols = {word: word for word in machine.alphabet} | {"=": machine.blank}
        turns = [place for place, word in enumerate(spelled) if word in states]
        moves = {by: name for name, by in MOVES.items()}
        steps, cell = [], 0
        for here, there in itertools.pairwise(turns):
            by = there - here - self.line
            wrote = there + {1: -1, 0: 1, -1: 2}.get(by, 1)
            if by not in moves or wrote >= len(spelled):
                break
            read, write = (symbols.get(spelled[place], "") for place in (here + 1, wrote))
            rule = Transition(states[spelled[there]], write, moves[by])
            steps.append(Step(cell, states[spelled[here]], read, rule))
            cell += by
        return self._execution(tape, steps, spelled[-1], self._last_tape(spelled, turns[-1], cell))

    def _last_tape(self, spelled: Sequence[str], state: int, head: int) -> dict[int, str]:
        """The cells of a configuration that has halted: those from the head to the wall, and those behind."""
        ring = spelled[state + 1 : state + self.line]
        if spelled[-1] not in self.machine.halting or WALL not in ring:
            return {}
        wall = ring.index(WALL)
        numbered_words = [
            *((head + i, word) for i, word in enumerate(ring[:wall])),
            *((i - self.room.left, word) for i, word in enumerate(ring[wall + 1 :])),
        ]
        # Before the first step the input's end is still written as it was given.
        return {cell: self.machine.blank if word == "=" else word for cell, word in numbered_words}
