"""Programs in a process of their own that begins with torch imported, which costs more than most of them do.

A server that has imported torch, and nothing of ours, forks for each program; all else is as in a new one.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

__all__ = ["forked"]

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["torch", "torch._dynamo"])
_PATIENCE = 300


def forked(program: str, *, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the text of a program in a folder, as `python -c` would."""
    with tempfile.TemporaryDirectory() as streams:
        out, err = Path(streams, "out"), Path(streams, "err")
        process = _SERVER.Process(target=_begin, args=(program, folder, dict(os.environ), out, err))
        process.start()
        process.join(_PATIENCE)
        if process.exitcode is None:
            process.kill()
            process.join()
        assert process.exitcode is not None
        printed = [path.read_text(encoding="utf-8") for path in (out, err)]
    return subprocess.CompletedProcess(program, process.exitcode, *printed)


def _begin(program: str, folder: Path, environment: dict[str, str], out: Path, err: Path) -> None:
    for stream, path in ((1, out), (2, err)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c"]
    # What a program defines must be found in `__main__`: own models are named by where they stand.
    sys.modules["__main__"] = main = ModuleType("__main__")
    exec(program, vars(main))
