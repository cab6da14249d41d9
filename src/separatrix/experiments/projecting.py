"""How long a study takes on one H200: the time of its steps by measured rates, looks and compiling with it.

It is the most that training can take: who solves a task sooner stops there, and that cannot be foreseen. What
runs have shown of it can be put in; a job then is taken to end where one of its members solved the task.
Models that write, second looks and what is drawn afterwards are not in it. What is trained for longer where a
model has not learned its task is reckoned beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from separatrix.experiments.cells import Study
from separatrix.experiments.gains import Gains, gains_measured
from separatrix.experiments.lanes import Part, Span, spans_of
from separatrix.experiments.rates import Estimate, Rates, rates_measured, seconds_per_step, size_of
from separatrix.experiments.scheduling import work_of
from separatrix.options import require
from separatrix.records import JsonObject
from separatrix.store import Run, key_of
from separatrix.training.abreast import require_lanes
from separatrix.training.jobs import Job
from separatrix.training.recipes import Training
from separatrix.training.stretches import Stretch, stretches_of

__all__ = ["JobTime", "Projection", "projection_of"]

Known = Literal["measured", "scaled", "not measured"]
Ends = Mapping[str, Sequence[tuple[float, int]]]
"""Learning rates with the steps at which they solved a task, by model and task."""
_MUCH_LESS: Final = 0.9
_ORDER: Final[tuple[Known, ...]] = ("measured", "scaled", "not measured")


@dataclass(frozen=True, kw_only=True)
class JobTime:
    """What one job takes at most; None where nothing of the kind was measured."""

    job: Job
    seconds: float | None
    """From its beginning to its end, beside others if several are done at once."""
    ended: float | None
    """The same, if it ends where one of its members solved the task in a run before."""
    solved_at: int | None
    steps: Mapping[Known, int]
    """The steps of its populations, by where their rates come from."""
    how: tuple[str, ...]
    """Where they come from in words, for each number of rows."""

    @property
    def name(self) -> str:
        """The model and the task, in short."""
        return self.job.short_name


@dataclass(frozen=True, kw_only=True)
class Projection:
    """What a study takes on one H200."""

    study: str
    budget: str
    halving: bool
    abreast: int = 1
    """Jobs at once."""
    jobs: tuple[JobTime, ...]
    seconds: float
    """At most, without the jobs for which nothing was measured."""
    ended_seconds: float
    """With jobs ending where the runs that were given solved the task."""
    seconds_in_turn: float
    """Of the same jobs one after another."""
    further: tuple[JobTime, ...] = ()
    """Those of models that have not learned their task when the steps of the others are over."""
    further_seconds: float = 0.0
    """Of those at most, if no model learns its task at first."""
    proposed: int | None = None
    """Another number of jobs at once."""
    proposed_seconds: float = 0.0
    """What it would take with these."""

    @property
    def further_hours(self) -> float:
        """At most."""
        return self.further_seconds / 3600

    @property
    def most_minutes(self) -> float:
        """All of it at most, with what is trained for longer."""
        return self.minutes + 60 * self.further_hours

    @property
    def minutes(self) -> float:
        """At most."""
        return self.seconds / 60

    @property
    def hours(self) -> float:
        """At most."""
        return self.seconds / 3600

    @property
    def ended_hours(self) -> float:
        """With jobs ending where the runs that were given solved the task."""
        return self.ended_seconds / 3600

    @property
    def basis(self) -> Mapping[Known, float]:
        """The share of all steps whose rates were measured, of those with scaled ones, and of the others."""
        whole = sum(sum(job.steps.values()) for job in self.jobs) or 1
        return {known: sum(job.steps.get(known, 0) for job in self.jobs) / whole for known in _ORDER}

    def lines(self) -> list[str]:
        """The whole in words, a sentence a line."""
        if not self.jobs:
            return ["Nothing is trained."]
        unknown = sum(job.seconds is None for job in self.jobs)
        if unknown == len(self.jobs):
            return ["How fast its populations are on an H200 was not measured."]
        shares = ", ".join(f"{100 * share:.0f} % {known}" for known, share in self.basis.items() if share)
        halving = " with halving" if self.halving else ""
        most = f"{len(self.jobs):,} populations take at most about {_in_words(self.seconds)}"
        abreast = f", {self.abreast:,} abreast" if self.abreast > 1 else ""
        lines = [f"{most} on one H200{halving}{abreast}. Rates of their steps: {shares}."]
        lines += [f"Rates of {unknown:,} were not measured; their time is not in it."] if unknown else []
        if self.abreast > 1:
            lines.append(
                f"One after another it would be about {_in_words(self.seconds_in_turn)}; a population that "
                "has not been seen to gain abreast is taken to gain nothing."
            )
        if self.proposed and self.proposed_seconds < _MUCH_LESS * self.seconds:
            less = _in_words(self.proposed_seconds)
            lines.append(
                f"With --abreast {self.proposed} all of it would take about {less}, by what equal "
                "populations gained side by side."
            )
        ended = [job for job in self.jobs if job.solved_at is not None]
        if ended:
            lines.append(
                f"Runs have solved the tasks of {len(ended):,} of them; if these end where they did, it is "
                f"about {_in_words(3600 * self.ended_hours)}."
            )
        if self.further_hours:
            unmeasured = sum(job.seconds is None for job in self.further)
            rest = f", without {unmeasured:,} whose rates were not measured" if unmeasured else ""
            lines.append(
                "Models that have not learned their task then are trained for longer: at most about "
                f"{_in_words(3600 * self.further_hours)} more{rest}."
            )
        longest = max(self.jobs, key=lambda job: job.seconds or 0.0)
        if longest.seconds:
            lines.append(f"The longest is {longest.name}: {_in_words(longest.seconds)}.")
        return lines

    def to_fields(self) -> JsonObject:
        """Everything as JSON values."""
        return {
            "experiment": self.study,
            "budget": self.budget,
            "halving": self.halving,
            "abreast": self.abreast,
            "hours": self.hours,
            "hours_in_turn": self.seconds_in_turn / 3600,
            "proposed": None
            if self.proposed is None
            else {"abreast": self.proposed, "hours": self.proposed_seconds / 3600},
            "hours_with_known_stops": self.ended_hours,
            "further_hours": self.further_hours,
            "basis": dict(self.basis),
            "jobs": [
                {
                    "name": job.name,
                    "members": len(job.job.members),
                    "steps": job.job.training.steps,
                    "seconds": job.seconds,
                    "solved_at": job.solved_at,
                    "seconds_with_known_stop": job.ended,
                    "basis": {known: count for known, count in job.steps.items() if count},
                    "how": list(job.how),
                }
                for job in self.jobs
            ],
        }


def projection_of(
    study: Study,
    *,
    halving: bool | None = None,
    solved: Iterable[Run] = (),
    abreast: int = 1,
    proposed: int | None = None,
    rates: Rates | None = None,
    gains: Gains | None = None,
) -> Projection:
    """What a study's jobs take on one H200, `abreast` of them at once, and beside it what `proposed` would.
    `halving=False` is for the same jobs with nobody dropped.

    `solved` are runs from anywhere. Those that solved the task of a job with its model and one of its
    learning rates say where it can be expected to end.
    """
    require_lanes(abreast)
    jobs = [_undropped(job) if halving is False else job for job in study.jobs]
    drops = any(job.training.halving is not None for job in jobs)
    require(
        halving is not True or drops or not jobs,
        f"{study.name} at --budget {study.budget} drops nobody, so there is no halving to reckon with.",
    )
    further = [_undropped(job) if halving is False else job for job in study.further]
    reckoning = _Reckoning(
        rates=rates or rates_measured(), gains=gains or gains_measured(), ends=_ends(solved)
    )
    found, more = _Together(jobs, reckoning), _Together(further, reckoning)
    return Projection(
        study=study.name,
        budget=study.budget,
        halving=drops,
        abreast=abreast,
        jobs=found.times(abreast),
        seconds=found.seconds(abreast),
        ended_seconds=found.seconds_until_solved(abreast),
        seconds_in_turn=found.seconds(1),
        further=more.times(abreast),
        further_seconds=more.seconds(abreast),
        proposed=proposed,
        proposed_seconds=0.0 if proposed is None else found.seconds(proposed),
    )


def _undropped(job: Job) -> Job:
    return replace(job, training=replace(job.training, halving=None))


@dataclass(frozen=True, kw_only=True)
class _Reckoned:
    """A job and the parts in which it is done, none where the time of its steps is not known."""

    job: Job
    solved_at: int | None
    steps: Mapping[Known, int]
    how: tuple[str, ...]
    whole: tuple[Part, ...]
    until_solved: tuple[Part, ...]


@dataclass(frozen=True, kw_only=True)
class _Reckoning:
    """What the parts of a job are reckoned from."""

    rates: Rates
    gains: Gains
    ends: Ends

    def of(self, job: Job) -> _Reckoned:
        stretches, end = stretches_of(job), _end_of(job, self.ends)
        estimates = {one.rows: seconds_per_step(job, members=one.rows, rates=self.rates) for one in stretches}
        found = {rows: one for rows, one in estimates.items() if one is not None}
        known = len(found) == len(estimates)
        steps: dict[Known, int] = {}
        for stretch in stretches:
            basis: Known = found[stretch.rows].basis if known else "not measured"
            steps[basis] = steps.get(basis, 0) + stretch.steps
        whole = self._parts(job, stretches, found) if known else ()
        solved = stretches_of(job, until=end) if known and end is not None else ()
        return _Reckoned(
            job=job,
            solved_at=end,
            steps=steps,
            how=tuple(
                f"{rows:,} {'row' if rows == 1 else 'rows'}: {one.basis}, {one.how}"
                for rows, one in found.items()
            ),
            whole=whole,
            until_solved=self._parts(job, solved, found) or whole,
        )

    def _parts(
        self, job: Job, stretches: Iterable[Stretch], estimates: Mapping[int, Estimate]
    ) -> tuple[Part, ...]:
        compiling = self.rates.seconds_to_start(job.model.name, bands=job.training.bands)
        return tuple(
            Part(
                # An example at a look is taken to cost what one in a step does: it is only answered, but by a
                # model that is not compiled.
                alone=estimates[one.rows].seconds * (one.steps + one.looked_at / job.training.batch),
                compiling=compiling if one.compiled else None,
                speed=self._speed(job, one.rows),
            )
            for one in stretches
        )

    def _speed(self, job: Job, rows: int) -> Callable[[int], float]:
        size = size_of(job, members=rows)
        assert size is not None, "who has no size has no time of a step either"
        return partial(self.gains.speed, size)


class _Together:
    """Jobs that are done with one another, the longest first."""

    def __init__(self, jobs: Iterable[Job], reckoning: _Reckoning) -> None:
        self._all = [reckoning.of(job) for job in jobs]
        ordered = sorted(self._all, key=lambda one: work_of(one.job), reverse=True)
        self._known = [one for one in ordered if one.whole]

    def seconds(self, lanes: int) -> float:
        """Until the last has ended."""
        return _last(self._whole(lanes))

    def seconds_until_solved(self, lanes: int) -> float:
        """The same, if each ends where runs have solved its task."""
        return _last(self._until_solved(lanes))

    def times(self, lanes: int) -> tuple[JobTime, ...]:
        """What each takes, in the order in which they were given."""
        whole, ended = self._whole(lanes), self._until_solved(lanes)
        return tuple(
            JobTime(
                job=one.job,
                seconds=whole[one.job.key].seconds if one.whole else None,
                ended=ended[one.job.key].seconds if one.whole else None,
                solved_at=one.solved_at,
                steps=one.steps,
                how=one.how,
            )
            for one in self._all
        )

    def _whole(self, lanes: int) -> Mapping[str, Span]:
        return self._spans([one.whole for one in self._known], lanes)

    def _until_solved(self, lanes: int) -> Mapping[str, Span]:
        return self._spans([one.until_solved for one in self._known], lanes)

    def _spans(self, parts: Sequence[Sequence[Part]], lanes: int) -> Mapping[str, Span]:
        keys = [one.job.key for one in self._known]
        return dict(zip(keys, spans_of(parts, lanes=lanes), strict=True))


def _last(spans: Mapping[str, Span]) -> float:
    return max((one.ended for one in spans.values()), default=0.0)


def _ends(runs: Iterable[Run]) -> Ends:
    """Learning rates with the steps at which they solved a task, by model and task."""
    found: dict[str, list[tuple[float, int]]] = {}
    for run in runs:
        if run.solved_at is not None:
            question = key_of({"task": run.config["task"], "model": run.config["model"]})
            found.setdefault(question, []).append((run.rate, run.solved_at))
    return found


def _end_of(job: Job, ends: Ends) -> int | None:
    """The first look of the job at which a run had solved its task; None if there is none."""
    question = key_of({"task": job.task.to_fields(), "model": job.model.to_fields()})
    tried = {member.lr for member in job.members}
    steps = [step for rate, step in ends.get(question, ()) if rate in tried and step <= job.training.steps]
    return _next_look(min(steps), job.training) if steps else None


def _next_look(step: int, training: Training) -> int:
    return min(training.steps, -(-step // training.eval_every) * training.eval_every)


def _in_words(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} hours" if seconds >= 3600 else f"{seconds / 60:,.1f} minutes"
