"""A process that computes answers: one question a line on standard input, one answer a line on the output.

`python -m separatrix.explorer.worker FOLDER` is started by `workers`. It first writes what views there are.
It ends when its input ends, whatever it is doing, and the system ends it if it computes on behind its time.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO, final

import torch

from separatrix.errors import SeparatrixError, TooLarge
from separatrix.explorer.folder import Folder
from separatrix.explorer.limits import Limits
from separatrix.explorer.listing import listing
from separatrix.explorer.view import Answer, Deadline, TimeIsUp, View
from separatrix.explorer.views import every_view

__all__ = ["FILES", "serve"]

FILES: Final = "files"
"""The question for what lies in the folder; no view has this name."""
_GRACE: Final = 2.0
_INSIDE: Final = "Something went wrong inside the explorer; the terminal that it runs in has the details."
_NO_ROOM: Final = "This does not fit in memory; choose a smaller n."


@final
@dataclass(frozen=True, kw_only=True)
class _Question:
    """As the pool writes it."""

    view: str
    asked: dict[str, object]
    seconds: float


def serve(views: tuple[View, ...], folder: Folder, limits: Limits) -> None:
    """Answer until the input ends."""
    output = _private_output()
    _limit_memory(limits.memory)
    answers: dict[str, Answer] = {view.name: view.answer for view in views}
    answers[FILES] = lambda asked, folder, deadline: listing(folder, deadline)
    about = [
        {"name": view.name, "title": view.title, "says": view.says, "default": dict(view.default)}
        for view in views
    ]
    _write(output, {"views": about})
    questions = _questions()
    while True:
        question = questions.get()
        _alarm(question.seconds + _GRACE)
        reply = _reply(answers[question.view], question, folder)
        _alarm(0.0)
        line = json.dumps(reply, allow_nan=False)
        if len(line) > limits.answer:
            line = json.dumps({"status": 400, "error": _too_long(len(line), limits.answer)})
        print(line, file=output, flush=True)


def _reply(answer: Answer, question: _Question, folder: Folder) -> dict[str, object]:
    try:
        found = answer(question.asked, folder, Deadline(question.seconds))
        return {"status": 200, "answer": json.loads(json.dumps(found, allow_nan=False))}
    except TimeIsUp as error:
        return {"status": 504, "error": str(error)}
    except Exception as error:
        # The second is torch's own way to say it, and readers of files repeat what it says.
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            return {"status": 400, "error": _NO_ROOM}
        if isinstance(error, SeparatrixError):
            return {"status": 400, "error": " ".join(str(error).split())}
        print(_printable(traceback.format_exc()), file=sys.stderr, flush=True)
        return {"status": 500, "error": _INSIDE}


def _printable(text: str) -> str:
    """What a stranger's file made an error say must not steer the terminal."""
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )


def _too_long(length: int, most: int) -> str:
    return str(TooLarge(f"The answer has {length:,} bytes; the page shows {most:,}. Choose a smaller n."))


def _write(output: TextIO, record: Mapping[str, object]) -> None:
    print(json.dumps(record), file=output, flush=True)


def _private_output() -> TextIO:
    """Standard output under a number of its own, so that a stray print goes elsewhere."""
    own = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(own, "w", encoding="utf-8")


def _questions() -> queue.SimpleQueue[_Question]:
    """The lines of the input, read beside the work, so that its end is noticed during the work too."""
    waiting: queue.SimpleQueue[_Question] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            waiting.put(_Question(**json.loads(line)))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return waiting


def _alarm(seconds: float) -> None:
    """The system ends this process by then, even inside one long operation; 0 calls that off."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _limit_memory(most: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def main() -> None:
    """The process's own beginning."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started this process
    torch.set_num_threads(1)
    folder = Folder(sys.argv[1])
    if folder.root != Path(sys.argv[1]):
        raise SystemExit(f"'{sys.argv[1]}' has become a link since the explorer was started.")
    serve(every_view(), folder, Limits())


if __name__ == "__main__":
    main()
