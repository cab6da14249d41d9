"""How long a study takes on one H200: the time of its steps by measured rates, looks and compiling with it.

It is the most that training can take: who solves a task sooner stops there, and that cannot be foreseen. What
runs have shown of it can be put in; a job then is taken to end where one of its members solved the task.
Models that write, second looks and what is drawn afterwards are not in it. What is trained for longer where a
model has not learned its task is reckoned beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from separatrix.experiments.cells import Study
from separatrix.experiments.gains import Gains, gains_measured
from separatrix.experiments.lanes import Part, Span, spans_of
from separatrix.experiments.rates import Rates, rates_measured, seconds_per_step, size_of
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
    rates: Rates | None = None,
    gains: Gains | None = None,
) -> Projection:
    """What a study's jobs take on one H200, `abreast` of them at once. `halving=False` is for the same jobs
    with nobody dropped.

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
        rates=rates or rates_measured(), gains=gains or gains_measured(), ends=_ends(solved), abreast=abreast
    )
    found, more = reckoning.together(jobs), reckoning.together(further)
    return Projection(
        study=study.name,
        budget=study.budget,
        halving=drops,
        abreast=abreast,
        jobs=found.jobs,
        seconds=found.seconds,
        ended_seconds=found.ended,
        seconds_in_turn=replace(reckoning, abreast=1).together(jobs).seconds
        if abreast > 1
        else found.seconds,
        further=more.jobs,
        further_seconds=more.seconds,
    )


def _undropped(job: Job) -> Job:
    return replace(job, training=replace(job.training, halving=None))


@dataclass(frozen=True, kw_only=True)
class _Together:
    """Jobs, in the order in which they were given, and what they take in all."""

    jobs: tuple[JobTime, ...]
    seconds: float
    ended: float


@dataclass(frozen=True, kw_only=True)
class _Reckoning:
    """What times are reckoned from, and how jobs are done."""

    rates: Rates
    gains: Gains
    ends: Ends
    abreast: int

    def together(self, jobs: Sequence[Job]) -> _Together:
        """What the jobs take, the longest first."""
        ordered = sorted(jobs, key=work_of, reverse=True)
        ends = {job.key: _end_of(job, self.ends) for job in ordered}
        steps = {job.key: _Steps.of(job, self.rates) for job in ordered}
        known = [job for job in ordered if steps[job.key].are_known]
        whole, ended = (
            dict(zip((job.key for job in known), self._spans(known, steps, until), strict=True))
            for until in ({}, ends)
        )
        return _Together(
            jobs=tuple(
                JobTime(
                    job=job,
                    seconds=whole[job.key].seconds if job.key in whole else None,
                    ended=ended[job.key].seconds if job.key in ended else None,
                    solved_at=ends[job.key],
                    steps=steps[job.key].by_basis,
                    how=steps[job.key].how,
                )
                for job in jobs
            ),
            seconds=max((one.ended for one in whole.values()), default=0.0),
            ended=max((one.ended for one in ended.values()), default=0.0),
        )

    def _spans(
        self, jobs: Sequence[Job], steps: Mapping[str, _Steps], until: Mapping[str, int | None]
    ) -> tuple[Span, ...]:
        parts = [
            [self._part(job, one, steps[job.key]) for one in stretches_of(job, until=until.get(job.key))]
            for job in jobs
        ]
        return spans_of(parts, lanes=self.abreast)

    def _part(self, job: Job, stretch: Stretch, steps: _Steps) -> Part:
        # An example at a look is taken to cost what one in a step does: it is only answered, but by a model
        # that is not compiled.
        taken = stretch.steps + stretch.looked_at / job.training.batch
        compiling = self.rates.seconds_to_start(job.model.name, bands=job.training.bands)
        size = size_of(job, members=stretch.rows)
        assert size is not None, "the time of a step is known of populations that have a size"
        return Part(
            alone=steps.seconds[stretch.rows] * taken,
            compiling=compiling if stretch.compiled else None,
            speed=partial(self.gains.speed, size),
        )


@dataclass(frozen=True, kw_only=True)
class _Steps:
    """The steps of a job's populations, and what one takes in each number of rows where that is known."""

    seconds: Mapping[int, float]
    by_basis: Mapping[Known, int]
    how: tuple[str, ...]
    are_known: bool

    @classmethod
    def of(cls, job: Job, rates: Rates) -> _Steps:
        whole = stretches_of(job)
        estimates = {one.rows: seconds_per_step(job, members=one.rows, rates=rates) for one in whole}
        found = {rows: one for rows, one in estimates.items() if one is not None}
        known = len(found) == len(estimates)
        by_basis: dict[Known, int] = {}
        for stretch in whole:
            basis: Known = found[stretch.rows].basis if known else "not measured"
            by_basis[basis] = by_basis.get(basis, 0) + stretch.steps
        return cls(
            seconds={rows: one.seconds for rows, one in found.items()},
            by_basis=by_basis,
            how=tuple(
                f"{rows:,} {'row' if rows == 1 else 'rows'}: {one.basis}, {one.how}"
                for rows, one in found.items()
            ),
            are_known=known,
        )


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
