"""The world outside: pipes, signals, disks, locales and terminals."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from separatrix.cli import main
from separatrix.store import Store
from tests.cli.running import process, shell
from tests.store.examples import finished


@pytest.fixture
def _a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run in the usual place: `separatrix runs` needs no torch, which takes long to import."""
    monkeypatch.delenv("SEPARATRIX_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    finished(Store("runs"))


@pytest.mark.slow
def test_a_reader_may_leave_early() -> None:
    command = [sys.executable, "-m", "separatrix", "sample", "index-lookup", "--n", "40", "--count", "20000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(timeout=60) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("_a_run")
def test_a_reader_may_have_left_before() -> None:
    for argv in (["--help"], ["runs", "list"]):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "separatrix", *argv]
        ran = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
        os.close(writer)
        assert (ran.returncode, ran.stderr) == (0, b"")


def test_ctrl_c_ends_quietly(tmp_path: Path) -> None:
    """A test run in the background has Ctrl-C switched off and hands that on: the script turns it on."""
    script = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from separatrix.cli import main;"
        f"sys.exit(main(['sample', 'index-lookup', '--n', '4', '--count', '{10**9}']))"
    )
    out = tmp_path / "out"
    with (
        out.open("w") as file,
        subprocess.Popen([sys.executable, "-c", script], stdout=file, stderr=subprocess.PIPE) as running,
    ):
        assert running.stderr is not None
        while not out.stat().st_size:
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        assert running.stderr.read() == b""
        assert running.wait(timeout=30) == 130


def wait_for(happened: Callable[[], bool], running: subprocess.Popen[bytes]) -> None:
    while not happened():
        assert running.poll() is None
        time.sleep(0.05)


ENDLESS = [sys.executable, "-m", "separatrix", "sample", "index-lookup", "--n", "4", "--count", f"{10**9}"]


@pytest.mark.slow
def test_a_terminated_run_leaves_no_half_file(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("old")
    command = [*ENDLESS, "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        assert running.stdout is not None
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2, running)
        running.terminate()
        assert running.stdout.read() == b""
        assert running.wait(timeout=10) == 143
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_text() == "old"


def stands_still(running: subprocess.Popen[bytes], seconds: float = 0.5) -> bool:
    """Whether it sleeps at both ends of some time and has computed nothing in between."""
    seen = set()
    for wait in (seconds, 0):
        state, *counts = Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()
        seen.add((state, *counts[10:12]))
        time.sleep(wait)
    return len(seen) == 1 and next(iter(seen))[0] == "S"


@pytest.mark.slow
def test_a_run_that_nobody_reads_can_be_terminated() -> None:
    """What it still holds back for a full pipe must not keep it."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x")
    os.set_blocking(writer, True)
    command = [sys.executable, "-m", "separatrix", "--version"]
    with subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        wait_for(partial(stands_still, running), running)
        running.terminate()
        try:
            assert running.wait(timeout=10) == 143
        finally:
            os.close(reader)
            os.close(writer)
        assert running.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN])
def test_the_callers_signals_are_given_back(
    before: signal.Handlers, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a command runs SIGTERM and SIGHUP are exceptions, unless the caller has other plans for them."""
    during: list[object] = []

    def seen() -> None:
        during.append(signal.getsignal(number))

    monkeypatch.setattr("separatrix.cli.note", lambda _: seen())
    monkeypatch.setattr(sys, "argv", ["separatrix", "--nonsense"])
    original = signal.signal(number, before)
    try:
        assert main() == 2
        assert signal.getsignal(number) == before
        assert main(["--nonsense"]) == 2
        thread = threading.Thread(target=main)
        thread.start()
        thread.join()
    finally:
        signal.signal(number, original)
    assert [handler == before for handler in during] == [before == signal.SIG_IGN, True, True]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["tasks", "sample dyck --n 4 --json", "describe dyck", "--help", "--no"])
def test_closed_standard_output_is_a_sentence(command: str) -> None:
    ran = shell(f"separatrix {command} >&-")
    assert (ran.returncode, ran.stderr) == (
        2,
        "Standard output is closed; send it to a file or to a reader.\n",
    )
    ran = shell(f"separatrix {command} >&- 2>&-")
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "")


@pytest.mark.slow
@pytest.mark.usefixtures("_a_run")
def test_closed_standard_error_swallows_remarks_and_nothing_else(tmp_path: Path) -> None:
    ran = shell("separatrix runs show x 2>&-")
    assert (ran.returncode, ran.stdout) == (2, "")
    ran = shell("separatrix runs export --out x.csv 2>&-")
    assert (ran.returncode, ran.stdout) == (0, "x.csv\n")
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 2


def test_missing_streams_are_missing_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["tasks"]) == 2
    assert sys.stdout is None
    assert sys.stderr is None


@pytest.mark.slow
@pytest.mark.usefixtures("_a_run")
def test_standard_output_is_no_file_to_write(tmp_path: Path) -> None:
    """/dev/stdout is a link to the file behind it, and that may hold something already."""
    log = tmp_path / "log"
    (tmp_path / "link.csv").symlink_to("/dev/stdout")
    for command, out in (("sample dyck --n 4 --count 1", "/dev/stdout"), ("runs export", "link.csv")):
        log.write_text("log line 1\n")
        ran = shell(f"separatrix {command} --out {out} >> log")
        assert ran.returncode == 2
        assert ran.stderr.startswith(f"'{out}' leads into /")
        assert log.read_text() == "log line 1\n"


@pytest.mark.usefixtures("_a_run")
def test_a_full_disk_is_a_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "separatrix", "runs", "list"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stderr == "The answer cannot be written: No space left on device.\n"


@pytest.mark.usefixtures("_a_run")
def test_any_locale_will_do() -> None:
    ran = process("runs", "list", env={"PYTHONIOENCODING": "ascii"})
    assert ran.returncode == 0
    assert "\\u2013" in ran.stdout


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
@pytest.mark.usefixtures("_a_run")
def test_colour_only_on_a_terminal_that_wants_it(no_color: str, coloured: bool) -> None:
    environment = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": no_color, "COLUMNS": "80"}
    environment.pop("FORCE_COLOR", None)
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "separatrix", "runs", "list"],
        stdout=follower, stderr=follower, env=environment,
    ) as running:  # fmt: skip
        os.close(follower)
        shown = b""
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:
                break
            shown += piece
        running.wait(timeout=30)
    os.close(leader)
    assert (b"\x1b[36m" in shown) == coloured
