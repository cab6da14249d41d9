"""Signals that ask a training to end: it ends between two steps, when what it has done is saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Asked", "interruptible"]


class Asked:
    """What a signal has asked for, until it is answered."""

    def __init__(self) -> None:
        self._signal: int | None = None

    def ask(self, number: int) -> None:
        """A signal came."""
        self._signal = number

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
            signal.raise_signal(asked)


@contextmanager
def interruptible() -> Iterator[Asked]:
    """In the block a first Ctrl-C or SIGTERM only asks, so that no step is torn; a second does not wait.

    Ctrl-C only where it would interrupt as usual; SIGTERM unless it is ignored. Only in the main thread,
    which alone may say what signals do.
    """
    asked = Asked()
    before = _answering() if threading.current_thread() is threading.main_thread() else {}

    def give_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def first(number: int, _: object) -> None:
        asked.ask(number)
        give_back()

    try:
        for number in before:
            signal.signal(number, first)
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
