"""Recorded steps of populations on streams of their own: how long they take alone, and several at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch

from benchmarks.populations import timed
from separatrix.training.course import Course
from separatrix.training.engine import Engine
from separatrix.training.jobs import Job
from separatrix.training.running import placing_for

__all__ = ["SECONDS", "Ready", "gain_of", "ready"]

SECONDS: Final = 0.5
_SLICES: Final = 40
Turn = AbstractContextManager[Any]
"""Held by who times something while others compile."""


@dataclass
class Ready:
    """Recorded steps on a stream of their own. A turn is a step of each band; `seconds` is of one alone."""

    engine: Engine
    stream: Any
    seconds: float = 0.0
    start_seconds: float = 0.0
    """From nothing to its first step."""

    @property
    def steps_per_second(self) -> float:
        """Alone."""
        return self.engine.training.bands / self.seconds

    def run(self, turns: int) -> None:
        """Take so many, without waiting for them."""
        with torch.cuda.stream(self.stream):
            self.engine.run(turns * self.engine.training.bands)

    def again(self) -> Ready:
        """The same steps of the same weights, recorded once more on another stream."""
        return _recorded(self.engine.another(), _stream(), self.seconds)


def ready(job: Job, *, seconds: float = SECONDS, turn: Turn | None = None) -> Ready:
    """Compiled, recorded and, in its turn, timed."""
    begun = time.perf_counter()
    stream = _stream()
    with torch.cuda.stream(stream):
        engine = Course(job, placing_for(job, device="cuda")).engine
    found = _recorded(engine, stream)
    found.start_seconds = time.perf_counter() - begun
    with turn or nullcontext():
        found.seconds = 1 / timed(found.run, seconds=seconds)
    return found


def gain_of(together: Sequence[Ready], *, seconds: float = SECONDS) -> float:
    """How many times as much is done as one after another, each with so many seconds of its own to do."""
    turns = [max(1, round(seconds / one.seconds)) for one in together]
    done = [0] * len(together)
    for one in together:
        one.run(1)  # what is recorded comes to the card with its first turn
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for part in range(1, _SLICES + 1):
        for number, one in enumerate(together):
            due = turns[number] * part // _SLICES
            if due > done[number]:
                one.run(due - done[number])
                done[number] = due
    torch.cuda.synchronize()
    taken = time.perf_counter() - begun
    return sum(count * one.seconds for count, one in zip(turns, together, strict=True)) / taken


def _stream() -> Any:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


def _recorded(engine: Engine, stream: Any, seconds: float = 0.0) -> Ready:
    with torch.cuda.stream(stream):
        engine.record()
    torch.cuda.synchronize()
    return Ready(engine, stream, seconds)
