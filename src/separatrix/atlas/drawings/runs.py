"""The drawing of a Turing machine's run: one line of tape a step, time going down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from separatrix.atlas.drawings.layout import Sketch
from separatrix.atlas.examples import Example
from separatrix.atlas.svg import WIDTH, Canvas, Point
from separatrix.tasks.machines import MOVES
from separatrix.tasks.turing import Turing

__all__ = ["draw_turing"]

_CELL: Final = 30
_LINE: Final = 25


@dataclass(frozen=True, kw_only=True)
class _Moment:
    """The tape at one time, where the head is on it, and what the machine did to come here."""

    tape: tuple[str, ...]
    head: int
    state: str


def draw_turing(canvas: Canvas, example: Example) -> Sketch:
    """Tapes under each other, the head's cell tinted, the final tape and state filled."""
    assert isinstance(example.task, Turing)
    moments = _replay(example.text.split(), example.task)
    result = example.answers[-len(moments[-1].tape) - 1 : -1]
    left = WIDTH / 2 - 20 - _CELL * len(result) / 2

    def cell(time: float, place: float) -> Point:
        return (left + _CELL * (place + 0.5), 17 + _LINE * time)

    canvas.text((left - 12, 17), "time 0", "small", anchor="end")
    for time, moment in enumerate(moments):
        for place, symbol in enumerate(moment.tape):
            here = place == moment.head
            canvas.tile(
                cell(time, place), (_CELL - 2, _LINE - 3), symbol, "tile on" if here else "tile faint"
            )
        canvas.text((cell(time, len(result))[0], 17 + _LINE * time), moment.state, "small", anchor="start")
    canvas.text((left - 12, 17 + _LINE * (len(moments) - 1)), str(len(moments) - 1), "small", anchor="end")
    end = len(moments) + 0.35
    for place, symbol in enumerate(result):
        canvas.tile(cell(end, place), (_CELL - 2, _LINE), symbol, "tile answer")
    canvas.text((cell(end, len(result))[0], cell(end, 0)[1]), example.answers[-1], "said", anchor="start")
    return Sketch(
        height=cell(end, 0)[1] + 17,
        says=f"The machine {example.task.machine} halts in state {example.answers[-1]} after "
        f"{len(moments) - 1} steps. Time goes down; the tinted cells are where its head stands.",
    )


def _replay(words: list[str], task: Turing) -> list[_Moment]:
    """The run as the row itself writes it down: symbol, move and state for each step."""
    tape = [task.program.blank] * task.reach.space
    tape[task.origin : task.origin + task.n] = words[1 : task.n + 1]
    head, state = task.origin, task.program.start
    moments = [_Moment(tape=tuple(tape), head=head, state=state)]
    chain = words[task.n + 2 : len(words) - task.reach.space]
    for step in range(0, len(chain), 3):
        symbol, move, state = chain[step : step + 3]
        tape[head] = symbol
        head += MOVES[move]
        moments.append(_Moment(tape=tuple(tape), head=head, state=state))
    return moments
