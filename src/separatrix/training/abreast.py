"""Several jobs at once on one GPU, in one process: each in a lane, a thread with a stream of its own.

A population of few members, or one that waits for every position, leaves most of a GPU idle, and kernels of
different streams fill each other's gaps. Processes cannot do that: a GPU serves one after another. What a job
computes is what it computes alone.

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
from separatrix.training.jobs import Job
from separatrix.training.memory import ran_out
from separatrix.training.running import OutOfTime
from separatrix.training.signals import Asked, interruptible
from separatrix.training.turns import Turn

__all__ = ["Lane", "Lanes", "run_abreast"]

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
    """What came of the jobs."""

    done: int
    failed: tuple[tuple[Job, Exception], ...] = ()
    crowded: tuple[Job, ...] = ()
    """Those that found no memory beside others, and are to be done alone."""
    interrupted: bool = False


def run_abreast(
    jobs: Sequence[Job],
    work: Callable[[Job, Lane], object],
    *,
    lanes: int,
    device: torch.device,
    tell: Callable[[str], None],
) -> Lanes:
    """Do the jobs, so many at once, those first that come first.

    `work` does one, and raises `OutOfTime` when its lane is over and it has saved what there is. Ctrl-C and
    SIGTERM end all lanes in this way, and then do what they always do.
    """
    with interruptible() as asked, _handing_over():
        found = _Lanes(jobs, work, device, asked).run(lanes)
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
    ) -> None:
        self._waiting, self._work, self._device, self._asked = deque(jobs), work, device, asked
        self._lane = Lane(turn=Turn(), is_over=self._is_over)
        self._lock = threading.Lock()
        """Held by who reads or writes what the lanes share."""
        self._at_work = self._done = 0
        self._out_of_time = False
        self._failed: list[tuple[Job, Exception]] = []
        self._crowded: list[Job] = []
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
            done=self._done,
            failed=tuple(self._failed),
            crowded=tuple(self._crowded),
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
                    self._at_work += 1
                error = self._do(job)
                with self._lock:
                    self._note(job, error)
                    self._at_work -= 1
                self._tidy()

    def _stream(self) -> AbstractContextManager[object]:
        if self._device.type != "cuda":
            return nullcontext()
        return torch.cuda.stream(torch.cuda.Stream(self._device))  # type: ignore[no-untyped-call]

    def _do(self, job: Job) -> BaseException | None:
        """What went wrong, without what it holds in memory."""
        try:
            self._work(job, self._lane)
        except (OutOfTime, SeparatrixError, MemoryError, RuntimeError) as error:
            return error.with_traceback(None)
        except BaseException as error:
            return error
        return None

    def _note(self, job: Job, error: BaseException | None) -> None:
        match error:
            case None:
                self._done += 1
            case OutOfTime():
                self._out_of_time = True
            case MemoryError() | RuntimeError() if ran_out(error) and (self._at_work > 1 or self._crowded):
                self._crowded.append(job)
            case SeparatrixError() | MemoryError() | RuntimeError():
                self._failed.append((job, error))
            case _:  # what nobody has foreseen ends all, and is raised by who called
                self._mistake = error

    def _tidy(self) -> None:
        """Give back the memory of a job, which the stream of another lane could not use."""
        with self._lane.turn.taken():
            gc.collect()
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
