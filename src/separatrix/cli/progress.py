"""A line on standard error that says how far something long is; on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from separatrix.generation.runs import Progress
    from separatrix.interop.asking import Progress as Answered

__all__ = ["shown_answers", "shown_filling", "shown_progress"]

_FIRST: Final = 2.0
_BETWEEN: Final = 0.2


@contextmanager
def shown_progress() -> Iterator[Callable[[Progress], None] | None]:
    """What to call with each progress of a generation; None where nobody is watching."""

    def text(progress: Progress, seconds: float) -> str:
        rows = "" if progress.prompts == 1 else f", {progress.done:,} of {progress.prompts:,} done"
        return f"{progress.tokens:,} tokens, {progress.tokens / seconds:,.0f} a second{rows}"

    with _line() as line:
        yield None if line is None else lambda progress: line(lambda seconds: text(progress, seconds))


@contextmanager
def shown_filling(rows: int) -> Iterator[Callable[[int], None] | None]:
    """What to call with the number of a matrix's rows that are filled; None where nobody is watching."""

    def text(filled: int, seconds: float) -> str:
        left = seconds / filled * (rows - filled) if filled else 0.0
        return f"{filled:,} of {rows:,} rows filled, about {left:,.0f} s to go"

    with _line() as line:
        yield None if line is None else lambda filled: line(lambda seconds: text(filled, seconds))


@contextmanager
def shown_answers() -> Iterator[Callable[[Answered], None] | None]:
    """What to call with each progress of an interview; None where nobody is watching.

    The time to go is guessed from the answers that came while it was watched: others were there before.
    """
    first: list[tuple[int, float]] = []

    def text(told: Answered, seconds: float) -> str:
        if not first:
            first.append((told.done, seconds))
        done, took = told.done - first[0][0], seconds - first[0][1]
        to_go = f", about {took / done * (told.of - told.done):,.0f} s to go" if done else ""
        return f"{told.task}: {told.done:,} of {told.of:,} answers{to_go}"

    with _line() as line:
        yield None if line is None else lambda told: line(lambda seconds: text(told, seconds))


@contextmanager
def _line() -> Iterator[Callable[[Callable[[float], str]], None] | None]:
    """What to call with a text that may be asked for, given the seconds since the start."""
    if not sys.stderr.isatty():
        yield None
        return
    started = time.monotonic()
    last = [started + _FIRST - _BETWEEN]
    shown = [False]

    def show(text: Callable[[float], str]) -> None:
        now = time.monotonic()
        if now - last[0] < _BETWEEN:
            return
        last[0], shown[0] = now, True
        print(f"\r{text(now - started)}   ", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if shown[0]:
            print(file=sys.stderr)
