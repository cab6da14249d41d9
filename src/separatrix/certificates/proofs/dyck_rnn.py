"""Proof of S-E on the weights: a recurrent model that follows the automaton of bounded Dyck for ever.

For every stack of the automaton there is a box of states. From any state in the box, a bracket leads into
the box of the next stack; the start lies in that of the empty stack; and in every box the readout says what
is right for its stack. That is finitely many checks, and it is a proof for strings of every length. With ReLU
the boxes are points. With sigmoid-type units they are small, and the steps shrink them.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Final, TypeAlias

import numpy as np
import torch
from flint import fmpq

from separatrix.certificates.enclosures import Box, Rounding
from separatrix.certificates.lemmas.proving import claim, least_lead
from separatrix.certificates.lemmas.recurrent import advanced, scored
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.tasks import Task
from separatrix.tasks.dyck import Dyck

__all__ = ["prove"]

Stack: TypeAlias = tuple[int, ...] | None
"""The types of the open brackets, the innermost last; None once the string has failed."""

_SOURCE: Final = "S-E"
_MOST_STACKS: Final = 4096
_ROOM: Final = fmpq(1, 64)


def prove(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """Right on every string of every length: what holds for one length holds for all of them."""
    if not isinstance(task, Dyck) or not isinstance(model, RecurrentModel):
        raise NotProved("This proof is about recurrent models that recognise bounded Dyck.")
    if model.tokens.size != 2 * task.types or model.classes != task.target_space.size:
        raise NotProved("The model reads other brackets, or gives other answers, than the task's.")
    if task.depth >= _MOST_STACKS or _stack_count(task) > _MOST_STACKS:
        raise NotProved(f"The automaton has more than {_MOST_STACKS} states, too many to go through.")
    stacks = _stacks(task)
    boxes, room = _invariant(model, task, rounding)
    if {*boxes} != {*stacks}:
        raise NotProved("Not every state of the automaton was reached within its depth.")
    _require_bits(model, boxes)
    asked = [stack for stack in stacks if task.form == "recognise" or stack is not None]
    scores = scored(rounding, model, Box.concatenate([boxes[stack] for stack in asked]))
    right = [_answer(task, stack) for stack in asked]
    return (
        claim(
            "steps stay inside",
            "after any bracket the state lies in the box of the automaton's next state, by this much",
            ">=",
            Fraction(0),
            "state",
            room,
            source=_SOURCE,
        ),
        claim(
            "lead of the right answer",
            "in every state of every box the right answer's score exceeds every other's",
            ">",
            Fraction(0),
            "score",
            least_lead(scores, right),
            source=_SOURCE,
        ),
    )


def _invariant(model: RecurrentModel, task: Dyck, rounding: Rounding) -> tuple[dict[Stack, Box], Box]:
    """Boxes that every step respects, and by how much images stay inside them.

    First all that is reached from the start in a few steps. Where that does not come to rest by itself, as
    with sigmoid-type units, every box gets a little room, and the images of the larger boxes must lie inside.
    """
    boxes: dict[Stack, Box] = {(): Box.exact(torch.zeros(1, model.state.width, dtype=torch.int64))}
    waiting: list[Stack] = [()]
    for _ in range(task.depth + 3):
        waiting = _grow(model, task, rounding, boxes, waiting)
        if not waiting:
            return boxes, Box.exact([0])
    boxes = {stack: box.widened(_ROOM) for stack, box in boxes.items()}
    return boxes, _room_left(model, task, rounding, boxes)


def _grow(
    model: RecurrentModel, task: Dyck, rounding: Rounding, boxes: dict[Stack, Box], waiting: list[Stack]
) -> list[Stack]:
    """The images of the boxes that wait are taken in where they belong; those that grew wait next."""
    grown: dict[Stack, None] = {}
    for token in range(2 * task.types):
        images = advanced(
            rounding, model, torch.tensor(token), Box.concatenate([boxes[stack] for stack in waiting])
        )
        for place, stack in enumerate(waiting):
            after, image = _next(task, stack, token), images[place : place + 1]
            if after in boxes and boxes[after].contains(image):
                continue
            boxes[after] = Box.union(boxes[after], image) if after in boxes else image
            grown[after] = None
    return list(grown)


def _room_left(model: RecurrentModel, task: Dyck, rounding: Rounding, boxes: dict[Stack, Box]) -> Box:
    """The least distance of an image from the outside of its box; negative if one is not inside."""
    stacks, least = list(boxes), []
    whole = Box.concatenate([boxes[stack] for stack in stacks])
    for token in range(2 * task.types):
        images = advanced(rounding, model, torch.tensor(token), whole)
        for place, stack in enumerate(stacks):
            home = boxes[_next(task, stack, token)]
            room = np.minimum(images[place].low - home.low[0], home.high[0] - images[place].high)
            least.append(min(room.reshape(-1)))
    return Box.exact([min(least)])


def _require_bits(model: RecurrentModel, boxes: dict[Stack, Box]) -> None:
    """Fields that are counted as bits hold 0 or 1 in every state that can be reached."""
    for name in model.binary:
        for box in boxes.values():
            field = box[:, model.state.place(name)]
            if not field.is_point or not all(entry in (0, 1) for entry in field.low.reshape(-1)):
                raise NotProved(f"The field {name} is said to hold bits, and may hold something else.")


def _next(task: Dyck, stack: Stack, token: int) -> Stack:
    """The automaton: type 2τ opens, 2τ + 1 closes."""
    if stack is None:
        return None
    kind, closes = token >> 1, token & 1
    if closes:
        return stack[:-1] if stack and stack[-1] == kind else None
    return (*stack, kind) if len(stack) < task.depth else None


def _answer(task: Dyck, stack: Stack) -> int:
    """The class of a prefix that leads to this stack."""
    if task.form == "recognise":
        return int(stack == ())
    assert stack is not None
    if not stack:
        return 0
    return 1 + stack[-1] + (task.types if len(stack) == task.depth else 0)


def _stacks(task: Dyck) -> list[Stack]:
    found: list[Stack] = [None]
    for height in range(task.depth + 1):
        found += list(product(range(task.types), repeat=height))
    return found


def _stack_count(task: Dyck) -> int:
    return int(sum(task.types**height for height in range(task.depth + 1))) + 1
