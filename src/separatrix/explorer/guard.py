"""Who may ask what: every request passes here before anything else sees it.

A page on any site can make a browser send requests to this machine. So the Host header must be one of the
explorer's own names, which a name that somebody's DNS points here is not; a question must come from a page of
the explorer itself, or from no browser at all; and no other page may embed, read or run what is served.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["POLICY", "Guard", "in_json", "refusal"]

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "content-security-policy": POLICY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "x-frame-options": "DENY",
        "cache-control": "no-store",
    }
)
"""On every response, unless it has its own."""
_LONGEST_TARGET: Final = 1024
_READ: Final = ("GET", "HEAD")
_ATLAS: Final = "/atlas"


def in_json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response in JSON, all of it ASCII: half a character in a text is no reason to fail."""
    content = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Response(content, status_code=status, headers=headers, media_type="application/json")


def refusal(status: int, sentence: str, **headers: str) -> Response:
    """A response that says in one sentence what is wrong."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return in_json({"error": sentence}, status, named)


@final
class Guard:
    """An application behind the rules."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], longest: int) -> None:
        """`hosts` are the values of the Host header that are the explorer's own, `longest` all headers'."""
        self._app = app
        self._longest = longest
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or let through; in both cases with the headers."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refused(scope)
        try:
            await (refused or self._app)(scope, receive, sent)
        except asyncio.CancelledError:
            # The server ends and has waited long enough; whoever asked is told, and the terminal stays quiet.
            if not begun:
                await refusal(503, "The explorer has ended.")(scope, receive, sent)

    def _refused(self, scope: Scope) -> Response | None:
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return refusal(
                421, "This is not the explorer's name; open the address that it printed when it started."
            )
        if len(scope["raw_path"]) + len(scope["query_string"]) > _LONGEST_TARGET:
            return refusal(414, f"An address here has at most {_LONGEST_TARGET} characters.")
        if sum(len(name) + len(value) for name, value in headers.raw) > self._longest:
            return refusal(431, f"The headers of a request have at most {self._longest:,} bytes.")
        question = path.startswith("/api/")
        if method not in (*_READ, "POST") or (method == "POST" and not question):
            return refusal(405, "Pages are read with GET and questions are put with POST.", allow="GET, HEAD")
        # The first who asks for the atlas makes this machine compute for a while, which is a question too.
        question = question or path == _ATLAS
        if question and not self._own(headers, hosts[0], needs_origin=method == "POST"):
            return refusal(403, "Only the explorer's own page may ask; this request comes from another.")
        return None

    def _own(self, headers: Headers, host: str, *, needs_origin: bool) -> bool:
        """Whether a request comes from the explorer's page, or from no browser: those send neither header."""
        origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
        if any(origin.lower() != f"http://{host.lower()}" for origin in origins) or len(origins) > 1:
            return False
        if any(site != "same-origin" for site in sites):
            # Somebody who types the address of an answer into the browser may read it.
            return not needs_origin and sites == ["none"]
        return True
