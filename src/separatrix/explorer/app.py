"""The explorer as an application: the page from memory, answers from the worker processes, the atlas.

GET  /                       the page, and the scripts and the style that it needs
GET  /atlas                  the atlas
GET  /api/views              what views there are
GET  /api/files              the witnesses and stores in the folder
POST /api/NAME               a question to a view
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from separatrix.errors import SeparatrixError
from separatrix.explorer.atlas_page import AtlasPage
from separatrix.explorer.guard import Guard, in_json, refusal
from separatrix.explorer.limits import Limits
from separatrix.explorer.workers import Reply, Workers
from separatrix.records import parse_json

__all__ = ["explorer"]

_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript"}
)
_FILES: Final = "files"
_JSON: Final = "application/json"
_DIGITS: Final = 12


def explorer(
    folder: Path,
    *,
    hosts: Iterable[str],
    limits: Limits | None = None,
    command: tuple[str, ...] | None = None,
    atlas: tuple[str, ...] | None = None,
) -> ASGIApp:
    """The application for one folder, under these names; `command` and `atlas` start its processes."""
    limits = limits or Limits()
    workers, page = Workers(folder, limits, command=command), AtlasPage(command=atlas)

    @asynccontextmanager
    async def alive(app: Starlette) -> AsyncIterator[None]:
        workers.start()
        try:
            yield
        finally:
            await asyncio.gather(workers.stop(), page.stop())

    async def views(request: Request) -> Response:
        try:
            return in_json({"views": await workers.views()})
        except TimeoutError:
            return refusal(503, "The explorer is still starting; try again.", retry_after="2")

    async def listed(request: Request) -> Response:
        return _response(await workers.ask(_FILES, {}))

    async def asked(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            known = [view["name"] for view in await workers.views()]
        except TimeoutError:
            return refusal(503, "The explorer is still starting; try again.", retry_after="2")
        if name not in known:
            return refusal(404, f"There is no view of that name; there are {', '.join(map(str, known))}.")
        try:
            question = await _question(request, limits)
        except _Refused as refused:
            return refused.response
        return _response(await workers.ask(name, question))

    app = Starlette(
        routes=[
            *_pages(files("separatrix.explorer") / "page"),
            Route("/favicon.ico", _nothing, methods=["GET"]),
            Route("/atlas", page.respond, methods=["GET"]),
            Route("/api/views", views, methods=["GET"]),
            Route("/api/files", listed, methods=["GET"]),
            Route("/api/{name:str}", asked, methods=["POST"]),
        ],
        exception_handlers={HTTPException: _unknown, Exception: _ours},
        lifespan=alive,
    )
    return Guard(app, hosts=hosts, longest=limits.header)


def _pages(root: Traversable) -> list[Route]:
    """A route for each file, read now: no request ever becomes a path on the disk."""
    found = dict(_contents(root, ""))
    found["/"] = found.pop("/index.html")
    return [Route(path, _page(*content), methods=["GET"]) for path, content in sorted(found.items())]


def _contents(folder: Traversable, prefix: str) -> Iterable[tuple[str, tuple[bytes, str]]]:
    for each in folder.iterdir():
        path = f"{prefix}/{each.name}"
        if each.is_dir():
            yield from _contents(each, path)
        elif (kind := _KINDS.get(Path(each.name).suffix)) is not None:
            yield path, (each.read_bytes(), kind)


def _page(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        return Response(content, media_type=kind)

    return respond


async def _nothing(request: Request) -> Response:
    """Browsers ask for an icon of every page that names none; there is none, and no reason to complain."""
    return Response(status_code=204)


class _Refused(Exception):
    """A question that is none, with the response that says so."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.response = refusal(status, sentence)


async def _question(request: Request, limits: Limits) -> dict[str, object]:
    """The JSON object in a request."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
        raise _Refused(415, f"A question is sent as {_JSON}.")
    try:
        question = parse_json(await _body(request, limits), what="The question")
    except SeparatrixError as error:
        raise _Refused(400, str(error)) from error
    if not isinstance(question, dict):
        raise _Refused(400, "A question is a JSON object.")
    return question


async def _body(request: Request, limits: Limits) -> bytes:
    """What was sent, if it is not too long, whether it says so before or not, and comes in time."""
    too_long = _Refused(413, f"A question has at most {limits.body:,} bytes; send a smaller input.")
    stated = request.headers.get("content-length", "0")
    if not stated.isdecimal() or len(stated) > _DIGITS or int(stated) > limits.body:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for piece in request.stream():
                body += piece
                if len(body) > limits.body:
                    raise too_long
    except TimeoutError as late:
        raise _Refused(408, "The question did not arrive in time; send it again.") from late
    except ClientDisconnect as gone:
        raise _Refused(400, "The question ended before its end.") from gone
    return bytes(body)


def _response(reply: Reply) -> Response:
    if reply.status == 200:
        return in_json(reply.answer)
    later = {"retry_after": "1"} if reply.status == 503 else {}
    return refusal(reply.status, reply.error, **later)


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return refusal(405, "This address does not take that method.", **(error.headers or {}))
    return refusal(404, "There is nothing at this address; the explorer begins at /.")


async def _ours(request: Request, error: Exception) -> Response:
    """Our own mistake; the terminal has the rest."""
    return refusal(500, "Something went wrong inside the explorer; its terminal has the details.")
