"""Signals that ask a training to end: it ends between two steps, when what it has done is saved."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["Asked", "interruptible"]

_ECHO: Final = 1.0
"""Seconds in which a second SIGTERM is the first one's echo: `timeout` and batch systems send it to a process
and, at once, to its whole group.
"""


class Asked:
    """What a signal has asked for, until it is answered."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        """`give_back` puts the handlers of before in their place."""
        self._give_back = give_back
        self._signal: int | None = None
        self._since = 0.0

    def hear(self, number: int) -> None:
        """A signal came: the first is kept, its echo is nothing, and a further one does what it does."""
        if self._signal is None:
            self._signal, self._since = number, time.monotonic()
        elif not (self.by_terminate and number == self._signal and time.monotonic() - self._since < _ECHO):
            self._give_back()
            signal.raise_signal(number)

    def is_set(self) -> bool:
        """Whether somebody waits for an end."""
        return self._signal is not None

    @property
    def by_terminate(self) -> bool:
        """Whether it was SIGTERM rather than Ctrl-C."""
        return self._signal == signal.SIGTERM

    def answer(self) -> None:
        """Do what the signal would have done at once; where a caller's own handler returns, go on."""
        asked, self._signal = self._signal, None
        if asked is not None:
            self._give_back()
            signal.raise_signal(asked)


@contextmanager
def interruptible() -> Iterator[Asked]:
    """In the block a first Ctrl-C or SIGTERM only asks, so that no step is torn; a second does not wait,
    unless it is a SIGTERM's echo.

    Ctrl-C only where it would interrupt as usual; SIGTERM unless it is ignored. Only in the main thread,
    which alone may say what signals do.
    """
    before = _answering() if threading.current_thread() is threading.main_thread() else {}

    def give_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    asked = Asked(give_back)
    try:
        for number in before:
            signal.signal(number, lambda number, _: asked.hear(number))
        yield asked
    finally:
        give_back()


def _answering() -> dict[signal.Signals, signal._HANDLER]:
    """The signals to wait with, and what they do until now."""
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if found[signal.SIGINT] is not signal.default_int_handler:
        del found[signal.SIGINT]
    if found[signal.SIGTERM] in {signal.SIG_IGN, None}:  # None is a handler that is not Python's
        del found[signal.SIGTERM]
    return found
