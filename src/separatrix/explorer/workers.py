"""The processes that compute answers: a few, each killed and replaced when its time is over.

The server itself imports no torch and computes nothing, so it goes on answering whatever a question does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from separatrix.explorer.limits import Limits

__all__ = ["Reply", "Workers"]

_BUSY: Final = "The explorer is busy with other questions; ask again in a moment."
_LATE: Final = "This takes longer than the {seconds:g} seconds that the explorer allows; choose a smaller n."
_GONE: Final = "The process that computed this ended before its answer; ask again, or for something smaller."
_PAUSE: Final = 1.0
"""Seconds before a process that could not start is started again."""
_MARGIN: Final = 0.5
"""Seconds that a process has to say by itself that its time is over."""
_LAST: Final = 1.0
"""Seconds for a process that has closed its output to end by itself."""


@final
@dataclass(frozen=True, kw_only=True)
class Reply:
    """What came of a question: an HTTP status, and an answer or one sentence about what is wrong."""

    status: int
    answer: object = None
    error: str = ""


@final
class _Worker:
    """One process, its place for copies of files, and how many questions it has answered."""

    def __init__(self, process: Process, place: Path) -> None:
        self.process = process
        self.answered = 0
        self._place = place

    @property
    def gone(self) -> bool:
        """Whether it has ended without being told to."""
        return self.process.returncode is not None

    async def line(self) -> object:
        """The next thing that it writes; None when it has ended."""
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    async def put(self, question: Mapping[str, object]) -> None:
        """A question to it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        await self.process.stdin.drain()

    async def end(self) -> None:
        """Now, whatever it is doing; what it has copied goes with it."""
        assert self.process.stdout is not None
        try:
            if self.process.stdout.at_eof():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.process.wait(), _LAST)
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
        finally:
            shutil.rmtree(self._place, ignore_errors=True)


@final
class Workers:
    """The processes of one explorer. Made and used in one event loop."""

    def __init__(self, folder: Path, limits: Limits, *, command: tuple[str, ...] | None = None) -> None:
        """`command` starts a process; the folder is put behind it."""
        # -P: a file in the folder must never be taken for a module.
        own = (sys.executable, "-P", "-m", "separatrix.explorer.worker")
        self._command = (*(command or own), str(folder))
        self._limits = limits
        self._idle: asyncio.Queue[_Worker] = asyncio.Queue()
        self._every: set[_Worker] = set()
        self._starts: set[asyncio.Task[None]] = set()
        self._waiting = 0
        self._views: asyncio.Future[list[dict[str, object]]] | None = None
        self._copies: str | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin to start the processes; questions may be asked at once."""
        self._copies = tempfile.mkdtemp(prefix="separatrix-")
        self._views = asyncio.get_running_loop().create_future()
        for _ in range(self._limits.workers):
            self._replace()

    async def stop(self) -> None:
        """End all of them."""
        self._stopped = True
        for task in self._starts:
            task.cancel()
        await asyncio.gather(*self._starts, return_exceptions=True)
        await asyncio.gather(*(worker.end() for worker in tuple(self._every)))
        if self._copies is not None:
            shutil.rmtree(self._copies, ignore_errors=True)

    async def views(self) -> list[dict[str, object]]:
        """Name, title, line and first input of every view, as soon as a process has said so."""
        assert self._views is not None, "start comes first"
        return await asyncio.wait_for(asyncio.shield(self._views), self._limits.patience)

    async def ask(self, view: str, asked: Mapping[str, object]) -> Reply:
        """One question; never takes longer than patience and time together."""
        worker = await self._free()
        if worker is None:
            return Reply(status=503, error=_BUSY)
        return await self._answered(worker, {"view": view, "asked": asked, "seconds": self._limits.seconds})

    async def _free(self) -> _Worker | None:
        """A process with nothing to do, now or after a wait; None if too many wait or it takes too long."""
        while not self._idle.empty():
            worker = self._idle.get_nowait()
            if not worker.gone:
                return worker
            self._replace(worker)
        if self._waiting >= self._limits.waiting:
            return None
        self._waiting += 1
        try:
            return await asyncio.wait_for(self._idle.get(), self._limits.patience)
        except TimeoutError:
            return None
        finally:
            self._waiting -= 1

    async def _answered(self, worker: _Worker, question: Mapping[str, object]) -> Reply:
        whole = False
        try:
            async with asyncio.timeout(self._limits.seconds + _MARGIN):
                await worker.put(question)
                reply = await worker.line()
            whole = reply is not None
        except TimeoutError:
            return Reply(status=504, error=_LATE.format(seconds=self._limits.seconds))
        except OSError:
            return Reply(status=500, error=_GONE)
        finally:
            worker.answered += 1
            if whole and worker.answered < self._limits.jobs:
                self._idle.put_nowait(worker)
            else:
                self._replace(worker)
        if not isinstance(reply, dict):
            return Reply(status=500, error=_GONE)
        return Reply(status=reply["status"], answer=reply.get("answer"), error=reply.get("error", ""))

    def _replace(self, worker: _Worker | None = None) -> None:
        """Start a process, in the place of one that is ended; nobody waits for either."""
        if self._stopped:
            return
        task = asyncio.create_task(self._started(worker))
        self._starts.add(task)
        task.add_done_callback(self._starts.discard)

    async def _started(self, before: _Worker | None) -> None:
        """Start a process until one says that it is ready."""
        while True:
            if before is not None:
                await before.end()
                self._every.discard(before)
                before = None
            with contextlib.suppress(OSError):  # no room for another process now; perhaps in a moment
                worker = await self._process()
                ready = await worker.line()
                if isinstance(ready, dict):
                    break
                before = worker
            await asyncio.sleep(_PAUSE)
        assert self._views is not None
        if not self._views.done():
            self._views.set_result(ready["views"])
        self._idle.put_nowait(worker)

    async def _process(self) -> _Worker:
        """A process with a place of its own for copies: one that is killed cannot clear them away itself."""
        assert self._copies is not None, "start comes first"
        place = Path(tempfile.mkdtemp(dir=self._copies))
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "TMPDIR": str(place)},
            limit=self._limits.answer + 2**16,
            start_new_session=True,  # so that Ctrl-C reaches the server alone
        )
        worker = _Worker(process, place)
        self._every.add(worker)
        return worker
