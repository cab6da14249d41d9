"""Trainings side by side in one process: all replay their recorded steps at once, and one does the rest.

Compilers, recordings and looks are not made for several threads. So a training that does anything but replay
has the turn, and passes it on while the GPU takes its steps.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Turn"]


class Turn:
    """The right to do what only one training of a process may do at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """In the block nobody else has it."""
        with self._lock:
            yield

    @contextmanager
    def passed_on(self) -> Iterator[None]:
        """In the block others may have it; only for who has it."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()
