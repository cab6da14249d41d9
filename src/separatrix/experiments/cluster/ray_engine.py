"""The engine of a Ray cluster: every job is a task on whichever node has room for it.

Nodes share no disk with this process. A task trains in a store of its own and sends back, as they come, the
members that have finished and a checkpoint now and then; all of it is kept in the one store here, as a
training on this machine would have kept it. A job whose node is lost goes on elsewhere from the last
checkpoint that had come back, or from its beginning where none had.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.experiments.cluster.parcels import pack, unpack
from separatrix.experiments.cluster.ray_connection import connected
from separatrix.experiments.cluster.ray_worker import News, train_here
from separatrix.experiments.engines import Failure, Ran, Tell
from separatrix.options import require
from separatrix.store import Store
from separatrix.store.checkpoints import Checkpoints
from separatrix.training.jobs import Job
from separatrix.training.remembered import remembered
from separatrix.training.signals import Asked, interruptible
from separatrix.version import __version__

__all__ = ["RayEngine"]

_BETWEEN: Final = 1.0
"""Seconds after which a wait for news looks whether somebody interrupts."""
_GRACE: Final = 5.0
"""Seconds that tasks have to end by themselves."""


@dataclass(frozen=True, kw_only=True)
class RayEngine:
    """A Ray cluster, `HOST:PORT`; without an address, the one that this machine belongs to.

    A job has `gpus_per_job`, one GPU or a part of one, and `cpus_per_job`; with no GPU it is trained on CPUs.
    It is tried again, `retries` times, when the node or the process that trains it is lost; checkpoints come
    back every `checkpoint_seconds`, and what was trained since the last of them is trained again.
    """

    address: str | None = None
    gpus_per_job: float = 1.0
    cpus_per_job: float = 1.0
    retries: int = 2
    seats: int | None = None
    compiled: bool | None = None
    checkpoint_seconds: float = 120.0

    def __post_init__(self) -> None:
        gpus, cpus = self.gpus_per_job, self.cpus_per_job
        require(
            0 <= gpus <= 1,
            f"A job has one GPU or a part of one, such as 0.5, and with 0 it is trained on CPUs; got {gpus}.",
        )
        require(0 < cpus < 1e6, f"A job needs CPUs, at least a part of one; got {cpus}.")
        require(self.retries >= 0, f"A lost job is tried again 0 times or more; got retries={self.retries}.")
        require(
            self.checkpoint_seconds >= 0,
            f"Checkpoints come back every so many seconds, 0 or more; got {self.checkpoint_seconds}.",
        )

    def run(self, jobs: Sequence[Job], store: Store, *, tell: Tell) -> Ran:
        """Do the jobs on the cluster. Ctrl-C ends the tasks; run again, everything goes on where it was."""
        if not jobs:
            return Ran(done=0)
        with connected(self.address) as ray:
            _require_place(ray, self)
            with interruptible() as asked:
                return _Work(ray, self, store, tell, asked).done(jobs)


def _require_place(ray: Any, engine: RayEngine) -> None:
    """Refuse what no node could ever do: Ray itself would wait for such a node to join."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    fits = any(
        node.get("GPU", 0) >= engine.gpus_per_job and node.get("CPU", 0) >= engine.cpus_per_job
        for node in nodes
    )
    if not fits:
        gpus, cpus = (max((node.get(name, 0) for node in nodes), default=0) for name in ("GPU", "CPU"))
        raise InvalidInput(
            f"A job is to have {engine.gpus_per_job:g} GPUs and {engine.cpus_per_job:g} CPUs, and no node of "
            f"this cluster has more than {gpus:g} and {cpus:g}; ask for less, 0 GPUs to train on CPUs."
        )


@dataclass
class _Flight:
    """A job on its way: the claim on it here, and the news that come of it."""

    job: Job
    checkpoints: Checkpoints
    claim: ExitStack
    news: Any = None
    attempt: int = 0
    where: str = ""
    started: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> str:
        return self.job.short_name


