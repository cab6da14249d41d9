"""Trainings side by side in one process: each replays its steps and looks at its members when it likes, but
only one at a time makes a population.

Compiling is not made for several threads, nor is recording beside it. So whoever does that has the turn.
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
