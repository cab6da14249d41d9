"""The atlas beside the explorer: written once, by its own command, when somebody first asks for it."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from asyncio.subprocess import DEVNULL
from html import unescape
from pathlib import Path
from typing import Final, final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

__all__ = ["AtlasPage"]

_LARGEST: Final = 16 * 2**20
_META: Final = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]{0,4000})">')
_SOON: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The atlas is being written</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/explorer.css"></head>
<body><main><h1>The atlas is being written</h1>
<p>This takes up to some minutes, once. The page opens by itself when it is there.
<a href="/">Back to the explorer</a></p></main></body></html>
"""
_FAILED: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The atlas could not be written</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/explorer.css"></head>
<body><main><h1>The atlas could not be written</h1>
<p>Run <code>separatrix atlas</code> to see why. <a href="/">Back to the explorer</a></p></main></body></html>
"""


@final
class AtlasPage:
    """The page in memory, or the process that writes it."""

    def __init__(self, *, command: tuple[str, ...] | None = None) -> None:
        """`command` writes the page to the path that is put behind it."""
        self._command = command or (sys.executable, "-P", "-m", "separatrix", "atlas", "--out")
        self._writing: asyncio.Task[str | None] | None = None

    async def respond(self, request: Request) -> Response:
        """The page, or one that says that it is coming and looks again by itself."""
        if self._writing is None:
            self._writing = asyncio.create_task(self._written())
        if not self._writing.done():
            return HTMLResponse(_SOON, status_code=202, headers={"refresh": "2", "retry-after": "2"})
        page = self._writing.result()
        if page is None:
            self._writing = None  # the next one who asks tries again
            return HTMLResponse(_FAILED, status_code=500)
        return HTMLResponse(page, headers=_policy(page))

    async def stop(self) -> None:
        """Write no further."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _written(self) -> str | None:
        with tempfile.TemporaryDirectory(prefix="separatrix-") as place:
            path = Path(place) / "atlas.html"
            process = await asyncio.create_subprocess_exec(
                *self._command,
                str(path),
                stdin=DEVNULL,
                stdout=DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                process.kill()
                await process.wait()
                raise
            if code != 0 or not path.is_file() or path.stat().st_size > _LARGEST:
                return None
            return path.read_text(encoding="utf-8")


def _policy(page: str) -> dict[str, str]:
    """The atlas is one file with its script inside; it states itself which script that is, by its hash."""
    found = _META.search(page)
    if found is None:
        return {}
    return {"content-security-policy": f"{unescape(found[1]).rstrip('; ')}; frame-ancestors 'none'"}
