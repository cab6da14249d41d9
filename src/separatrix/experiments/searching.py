"""Search: optuna asks for the next runs where a grid would try them all.

The store is the only memory. Every round a study is made anew and told all runs of the store that lie in the
space, whoever began them, and asked for as many as are trained side by side: one architecture, several
learning rates. What it asks for is a function of what has finished, so a search that is killed at any moment
goes on as if nothing had happened; a population that was cut off is taken up first.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from separatrix.errors import InvalidInput
from separatrix.experiments.cells import Study
from separatrix.experiments.engines import Engine, Failure, Ran, Tell
from separatrix.experiments.scheduling import work_of
from separatrix.models.specs import ModelSpec
from separatrix.options import require
from separatrix.records import JsonValue, Reader, same_json, thaw
from separatrix.store import Run, Status, Store, key_of
from separatrix.store.runs import FINISHED
from separatrix.training.jobs import Job
from separatrix.training.recipes import Member

__all__ = ["Found", "Space", "found_in", "next_job", "search", "search_study", "space_of"]

_RATE: Final = "lr"
_DIGITS: Final = 3
"""Of a learning rate that is asked for: more say nothing."""


@dataclass(frozen=True, kw_only=True)
class Space:
    """What is searched: the parameters of a model that have choices, and a learning rate between two ends.

    All else is as in `template`, whose first member says how a rate goes on.
    """

    template: Job
    choices: Mapping[str, tuple[JsonValue, ...]]
    lowest: float = 1e-6
    highest: float = 1e-2

    def __post_init__(self) -> None:
        require(
            0 < self.lowest < self.highest < math.inf,
            f"Learning rates are searched between two that differ; got {self.lowest} and {self.highest}.",
        )
        require(_RATE not in self.choices, f"The learning rate is no parameter of a model; got '{_RATE}'.")

    def job(self, architecture: Mapping[str, JsonValue], rates: Sequence[float]) -> Job:
        """The members with these rates of one architecture, to be trained side by side."""
        model = self.template.model
        spec = ModelSpec(name=model.name, params={**model.params, **architecture}, code=model.code)
        members = tuple(replace(self.template.members[0], lr=rate) for rate in dict.fromkeys(rates))
        return replace(self.template, model=spec, members=members)

    def place_of(self, run: Run) -> dict[str, JsonValue] | None:
        """Where a run lies in the space: its rate and its choices; None if it lies elsewhere."""
        config: Any = run.config
        params, member, model = config["model"]["params"], config["member"], self.template.model
        varied = {
            name: one
            for name, each in self.choices.items()
            for one in each
            if name in params and same_json(params[name], one)
        }
        alike = (
            len(varied) == len(self.choices)
            and same_json(config["model"], {**model.to_fields(), "params": {**model.params, **varied}})
            and same_json(config["task"], self.template.task.to_fields())
            and same_json(config["training"], self.template.training.to_fields())
            and same_json(_common(member), _common(self.template.members[0].to_fields()))
            and self.lowest <= member[_RATE] <= self.highest
        )
        return {**varied, _RATE: float(member[_RATE])} if alike else None


def _common(member: Mapping[str, object]) -> dict[str, object]:
    """What members share wherever they lie; a run with another seed tells as much."""
    return {name: value for name, value in member.items() if name not in {_RATE, "seed"}}


def space_of(jobs: Sequence[Job], *, lowest: float = 1e-6, highest: float = 1e-2) -> Space:
    """The space that the jobs of a grid lie in: what differs between their models is searched."""
    require(len(jobs) >= 1, "A search needs the jobs of a grid; none was given.")
    first = jobs[0]
    for job in jobs:
        same = (job.task, job.training, job.model.name, set(job.model.params)) == (
            first.task,
            first.training,
            first.model.name,
            set(first.model.params),
        )
        require(same, "A search is over one model on one task, trained in one way; got jobs that differ.")
    values = {
        name: tuple(dict.fromkeys(job.model.params[name] for job in jobs)) for name in first.model.params
    }
    choices = {name: each for name, each in values.items() if len(each) > 1}
    architectures = len({key_of(job.model.to_fields()) for job in jobs})
    require(
        architectures == math.prod(len(each) for each in choices.values()),
        f"A search needs a full grid: every choice of {', '.join(choices)} with every other.",
    )
    return Space(template=first, choices=choices, lowest=lowest, highest=highest)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search has come to: the best run, if any has finished, out of so many trials."""

    best: Run | None
    trials: int
    solved: bool


def found_in(space: Space, store: Store) -> Found:
    """What the store has in a space."""
    runs = [run for run, _ in _placed(space, store) if run.accuracy is not None]
    # Of equals the quickest, then whichever key comes first.
    best = min(runs, key=lambda run: (-(run.accuracy or 0.0), run.steps, run.key), default=None)
    ends = space.template.training.stop != "never"
    return Found(best=best, trials=len(runs), solved=ends and any(run.solved_at is not None for run in runs))


def search(
    space: Space,
    store: Store,
    *,
    trials: int,
    run: Callable[[Sequence[Job]], object],
    seats: int = 7,
    seed: int = 0,
) -> Found:
    """Have `run` train what optuna asks for, until so many runs are in the space or one has solved the task.

    Runs that the store has count among the trials: a search that has ended asks for nothing. When a round
    adds nothing, because it failed or was interrupted, the search ends with what there is.
    """
    while True:
        before = found_in(space, store)
        job = next_job(space, store, trials=trials, seats=seats, seed=seed)
        if job is None:
            return before
        run([job])
        if found_in(space, store).trials == before.trials:
            return before


