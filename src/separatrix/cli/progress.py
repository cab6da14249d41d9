"""A line on standard error that says how far a long generation is; on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from separatrix.generation.runs import Progress

__all__ = ["shown_progress"]

_FIRST: Final = 2.0
_BETWEEN: Final = 0.2


@contextmanager
def shown_progress() -> Iterator[Callable[[Progress], None] | None]:
    """What to call with each progress; None where nobody is watching."""
    if not sys.stderr.isatty():
        yield None
        return
    started = time.monotonic()
    last = [started + _FIRST - _BETWEEN]
    shown = [False]

    def show(progress: Progress) -> None:
        now = time.monotonic()
        if now - last[0] < _BETWEEN:
            return
        last[0], shown[0] = now, True
        rate = progress.tokens / (now - started)
        rows = "" if progress.prompts == 1 else f", {progress.done:,} of {progress.prompts:,} done"
        text = f"\r{progress.tokens:,} tokens, {rate:,.0f} a second{rows}   "
        print(text, end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if shown[0]:
            print(file=sys.stderr)
