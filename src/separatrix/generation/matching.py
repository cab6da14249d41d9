"""One pattern on one text in RE2, here or in a process of its own that ends when its time is up.

RE2 offers no time limit and runs to the end of what it was given, so a search that may take long is handed to
a second process. This file is that process too: it is run by its path, imports nothing of the package, and
answers one question after another until its input closes.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import select
import signal
import struct
import subprocess
import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import IO, Any, Final

__all__ = ["NotFinished", "Ready", "Span", "ready"]

Span = tuple[int, int]

_KEPT: Final = 8
_ASKED: Final = struct.Struct("<IIQ?d")
_FOUND: Final = struct.Struct("<bqq")
_PATIENCE: Final = 4.0
_START: Final = 30.0


class NotFinished(Exception):
    """The search was cut off."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A compiled pattern whose groups are all copies of one."""

    pattern: bytes
    latin: bool
    memory: int
    compiled: Any

    @property
    def program(self) -> int:
        """Instructions of its program."""
        return int(self.compiled.programsize)

    def match(self, text: bytes) -> Span | None:
        """Where that one group matched last, in the first match; (-1, -1) if the match is without it."""
        found = self.compiled.search(text)
        if found is None:
            return None
        spans: list[Span] = [found.span(group) for group in range(1, self.compiled.groups + 1)]
        return max(spans)

    def match_within(self, text: bytes, seconds: float) -> Span | None:
        """The same; `NotFinished` after so many seconds of processor time.

        On a busy machine that much takes longer; after four times as long it is over all the same.
        """
        return _GUARDED.ask(self, text, seconds)


class _Patterns:
    """The last few compiled patterns; each may hold as much memory as RE2 was allowed, so they are few."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[bytes, bool, int], Ready | None] = OrderedDict()

    def get(self, pattern: bytes, latin: bool, memory: int) -> Ready | None:
        key = (pattern, latin, memory)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = _compile(pattern, latin, memory)
            self._kept.move_to_end(key)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return self._kept[key]


def _compile(pattern: bytes, latin: bool, memory: int) -> Ready | None:
    re2 = importlib.import_module("re2")
    options = re2.Options()
    options.max_mem = memory
    options.log_errors = False
    if latin:
        options.encoding = re2.Options.Encoding.LATIN1
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return None
    # The module keeps 128 patterns itself, each with its memory; ours are the only ones to stay.
    re2.purge()
    return Ready(pattern=pattern, latin=latin, memory=memory, compiled=compiled) if compiled.groups else None


_PATTERNS: Final = _Patterns()


def ready(pattern: bytes, *, latin: bool, memory: int) -> Ready | None:
    """The pattern ready to run, or None if RE2 refuses it; `latin`: every byte is a character."""
    return _PATTERNS.get(pattern, latin, memory)


class _Guarded:
    """The second process, started when first needed and again after each time it was ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, ready: Ready, text: bytes, seconds: float) -> Span | None:
        """What `match` answers, or `NotFinished`."""
        with self._lock:
            process = self._running()
            if process is None:
                raise NotFinished
            header = _ASKED.pack(len(ready.pattern), len(text), ready.memory, ready.latin, seconds)
            try:
                _send(process, header + ready.pattern + text)
                answer = _receive(process, _FOUND.size, timeout=_PATIENCE * seconds)
            except OSError:
                answer = b""
            if len(answer) != _FOUND.size:
                self._end()
                raise NotFinished
            found, start, end = _FOUND.unpack(answer)
            return (start, end) if found else None

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            self._end()

    def _running(self) -> subprocess.Popen[bytes] | None:
        """The process, which has said that it is there; None if it did not."""
        if self._owner != os.getpid():
            # After a fork the process belongs to the parent, and its pipes must not be shared.
            self._process, self._owner = None, os.getpid()
        if self._process is None or self._process.poll() is not None:
            self._end()
            command = [sys.executable, "-P", os.path.abspath(__file__)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
            )
            if not _receive(self._process, 1, timeout=_START):
                self._end()  # a greeting that comes late would be read as an answer
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


_GUARDED: Final = _Guarded()
atexit.register(_GUARDED.close)


def _send(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    view = memoryview(data)
    while view:
        view = view[process.stdin.write(view) :]


def _receive(process: subprocess.Popen[bytes], size: int, *, timeout: float) -> bytes:
    assert process.stdout is not None
    waiting = select.poll()  # `select` would refuse a process that has a thousand files open
    waiting.register(process.stdout, select.POLLIN)
    return _exactly(process.stdout, size) if waiting.poll(1000 * timeout) else b""


def _exactly(stream: IO[bytes], size: int) -> bytes:
    """So many bytes, fewer only at the stream's end."""
    data = b""
    while len(data) < size and (more := stream.read(size - len(data))):
        data += more
    return data


def _serve(asked: IO[bytes], answers: IO[bytes]) -> None:
    importlib.import_module("re2")
    answers.write(b"\n")
    answers.flush()
    while len(header := _exactly(asked, _ASKED.size)) == _ASKED.size:
        length, size, memory, latin, seconds = _ASKED.unpack(header)
        pattern, text = _exactly(asked, length), _exactly(asked, size)
        # The signal's default is to end the process, in the middle of RE2 if need be.
        signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-3))
        question = ready(pattern, latin=latin, memory=memory)
        assert question is not None, "only a pattern that compiled is asked"
        found = question.match(text)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(_FOUND.pack(found is not None, *(found or (0, 0))))
        answers.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
