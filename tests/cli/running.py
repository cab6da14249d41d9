"""Running a command line, in this process or in one of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

from separatrix.cli import main

COMMANDS = (
    "tasks",
    "sample",
    "dataset",
    "describe",
    "witness",
    "certify",
    "break",
    "frontier",
    "bound",
    "wall",
    "protocol",
    "matrix",
    "solve",
    "turing",
    "models",
    "size",
    "audit",
    "probe",
    "train",
    "reproduce",
    "runs",
    "atlas",
)


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def answer(self) -> Any:
        return json.loads(self.out)


def run(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(argv)
    return Ran(code, out.getvalue(), err.getvalue())


def refused(*argv: str) -> str:
    ran = run(*argv)
    assert ran.code == 2, ran
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    return ran.err.strip()


def process(*argv: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "separatrix", *argv]
    environment = {**os.environ, "COLUMNS": "80", **settings.pop("env", {})}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=environment, **settings
    )


def shell(line: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """A line of shell in which `separatrix` is this one."""
    command = f'separatrix() {{ "{sys.executable}" -m separatrix "$@"; }}\n{line}'
    return subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, timeout=120, **settings
    )
