"""Several processes compile populations side by side, and one of them at a time has the GPU to measure.

Nearly all of a measurement's time is compiling. A process compiles, waits for its turn, measures for a second
or two, and goes on to the next population that nobody has taken. Who compiles takes steps too, on a GPU that
serves one process after another: with fourteen at work 51 of 72 rates on an H200 came out below what follows
from others, which errs downwards, and one at 0.28 of it. None of them was kept. So the others are stopped for
the length of a turn.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import queue
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final

import torch

from separatrix.errors import InvalidInput
from separatrix.training.jobs import Job, Plan

__all__ = ["TimeOne", "measured_in_turns"]

Row = dict[str, Any]
TimeOne = Callable[[Job, AbstractContextManager[Any]], Row]
"""Times a population, holding the turn while it measures; a function of a module."""
_ONE_THREAD = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""So many processes are enough: none of them is to start helpers or threads of its own."""
_SETTLES: Final = 0.2
"""Seconds in which a GPU finishes what those had asked of it who are stopped."""


def measured_in_turns(
    jobs: Sequence[Job], time_one: TimeOne, *, processes: int, seconds: float
) -> Iterator[Row]:
    """What is measured of the jobs, in the order in which it comes, until all is or the time is over."""
    ends = time.monotonic() + seconds
    apart = multiprocessing.get_context("spawn")
    count = min(processes, len(jobs))
    turn = _Turn(apart.Lock(), apart.Array("l", count, lock=False))
    taken, found = apart.Value("l", 0), apart.Queue()
    plan = json.dumps(Plan(jobs=tuple(jobs)).to_json())
    working = [
        apart.Process(target=_work, args=(number, plan, time_one, turn, taken, found), daemon=True)
        for number in range(count)
    ]
    with _environment(_ONE_THREAD):
        for process in working:
            process.start()
    try:
        while time.monotonic() < ends:
            try:
                yield found.get(timeout=0.5)
            except queue.Empty:
                if not any(process.is_alive() for process in working):
                    return
    finally:
        for process in working:
            process.kill()  # it has nothing to save
            process.join()


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    """What is started in the block finds these variables."""
    before = dict(os.environ)
    os.environ |= more
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


class _Turn(AbstractContextManager[None]):
    """Held by one process at a time, while all the others are stopped.

    Who holds it may wait for nothing that another could be stopped with in its hands, such as the queue of
    results.
    """

    def __init__(self, lock: Any, processes: Any) -> None:
        """`processes` has room for the number of each."""
        self._lock, self._processes = lock, processes

    def join(self, place: int) -> None:
        """From now on the process that calls is stopped in others' turns; not in the middle of one."""
        with self._lock:
            self._processes[place] = os.getpid()

    def leave(self, place: int) -> None:
        """It has nothing to do any more, and its number may soon be another's."""
        with self._lock:
            self._processes[place] = 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self._send(signal.SIGSTOP)
        time.sleep(_SETTLES)

    def __exit__(self, *_: object) -> None:
        self._send(signal.SIGCONT)
        self._lock.release()

    def _send(self, what: signal.Signals) -> None:
        for process in self._processes:
            if process not in (0, os.getpid()):
                with suppress(OSError):
                    os.kill(process, what)


def _work(number: int, plan: str, time_one: TimeOne, turn: _Turn, taken: Any, found: Any) -> None:
    """Compile and measure what nobody has taken, until nothing is left."""
    jobs = Plan.from_json(json.loads(plan)).jobs
    turn.join(number)
    while True:
        with taken.get_lock():
            place, taken.value = taken.value, taken.value + 1
        if place >= len(jobs):
            turn.leave(number)
            return
        try:
            found.put(time_one(jobs[place], turn))
        except (RuntimeError, InvalidInput) as failure:  # no memory beside the others, or no code for this
            print(f"{jobs[place].short_name}: {failure}"[:400], file=sys.stderr, flush=True)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
