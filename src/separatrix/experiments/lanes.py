"""When jobs end that are done on one GPU, in so many lanes: one after another, or some of them at once.

A job is stretches of steps. A stretch of a new population begins when that is compiled. The first populations
of the first jobs, one a lane, are compiled where they are trained; what comes later was compiled before by a
second process, as far as that has come. Only one lane at a time makes a population. Those that take steps
share the card: one of several has a share of the speed that it would have alone.

Steps of other lanes that have to wait for Python while a population is made are not in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from separatrix.experiments.rates import PREPARED_START

__all__ = ["Part", "Span", "spans_of"]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A stretch of a job."""

    alone: float
    """Seconds of its steps and looks with the card for itself."""
    compiling: float | None = None
    """Seconds, if the population is a new one."""
    speed: Callable[[int], float] = lambda together: 1 / together
    """The share of its speed alone that it has as one of so many."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """When a job began and ended, in seconds from the first."""

    begun: float
    ended: float

    @property
    def seconds(self) -> float:
        """Between the two."""
        return self.ended - self.begun


class _Making:
    """Who makes a population, and how long it takes."""

    def __init__(self, lanes: int) -> None:
        self._unprepared = lanes
        self._free = self._ready = 0.0

    def done(self, now: float, compiling: float) -> float:
        """When the next population can take its first step."""
        begun = max(now, self._free)
        if self._unprepared:
            self._unprepared -= 1
            taken = compiling
        else:
            self._ready += compiling
            taken = min(compiling, max(0.0, self._ready - begun) + PREPARED_START)
        self._free = begun + taken
        return self._free


class _Lane:
    """A job under way."""

    def __init__(self, job: int, parts: Sequence[Part], now: float, making: _Making) -> None:
        self.job, self.begun = job, now
        self._making, self._later = making, deque(parts)
        self.goes_on(now)

    def goes_on(self, now: float) -> bool:
        """Begin the next part, if there is one."""
        if not self._later:
            return False
        self._part = self._later.popleft()
        self._left = self._part.alone
        compiling = self._part.compiling
        self._made = now if compiling is None else self._making.done(now, compiling)
        return True

    def trains(self, now: float) -> bool:
        """Whether its population is there."""
        return self._made <= now

    def next_at(self, now: float, together: int) -> float:
        """When its population is there, or else has taken its steps, as one of so many."""
        return now + self._left / self._part.speed(together) if self.trains(now) else self._made

    def train(self, seconds: float, together: int) -> None:
        """Take steps for so long."""
        self._left = max(0.0, self._left - seconds * self._part.speed(together))


def spans_of(jobs: Sequence[Sequence[Part]], *, lanes: int = 1) -> tuple[Span, ...]:
    """When each job begins and ends; they are done in this order, and each has a part at least."""
    waiting, making = deque(enumerate(jobs)), _Making(lanes)
    busy: list[_Lane] = []
    found: dict[int, Span] = {}
    now = 0.0
    while waiting or busy:
        while waiting and len(busy) < lanes:
            job, parts = waiting.popleft()
            busy.append(_Lane(job, parts, now, making))
        training = [lane for lane in busy if lane.trains(now)]
        together = len(training)
        later, _, first = min((lane.next_at(now, together), lane.job, lane) for lane in busy)
        for lane in training:
            lane.train(later - now, together)
        now = later
        if first in training and not first.goes_on(now):
            busy.remove(first)
            found[first.job] = Span(begun=first.begun, ended=now)
    return tuple(found[job] for job in range(len(jobs)))
