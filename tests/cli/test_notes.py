"""Remarks on standard error: lines that fit a terminal, one line for a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import TextIO

import pytest

from separatrix.cli import main
from separatrix.cli.output import columns, note

LONG = "An answer was expected here, and what came instead is far too long for one line of any terminal."
PATH = "/a/folder/whose-name-has/more-letters/than-a-line-of-this-terminal/has-columns/in-it"


class Terminal:
    """A terminal of so many columns on standard error, and what it shows."""

    def __init__(self, width: int) -> None:
        self._leader, follower = pty.openpty()
        os.set_blocking(self._leader, False)
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        self.file: TextIO = os.fdopen(follower, "w")

    @contextmanager
    def watched(self) -> Iterator[list[str]]:
        """The lines that the block writes, there when it has ended."""
        lines: list[str] = []
        with redirect_stderr(self.file):
            yield lines
        self.file.flush()
        lines += os.read(self._leader, 10_000).decode().splitlines()

    def close(self) -> None:
        self.file.close()
        os.close(self._leader)


@pytest.fixture(params=[40, 80])
def width(request: pytest.FixtureRequest) -> int:
    assert isinstance(request.param, int)
    return request.param


@pytest.fixture
def terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """One that alone says how wide it is."""
    monkeypatch.delenv("COLUMNS")
    made = Terminal(width)
    yield made
    made.close()


def test_a_terminal_gets_lines_that_fit(terminal: Terminal, width: int) -> None:
    with terminal.watched() as lines:
        note(LONG)
    assert len(lines) == -(-len(LONG) // width)
    assert max(map(len, lines)) <= width
    assert " ".join(lines) == LONG


def test_a_path_stays_whole(terminal: Terminal) -> None:
    with terminal.watched() as lines:
        note(f"There is no file {PATH} here.")
    assert lines == ["There is no file", PATH, "here."]


def test_a_refusal_fits_too(terminal: Terminal, width: int) -> None:
    with terminal.watched() as lines:
        assert main(["sampl", "--n", "4"]) == 2
    assert len(lines) > 1
    assert max(map(len, lines)) <= width
    assert " ".join(lines).startswith("There is no command 'sampl'.")


def test_a_pipe_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    note(LONG)
    assert capsys.readouterr().err == f"{LONG}\n"


@pytest.mark.parametrize(("wish", "width"), [("30", 30), ("", 50), ("0", 50), ("-3", 50), ("wide", 50)])
def test_columns_goes_before_the_terminal(wish: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", wish)
    terminal = Terminal(50)
    assert columns(terminal.file) == width
    terminal.close()


def test_a_terminal_that_does_not_say_has_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    terminal = Terminal(0)
    assert columns(terminal.file) == 80
    terminal.close()
    with open(os.devnull, "w") as nowhere:
        assert columns(nowhere) == 80
