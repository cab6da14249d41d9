"""What a command finds around it: streams that may be closed or leave early, and signals."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Final, NoReturn

__all__ = ["Terminated", "let_the_reader_go", "streams", "terminable"]


_SIGNALS: Final = [
    signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__
]
"""What ends a process politely: a wish, or a terminal that is gone. Not every system has the second."""


class Terminated(BaseException):
    """SIGTERM or SIGHUP came. Like KeyboardInterrupt it is no error, and nothing may take it for one."""

    def __init__(self, number: int) -> None:
        """`number` is the signal's."""
        super().__init__()
        self.code = 128 + number
        """The exit code that says so."""


@contextmanager
def terminable() -> Iterator[None]:
    """In the block SIGTERM and SIGHUP raise `Terminated`, so that what is half done is cleared away.

    Only where the system's default would end the process: a caller's own handler, or a wish to ignore the
    signal, as nohup has it, stands. Only the main thread may set handlers.
    """
    in_main = threading.current_thread() is threading.main_thread()
    taken = [number for number in _SIGNALS if in_main and signal.getsignal(number) is signal.SIG_DFL]

    def terminate(number: int, _: object) -> NoReturn:
        """Once: a second signal must not disturb the clearing away."""
        for each in taken:
            signal.signal(each, signal.SIG_IGN)
        raise Terminated(number)

    try:
        for number in taken:
            signal.signal(number, terminate)
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def streams() -> Iterator[bool]:
    """Standard streams that can be written to in any locale; whether standard output is open.

    Python has None for a stream that was closed at the start, and `print` takes None for standard output.
    """
    is_open = sys.stdout is not None
    with ExitStack() as stack:
        for name, redirected in (("stdout", redirect_stdout), ("stderr", redirect_stderr)):
            stream = getattr(sys, name)
            if stream is None:
                nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
                stack.enter_context(redirected(nowhere))
            elif isinstance(stream, io.TextIOWrapper):
                # Where the terminal has no →, print an escape rather than fail.
                stream.reconfigure(errors="backslashreplace")
        yield is_open


def let_the_reader_go() -> None:
    """Nobody waits for the rest: Python must not complain about that, or hang on it, at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        sys.stdout = io.StringIO()
