"""The engine of one machine: jobs in this process, one by one or abreast, or in processes of their own.

A process is `python -m separatrix.training` with a plan of one job, so what it is killed in goes on where it
was. Processes are for several GPUs or several cores, and for one GPU where they can share it: else they take
turns there and lose time.
"""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, Final

from separatrix.errors import SeparatrixError
from separatrix.experiments.engines import Failure, Ran, Tell
from separatrix.experiments.sharing import share_gpus
from separatrix.files import replace_file
from separatrix.options import require
from separatrix.store import Store
from separatrix.training.abreast import Lane, require_lanes, run_abreast
from separatrix.training.ahead import Ahead, child_environment, compiling_ahead
from separatrix.training.jobs import Job, Plan
from separatrix.training.memory import memory_of, ran_out
from separatrix.training.running import Observer, OutOfTime, chosen_device, run_job

__all__ = ["LocalEngine"]

_BETWEEN: Final = 0.1
_ROOM: Final = 120 * 10**9
"""Bytes of a GPU on which several of the papers' populations are to find room side by side. Four of one
member each did on an H200; one that finds none is done alone afterwards.
"""
_GRACE: Final = 60.0
"""Seconds that a process has to save what it was at."""


@dataclass(frozen=True, kw_only=True)
class LocalEngine:
    """This machine. `minutes`, from the first jobs on, end the work in time; what is unfinished then goes on
    with another engine.
    """

    device: str = "auto"
    processes: int = 1
    abreast: int = 1
    """Jobs at once on one GPU, in one process."""
    with_room: bool = False
    """Whether it is so many on a large GPU alone, and one elsewhere."""
    seats: int | None = None
    compiled: bool | None = None
    minutes: float | None = None
    observer: Observer | None = None

    def __post_init__(self) -> None:
        require(self.processes >= 1, f"Jobs run in at least one process; got processes={self.processes}.")
        require_lanes(self.abreast)
        require(
            self.abreast == 1 or self.processes == 1,
            "Jobs are done abreast in one process, or in several processes; got "
            f"abreast={self.abreast} and processes={self.processes}.",
        )
        require(
            self.minutes is None or self.minutes > 0,
            f"A limit of time is a number of minutes above 0; got minutes={self.minutes}.",
        )

    def run(self, jobs: Sequence[Job], store: Store, *, tell: Tell) -> Ran:
        """Do the jobs, here or in processes of their own."""
        if self.processes > 1:
            return _Pool(self, store, tell, self._until).run(jobs)
        lanes = self._lanes(len(jobs))
        with compiling_ahead(
            jobs, device=self.device, seats=self.seats, compiled=self.compiled, lanes=lanes, tell=tell
        ) as ahead:
            if lanes > 1:
                return self._side_by_side(jobs, store, tell, ahead, lanes)
            return self._here(jobs, store, tell, ahead)

    def _lanes(self, jobs: int) -> int:
        lanes = max(1, min(jobs, self.abreast))
        if lanes == 1 or not self.with_room:
            return lanes
        device = chosen_device(self.device)
        return lanes if device.type == "cuda" and (memory_of(device) or 0) >= _ROOM else 1

    @cached_property
    def _until(self) -> float:
        """When the time is over, by the clock that only goes forward."""
        return math.inf if self.minutes is None else time.monotonic() + 60 * self.minutes

    def _side_by_side(self, jobs: Sequence[Job], store: Store, tell: Tell, ahead: Ahead, lanes: int) -> Ran:
        """Several at once; those for which there is no room then follow one by one."""
        observer = self.observer or Observer()

        def work(job: Job, lane: Lane) -> None:
            self._run(job, store, observer.beside(job), lane)

        came = run_abreast(jobs, work, lanes=lanes, device=chosen_device(self.device), tell=tell)
        failed = tuple(Failure(job=job, reason=reason) for job, reason in came.failed)
        done = len(came.done)
        if came.interrupted or not came.for_later:
            return Ran(done=done, failed=failed, interrupted=came.interrupted)
        tell(f"Jobs that are done alone, for want of memory beside others: {len(came.for_later):,}.")
        rest = self._here(came.for_later, store, tell, ahead)
        return Ran(done=done + rest.done, failed=failed + rest.failed, interrupted=rest.interrupted)

    def _run(self, job: Job, store: Store, observer: Observer | None, lane: Lane | None = None) -> None:
        beside: dict[str, Any] = {} if lane is None else {"turn": lane.turn, "is_over": lane.is_over}
        run_job(
            job,
            store=store,
            device=self.device,
            seats=self.seats,
            compiled=self.compiled,
            observer=observer,
            until=self._until,
            **beside,
        )

    def _here(self, jobs: Sequence[Job], store: Store, tell: Tell, ahead: Ahead) -> Ran:
        failed: list[Failure] = []
        for number, job in enumerate(jobs):
            try:
                ahead.making_room(partial(self._run, job, store, self.observer))
            except OutOfTime:
                return Ran(done=number - len(failed), failed=tuple(failed), interrupted=True)
            except (SeparatrixError, MemoryError, RuntimeError) as error:
                failed.append(Failure(job=job, reason=_reason(error)))
                tell(f"{job.short_name} failed: {failed[-1].reason}")
        return Ran(done=len(jobs) - len(failed), failed=tuple(failed))


