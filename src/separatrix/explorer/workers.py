"""The processes that compute answers: a few, each killed and replaced when its time is over.

The server itself imports no torch and computes nothing, so it goes on answering whatever a question does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
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


@final
@dataclass(frozen=True, kw_only=True)
class Reply:
    """What came of a question: an HTTP status, and an answer or one sentence about what is wrong."""

    status: int
    answer: object = None
    error: str = ""


@final
class _Worker:
    """One process and how many questions it has answered."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.answered = 0

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
        """Now, whatever it is doing."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


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

    def start(self) -> None:
        """Begin to start the processes; questions may be asked at once."""
        self._views = asyncio.get_running_loop().create_future()
        for _ in range(self._limits.workers):
            self._replace()

    async def stop(self) -> None:
        """End all of them."""
        for task in self._starts:
            task.cancel()
        await asyncio.gather(*self._starts, return_exceptions=True)
        await asyncio.gather(*(worker.end() for worker in tuple(self._every)))

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
        with contextlib.suppress(asyncio.QueueEmpty):
            return self._idle.get_nowait()
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
                self._every.discard(worker)
                await worker.end()
                self._replace()
        if not isinstance(reply, dict):
            return Reply(status=500, error=_GONE)
        return Reply(status=reply["status"], answer=reply.get("answer"), error=reply.get("error", ""))

    def _replace(self) -> None:
        task = asyncio.create_task(self._started())
        self._starts.add(task)
        task.add_done_callback(self._starts.discard)

    async def _started(self) -> None:
        """Start a process until one says that it is ready."""
        while True:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                env={**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"},
                limit=self._limits.answer + 2**16,
                start_new_session=True,  # so that Ctrl-C reaches the server alone
            )
            worker = _Worker(process)
            self._every.add(worker)
            ready = await worker.line()
            if isinstance(ready, dict):
                break
            self._every.discard(worker)
            await worker.end()
            await asyncio.sleep(_PAUSE)
        assert self._views is not None
        if not self._views.done():
            self._views.set_result(ready["views"])
        self._idle.put_nowait(worker)
