"""Compiling ahead: while a population is trained, a second process compiles what comes after it.

What it makes goes into the compiler's cache on disk, and a population that finds its code there begins in
seconds. The process is this module. It gets its jobs as the first line of its standard input, and when that
ends it ends too, with all that it started: it never outlives the one that trains.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import zip_longest
from typing import IO, Final, TypeVar

import torch

from separatrix.errors import SeparatrixError
from separatrix.models.kernels.choice import BACKENDS, Backend
from separatrix.records import MOST_BYTES, parse_json
from separatrix.training.jobs import Job, Plan
from separatrix.training.memory import memory_of, ran_out
from separatrix.training.running import chosen_device, prepare_job
from separatrix.training.stretches import stretches_of
from separatrix.training.views import in_one_line

__all__ = ["Ahead", "child_environment", "compiling_ahead", "main", "started", "to_compile"]

Found = TypeVar("Found")
_SHARE_OF_MEMORY: Final = 0.25
"""Of the GPU's, which the second process may take."""
_LEAST_MEMORY: Final = 60 * 10**9
"""Bytes of a GPU that has so much to spare."""
_GRACE: Final = 5.0


class Ahead:
    """The process that compiles, if there is one."""

    def __init__(self, process: subprocess.Popen[bytes] | None = None, said: IO[bytes] | None = None) -> None:
        self._process, self._said = process, said

    @property
    def is_at_work(self) -> bool:
        """Whether there is one that has not ended."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> bool:
        """End it, and those that it started; whether it was at work."""
        was_at_work = self.is_at_work
        process, self._process = self._process, None
        if process is None:
            return False
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # it has nothing to save
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
        if process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()
        return was_at_work

    @property
    def failure(self) -> str | None:
        """What it last said, if it ended by itself and not well."""
        if self._process is None or self._said is None or not self._process.poll():
            return None
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").split("\n")
        return in_one_line(next((line for line in reversed(lines) if line.strip()), "it said nothing"))[:300]

    def making_room(self, work: Callable[[], Found]) -> Found:
        """Do the work; if there is no memory for it while something is compiled, once more without that."""
        try:
            return work()
        except (MemoryError, RuntimeError) as error:
            if not ran_out(error) or not self.stop():
                raise
        return work()


def to_compile(jobs: Sequence[Job], *, seats: int | None = None, lanes: int = 1) -> tuple[Job, ...]:
    """Every population that the jobs will have but those that begin at once, as jobs that drop nobody: in
    the order in which they are needed if `lanes` jobs are under way at once and end together.
    """
    found: dict[str, Job] = {}
    for first in range(0, len(jobs), lanes):
        for together in zip_longest(*(_populations(job, seats) for job in jobs[first : first + lanes])):
            for one in together:
                if one is not None:
                    found.setdefault(one.key, one)
    at_once = {next(_populations(job, seats)).key for job in jobs[:lanes]}
    return tuple(one for key, one in found.items() if key not in at_once)


def _populations(job: Job, seats: int | None) -> Iterator[Job]:
    """One after another, each as a job of its own."""
    undropped = replace(job.training, halving=None)
    for stretch in stretches_of(job, seats=seats):
        if stretch.compiled:
            yield replace(job, members=job.members[: stretch.rows], training=undropped)


def _has_room(device: torch.device) -> bool:
    """Whether it is a GPU with memory to spare beside one population."""
    return device.type == "cuda" and (memory_of(device) or 0) >= _LEAST_MEMORY


@contextmanager
def compiling_ahead(
    jobs: Sequence[Job],
    *,
    device: str = "auto",
    seats: int | None = None,
    compiled: bool | None = None,
    backend: Backend = "auto",
    own_code: bool = False,
    lanes: int = 1,
    tell: Callable[[str], None],
) -> Iterator[Ahead]:
    """In the block these jobs are done in their order, in so many lanes; what each needs is compiled before
    its turn.

    On a CPU nothing is compiled, and a small GPU has no room for a second process. If that process fails,
    `tell` is told when the block ends.
    """
    where = chosen_device(device)
    rest = to_compile(jobs, seats=seats, lanes=lanes) if _has_room(where) and compiled is not False else ()
    if not rest:
        yield Ahead()
        return
    words = ["--device", str(where), "--backend", backend, *(["--own-code"] if own_code else [])]
    with tempfile.TemporaryFile() as said:
        ahead = Ahead(started(Plan(jobs=rest), words, said), said)
        try:
            yield ahead
        finally:
            failure = ahead.failure
            ahead.stop()
            if failure is not None:
                tell(f"Compiling ahead ended early, which cost nothing but time: {failure}")


def started(plan: Plan, words: Sequence[str], said: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """A process that compiles what a plan needs. It ends when its standard input does; what it has to say
    goes to `said`, or to standard error.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "separatrix.training.ahead", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=said,
        start_new_session=True,  # it has compilers of its own, which end with it
        env=child_environment(),
    )
    line = json.dumps(plan.to_json()).encode() + b"\n"
    # Beside the work: a long line is taken only when the process has come to reading it.
    threading.Thread(target=_send, args=(process.stdin, line), daemon=True).start()
    return process


def _send(stream: IO[bytes], line: bytes) -> None:
    with suppress(BrokenPipeError, ValueError):  # it has ended already, and is asked why later
        stream.write(line)
        stream.flush()


def child_environment() -> dict[str, str]:
    """In which another Python finds the same modules as this one."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def main(argv: Sequence[str] | None = None) -> int:
    """Compile what the jobs in the first line of standard input need; 1 if that failed for one of them."""
    parser = argparse.ArgumentParser(prog="python3 -m separatrix.training.ahead", description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--backend", choices=BACKENDS, default="auto")
    parser.add_argument("--own-code", action="store_true")
    options = parser.parse_args(argv)
    line = sys.stdin.buffer.readline(MOST_BYTES + 1)
    threading.Thread(target=_end_with, args=(sys.stdin.fileno(),), daemon=True).start()
    device = chosen_device(options.device)
    _keep_to_the_side(device)
    failed = False
    for job in Plan.from_json(parse_json(line, what="the plan")).jobs:
        try:
            prepare_job(
                job,
                device=options.device,
                seats=len(job.members),
                backend=options.backend,
                own_code=options.own_code,
            )
        except (SeparatrixError, MemoryError, RuntimeError) as error:
            if not ran_out(error):  # what finds no room is compiled when its turn comes
                failed = True
                print(in_one_line(f"{job.short_name}: {error}"), file=sys.stderr, flush=True)
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return int(failed)


def _end_with(stream: int) -> None:
    """When the stream of this number ends, so does this process at once, with the compilers that it started.

    It is not read through Python's own buffer: whoever waits for that holds a lock that a process which ends
    by itself needs, and would die for want of.
    """
    while os.read(stream, 4096):
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _keep_to_the_side(device: torch.device) -> None:
    """Leave the processor and the memory to the process beside which this one compiles."""
    os.nice(10)
    if device.type == "cuda":
        number = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.set_per_process_memory_fraction(_SHARE_OF_MEMORY, number)


if __name__ == "__main__":
    sys.exit(main())
