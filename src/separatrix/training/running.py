"""Running jobs: take what the store has, go on from the last checkpoint, keep everything that comes out."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import torch

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.models.kernels.choice import Backend
from separatrix.models.population import ModelConfig
from separatrix.options import require
from separatrix.store import Result, Store, key_of
from separatrix.store.checkpoints import Checkpoint, Checkpoints
from separatrix.store.provenance import provenance
from separatrix.tasks.interface import Task
from separatrix.training.course import Course, Outcome
from separatrix.training.jobs import Job, job_for
from separatrix.training.placing import Placing
from separatrix.training.recipes import Member, Training
from separatrix.training.remembered import Remembered, Trained, load_run, population_of, remembered
from separatrix.training.signals import Asked, interruptible
from separatrix.training.trials import require_computable
from separatrix.training.turns import Turn

__all__ = [
    "Observer",
    "OutOfTime",
    "Trained",
    "chosen_device",
    "deterministically",
    "load_run",
    "placing_for",
    "prepare_job",
    "run_job",
    "train",
]

_SECONDS_BETWEEN_CHECKPOINTS: Final = 60.0
_MOST_SEATS: Final = 64


class Observer:
    """What is told of a job under way. This one does nothing with it; a view shows it."""

    def begins(self, job: Job, *, seats: int, finished: Sequence[int]) -> None:
        """A job begins or goes on; these members have been trained before."""

    def steps(self, course: Course, count: int) -> None:
        """So many steps more were taken."""

    def looked(self, course: Course) -> None:
        """Members were looked at."""

    def left(self, job: Job, outcome: Outcome) -> None:
        """A member is finished."""

    def says(self, note: str) -> None:
        """Something that a person should know."""

    def beside(self, job: Job) -> Observer:
        """Who is told of this job when several are under way at once, each in a thread of its own."""
        return Observer()


class OutOfTime(Exception):
    """The time that a job had is over; what it had trained is saved, if there is a store."""

    def __init__(self, taken: int) -> None:
        """`taken` is the steps that were taken."""
        super().__init__(f"Time is over after step {taken:,}.")


def train(
    task: Task,
    model: str | ModelConfig,
    *,
    members: Sequence[Member],
    training: Training | None = None,
    store: Store | None = None,
    device: str = "auto",
    seats: int | None = None,
    compiled: bool | None = None,
    backend: Backend = "auto",
    deterministic: bool = False,
    observer: Observer | None = None,
) -> tuple[Trained, ...]:
    """Train the members of a model on a task, side by side, and say how often each is right.

    With a store, members that it has are not trained again, and a training that was cut off goes on from its
    last checkpoint. Results come in the order of `members`; where training stops with the first that has
    solved the task, those that had not begun have none.
    """
    job = job_for(task, model, members=members, training=training)
    return run_job(
        job,
        store=store,
        device=device,
        seats=seats,
        compiled=compiled,
        backend=backend,
        deterministic=deterministic,
        observer=observer,
        own_code=True,
    )


def run_job(
    job: Job,
    *,
    store: Store | None = None,
    device: str = "auto",
    seats: int | None = None,
    compiled: bool | None = None,
    backend: Backend = "auto",
    deterministic: bool = False,
    observer: Observer | None = None,
    checkpoint_seconds: float = _SECONDS_BETWEEN_CHECKPOINTS,
    until: float = math.inf,
    is_over: Callable[[], bool] = lambda: False,
    turn: Turn | None = None,
    shared: bool = False,
    own_code: bool = False,
) -> tuple[Trained, ...]:
    """Do a job: see `train`. `own_code` allows to run the code that a model `module:factory` names.

    Where the clock `time.monotonic` says `until` before the end, or `is_over` says so, what was trained is
    saved and `OutOfTime` is raised; the same again goes on from there. Jobs that go on beside each other in
    one process share a turn; `shared` says that other processes use the same device meanwhile.
    """
    placing = replace(
        placing_for(job, device=device, seats=seats, compiled=compiled, backend=backend, own_code=own_code),
        turn=turn,
    )
    job.population(1, own_code=own_code)  # what does not fit is refused before anything is written
    source = provenance(placing.device, precision=job.training.precision, deterministic=deterministic)
    if turn is not None or shared:
        source["abreast"] = True  # how fast it was says less than in a run alone
    watched = observer or Observer()

    def over() -> bool:
        return time.monotonic() >= until or is_over()

    with deterministically(deterministic):
        if store is None:
            work = _Work(job, placing, None, None, watched, source, checkpoint_seconds, over)
            return work.done(Remembered())
        with store.claim(job.key) as checkpoints:
            work = _Work(job, placing, store, checkpoints, watched, source, checkpoint_seconds, over)
            return work.done(remembered(job, store, own_code=own_code))


def prepare_job(
    job: Job,
    *,
    device: str = "auto",
    seats: int | None = None,
    backend: Backend = "auto",
    own_code: bool = False,
) -> None:
    """Take one step of each kind and throw it away, so that the compiler's cache on disk has what the job
    needs.
    """
    placing = placing_for(job, device=device, seats=seats, backend=backend, own_code=own_code)
    Course(job, placing).engine.run(job.training.bands)


def placing_for(
    job: Job,
    *,
    device: str = "auto",
    seats: int | None = None,
    compiled: bool | None = None,
    backend: Backend = "auto",
    own_code: bool = False,
) -> Placing:
    """Where a job is computed and in how many rows; on a GPU it is compiled unless said otherwise."""
    require(seats is None or seats >= 1, f"A population has at least one seat; got seats={seats}.")
    where = chosen_device(device)
    return Placing(
        device=where,
        seats=min(seats or _MOST_SEATS, len(job.members)),
        compiled=where.type == "cuda" if compiled is None else compiled,
        backend=backend,
        own_code=own_code,
    )


def chosen_device(name: str) -> torch.device:
    """The device of this name; `auto` is the GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InvalidInput(f"A device is auto, cpu, cuda or cuda:1; got '{name}'.") from None
    if device.type not in {"cpu", "cuda"}:
        raise InvalidInput(f"Training runs on a device that is auto, cpu, cuda or cuda:1; got '{name}'.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InvalidInput(f"There is no CUDA device here; got device={name}. Leave it out to use the CPU.")
    return device


@contextmanager
def deterministically(wanted: bool) -> Iterator[None]:
    """In the block every operation gives the same bytes in every run, or refuses."""
    if not wanted:
        yield
        return
    # cuBLAS reads this when it is first used.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    memory: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False  # everything here is written before it is read
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        memory.fill_uninitialized_memory = before[1]


class _Work:
    """One job from its beginning, or from its last checkpoint, to its end."""

    def __init__(
        self,
        job: Job,
        placing: Placing,
        store: Store | None,
        checkpoints: Checkpoints | None,
        observer: Observer,
        source: dict[str, object],
        checkpoint_seconds: float,
        is_over: Callable[[], bool],
    ) -> None:
        self.job, self.placing, self.store, self.checkpoints = job, placing, store, checkpoints
        self.observer, self.source, self.checkpoint_seconds = observer, source, checkpoint_seconds
        self._is_over = is_over
        self.seconds = 0.0
        self.rate: float | None = None
        """Steps a second of the population over the newest stretch between looks, looks included."""

    def done(self, known: Remembered) -> tuple[Trained, ...]:
        """Train whoever is not finished; all results in the order of the job."""
        everyone = tuple(range(len(self.job.members)))
        finished = dict(known.finished)
        for note in known.notes:
            self.observer.says(note)
        rest = tuple(number for number in everyone if number not in finished)
        solved = any(one.solved_at is not None for one in finished.values())
        if self.job.training.stop == "first" and solved:
            self._left_out(rest)  # the solver is written last, so these had not begun
            rest = ()
        again = everyone if rest and self.job.training.compares else rest
        seats = min(self.placing.seats, len(again))
        if again:
            require_computable(self.job, replace(self.placing, seats=seats))
        self.observer.begins(self.job, seats=seats, finished=tuple(finished))
        if again:
            finished |= self._trained(again, unfinished=frozenset(rest))
        return tuple(finished[number] for number in everyone if number in finished)

    def _trained(self, members: tuple[int, ...], *, unfinished: frozenset[int]) -> dict[int, Trained]:
        if self._is_over():
            raise OutOfTime(0)
        course = self._resumed(members, unfinished) or Course(self.job, self.placing, members=members)
        if self.store is not None:
            configs = [self.job.config_of(self.job.members[number]) for number in members]
            self.store.begin_all(configs, population=self.job.key, provenance=self.source)
        with interruptible() as asked:
            found = self._followed(course, asked)
        self._left_out(course.never_began)
        return found

    def _followed(self, course: Course, asked: Asked) -> dict[int, Trained]:
        """See a course to its end, or to where somebody interrupts it."""
        found: dict[int, Trained] = {}
        last = saved = time.monotonic()
        while not course.done:
            taken = course.taken
            course.advance(
                lambda count: self.observer.steps(course, count),
                halt=lambda: asked.is_set() or self._is_over(),
            )
            now = time.monotonic()
            self.rate = (course.taken - taken) / max(now - last, 1e-9)
            self.seconds, last = self.seconds + now - last, now
            self.observer.looked(course)
            # One that has solved the task comes last: where training stops with the first, all the others
            # are written down before the store knows that it is over.
            for outcome in sorted(course.outcomes, key=lambda one: one.solved_at is not None):
                found[outcome.member] = self._kept(outcome)
                self.observer.left(self.job, outcome)
            if self.checkpoints is not None and not course.done and now - saved >= self.checkpoint_seconds:
                self._save(course)
                saved = time.monotonic()
            if asked.is_set():
                self._end_early(course, asked)
                last = saved = time.monotonic()
            elif self._is_over() and not course.done:
                if self.checkpoints is not None:
                    self._save(course)
                raise OutOfTime(course.taken)
        return found

    def _end_early(self, course: Course, asked: Asked) -> None:
        """Save what there is, and then do what was asked for."""
        kept = self.checkpoints is not None and not course.done
        if kept:
            self._save(course)
        if kept and asked.by_terminate:  # which mostly ends the process without another word
            self.observer.says(f"Terminated; run the same again to go on from step {course.taken:,}.")
        asked.answer()

    def _left_out(self, members: Iterable[int]) -> None:
        """Members that never began, because another had solved the task, are not running."""
        for number in members if self.store is not None else ():
            assert self.store is not None
            config = self.job.config_of(self.job.members[number])
            self.store.finish(key_of(config), Result(status="stopped", steps=0))

    def _resumed(self, members: tuple[int, ...], unfinished: frozenset[int]) -> Course | None:
        """The course where it was last saved; what was wrong with a newer checkpoint is said."""
        if self.checkpoints is None:
            return None
        courses: list[Course] = []
        loaded = self.checkpoints.load(
            lambda checkpoint: courses.append(self._taken_up(checkpoint, members, unfinished))
        )
        if loaded.note is not None:
            self.observer.says(loaded.note)
        if loaded.checkpoint is None:
            return None
        self.observer.says(f"Going on from step {loaded.checkpoint.step:,} of '{loaded.checkpoint.path}'.")
        return courses[0]

    def _taken_up(
        self, checkpoint: Checkpoint, members: tuple[int, ...], unfinished: frozenset[int]
    ) -> Course:
        """The course that a checkpoint holds, with those behind it who are to be trained and not in it."""
        course = Course(self.job, self.placing, members=members)
        meta = dict(checkpoint.meta)
        seconds = meta.pop("seconds", 0.0)
        course.restore(checkpoint.tensors, meta, what=f"'{checkpoint.path}'")
        missing = unfinished - course.members
        if missing and (missing == unfinished or self.job.training.compares):
            raise InvalidFile(f"'{checkpoint.path}' is from after members had left who are trained again.")
        if missing:
            course.add(sorted(missing))
        self.seconds = float(seconds) if isinstance(seconds, int | float) else 0.0
        return course

    def _save(self, course: Course) -> None:
        assert self.checkpoints is not None
        assert self.store is not None
        tensors, meta = course.saved()
        self.checkpoints.save(tensors, meta={**meta, "seconds": self.seconds}, step=course.taken)
        self.store.reached(
            {
                key_of(self.job.config_of(self.job.members[seat.member])): seat.step
                for seat in course.seats
                if seat.member is not None
            }
        )

    def _kept(self, outcome: Outcome) -> Trained:
        """Write down what became of a member: weights and curve first, so that a finished row has both."""
        member, counted = self.job.members[outcome.member], outcome.counted
        share = self.seconds / max(1, min(self.placing.seats, len(self.job.members)))
        run = None
        if self.store is not None:
            run = self.store.begin(
                self.job.config_of(member), population=self.job.key, provenance=self.source
            )
            self.store.write_weights(run.key, outcome.tensors, self.job.config_of(member))
            self.store.write_curve(run.key, outcome.points)
            result = Result(
                status=outcome.status,
                steps=outcome.steps,
                solved_at=outcome.solved_at,
                correct=counted.right,
                examples=counted.examples,
                label_accuracy=counted.labels_right / counted.labels,
                loss=outcome.points[-1].loss if outcome.points else None,
                seconds=share,
                provenance={**self.source, "steps_per_second": self.rate},
            )
            run = self.store.finish(run.key, result)
        return Trained(
            member=member,
            status=outcome.status,
            steps=outcome.steps,
            solved_at=outcome.solved_at,
            correct=counted.right,
            examples=counted.examples,
            label_accuracy=counted.labels_right / counted.labels,
            seconds=share,
            curve=outcome.points,
            population=population_of(self.job, outcome.tensors, own_code=self.placing.own_code),
            run=run,
        )
