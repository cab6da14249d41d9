"""Runs of a Turing machine as lines of text: a line a step, with the tape and where the head is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

from separatrix.cli.output import printable_line

if TYPE_CHECKING:
    from separatrix.tasks.machines import Execution, Step

__all__ = ["final_tape", "run_lines", "tape_line"]

_NARROWEST_TAPE = 12


class _Configuration(NamedTuple):
    state: str
    rule: str
    head: int
    cells: Mapping[int, str]


def run_lines(
    told: Execution, given: Sequence[str], *, width: int, below: Sequence[Sequence[str]] = ()
) -> Iterator[str]:
    """The configurations one by one, the head in brackets, and the rule that is about to fire.

    Cells that were not given are shown once the head has been there. `below` has lines for each step, which
    stand under its own.
    """
    number = max(len("step"), len(str(len(told.steps))))
    states = [step.state for step in told.steps] + [told.state]
    state = max(len("state"), *map(_length, states))
    rule = max([len("rule"), *(_length(_rule(step)) for step in told.steps)])
    yield f"{'step':>{number}}  {'state':<{state}}  {'rule':<{rule}}  tape"
    room = max(_NARROWEST_TAPE, width - number - state - rule - 6)
    ends = (told.first, told.first + len(told.tape) - 1)
    symbol = max(map(_length, (*given, *told.tape, *(step.read for step in told.steps))))
    for place, each in enumerate(_configurations(told, given)):
        tape = tape_line(each.cells, each.head, ends=ends, symbol=symbol, width=room)
        yield f"{place:>{number}}  {_padded(each.state, state)}  {_padded(each.rule, rule)}  {tape}".rstrip()
        yield from below[place] if place < len(below) else ()


def final_tape(told: Execution, blank: str) -> str:
    """What stands on the tape in the end, without the blanks around it; one blank if it is empty."""
    filled = [place for place, symbol in enumerate(told.tape) if symbol != blank]
    return " ".join(told.tape[filled[0] : filled[-1] + 1]) if filled else blank


def tape_line(cells: Mapping[int, str], head: int, *, ends: tuple[int, int], symbol: int, width: int) -> str:
    """The cells between the two ends, `symbol` columns each; those around the head if all are too many."""
    first, last = ends
    step = symbol + 1
    shown = max(1, (width - 1) // step)
    low, high = first, last
    if last - first + 1 > shown:
        shown = max(1, (width - 1 - 2 * len("… ")) // step)
        low = min(max(first, head - shown // 2), last - shown + 1)
        high = low + shown - 1
    parts = ["… " if low > first else ""]
    for cell in range(low, high + 1):
        parts.append("[" if cell == head else "]" if cell - 1 == head else " ")
        parts.append(_padded(cells.get(cell, ""), symbol))
    parts.append("]" if high == head else " ")
    parts.append(" …" if high < last else "")
    return "".join(parts).rstrip()


def _configurations(told: Execution, given: Sequence[str]) -> Iterator[_Configuration]:
    """The one before each step, and the last."""
    cells = dict(enumerate(given))
    for step in told.steps:
        cells[step.cell] = step.read
        yield _Configuration(step.state, _rule(step), step.cell, cells)
        cells[step.cell] = step.rule.write
    cells.setdefault(told.head, told.tape[told.head - told.first])
    yield _Configuration(told.state, "", told.head, cells)


def _rule(step: Step) -> str:
    return f"{step.read}→{step.rule.write} {step.rule.move}"


def _length(text: str) -> int:
    return cell_len(printable_line(text))


def _padded(text: str, columns: int) -> str:
    return printable_line(text) + " " * (columns - _length(text))
