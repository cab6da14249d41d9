"""Watching a proof go from case to case: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from separatrix.cli.output import note

if TYPE_CHECKING:
    from separatrix.evidence import Case

__all__ = ["Settled", "settling"]

_BETWEEN_FRAMES: Final = 0.2
_BETWEEN_LINES: Final = 10.0
_COLOURS: Final = {"proved": "green", "refuted": "red", "unknown": "yellow"}
_WORDS: Final = {"refuted": "broken"}


class Settled:
    """How many of so many cases are settled, and how."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        """The time is counted from now."""
        self.total = total
        self.counts: Counter[str] = Counter()
        self._clock, self._begun = clock, clock()

    def add(self, case: Case) -> None:
        """One more."""
        self.counts[case.verdict] += 1

    @property
    def done(self) -> int:
        """Cases that are settled."""
        return self.counts.total()

    def rest(self) -> str:
        """The time that is left if the rest goes like what is done; nothing where that is unknown."""
        from separatrix.training.views import duration

        if not self.done or self.done >= self.total:
            return ""
        seconds = (self._clock() - self._begun) / self.done * (self.total - self.done)
        return f"about {duration(seconds)} left"

    def line(self) -> str:
        """Where it stands, in a line."""
        counts = ", ".join(f"{self.counts[verdict]:,} {_WORDS.get(verdict, verdict)}" for verdict in _COLOURS)
        rest = self.rest()
        return f"{self.done:,} of {self.total:,} cases: {counts}{f'; {rest}' if rest else ''}"

    def frame(self) -> RenderableType:
        """Where it stands, with a bar."""
        bar = Table.grid(padding=(0, 2))
        filled = ProgressBar(total=max(1, self.total), completed=self.done, width=40)
        bar.add_row(filled, f"{self.done:,} of {self.total:,} cases")
        figures = Text(no_wrap=True, overflow="ellipsis")
        for verdict, colour in _COLOURS.items():
            figures.append(f"{self.counts[verdict]:,} {_WORDS.get(verdict, verdict)}", colour).append("  ")
        return Group(bar, figures.append(self.rest()))


@contextmanager
def settling(total: int, *, quiet: bool = False) -> Iterator[Callable[[Case], None] | None]:
    """What to call with every case that is settled; None where nobody is to be told."""
    if quiet:
        yield None
        return
    settled = Settled(total)
    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal or console.is_dumb_terminal:
        yield _told(settled, lambda: note(settled.line()), first=_BETWEEN_LINES, between=_BETWEEN_LINES)
        return
    with Live(settled.frame(), console=console, auto_refresh=False, transient=True) as live:
        yield _told(
            settled, lambda: live.update(settled.frame(), refresh=True), first=0.0, between=_BETWEEN_FRAMES
        )


def _told(
    settled: Settled, show: Callable[[], None], *, first: float, between: float
) -> Callable[[Case], None]:
    due = time.monotonic() + first if first else -math.inf

    def tell(case: Case) -> None:
        nonlocal due
        settled.add(case)
        now = time.monotonic()
        if now >= due:
            due = now + between
            show()

    return tell
