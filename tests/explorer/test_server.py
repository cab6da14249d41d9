"""The server's rules on a real socket, with a worker that does as it is told."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from separatrix.explorer.limits import Limits
from tests.explorer.serving import JSON, STAND_IN, Answer, Served, serving

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def refused(answer: Answer, status: int, words: str) -> None:
    """Refused with this status and one sentence, with the headers of every response."""
    assert (answer.status, answer.json.keys()) == (status, {"error"})
    assert re.search(words, answer.json["error"])
    assert answer.json["error"].endswith(".")
    assert HEADERS.items() <= answer.headers.items()


def test_the_page_its_parts_and_answers_carry_every_header(served: Served) -> None:
    page = served.get("/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    parts = re.findall(r'(?:href|src)="(/[^"]+)"', page.body.decode())
    assert {"/explorer.css", "/explorer.js"} <= set(parts)
    answers = [page, served.ask("stand-in", {}), served.get("/api/views"), served.get("/api/files")]
    answers += [served.get(part) for part in parts if part != "/atlas"]
    for answer in answers:
        assert answer.status == 200
        assert HEADERS.items() <= answer.headers.items()
        assert "server" not in answer.headers
    assert b"<script>" not in page.body
    assert b"style=" not in page.body


def test_every_script_that_the_page_imports_is_there(served: Served) -> None:
    wanted, seen = {"/explorer.js"}, set[str]()
    while wanted - seen:
        part = (wanted - seen).pop()
        seen.add(part)
        answer = served.get(part)
        assert answer.status == 200, part
        assert answer.headers["content-type"].startswith("text/javascript")
        wanted |= set(re.findall(r'from "(/[^"]+)"', answer.body.decode()))
    assert "/common.js" in seen


def test_a_question_is_answered_and_a_refusal_is_one_sentence(served: Served) -> None:
    assert served.get("/api/views").json["views"][0]["name"] == "stand-in"
    answer = served.ask("stand-in", {"a": [1]})
    assert (answer.status, answer.json["asked"]) == (200, {"a": [1]})
    refused(served.ask("stand-in", {"do": "refuse"}), 400, "got another")
    refused(served.ask("another", {}), 404, "there are stand-in")


def test_another_name_is_not_the_explorers(served: Served) -> None:
    assert served.get("/", {"host": served.host.upper()}).status == 200
    for host in (
        "evil.example",
        "127.0.0.1",
        f"evil.example:{served.port}",
        f"{served.host}.evil.example",
        "",
    ):
        refused(served.get("/", {"host": host}), 421, "open the address that it printed")
        refused(served.ask("stand-in", {}, {"host": host}), 421, "open the address that it printed")


def test_two_hosts_are_none(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:
        raw.sendall(f"GET / HTTP/1.1\r\nHost: {served.host}\r\nHost: evil.example\r\n\r\n".encode())
        assert raw.recv(100).split()[1] in (b"400", b"421")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://{host}"},
        {"origin": "http://127.0.0.1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "http://{host}", "sec-fetch-site": "cross-site"},
    ],
)
def test_another_page_may_not_ask(served: Served, headers: dict[str, str]) -> None:
    sent = {name: value.format(host=served.host) for name, value in headers.items()}
    refused(served.ask("stand-in", {}, sent), 403, "comes from another")
    if sent != {"sec-fetch-site": "none"}:  # somebody who types the address may read
        refused(served.get("/api/files", sent), 403, "comes from another")


def test_its_own_page_may_ask(served: Served) -> None:
    own = {"origin": served.address, "sec-fetch-site": "same-origin"}
    assert served.ask("stand-in", {}, own).status == 200
    assert served.get("/api/files", {"sec-fetch-site": "none"}).status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(served: Served, method: str) -> None:
    refused(served.request(method, "/api/stand-in"), 405, "GET")


def test_methods_belong_to_addresses(served: Served) -> None:
    refused(served.request("POST", "/", b"{}", JSON), 405, "GET")
    refused(served.request("POST", "/api/files", b"{}", JSON), 404, "no view")
    assert served.get("/api/stand-in").status == 405


def test_what_is_too_long_is_refused_whether_it_says_so_or_not(served: Served) -> None:
    refused(served.ask("stand-in", {"a": "x" * 3000}), 413, "2,000 bytes")
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:
        raw.sendall(
            f"POST /api/stand-in HTTP/1.1\r\nHost: {served.host}\r\nContent-Type: application/json\r\n"
            "Content-Length: 2001\r\n\r\n".encode()
        )
        assert raw.recv(100).split()[1] == b"413"  # before anything was sent
    piece = b"7d0\r\n" + b" " * 2000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:
        raw.sendall(
            f"POST /api/stand-in HTTP/1.1\r\nHost: {served.host}\r\nContent-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        raw.sendall(piece + piece)
        assert raw.recv(100).split()[1] == b"413"
    refused(served.get("/" + "a" * 2000), 414, "characters")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"[]", "JSON object"),
        (b"\xff\xfe", "UTF-8|JSON"),
        (b'{"a": NaN}', "NaN|finite|JSON"),
        (b'{"a":' + b"[" * 60 + b"]" * 60 + b"}", "nested"),
    ],
)
def test_what_is_no_question_is_refused(served: Served, body: bytes, words: str) -> None:
    refused(served.request("POST", "/api/stand-in", body, JSON), 400, words)


def test_a_question_says_that_it_is_json(served: Served) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        refused(
            served.request("POST", "/api/stand-in", b"{}", {"content-type": kind}), 415, "application/json"
        )


@pytest.mark.parametrize(
    "path",
    [
        "/../app.py",
        "/%2e%2e/app.py",
        "/views/../../app.py",
        "//etc/passwd",
        "/views",
        "/.git/config",
        "/index.html",
    ],
)
def test_no_path_leads_to_a_file(served: Served, path: str) -> None:
    refused(served.get(path), 404, "begins at /")


@pytest.mark.slow
def test_what_takes_too_long_is_ended_and_the_server_goes_on(served: Served) -> None:
    first = served.ask("stand-in", {}).json["process"]
    refused(served.ask("stand-in", {"do": "hang"}), 504, "longer than the 0.4 seconds")
    assert served.ask("stand-in", {}).json["process"] != first
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_a_worker_that_dies_is_replaced(served: Served) -> None:
    refused(served.ask("stand-in", {"do": "die"}), 500, "ended before its answer")
    assert served.ask("stand-in", {}).status == 200


def test_when_the_queue_is_full_more_are_turned_away(tmp_path: Path) -> None:
    limits = Limits(workers=1, seconds=30.0, waiting=1, patience=30.0)
    with serving(tmp_path, limits=limits, command=STAND_IN) as served:
        served.get("/api/views")
        found: list[Answer] = []

        def ask() -> None:
            found.append(served.ask("stand-in", {"do": "wait", "until": str(tmp_path / "go")}))

        threads = [threading.Thread(target=ask) for _ in range(5)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 20
        while len(found) < 3 and time.monotonic() < end:  # one is in work and one waits
            time.sleep(0.01)
        (tmp_path / "go").touch()
        for thread in threads:
            thread.join(30)
    assert [answer.status for answer in found] == [503, 503, 503, 200, 200]
    for answer in found[:3]:
        refused(answer, 503, "busy")
        assert answer.headers["retry-after"] == "1"


def test_the_workers_end_with_the_server(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(workers=1), command=STAND_IN) as served:
        process = served.ask("stand-in", {}).json["process"]
    for _ in range(100):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    pytest.fail("the worker is still there")


def test_headers_that_never_end_are_refused(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as raw:
        raw.sendall(f"GET / HTTP/1.1\r\nHost: {served.host}\r\nX: {'a' * 300_000}".encode())
        assert raw.recv(100).split()[1] in (b"400", b"431")
    refused(served.get("/", {"x": "a" * 20_000}), 431, "16,384 bytes")


@pytest.mark.slow
def test_the_atlas_comes_when_it_is_written(tmp_path: Path) -> None:
    policy = "default-src &#39;none&#39;; script-src &#39;sha256-abc&#39;"
    page = f'<!doctype html><meta http-equiv="Content-Security-Policy" content="{policy}">atlas'
    script = f"import sys, time; time.sleep(0.2); open(sys.argv[1], 'w').write({page!r})"
    with serving(tmp_path, command=STAND_IN, atlas=(sys.executable, "-c", script)) as served:
        first = served.get("/atlas")
        assert (first.status, first.headers["refresh"]) == (202, "2")
        assert b"is being written" in first.body
        end = time.monotonic() + 20
        while (answer := served.get("/atlas")).status == 202 and time.monotonic() < end:
            time.sleep(0.05)
    assert (answer.status, answer.body.decode()) == (200, page)
    assert answer.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'sha256-abc'; frame-ancestors 'none'"
    )


def test_an_atlas_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with serving(tmp_path, command=STAND_IN, atlas=(sys.executable, "-c", "raise SystemExit(2)")) as served:
        end = time.monotonic() + 20
        while (answer := served.get("/atlas")).status == 202 and time.monotonic() < end:
            time.sleep(0.05)
    assert answer.status == 500
    assert b"separatrix atlas" in answer.body
    assert HEADERS.items() <= answer.headers.items()