class _Work:
    """Jobs in flight until all are done, or somebody interrupts."""

    def __init__(self, ray: Any, engine: RayEngine, store: Store, tell: Tell, asked: Asked) -> None:
        self._ray, self._engine, self._store, self._tell, self._asked = ray, engine, store, tell, asked
        self._flights: list[_Flight] = []
        self._failed: list[Failure] = []
        self._done = 0
        self._had_places = True
        self._task: Callable[..., Any] = (
            ray.remote(train_here)
            .options(
                num_returns="streaming",
                num_gpus=engine.gpus_per_job,
                num_cpus=engine.cpus_per_job,
                # Ray would try again with what the task was first given; here is what has come back since.
                max_retries=0,
                scheduling_strategy="SPREAD",
            )
            .remote
        )
        errors = ray.exceptions
        self._lost: tuple[type[Exception], ...] = (
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.ActorDiedError,
            errors.LocalRayletDiedError,
            errors.OutOfMemoryError,
            errors.ObjectLostError,
        )

    def done(self, jobs: Sequence[Job]) -> Ran:
        """Do them all, as many at once as the cluster has room for."""
        waiting = deque(jobs)
        try:
            while (waiting or self._flights) and not self._asked.is_set():
                room = self._room()
                while waiting and len(self._flights) < room:
                    self._begin(waiting.popleft())
                self._hear(_BETWEEN)
            while self._asked.is_set() and self._hear(0):  # what has come back already is not thrown away
                pass
        except self._ray.exceptions.RayError as failure:
            raise InvalidInput(
                f"The cluster is gone: {_first_sentence(failure)}. What had come back is kept; run the same "
                "again to go on."
            ) from failure
        finally:
            self._end_all()
        interrupted = self._asked.is_set()
        self._asked.answer()
        return Ran(done=self._done, failed=tuple(self._failed), interrupted=interrupted)

    def _room(self) -> int:
        """How many jobs the cluster does at once, and one that waits for the next place."""
        there = self._ray.cluster_resources()
        needs = {"GPU": self._engine.gpus_per_job, "CPU": self._engine.cpus_per_job}
        places = int(min(there.get(name, 0) / need for name, need in needs.items() if need))
        if not places and self._had_places:
            self._tell("No node of the cluster has room for a job now; waiting until one has.")
        self._had_places = places > 0
        return places + 1

    def _begin(self, job: Job) -> None:
        with ExitStack() as claim:
            try:
                checkpoints = claim.enter_context(self._store.claim(job.key))
                flight = _Flight(job, checkpoints, claim)
                self._send(flight)
            except SeparatrixError as problem:
                self._fail(job, str(problem))
                return
            flight.claim = claim.pop_all()
            self._flights.append(flight)

    def _send(self, flight: _Flight) -> None:
        """Give a job to the cluster with all that the store has of it."""
        job = flight.job
        for note in remembered(job, self._store, own_code=False).notes:
            self._tell(note)
        loaded = flight.checkpoints.load()
        if loaded.note is not None:
            self._tell(loaded.note)
        checkpoint = None if loaded.checkpoint is None else loaded.checkpoint.path
        flight.attempt += 1
        flight.news = self._task(
            json.dumps(job.to_json(), allow_nan=False).encode(),
            pack(job, self._store, checkpoint=checkpoint),
            version=__version__,
            device="cuda" if self._engine.gpus_per_job else "cpu",
            threads=max(1, int(self._engine.cpus_per_job)),
            seats=self._engine.seats,
            compiled=self._engine.compiled,
            checkpoint_seconds=self._engine.checkpoint_seconds,
        )

    def _hear(self, seconds: float) -> bool:
        """Take in what has come back, waiting so long for the first of it; whether anything had."""
        if not self._flights:
            return False
        streams = {id(flight.news): flight for flight in self._flights}
        ready, _ = self._ray.wait([flight.news for flight in self._flights], timeout=seconds)
        for stream in ready:
            flight = streams[id(stream)]
            try:
                self._take_in(flight, self._ray.get(next(stream)))
            except self._lost as failure:
                self._again(flight, failure)
            except StopIteration:
                self._again(flight, None)
            except self._ray.exceptions.RayTaskError as failure:  # such as: the node has no separatrix
                self._land(flight, (str(failure).strip().splitlines() or [type(failure).__name__])[-1][:300])
        return bool(ready)

    def _take_in(self, flight: _Flight, news: News) -> None:
        kind, text, parcel = news
        if parcel:
            unpack(parcel, flight.job, self._store, flight.checkpoints)
        match kind:
            case "begun":
                flight.where, flight.started = text, time.monotonic()
                self._tell(f"{flight.name} begun on {text}")
            case "note":
                self._tell(f"[{flight.name}] {text}")
            case "failed":
                self._land(flight, text)
            case "done":
                self._land(flight, None)

    def _again(self, flight: _Flight, failure: Exception | None) -> None:
        """A node or a process was lost on the way: try again from what has come back."""
        lost = "its task ended without an end" if failure is None else _first_sentence(failure)
        left = self._engine.retries + 1 - flight.attempt
        if left <= 0 or self._asked.is_set():
            times = "once" if flight.attempt == 1 else f"{flight.attempt} times"
            self._land(flight, f"It was lost {times}, at last because {lost}; run the same again to go on.")
            return
        self._tell(f"{flight.name} was lost on {flight.where or 'its way'} and is tried again: {lost}")
        try:
            self._send(flight)
        except SeparatrixError as problem:
            self._land(flight, str(problem))

    def _land(self, flight: _Flight, problem: str | None) -> None:
        self._flights.remove(flight)
        flight.claim.close()
        if problem is not None:
            self._fail(flight.job, problem)
            return
        self._done += 1
        took = time.monotonic() - flight.started
        self._tell(f"{flight.name} done in {took:,.0f} s on {flight.where}")

    def _fail(self, job: Job, reason: str) -> None:
        self._failed.append(Failure(job=job, reason=reason))
        self._tell(f"{job.short_name} failed: {reason}")

    def _end_all(self) -> None:
        """End the tasks that are still under way, and give their jobs back."""
        streams = [flight.news for flight in self._flights]
        with suppress(self._ray.exceptions.RayError):  # the cluster may be what is gone
            for stream in streams:
                self._ray.cancel(stream)
            self._run_dry(streams)
        for flight in self._flights:
            flight.claim.close()

    def _run_dry(self, streams: list[Any]) -> None:
        """Wait for the tasks to end, so that they take away what they have on their nodes' disks."""
        patience = time.monotonic() + _GRACE
        while streams and time.monotonic() < patience:
            ready, _ = self._ray.wait(streams, timeout=_BETWEEN)
            for stream in ready:
                if next(stream, None) is None:
                    streams.remove(stream)


def _first_sentence(failure: BaseException) -> str:
    lines = str(failure).strip().splitlines() or [type(failure).__name__]
    return lines[0].split(". ")[0][:300].rstrip(".")
