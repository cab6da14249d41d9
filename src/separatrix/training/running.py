"""Running jobs: take what the store has, go on from the last checkpoint, keep everything that comes out."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final

import torch

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.evidence import TaskSpec
from separatrix.models.kernels.choice import Backend
from separatrix.models.population import ModelConfig, Population
from separatrix.models.specs import ModelSpec
from separatrix.options import require
from separatrix.records import Reader, freeze, thaw
from separatrix.store import Interval, Point, Result, Run, Store, key_of, wilson
from separatrix.store.checkpoints import Checkpoints
from separatrix.store.provenance import provenance
from separatrix.store.runs import FINISHED
from separatrix.tasks.interface import Task
from separatrix.training.course import Course, Outcome, Placing, population_of
from separatrix.training.jobs import Job, job_for
from separatrix.training.recipes import Member, Training

__all__ = ["Observer", "Trained", "deterministically", "load_run", "placing_for", "run_job", "train"]

_SECONDS_BETWEEN_CHECKPOINTS: Final = 60.0
_MOST_SEATS: Final = 64


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A member at its end: what came of it, its curve, and its weights as a population of one."""

    member: Member
    status: str
    steps: int
    solved_at: int | None
    correct: int
    examples: int
    label_accuracy: float
    """Of single labels, where an example has several."""
    seconds: float
    curve: tuple[Point, ...] = field(repr=False)
    population: Population = field(repr=False)
    run: Run | None = field(repr=False)
    """Its row in the store, if there is a store."""

    @property
    def accuracy(self) -> float:
        """On fresh inputs of full length, each right if all its labels are."""
        return self.correct / self.examples

    @property
    def interval(self) -> Interval:
        """Wilson's 95 % interval of the accuracy."""
        return wilson(self.correct, self.examples)


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
    own_code: bool = False,
) -> tuple[Trained, ...]:
    """Do a job: see `train`. `own_code` allows to run the code that a model `module:factory` names."""
    placing = placing_for(
        job, device=device, seats=seats, compiled=compiled, backend=backend, own_code=own_code
    )
    job.population(1, own_code=own_code)  # what does not fit is refused before anything is written
    source = provenance(placing.device, precision=job.training.precision, deterministic=deterministic)
    watched = observer or Observer()
    with deterministically(deterministic):
        if store is None:
            work = _Work(job, placing, None, None, watched, source, checkpoint_seconds)
            return work.done({})
        with store.claim(job.key) as checkpoints:
            work = _Work(job, placing, store, checkpoints, watched, source, checkpoint_seconds)
            return work.done(_finished(job, store, own_code=own_code))


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


