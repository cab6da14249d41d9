"""The explorer on a real socket, in a thread of its own, and plain requests to it."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from separatrix.explorer.app import explorer
from separatrix.explorer.limits import Limits
from separatrix.explorer.serving import server_of

STAND_IN = (sys.executable, str(Path(__file__).with_name("stand_in.py")))
JSON = {"content-type": "application/json"}
LONGEST = 60.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Served:
    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        return f"http://{self.host}"

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONGEST)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            named = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, named, response.read())
        finally:
            connection.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.request("GET", path, headers=headers)

    def ask(self, view: str, asked: object, headers: Mapping[str, str] | None = None) -> Answer:
        return self.request("POST", f"/api/{view}", json.dumps(asked).encode(), {**JSON, **(headers or {})})


@contextmanager
def serving(
    folder: Path,
    *,
    limits: Limits | None = None,
    command: tuple[str, ...] | None = None,
    atlas: tuple[str, ...] | None = None,
) -> Iterator[Served]:
    limits = limits or Limits()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        app = explorer(folder, hosts=[f"127.0.0.1:{port}"], limits=limits, command=command, atlas=atlas)
        server = server_of(app, limits)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        end = time.monotonic() + LONGEST
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.005)
        try:
            yield Served(port)
        finally:
            server.should_exit = True
            thread.join(LONGEST)
            assert not thread.is_alive(), "the server does not end"
