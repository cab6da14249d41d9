"""Two processes over a loopback socket say what two threads say; strangers and failures are dealt with."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from separatrix.communication.protocols import arrange, party, run_protocols
from separatrix.communication.protocols.settings import (
    read_setting,
    read_tensor,
    write_setting,
    write_tensor,
)
from separatrix.communication.protocols.sockets import Line, RowChannel, called, listening, met
from separatrix.communication.wire import BitString
from separatrix.errors import InvalidFile, InvalidInput, SeparatrixError
from separatrix.models import MODELS
from separatrix.models.population import signature_of
from separatrix.tasks import task
from tests.communication.protocol_cases import ONE_LAYER, RECURRENT, inputs_of

SECRET = bytes(range(32))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go, to see that none stay."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.slow
def test_two_processes_say_what_two_threads_say(place: Path) -> None:
    witness, made = ONE_LAYER[3].built()
    inputs = inputs_of(made, 2)
    arrangement = arrange(witness, made, partition="odd/even")
    apart = run_protocols(arrangement, inputs, processes=True, keep=True)
    assert apart == run_protocols(arrangement, inputs, keep=True)
    assert all(each.agrees for each in apart)
    assert not list(place.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("case", [ONE_LAYER[7], ONE_LAYER[10], RECURRENT[0], RECURRENT[5]], ids=str)
def test_other_models_in_two_processes(case: Any, place: Path) -> None:
    witness, made = case.built()
    arrangement = arrange(witness, made)
    inputs = inputs_of(made, 3)
    assert run_protocols(arrangement, inputs, processes=True) == run_protocols(arrangement, inputs)
    assert not list(place.iterdir())


@pytest.mark.slow
def test_a_trained_model_in_two_processes(place: Path) -> None:
    made = task("index-lookup", n=6, alphabet=4)
    kind = MODELS.get("mamba")
    population = kind(kind.Config(width=8, layers=1), signature_of(made), members=1).initialise([5])
    arrangement = arrange(population, made)
    inputs = inputs_of(made, 2)
    apart = run_protocols(arrangement, inputs, processes=True)
    assert apart == run_protocols(arrangement, inputs)
    assert apart[0].agrees


@pytest.mark.slow
def test_a_party_that_fails_ends_the_run_in_a_sentence(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bob's file is broken after it was written; Alice waits, Bob says why, and nothing stays behind."""
    witness, made = RECURRENT[0].built()
    module = "separatrix.communication.protocols.processes.write_tensor"

    def broken(path: Path, values: torch.Tensor) -> None:
        write_tensor(path, values)
        if path.parent.name == "Bob":
            path.write_bytes(b"no tensors")

    monkeypatch.setattr(module, broken)
    with pytest.raises(SeparatrixError, match=r"'part\.safetensors' is no safetensors file"):
        run_protocols(arrange(witness, made), inputs_of(made, 1), processes=True)
    assert not list(place.iterdir())


def test_a_run_that_takes_too_long_is_ended(place: Path) -> None:
    witness, made = RECURRENT[0].built()
    with pytest.raises(SeparatrixError, match="gave no answer in time"):
        run_protocols(arrange(witness, made), inputs_of(made, 1), processes=True, timeout=0.2)
    assert not list(place.iterdir())
    with pytest.raises(InvalidInput, match="need some seconds; got a timeout of 0"):
        run_protocols(arrange(witness, made), inputs_of(made, 1), processes=True, timeout=0)


def test_a_member_alone_has_no_files() -> None:
    made = task("index-lookup", n=4)
    kind = MODELS.get("lstm")
    member = kind(kind.Config(width=8), signature_of(made), members=1).initialise([1]).member(0)
    with pytest.raises(InvalidInput, match=r"pass the population of one, population.alone\(i\)"):
        run_protocols(arrange(member, made), inputs_of(made, 1), processes=True)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with closing(listening(5.0)) as opened:
        yield opened