def search_study(
    study: Study,
    store: Store,
    *,
    trials: int,
    engine: Engine,
    tell: Tell,
    seats: int = 7,
    seed: int = 0,
) -> Ran:
    """Search for every cell of a study that is trained, all at once: a round has a job for each of them."""
    spaces = [space_of(cell.jobs) for cell in study.cells if cell.jobs]
    done, failed, ever = 0, list[Failure](), set[str]()
    while True:
        asked: dict[str, Job] = {}
        for space in spaces:
            job = next_job(space, store, trials=trials, seats=seats, seed=seed)
            if job is not None and job.key not in ever:  # one that failed would be asked for for ever
                asked[job.key] = job
        if not asked:
            return Ran(done=done, failed=tuple(failed))
        ever.update(asked)
        known = sum(found_in(space, store).trials for space in spaces)
        tell(f"A round of {len(asked):,} jobs; {known:,} runs are known in {len(spaces):,} spaces.")
        ran = engine.run(sorted(asked.values(), key=work_of, reverse=True), store, tell=tell)
        done, failed = done + ran.done, [*failed, *ran.failed]
        if ran.interrupted:
            return Ran(done=done, failed=tuple(failed), interrupted=True)


def next_job(space: Space, store: Store, *, trials: int, seats: int = 7, seed: int = 0) -> Job | None:
    """What to train next: what was cut off, else what optuna asks for; None when the search is over."""
    require(trials >= 1, f"A search has at least one trial; got {trials}.")
    require(seats >= 1, f"At least one run is trained at a time; got seats={seats}.")
    found = found_in(space, store)
    if found.trials >= trials or found.solved:
        return None
    under_way = _placed(space, store, statuses=("running",))
    idle = store.cut_off()
    for run, _ in under_way:
        for population in store.populations(run.key) if run.key in idle else ():
            job = _job_of(space, store, population)
            if job is not None:
                return job
    with _optuna() as optuna:
        return _asked(optuna, space, store, count=min(seats, trials - found.trials), seed=seed)


def _placed(
    space: Space, store: Store, *, statuses: Sequence[Status] = FINISHED
) -> list[tuple[Run, dict[str, JsonValue]]]:
    """The runs of the store that lie in the space, in the order in which they were begun, and where."""
    template = space.template
    runs = store.runs(task=template.task.name, model=template.model.name)
    placed = [(run, space.place_of(run)) for run in runs if run.status in statuses]
    return [(run, place) for run, place in placed if place is not None]


def _job_of(space: Space, store: Store, population: str) -> Job | None:
    """The job whose members are the runs of a population; None if they are not all of its members."""
    runs = store.members(population)
    places = [space.place_of(run) for run in runs]
    if not runs or any(place is None for place in places):
        return None
    read = [Reader(thaw(run.config), what=f"the config of run {run.short}") for run in runs]
    job = replace(
        space.template,
        model=read[0].record("model", ModelSpec),
        members=tuple(each.record("member", Member) for each in read),
    )
    return job if job.key == population else None


def _asked(optuna: Any, space: Space, store: Store, *, count: int, seed: int) -> Job:
    """One architecture with so many learning rates, as a study asks for them that knows all past runs."""
    distributions = {
        _RATE: optuna.distributions.FloatDistribution(space.lowest, space.highest, log=True),
        **{name: optuna.distributions.CategoricalDistribution(each) for name, each in space.choices.items()},
    }
    told = [
        _trial(optuna, run, place, distributions)
        for run, place in _placed(space, store, statuses=(*FINISHED, "running"))
    ]
    # Every round draws other numbers, so that none repeats the one before it.
    drawn = int(key_of({"seed": seed, "told": len(told)})[:8], 16)
    # Those that are asked for, or trained elsewhere, count as bad, so that the next lies somewhere else.
    sampler = optuna.samplers.TPESampler(seed=drawn, constant_liar=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.add_trials(told)
    first = study.ask(distributions)
    architecture = {name: first.params[name] for name in space.choices}
    rates = [_rounded(first.params[_RATE], space)]
    for _ in range(count - 1):
        study.enqueue_trial(architecture)
        rates.append(_rounded(study.ask(distributions).params[_RATE], space))
    return space.job(architecture, rates)


def _trial(
    optuna: Any, run: Run, place: Mapping[str, JsonValue], distributions: Mapping[str, object]
) -> object:
    """A run as optuna knows it: one that was dropped on its way was pruned there."""
    states = optuna.trial.TrialState
    state = {"running": states.RUNNING, "dropped": states.PRUNED}.get(run.status, states.COMPLETE)
    return optuna.trial.create_trial(
        state=state,
        value=(run.accuracy or 0.0) if state == states.COMPLETE else None,
        params=dict(place),
        distributions=dict(distributions),
        intermediate_values={} if run.accuracy is None else {run.steps: run.accuracy},
    )


def _rounded(rate: float, space: Space) -> float:
    return min(max(float(f"{rate:.{_DIGITS}g}"), space.lowest), space.highest)


@contextmanager
def _optuna() -> Iterator[Any]:
    """Optuna without its words: what it has to say is for whoever keeps a study with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            optuna = importlib.import_module("optuna")
        except ImportError as failure:
            raise InvalidInput(
                "A search needs optuna, which is not installed: pip install 'separatrix[search]'."
            ) from failure
        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            yield optuna
        finally:
            optuna.logging.set_verbosity(before)
