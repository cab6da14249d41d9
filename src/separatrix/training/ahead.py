"""Compiling ahead: while a population is trained, a second process compiles what comes after it.

What it makes goes into the compiler's cache on disk, and a population that finds its code there begins in
seconds. Whatever becomes of that process, training goes on as it would without it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch

from separatrix.files import replace_file
from separatrix.models.kernels.choice import Backend
from separatrix.training.jobs import Job, Plan
from separatrix.training.memory import memory_of
from separatrix.training.running import chosen_device
from separatrix.training.stretches import stretches_of
from separatrix.training.views import in_one_line

__all__ = ["compiling_ahead", "keep_to_the_side", "to_compile"]

_SHARE_OF_MEMORY: Final = 0.25
"""Of the GPU's, which the second process may take."""
_LEAST_MEMORY: Final = 60 * 10**9
"""Bytes of a GPU that has so much to spare."""
_GRACE: Final = 5.0


def to_compile(jobs: Sequence[Job], *, seats: int | None = None) -> tuple[Job, ...]:
    """Every population that the jobs will have but the first, in order: as jobs that drop nobody."""
    found: dict[str, Job] = {}
    for job in jobs:
        undropped = replace(job.training, halving=None)
        for stretch in stretches_of(job, seats=seats):
            if stretch.compiled:
                one = replace(job, members=job.members[: stretch.rows], training=undropped)
                found.setdefault(one.key, one)
    return tuple(found.values())[1:]


@contextmanager
def compiling_ahead(
    jobs: Sequence[Job],
    *,
    device: str = "auto",
    seats: int | None = None,
    compiled: bool | None = None,
    backend: Backend = "auto",
    own_code: bool = False,
    tell: Callable[[str], None],
) -> Iterator[None]:
    """In the block these jobs are done one after another; what each needs is compiled before its turn.

    On a CPU nothing is compiled, and a small GPU has no room for a second process. If that process fails,
    `tell` is told when the block ends.
    """
    where = chosen_device(device)
    rest = to_compile(jobs, seats=seats) if where.type == "cuda" and compiled is not False else ()
    if not rest or (memory_of(where) or 0) < _LEAST_MEMORY:
        yield
        return
    words = ["--device", str(where), "--backend", backend, *(["--own-code"] if own_code else [])]
    with tempfile.TemporaryDirectory(prefix="separatrix-") as folder:
        plan, said = Path(folder) / "ahead.json", Path(folder) / "said"
        replace_file(plan, json.dumps(Plan(jobs=rest).to_json()).encode())
        process = _started([str(plan), "--prepare", "--beside", str(os.getpid()), *words], said)
        try:
            yield
        finally:
            failed = process.poll()
            _end(process)
            if failed:
                tell(f"Compiling ahead ended early, which cost nothing but time: {_last_line(said)}")


def _started(words: Sequence[str], said: Path) -> subprocess.Popen[bytes]:
    with said.open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "separatrix.training", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # it has compilers of its own, which end with it
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )


def _last_line(said: Path) -> str:
    lines = said.read_text(encoding="utf-8", errors="replace").split("\n")
    return in_one_line(next((line for line in reversed(lines) if line.strip()), "it said nothing"))[:300]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and those that it started; it has nothing to save."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)


def keep_to_the_side(device: torch.device) -> None:
    """Leave the processor and the memory to the process beside which this one compiles."""
    os.nice(10)
    if device.type == "cuda":
        number = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.set_per_process_memory_fraction(_SHARE_OF_MEMORY, number)
