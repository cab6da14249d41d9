"""The real worker, as a process: it answers, keeps its output clean, and ends when it should."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from separatrix.errors import InvalidFile
from separatrix.explorer import worker
from separatrix.explorer.folder import Folder
from separatrix.explorer.limits import Limits
from separatrix.explorer.view import Answer
from separatrix.explorer.views import VIEWS
from tests.explorer.serving import Served, serving

RUNAWAY = """
import sys, time
from separatrix.explorer import worker
from separatrix.explorer.folder import Folder
from separatrix.explorer.limits import Limits
from separatrix.explorer.view import View
def answer(asked, folder, deadline):
    print("a stray line")
    match asked["do"]:
        case "spin": "x" * 10 ** 9 + "y"; (1 << 30_000_000) ** 2
        case "fail": raise KeyError("ours")
        case "nan": return {"value": float("nan")}
        case "large": return {"value": "x" * 10_000}
        case "memory": return {"value": len(bytearray(10 ** 13))}
        case "check":
            while True: deadline.check(); time.sleep(0.01)
    return {"fine": True}
view = View(name="odd", title="Odd", says="Odd.", default={}, answer=answer)
worker._GRACE = 0.2
worker.serve((view,), Folder(sys.argv[1]), Limits(answer=5000))
"""


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def put(
    process: subprocess.Popen[str], view: str, asked: object, seconds: float = 30.0
) -> dict[str, Any] | None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"view": view, "asked": asked, "seconds": seconds}) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    return json.loads(line) if line else None


def raising(error: Exception) -> Answer:
    def answer(asked: object, folder: object, deadline: object) -> dict[str, object]:
        raise error

    return answer


def test_what_a_file_makes_an_error_say_does_not_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = worker._Question(view="odd", asked={}, seconds=1.0)
    found = worker._reply(raising(RuntimeError("\x1b[2J\x07 is here")), question, Folder(tmp_path))
    assert (found["status"], "\x1b" in str(found)) == (500, False)
    said = capsys.readouterr().err
    assert "RuntimeError: \\x1b[2J\\x07 is here\n" in said
    assert "\x1b" not in said


def test_no_room_is_said_plainly_whoever_says_it(tmp_path: Path) -> None:
    question = worker._Question(view="odd", asked={}, seconds=1.0)
    for error in (MemoryError(), InvalidFile("[enforce fail at x.cpp] can't allocate memory: 10 bytes")):
        found = worker._reply(raising(error), question, Folder(tmp_path))
        assert (found["status"], found["error"]) == (400, "This does not fit in memory; choose a smaller n.")


@pytest.mark.slow
def test_a_folder_that_has_become_a_link_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "served").symlink_to(tmp_path / "other")
    with started("-P", "-m", "separatrix.explorer.worker", str(tmp_path / "served")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == ""
        assert process.wait(30) == 1


@pytest.mark.slow
def test_it_says_what_views_there_are_and_answers(witnesses: Path) -> None:
    with started("-P", "-m", "separatrix.explorer.worker", str(witnesses)) as process:
        assert process.stdout is not None
        views = json.loads(process.stdout.readline())["views"]
        assert [view["name"] for view in views] == list(VIEWS)
        for view in views:
            found = put(process, view["name"], view["default"])
            assert found is not None
            assert found["status"] == 200, found
        found = put(process, "files", {})
        assert found is not None
        assert [entry["path"] for entry in found["answer"]["entries"]] == ["kept/dyck", "kept/equality"]
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.slow
def test_a_module_in_the_folder_is_never_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "json", "separatrix"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the folder was executed')")
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path, limits=Limits(workers=1, patience=60.0)) as served:
        assert served.get("/api/views").status == 200


@pytest.mark.slow
def test_whatever_a_view_does_the_reply_is_one_line(tmp_path: Path) -> None:
    with started("-c", RUNAWAY, str(tmp_path)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert put(process, "odd", {"do": "well"}) == {"status": 200, "answer": {"fine": True}}
        for what, status, words in (
            ("fail", 500, "went wrong inside"),
            ("nan", 500, "went wrong inside"),
            ("large", 400, "the page shows 5,000"),
            ("memory", 400, "does not fit in memory"),
        ):
            found = put(process, "odd", {"do": what})
            assert found is not None
            assert (found["status"], words in found["error"]) == (status, True), found
        found = put(process, "odd", {"do": "check"}, seconds=0.1)
        assert found is not None
        assert found["status"] == 504


@pytest.mark.slow
def test_the_system_ends_what_never_asks_for_the_time(tmp_path: Path) -> None:
    with started("-c", RUNAWAY, str(tmp_path)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert put(process, "odd", {"do": "spin"}, seconds=0.1) is None
        assert process.wait(30) < 0


@pytest.mark.slow
def test_the_real_server_answers_every_view_over_http(explored: Served) -> None:
    views = explored.get("/api/views").json["views"]
    assert [view["name"] for view in views] == list(VIEWS)
    for view in views:
        found = explored.ask(view["name"], view["default"])
        assert found.status == 200, found.body
        wrong = explored.ask(view["name"], {"no-such-field": 1})
        assert wrong.status == 400, wrong.body
        assert wrong.json["error"].endswith((".", "?"))
    assert explored.ask("attention", {"path": "../../etc"}).status == 400