@contextmanager
def _interruptible() -> Iterator[Event]:
    """In the block the first Ctrl-C only sets the event, so that no step is torn; a second one interrupts.

    Only where Ctrl-C would do as usual, and only in the main thread, which alone may say what signals do.
    """
    event = Event()
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield event
        return

    def first(*_: object) -> None:
        event.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, first)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
    ) -> None:
        self.job, self.placing, self.store, self.checkpoints = job, placing, store, checkpoints
        self.observer, self.source, self.checkpoint_seconds = observer, source, checkpoint_seconds
        self.seconds = 0.0

    def done(self, finished: dict[int, Trained]) -> tuple[Trained, ...]:
        """Train whoever is not finished; all results in the order of the job."""
        everyone = tuple(range(len(self.job.members)))
        rest = tuple(number for number in everyone if number not in finished)
        if self.job.training.stop == "first" and any(one.solved_at is not None for one in finished.values()):
            self._left_out(rest)  # the solver is written last, so these had not begun
            rest = ()
        if rest and self.job.training.compares:
            rest = everyone
        self.observer.begins(self.job, seats=min(self.placing.seats, len(rest)), finished=tuple(finished))
        if rest:
            finished |= self._trained(rest)
        return tuple(finished[number] for number in everyone if number in finished)

    def _trained(self, rest: tuple[int, ...]) -> dict[int, Trained]:
        course = self._resumed(rest) or Course(self.job, self.placing, members=rest)
        if self.store is not None:
            configs = [self.job.config_of(self.job.members[number]) for number in rest]
            self.store.begin_all(configs, population=self.job.key, provenance=self.source)
        with _interruptible() as interrupted:
            found = self._followed(course, interrupted)
        self._left_out(course.never_began)
        return found

    def _followed(self, course: Course, interrupted: Event) -> dict[int, Trained]:
        """See a course to its end, or to where somebody interrupts it."""
        found: dict[int, Trained] = {}
        last = saved = time.monotonic()
        while not course.done:
            course.advance(lambda count: self.observer.steps(course, count), halt=interrupted.is_set)
            now = time.monotonic()
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
            if interrupted.is_set():
                if self.checkpoints is not None and not course.done:
                    self._save(course)
                raise KeyboardInterrupt
        return found

    def _left_out(self, members: Iterable[int]) -> None:
        """Members that never began, because another had solved the task, are not running."""
        for number in members if self.store is not None else ():
            assert self.store is not None
            config = self.job.config_of(self.job.members[number])
            self.store.finish(key_of(config), Result(status="stopped", steps=0))

    def _resumed(self, rest: tuple[int, ...]) -> Course | None:
        """The course where it was last saved; what was wrong with a newer checkpoint is said."""
        if self.checkpoints is None:
            return None
        loaded = self.checkpoints.load()
        if loaded.note is not None:
            self.observer.says(loaded.note)
        if loaded.checkpoint is None:
            return None
        course = Course(self.job, self.placing, members=rest)
        meta = dict(loaded.checkpoint.meta)
        seconds = meta.pop("seconds", 0.0)
        course.restore(loaded.checkpoint.tensors, meta)
        self.seconds = float(seconds) if isinstance(seconds, int | float) else 0.0
        self.observer.says(f"Going on from step {loaded.checkpoint.step:,} of '{loaded.checkpoint.path}'.")
        return course

    def _save(self, course: Course) -> None:
        assert self.checkpoints is not None
        tensors, meta = course.saved()
        self.checkpoints.save(tensors, meta={**meta, "seconds": self.seconds}, step=course.taken)

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
                provenance=self.source,
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


def _finished(job: Job, store: Store, *, own_code: bool) -> dict[int, Trained]:
    """The members that the store has, as they came out then."""
    keys = store.all_keys()
    found = {}
    for number, member in enumerate(job.members):
        key = key_of(job.config_of(member))
        if key in keys:
            run = store.run(key)
            if run.status in FINISHED:
                found[number] = _remembered(job, store, member, run, own_code=own_code)
    return found


def _remembered(job: Job, store: Store, member: Member, run: Run, *, own_code: bool) -> Trained:
    if run.correct is None or run.examples is None:
        raise InvalidFile(f"The run {run.short} has finished without an accuracy; `separatrix runs show` it.")
    return Trained(
        member=member,
        status=run.status,
        steps=run.steps,
        solved_at=run.solved_at,
        correct=run.correct,
        examples=run.examples,
        label_accuracy=run.label_accuracy or 0.0,
        seconds=run.seconds,
        curve=store.curve(run.key),
        population=population_of(job, store.weights(run.key).tensors, own_code=own_code),
        run=run,
    )


def load_run(store: Store, key: str, *, own_code: bool = False) -> Trained:
    """A finished member from a store, by its key or the beginning of it, ready to be asked.

    `own_code` allows to run the code that a model such as `module:factory` names.
    """
    run = store.run(key)
    read = Reader(thaw(freeze(run.config)), what=f"the config of run {run.short}")
    member = read.record("member", Member)
    job = Job(
        task=read.record("task", TaskSpec),
        model=read.record("model", ModelSpec),
        training=read.record("training", Training),
        members=(member,),
    )
    if run.status not in FINISHED:
        raise InvalidInput(f"The run {run.short} is {run.status}; train it to its end first.")
    return _remembered(job, store, member, run, own_code=own_code)