def _reason(error: Exception) -> str:
    if isinstance(error, SeparatrixError):
        return str(error)
    if ran_out(error):
        return "It does not fit in memory; give fewer seats."
    raise error


@dataclass
class _Child:
    """A process at work on one job."""

    job: Job
    process: subprocess.Popen[str]
    plan: Path
    device: str
    last: deque[str] = field(default_factory=lambda: deque(maxlen=3))
    started: float = field(default_factory=time.monotonic)


class _Pool:
    """Processes at work until all jobs are done, or time is."""

    def __init__(self, engine: LocalEngine, store: Store, tell: Tell, until: float) -> None:
        self._engine, self._store, self._tell, self._until = engine, store, tell, until
        self._devices = _devices(engine.device)
        self._children: list[_Child] = []
        self._failed: list[Failure] = []
        self._done = self._begun = 0
        self._most = engine.processes
        self._environment: Mapping[str, str] = {}

    def run(self, jobs: Sequence[Job]) -> Ran:
        waiting, self._most = deque(jobs), min(len(jobs), self._engine.processes)
        with (
            _terminate_interrupts(),
            tempfile.TemporaryDirectory(prefix="separatrix-") as folder,
            share_gpus(self._most, self._devices, tell=self._tell) as self._environment,
        ):
            try:
                while (waiting or self._children) and not self._is_over():
                    while waiting and len(self._children) < self._engine.processes:
                        self._begin(waiting.popleft(), Path(folder))
                    self._reap()
                    time.sleep(_BETWEEN)
            finally:
                interrupted = bool(waiting or self._children)
                self._end_all()
        return Ran(done=self._done, failed=tuple(self._failed), interrupted=interrupted)

    def _is_over(self) -> bool:
        return time.monotonic() >= self._until

    def _begin(self, job: Job, folder: Path) -> None:
        self._begun += 1
        plan = folder / f"{self._begun}.json"
        replace_file(plan, json.dumps(Plan(jobs=(job,)).to_json()).encode())
        busy = [child.device for child in self._children]
        device = min(self._devices, key=busy.count)
        words = [sys.executable, "-m", "separatrix.training", str(plan), "--store", str(self._store.path)]
        words += ["--device", device, "--no-ahead"]  # it would compete with the other processes
        words += ["--shared"] if self._most > len(self._devices) else []
        words += [] if self._engine.seats is None else ["--seats", str(self._engine.seats)]
        words += ["--no-compile"] if self._engine.compiled is False else []
        process = subprocess.Popen(
            words,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C comes to this process alone, which lets the others save
            env={**child_environment(), **self._environment},
        )
        child = _Child(job, process, plan, device)
        assert process.stderr is not None
        threading.Thread(target=self._listen, args=(child, process.stderr), daemon=True).start()
        self._children.append(child)

    def _listen(self, child: _Child, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                child.last.append(line.strip())
                self._tell(f"[{child.job.short_name}] {line.strip()}")

    def _reap(self) -> None:
        for child in [child for child in self._children if child.process.poll() is not None]:
            self._children.remove(child)
            took = time.monotonic() - child.started
            if child.process.returncode == 0:
                self._done += 1
                self._tell(f"{child.job.short_name} done in {took:,.0f} s")
            else:
                said = " ".join(child.last) or f"its process ended with {child.process.returncode}"
                self._failed.append(Failure(job=child.job, reason=said))

    def _end_all(self) -> None:
        """Ask every process to save and end, and see that it does."""
        for child in self._children:
            child.process.terminate()
        patience = time.monotonic() + _GRACE
        for child in self._children:
            try:
                child.process.wait(max(0.0, patience - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()


@contextmanager
def _terminate_interrupts() -> Iterator[None]:
    """In the block SIGTERM does what Ctrl-C does, where it would leave the other processes at work."""
    in_main = threading.current_thread() is threading.main_thread()
    ends = in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ends:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if ends:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _devices(device: str) -> list[str]:
    """The devices to share jobs out among: all GPUs, unless one is named."""
    import torch  # noqa: PLC0415  only where jobs are really run

    count = torch.cuda.device_count() if device in {"auto", "cuda"} else 0
    return [f"cuda:{number}" for number in range(count)] if count > 1 else ["cuda" if count else device]
