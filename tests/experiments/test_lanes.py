"""When jobs end that share a GPU, held against a clock that ticks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest

from separatrix.experiments.lanes import Part, Span, spans_of
from separatrix.experiments.rates import PREPARED_START


def ends(*jobs: Sequence[Part], lanes: int = 1) -> list[float]:
    return [span.ended for span in spans_of(jobs, lanes=lanes)]


def test_one_lane_takes_one_after_another() -> None:
    jobs = [[Part(alone=3.0), Part(alone=1.0)], [Part(alone=2.0)]]
    assert spans_of(jobs) == (Span(begun=0, ended=4), Span(begun=4, ended=6))
    assert spans_of([]) == ()


def test_jobs_that_gain_nothing_end_as_late_as_one_after_another() -> None:
    jobs = [[Part(alone=seconds)] for seconds in (4.0, 2.0, 1.0, 1.0)]
    for lanes in (2, 3, 4, 9):
        assert max(ends(*jobs, lanes=lanes)) == pytest.approx(8)


def test_jobs_that_leave_the_card_to_others_end_as_if_alone() -> None:
    free = [[Part(alone=seconds, speed=lambda together: 1.0)] for seconds in (4.0, 2.0, 1.0, 1.0)]
    assert ends(*free, lanes=4) == [4, 2, 1, 1]
    assert ends(*free, lanes=2) == [4, 2, 3, 4]


def test_one_goes_faster_when_another_has_ended() -> None:
    half = [[Part(alone=seconds)] for seconds in (3.0, 1.0)]
    assert ends(*half, lanes=2) == [pytest.approx(4), pytest.approx(2)]


def test_first_populations_are_compiled_in_turn_and_the_others_have_been() -> None:
    def job() -> list[Part]:
        return [Part(alone=100.0, compiling=30.0, speed=lambda together: 1.0)]

    # The third was compiled beside, and begins in seconds when the first lane is free.
    assert ends(job(), job(), job(), lanes=2) == [130, 160, 130 + PREPARED_START + 100]


def test_only_one_lane_at_a_time_makes_a_population() -> None:
    def job() -> list[Part]:
        return [Part(alone=100.0, speed=lambda together: 1.0), Part(alone=5.0, compiling=20.0)]

    first, second = ends(job(), job(), lanes=2)
    assert (first, second) == (125, 145)


@dataclass(eq=False)
class Ticked:
    """A job under a clock that ticks: what is left of its parts, and whether its population is there."""

    parts: list[tuple[float, float | None, float]]
    is_made: bool = False
    ended: int | None = None


TICK = 0.01


@dataclass
class Clock:
    """The same with nothing but a clock: whose population is made, and what each does in a tick."""

    jobs: list[Ticked]
    lanes: int
    now: int = 0
    compiled: float = 0.0
    unprepared: int = 0
    line: list[Ticked] = field(default_factory=list)
    made_at: int | None = None

    def make(self, busy: Sequence[Ticked]) -> None:
        for job in busy:
            if not job.is_made and job.parts[0][1] is None:
                job.is_made = True
            elif not job.is_made and job not in self.line:
                self.line.append(job)
        if self.line and self.made_at is None:
            self.made_at = self.now + round(self.to_make(self.line[0].parts[0][1] or 0.0) / TICK)
        if self.made_at is not None and self.now >= self.made_at:
            self.line.pop(0).is_made, self.made_at = True, None

    def to_make(self, compiling: float) -> float:
        if self.unprepared:
            self.unprepared -= 1
            return compiling
        self.compiled += compiling
        return min(compiling, max(0.0, self.compiled - self.now * TICK) + PREPARED_START)

    def tick(self) -> None:
        busy = [job for job in self.jobs if job.ended is None][: self.lanes]
        self.make(busy)
        training = [job for job in busy if job.is_made]
        self.now += 1
        for job in training:
            alone, compiling, gained = job.parts[0]
            job.parts[0] = (alone - TICK * speed(gained, len(training)), compiling, gained)
            if job.parts[0][0] <= 0:
                job.parts.pop(0)
                job.is_made = False
                job.ended = None if job.parts else self.now


def speed(gained: float, together: int) -> float:
    return (1 + (together - 1) * gained) / together


@pytest.mark.parametrize("seed", range(60))
def test_it_is_what_a_clock_that_ticks_finds(seed: int) -> None:
    chance = random.Random(seed)
    lanes = chance.randint(1, 4)
    jobs = [
        [
            (
                chance.uniform(1, 20),
                chance.choice((None, chance.uniform(1, 40))),
                chance.choice((0.0, 0.3, 1.0)),
            )
            for _ in range(chance.randint(1, 3))
        ]
        for _ in range(chance.randint(1, 6))
    ]
    clock = Clock([Ticked(list(parts)) for parts in jobs], lanes, unprepared=lanes)
    while any(job.ended is None for job in clock.jobs):
        clock.tick()
    parts = [
        [
            Part(alone=alone, compiling=compiling, speed=partial(speed, gained))
            for alone, compiling, gained in job
        ]
        for job in jobs
    ]
    told = [TICK * (job.ended or 0) for job in clock.jobs]
    assert ends(*parts, lanes=lanes) == pytest.approx(told, abs=0.5)
