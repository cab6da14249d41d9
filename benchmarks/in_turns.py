"""Several processes compile populations side by side, and one of them at a time has the GPU to measure.

Nearly all of a measurement's time is compiling, which needs a processor and no GPU. A process compiles, waits
for its turn, measures for a second or two, and goes on to the next population that nobody has taken.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import queue
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from separatrix.errors import InvalidInput
from separatrix.training.jobs import Job, Plan

__all__ = ["TimeOne", "measured_in_turns"]

Row = dict[str, Any]
TimeOne = Callable[[Job, AbstractContextManager[Any]], Row]
"""Times a population, holding the turn while it measures; a function of a module."""
_ONE_THREAD = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""So many processes are enough: none of them is to start helpers or threads of its own."""


def measured_in_turns(
    jobs: Sequence[Job], time_one: TimeOne, *, processes: int, seconds: float
) -> Iterator[Row]:
    """What is measured of the jobs, in the order in which it comes, until all is or the time is over."""
    ends = time.monotonic() + seconds
    apart = multiprocessing.get_context("spawn")
    turn, taken, found = apart.Lock(), apart.Value("l", 0), apart.Queue()
    plan = json.dumps(Plan(jobs=tuple(jobs)).to_json())
    working = [
        apart.Process(target=_work, args=(plan, time_one, turn, taken, found), daemon=True)
        for _ in range(min(processes, len(jobs)))
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


def _work(plan: str, time_one: TimeOne, turn: Any, taken: Any, found: Any) -> None:
    """Compile and measure what nobody has taken, until nothing is left."""
    jobs = Plan.from_json(json.loads(plan)).jobs
    while True:
        with taken.get_lock():
            number, taken.value = taken.value, taken.value + 1
        if number >= len(jobs):
            return
        try:
            found.put(time_one(jobs[number], turn))
        except (RuntimeError, InvalidInput) as failure:  # no memory beside the others, or no code for this
            print(f"{jobs[number].short_name}: {failure}"[:400], file=sys.stderr, flush=True)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
