"""How much the explorer does at once, for how long, and of what size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

__all__ = ["Limits"]


@final
@dataclass(frozen=True, kw_only=True)
class Limits:
    """Each has a sentence of its own when it is met."""

    workers: int = 2
    """Processes that compute answers."""
    seconds: float = 10.0
    """For one answer; whoever computes longer is ended."""
    waiting: int = 8
    """Questions that wait for a process; more are turned away."""
    patience: float = 30.0
    """Seconds that one waits for a process at most, which covers the time it takes to start."""
    body: int = 64 * 2**10
    """Bytes of a question."""
    body_seconds: float = 10.0
    """For a question to arrive."""
    head_seconds: float = 20.0
    """For a request's headers to arrive, or for an answer to be taken; then the connection is cut."""
    header: int = 16 * 2**10
    """Bytes of a request's headers."""
    answer: int = 8 * 2**20
    """Bytes of an answer."""
    connections: int = 128
    """Open at once; more are turned away."""
    memory: int = 3 * 2**30
    """Bytes of data that a process may hold, where the system can limit it."""
    jobs: int = 50_000
    """Answers after which a process makes room for a fresh one."""

    @property
    def turn_seconds(self) -> float:
        """The longest that a request can be in work: to arrive, to wait twice, to be answered and taken."""
        return self.body_seconds + 2 * self.patience + self.seconds + self.head_seconds
