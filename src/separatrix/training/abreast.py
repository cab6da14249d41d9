"""Several jobs at once on one GPU, in one process: each in a lane, a thread with a stream of its own.

A population of few members, or one that waits for every position, leaves most of a GPU idle, and kernels of
different streams fill each other's gaps. Processes cannot do that: a GPU serves one after another. What a job
computes is what it computes alone, but for rounding. Models of the user's own code are left to be done alone:
they draw from generators that the whole process shares.

While one lane compiles, the others have to get Python's lock from it for every step that they replay, which
Python hands over every 5 milliseconds unless it is told to do so sooner.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

import torch

from separatrix.errors import SeparatrixError
from separatrix.models.specs import is_own
from separatrix.options import require
from separatrix.training.jobs import Job
from separatrix.training.memory import ran_out
from separatrix.training.running import OutOfTime
from separatrix.training.signals import Asked, interruptible
from separatrix.training.turns import Turn

__all__ = ["Lane", "Lanes", "require_lanes", "run_abreast"]

_MOST_LANES: Final = 32
"""torch has so many streams, and gives out the first again after the last."""
_BETWEEN: Final = 0.1
_HANDED_OVER: Final = 0.0005
"""Seconds after which a thread gives Python's lock to another that waits for it."""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """What a job among others goes by: the turn that they share, and whether all is over."""

    turn: Turn
    is_over: Callable[[], bool]


@dataclass(frozen=True, kw_only=True)
class Lanes:
    """What came of the jobs; those that are not in it had not ended when all was over."""

    done: tuple[Job, ...] = ()
    failed: tuple[tuple[Job, str], ...] = ()
    """With the reason, in a sentence."""
    for_later: tuple[Job, ...] = ()
    """Those that are to be done alone: they found no memory, or are models of the user's own."""
    interrupted: bool = False


def require_lanes(lanes: int) -> None:
    """Refuse a number of lanes that there cannot be."""
    require(
        1 <= lanes <= _MOST_LANES,
        f"Between 1 and {_MOST_LANES} jobs are done at a time; got abreast={lanes}.",
    )


def run_abreast(
    jobs: Sequence[Job],
    work: Callable[[Job, Lane], object],
    *,
    lanes: int,
    device: torch.device,
    tell: Callable[[str], None],
) -> Lanes:
    """Do the jobs, so many at once, those first that come first.

    `work` does one, and raises `OutOfTime` when its lane is over and it has saved what there is. A job that
    fails is told of at once, and the others go on. Ctrl-C and SIGTERM end all lanes when they have saved, and
    then do what they always do.
    """
    require_lanes(lanes)
    with interruptible() as asked, _handing_over():
        found = _Lanes(jobs, work, device, asked, tell).run(lanes)
        if asked.by_terminate:  # which mostly ends the process without another word
            tell("Terminated; run the same again to go on from the last steps.")
        asked.answer()
    return found


@contextmanager
def _handing_over() -> Iterator[None]:
    """In the block threads wait less for one that computes in Python."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _HANDED_OVER))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class _Lanes:
    def __init__(
        self,
        jobs: Sequence[Job],
        work: Callable[[Job, Lane], object],
        device: torch.device,
        asked: Asked,
        tell: Callable[[str], None],
    ) -> None:
        self._work, self._device, self._asked, self._tell = work, device, asked, tell
        self._waiting = deque(job for job in jobs if not is_own(job.model.name))
        self._for_later = [job for job in jobs if is_own(job.model.name)]
        self._lane = Lane(turn=Turn(), is_over=self._is_over)
        self._lock = threading.Lock()
        """Held by who reads or writes what the lanes share."""
        self._done: list[Job] = []
        self._failed: list[tuple[Job, str]] = []
        self._out_of_time = False
        self._mistake: BaseException | None = None

    def run(self, lanes: int) -> Lanes:
        """Fill the lanes and see them to their end; this thread only listens for signals."""
        threads = [
            threading.Thread(target=self._follow, name=f"lane {number}", daemon=True)
            for number in range(min(lanes, len(self._waiting)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_BETWEEN)
        if self._mistake is not None:
            raise self._mistake
        return Lanes(
            done=tuple(self._done),
            failed=tuple(self._failed),
            for_later=tuple(self._for_later),
            interrupted=self._out_of_time or self._asked.is_set(),
        )

    def _is_over(self) -> bool:
        return self._asked.is_set() or self._out_of_time or self._mistake is not None

    def _follow(self) -> None:
        """One lane: job after job, while there are any."""
        with self._stream():
            while not self._is_over():
                with self._lock:
                    if not self._waiting:
                        return
                    job = self._waiting.popleft()
                self._do(job)
                self._tidy()

    def _stream(self) -> AbstractContextManager[object]:
        if self._device.type != "cuda":
            return nullcontext()
        return torch.cuda.stream(torch.cuda.Stream(self._device))  # type: ignore[no-untyped-call]

    def _do(self, job: Job) -> None:
        """One job. Of what went wrong only words are kept: the error holds the job's memory."""
        try:
            self._work(job, self._lane)
        except OutOfTime:
            self._out_of_time = True
        except SeparatrixError as error:
            with self._lock:
                self._failed.append((job, str(error)))
                self._tell(f"{job.short_name} failed: {error}")
        except BaseException as error:
            with self._lock:
                if isinstance(error, MemoryError | RuntimeError) and ran_out(error):
                    self._for_later.append(job)
                else:  # what nobody has foreseen ends all, and is raised by who called
                    self._mistake = error
        else:
            with self._lock:
                self._done.append(job)

    def _tidy(self) -> None:
        """Give back the memory of a job, which the stream of another lane could not use."""
        with self._lane.turn.taken():
            gc.collect()
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