def _port(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def test_only_who_knows_the_secret_is_let_in(server: socket.socket) -> None:
    assert server.getsockname()[0] == "127.0.0.1"
    found: list[socket.socket] = []
    waiting = threading.Thread(target=lambda: found.append(met(server, SECRET, timeout=5.0)))
    waiting.start()
    with pytest.raises(SeparatrixError, match="hung up"):
        called(_port(server), bytes(32), timeout=5.0)
    with closing(socket.create_connection(("127.0.0.1", _port(server)))) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        with closing(called(_port(server), SECRET, timeout=5.0)) as friend:
            waiting.join()
            with closing(found[0]) as mine:
                Line(friend, most_bits=8).put(BitString(bits=5, data=b"\xa8"))
                assert Line(mine, most_bits=8).get() == BitString(bits=5, data=b"\xa8")


def test_nobody_comes(server: socket.socket) -> None:
    with pytest.raises(SeparatrixError, match=r"did not come within 0\.1 s"):
        met(server, SECRET, timeout=0.1)


def test_who_listens_must_know_the_secret(server: socket.socket) -> None:
    def impostor() -> None:
        connection, _ = server.accept()
        with closing(connection):
            connection.recv(64)
            connection.sendall(bytes(32))

    thread = threading.Thread(target=impostor)
    thread.start()
    with pytest.raises(SeparatrixError, match="does not know the secret"):
        called(_port(server), SECRET, timeout=5.0)
    thread.join()


def test_frames_are_bounded_and_whole() -> None:
    one, other = socket.socketpair(socket.AF_UNIX if sys.platform != "win32" else socket.AF_INET)
    with closing(one), closing(other):
        other.settimeout(0.1)
        line = Line.__new__(Line)  # a pair of Unix sockets has no TCP option to set
        line._connection, line._most = other, 16
        one.sendall((17).to_bytes(4, "big") + bytes(3))
        with pytest.raises(SeparatrixError, match="17 bits came; no run of this protocol has as many"):
            line.get()
        other.recv(3)
        with pytest.raises(SeparatrixError, match="sent nothing for too long"):
            line.get()
        one.sendall((9).to_bytes(4, "big") + b"\xff")
        one.shutdown(socket.SHUT_WR)
        channel = RowChannel(line)
        with pytest.raises(SeparatrixError, match="hung up"):
            channel.receive()
        assert channel.events == []


def test_settings_come_back_from_their_files(tmp_path: Path) -> None:
    witness, made = ONE_LAYER[0].built()
    arrangement = arrange(witness, made, partition="odd/even", query="token")
    write_setting(tmp_path, arrangement)
    again = read_setting(tmp_path)
    inputs = inputs_of(made, 3)
    mine, theirs = run_protocols(arrangement, inputs), run_protocols(again, inputs)
    assert [each.messages for each in mine] == [each.messages for each in theirs]
    assert again.protocol.system == arrangement.protocol.system
    setting = json.loads((tmp_path / "setting.json").read_text())
    for change, sentence in (
        ({"alice": [0, -1]}, "positions counted from 0"),
        ({"query": "aloud"}, "query"),
        ({"more": 1}, "more"),
        ({"model": {**setting["model"], "arithmetic": "float8"}}, "An arithmetic is"),
    ):
        (tmp_path / "setting.json").write_text(json.dumps({**setting, **change}))
        with pytest.raises(SeparatrixError, match=sentence):
            read_setting(tmp_path)
    write_setting(tmp_path, arrangement)
    with pytest.raises(InvalidFile, match="holds one tensor by the name"):
        read_tensor(tmp_path / "weights.safetensors")


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        ('{"party": "Eve"}', "party"),
        ("[]", "the job is a JSON object"),
        ("", "the job"),
        ("{" * 100_000, "the job"),
    ],
)
def test_a_job_that_is_none_is_refused_in_a_sentence(
    job: str, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(job.encode())))
    assert party.main() == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert sentence in said.err
    assert said.err.count("\n") == 1


def within(seconds: float, happened: Callable[[], bool]) -> bool:
    """Whether it happens before so much time is over."""
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.slow
def test_a_party_whose_input_closes_ends_and_clears_away(tmp_path: Path) -> None:
    """Alice waits two minutes for Bob, but not once nobody waits for her."""
    place = tmp_path / "separatrix-run"
    place.mkdir()
    (place / "part").write_text("what nobody else would remove")
    job: dict[str, Any] = {
        "party": "Alice",
        "folder": str(place),
        "part": str(place / "part"),
        "secret": SECRET.hex(),
    }
    job |= {"port": None, "seconds": 120, "threads": 1}
    command = [sys.executable, "-m", party.__name__, str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as alice:
        try:
            assert alice.stdin is not None
            assert alice.stdout is not None
            alice.stdin.write(json.dumps(job).encode() + b"\n")
            alice.stdin.flush()
            assert json.loads(alice.stdout.readline())["port"] > 0
            assert place.exists()
            alice.stdin.close()
            assert alice.wait(timeout=30) == 2
        finally:
            alice.kill()
    assert not place.exists()


def test_a_party_clears_away_nothing_but_the_folder_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("separatrix-run", "other"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(threading.Thread, "start", lambda self: None)
    for name, stays in (("separatrix-run", False), ("other", True)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
        assert party.main(str(tmp_path / name)) == 2
        assert (tmp_path / name).exists() is stays
    assert "the job" in capsys.readouterr().err


def _running(pid: int) -> bool:
    """Whether there is such a process that has not ended yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@contextmanager
def heeding_hangups() -> Iterator[None]:
    """What is started in the block does not ignore SIGHUP, though these tests may run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True], ids=["starting", "told"])
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda each: each.name
)
def test_nothing_stays_behind_when_the_command_is_ended(
    number: signal.Signals, late: bool, tmp_path: Path
) -> None:
    """The parties end and the files go, also where the command itself has no chance to see to it."""
    command = [
        sys.executable,
        "-m",
        "separatrix",
        "protocol",
        "dyck",
        "--family",
        "transformer-1",
        "--n",
        "6",
    ]
    command += ["--processes", "--runs", "100000", "--json"]  # a new pair of processes for every few runs
    with heeding_hangups():
        begun = subprocess.Popen(command, env=os.environ | {"TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE)
    with begun as running:
        try:
            wanted = "*/Bob/part.safetensors" if late else "*/Bob/errors"
            assert within(60, lambda: any(tmp_path.glob(wanted)))
            children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
            assert within(10, lambda: len(children.read_text().split()) == 2)
            parties = [int(pid) for pid in children.read_text().split()]
            running.send_signal(number)
            code = running.wait(timeout=30)
        finally:
            running.kill()
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    assert within(30, lambda: not any(map(_running, parties)))
    assert within(10, lambda: not list(tmp_path.glob("separatrix-*")))
