"""Whoever says nothing, reads nothing, dies or leaves in the middle: the explorer goes on for the others."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from separatrix.explorer import workers as module
from separatrix.explorer.limits import Limits
from separatrix.explorer.workers import Workers
from tests.explorer.serving import STAND_IN, Answer, Served, serving

QUICK = Limits(workers=1, head_seconds=0.3, connections=4)


def until(condition: Callable[[], bool], *, seconds: float = 20.0) -> None:
    """Wait for something that takes a moment; fail if it never comes."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def connected(served: Served, sent: bytes, *, buffer: int | None = None) -> socket.socket:
    raw = socket.socket()
    if buffer is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    raw.settimeout(20)
    raw.connect(("127.0.0.1", served.port))
    raw.sendall(sent)
    return raw


def all_of(raw: socket.socket) -> bytes:
    """What comes until the other end closes or cuts the connection."""
    found = bytearray()
    with raw:
        try:
            while piece := raw.recv(1 << 16):
                found += piece
        except ConnectionResetError:
            pass
    return bytes(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow:"], ids=["nothing", "half a head"]
)
def test_a_request_that_never_comes_does_not_keep_its_place(tmp_path: Path, sent: bytes) -> None:
    with serving(tmp_path, limits=QUICK, command=STAND_IN) as served:
        waiting = [connected(served, sent) for _ in range(QUICK.connections)]
        assert served.get("/").status == 503
        assert {all_of(raw) for raw in waiting} == {b""}
        assert served.get("/").status == 200


@pytest.mark.slow
def test_an_answer_that_nobody_takes_is_dropped(tmp_path: Path) -> None:
    patient = Limits(workers=1, head_seconds=2.0, connections=4)  # so that all are there for a while
    with serving(tmp_path, limits=patient, command=STAND_IN) as served:
        question = json.dumps({"do": "large"}).encode()
        head = (
            f"POST /api/stand-in HTTP/1.1\r\nHost: {served.host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(question)}\r\n\r\n"
        )
        waiting = [
            connected(served, head.encode() + question, buffer=4096) for _ in range(patient.connections)
        ]
        until(lambda: served.get("/").status == 503)  # all are there
        until(lambda: served.get("/").status == 200)  # and the first has been cut off
        assert min(len(all_of(raw)) for raw in waiting) < 7 * 2**20


def test_one_who_speaks_slowly_but_speaks_is_served(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(workers=1), command=STAND_IN) as served:
        raw = connected(served, b"GET /common.js HTTP/1.1\r\n")
        time.sleep(0.1)
        raw.sendall(f"Host: {served.host}\r\n\r\n".encode())
        assert raw.recv(100).split()[1] == b"200"
        raw.close()


def test_far_too_many_connections_are_cut_at_once(tmp_path: Path) -> None:
    limits = Limits(workers=1, head_seconds=30.0, connections=2)
    with serving(tmp_path, limits=limits, command=STAND_IN) as served:
        held = [connected(served, b"") for _ in range(4)]
        until(lambda: served_none(served))
        for raw in held:
            raw.close()
        until(lambda: not served_none(served) and served.get("/").status == 200)


def served_none(served: Served) -> bool:
    """Whether a connection is cut before anything is said."""
    try:
        served.get("/")
    except (ConnectionError, OSError):
        return True
    return False


def test_a_worker_that_died_in_its_sleep_is_not_asked(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(workers=1), command=STAND_IN) as served:
        first = served.ask("stand-in", {}).json["process"]
        os.kill(first, signal.SIGKILL)
        until(lambda: gone(first))
        time.sleep(0.05)
        answer = served.ask("stand-in", {})
        assert (answer.status, answer.json["process"] != first) == (200, True)


@pytest.mark.slow
def test_what_a_killed_worker_copied_is_cleared_away(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(workers=1, seconds=0.3), command=STAND_IN) as served:
        place = Path(served.ask("stand-in", {}).json["place"])
        (place / "copy").write_text("of something large")
        assert served.ask("stand-in", {"do": "hang"}).status == 504
        second = Path(served.ask("stand-in", {}).json["place"])
        assert not place.exists()
        assert second.is_dir()
    assert not second.exists()


@pytest.mark.slow
def test_whoever_is_still_waiting_at_the_end_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found: list[Answer] = []
    with serving(tmp_path, limits=Limits(workers=1), command=STAND_IN) as served:
        process = served.ask("stand-in", {}).json["process"]
        question = {"do": "hang", "begun": str(tmp_path / "begun")}
        asking = threading.Thread(target=lambda: found.append(served.ask("stand-in", question)))
        asking.start()
        until((tmp_path / "begun").exists)
    asking.join(20)
    assert [(answer.status, answer.json) for answer in found] == [(503, {"error": "The explorer has ended."})]
    until(lambda: gone(process))
    assert "Traceback" not in capfd.readouterr().err


def test_a_process_that_cannot_be_started_now_is_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.02)
    late = tmp_path / "late"

    async def tried() -> list[dict[str, object]]:
        workers = Workers(tmp_path, Limits(workers=1), command=(str(late),))
        workers.start()
        await asyncio.sleep(0.1)
        late.with_suffix(".part").write_text(f'#!/bin/sh\nexec "{STAND_IN[0]}" "{STAND_IN[1]}" "$@"\n')
        late.with_suffix(".part").chmod(0o700)
        late.with_suffix(".part").rename(late)
        try:
            return await asyncio.wait_for(workers.views(), 20)
        finally:
            await workers.stop()

    assert [view["name"] for view in asyncio.run(tried())] == ["stand-in"]


def test_another_page_cannot_have_the_atlas_written(tmp_path: Path) -> None:
    script = f"import pathlib; pathlib.Path({str(tmp_path / 'asked')!r}).touch()"
    with serving(tmp_path, command=STAND_IN, atlas=(sys.executable, "-c", script)) as served:
        for site in ("cross-site", "same-site"):
            assert served.get("/atlas", {"sec-fetch-site": site}).status == 403
        assert not (tmp_path / "asked").exists()
        assert served.get("/atlas", {"sec-fetch-site": "none"}).status == 202


def test_half_a_character_is_no_reason_to_fail(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(workers=1), command=STAND_IN) as served:
        assert served.ask("stand-in", {"a": "\ud800"}).json["asked"] == {"a": "\ud800"}
        refused = served.ask("stand-in", {"do": "refuse", "of": "\udc00"})
        assert (refused.status, refused.json["error"][-1]) == (400, "\udc00")


def test_browsers_that_look_for_an_icon_find_none_and_do_not_complain(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(workers=1), command=STAND_IN) as served:
        assert (served.get("/favicon.ico").status, served.get("/favicon.ico").body) == (204, b"")
