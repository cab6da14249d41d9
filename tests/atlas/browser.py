"""A headless Chromium on the end of a pipe: the DevTools protocol with nothing but the standard library."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Browser:
    """One tab. Every event that came is kept in `events`, as (method, parameters)."""

    def __init__(self, commands: int, replies: int) -> None:
        self._commands = commands
        self._replies = replies
        self._unread = b""
        self._last = 0
        self._session: str | None = None
        self.events: list[tuple[str, dict[str, Any]]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and wait for its answer."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, page: Path, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Load a page at a size and in a theme, and wait until it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(method == "Page.loadEventFired" for method, _ in self.events):
            self._read()

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """A key, down and up."""
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def screenshot(self, *, whole: bool = True, clip: dict[str, float] | None = None) -> bytes:
        """A PNG of the page, the visible part of it, or a rectangle."""
        extra = {} if clip is None else {"clip": {**clip, "scale": 1}}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **extra)
        return base64.b64decode(shot["data"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            chunk = os.read(self._replies, 1 << 20)
            assert chunk, "Chromium has gone away"
            self._unread += chunk
        line, self._unread = self._unread.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append((message["method"], message["params"]))
        return message


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a profile of its own, gone when the block ends."""
    program = shutil.which("chromium")
    assert program is not None, "the browser tests need chromium on the PATH"
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        ours = [_high(end) for pair in (os.pipe(), os.pipe()) for end in pair]
        read_commands, write_commands, read_replies, write_replies = ours
        # Chromium reads descriptor 3 and writes descriptor 4; the shell puts our pipes there.
        wiring = f'exec "$@" 3<&{read_commands} 4>&{write_replies}'
        process = subprocess.Popen(
            ["bash", "-c", wiring, "bash", program, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(read_commands, write_replies),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_replies)
        try:
            yield Browser(write_commands, read_replies)
        finally:
            os.close(write_commands)
            os.close(read_replies)
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _high(descriptor: int) -> int:
    """The same pipe under a number that the wiring does not overwrite."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10)
    os.close(descriptor)
    return moved
