"""`separatrix serve` from the outside: its address, its refusals, and its end."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from separatrix.cli import main
from separatrix.errors import InvalidInput
from separatrix.explorer.serving import _listening, _names


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["serve", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_wrong_use_is_refused_in_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "There is no folder" in refused(capsys, "--folder", str(tmp_path / "missing"))
    assert "between 0 and 65535" in refused(capsys, "--port", "70000", "--folder", str(tmp_path))
    assert "no address of this machine" in refused(capsys, "--host", "no.such.host.invalid")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = refused(capsys, "--port", str(taken.getsockname()[1]), "--folder", str(tmp_path))
    assert "another with --port" in said


def test_an_address_that_others_can_reach_has_to_be_meant(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "--host", "0.0.0.0", "--port", "0")
    assert "other machines can reach the explorer" in said
    assert "--allow-host NAME" in said
    with _listening("0.0.0.0", 0, ["atlas.example"]) as listening:
        assert listening.getsockname()[1] > 0
    with pytest.raises(InvalidInput, match="nobody is asked for a password"):
        _listening("0.0.0.0", 0, [])


@pytest.mark.parametrize(
    ("host", "port", "allowed", "names"),
    [
        ("127.0.0.1", 8765, (), ["127.0.0.1:8765", "localhost:8765", "[::1]:8765"]),
        (
            "localhost",
            80,
            (),
            ["localhost:80", "127.0.0.1:80", "[::1]:80", "localhost", "127.0.0.1", "[::1]"],
        ),
        ("0.0.0.0", 9, ("a.example", "b:1"), ["a.example:9", "b:1", "127.0.0.1:9", "localhost:9", "[::1]:9"]),
        ("::1", 9, (), ["[::1]:9", "127.0.0.1:9", "localhost:9"]),
        (
            "::",
            9,
            ("fe80::1", "[fe80::2]:8"),
            ["[fe80::1]:9", "[fe80::2]:8", "127.0.0.1:9", "localhost:9", "[::1]:9"],
        ),
    ],
)
def test_its_own_names(host: str, port: int, allowed: tuple[str, ...], names: list[str]) -> None:
    assert _names(host, port, allowed) == names


@pytest.mark.parametrize("name", ["", "*", "http://a.example/", "a b", "a.example:99999", "a.example/", "é"])
def test_a_name_that_lets_nobody_in_is_refused(capsys: pytest.CaptureFixture[str], name: str) -> None:
    said = refused(capsys, "--host", "0.0.0.0", "--port", "0", "--allow-host", name)
    assert "as it stands in the browser's address" in said


def test_without_the_extra_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'separatrix[serve]'" in refused(capsys)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_prints_its_address_serves_and_ends_cleanly(tmp_path: Path, number: int, code: int) -> None:
    words = [sys.executable, "-m", "separatrix", "serve", "--port", "0", "--folder", str(tmp_path), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            assert said["folder"] == str(tmp_path)
            port = urlsplit(said["address"]).port
            assert port
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/api/views")
            assert connection.getresponse().status == 200
            connection.close()
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            assert (process.returncode, out, err) == (code, "", "")
        finally:
            process.kill()
