"""From a folder to a server: where it listens, under which names, and how it ends."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from separatrix.errors import InvalidInput
from separatrix.explorer.app import explorer
from separatrix.explorer.connections import connections_within
from separatrix.explorer.folder import Folder
from separatrix.explorer.limits import Limits

__all__ = ["serve", "server_of"]

_USUAL_PORT: Final = 80
_NAME: Final = re.compile(
    r"(?P<name>[a-z0-9_.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE
)
"""A Host header: a name or an address, IPv6 in brackets, and perhaps a port."""


def serve(
    folder: Path | str,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    allowed: Sequence[str] = (),
    limits: Limits | None = None,
    started: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the explorer of a folder until a signal ends it; `started` is told the address.

    Only this machine can reach a loopback address. For any other, `allowed` names the explorer as those who
    reach it do, because a request under another name is refused.
    """
    limits = limits or Limits()
    place = Folder(folder).root
    if not 0 <= port < 1 << 16:
        raise InvalidInput(f"A port lies between 0 and 65535, 0 for any that is free; got {port}.")
    with _listening(host, port, allowed) as listening:
        own = listening.getsockname()[1]
        names = _names(host, own, allowed)
        started(f"http://{names[0]}/")
        server_of(explorer(place, hosts=names, limits=limits), limits).run(sockets=[listening])


def server_of(app: ASGIApp, limits: Limits) -> uvicorn.Server:
    """A server within the limits that says nothing about itself."""
    config = uvicorn.Config(
        app,
        http=connections_within(limits),
        ws="none",
        lifespan="on",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        h11_max_incomplete_event_size=limits.header,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


def _listening(host: str, port: int, allowed: Sequence[str]) -> socket.socket:
    """A socket that listens; refused if others could reach it and nobody said that they may."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as failure:
        raise InvalidInput(f"'{host}' is no address of this machine; leave --host out for 127.0.0.1.") from (
            failure
        )
    if not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback and not allowed:
        raise InvalidInput(
            f"With --host {host} other machines can reach the explorer, read the witnesses and stores in its "
            "folder and make this machine compute, and nobody is asked for a password; if that is meant, say "
            "under which name they reach it: --allow-host NAME."
        )
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()  # now: whoever comes before the server is ready waits instead of being refused
    except OSError as failure:
        listening.close()
        raise InvalidInput(
            f"Port {port} of {host} cannot be listened on: {failure.strerror}; name another with --port, "
            "or 0 for any that is free."
        ) from failure
    return listening


def _names(host: str, port: int, allowed: Sequence[str]) -> list[str]:
    """The Host headers that are the explorer's own; the first is the one to open."""
    given = [_name(each) for each in allowed]
    names = ["127.0.0.1", "localhost", "[::1]", *given]
    ordered = [*given, *names] if _everywhere(host) else [_bracketed(host), *names]
    with_port = [name if _has_port(name) else f"{name}:{port}" for name in ordered]
    bare = ordered if port == _USUAL_PORT else []
    return list(dict.fromkeys([*with_port, *bare]))


def _name(given: str) -> str:
    """A name as a Host header has it; what could never be one is refused, because it would let nobody in."""
    name = _bracketed(given)
    found = _NAME.fullmatch(name)
    if found is None or int(found["port"] or 0) >= 1 << 16:
        raise InvalidInput(
            f"--allow-host takes a name or an address as it stands in the browser's address, perhaps with a "
            f"port, such as explorer.example or explorer.example:8080; got {given[:80]!r}."
        )
    return name


def _bracketed(host: str) -> str:
    return f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host


def _everywhere(host: str) -> bool:
    """Whether an address stands for all of a machine's, so that nobody can type it."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return host in ("", "0")


def _has_port(name: str) -> bool:
    return (
        name.rpartition(":")[2].isdecimal()
        and not name.endswith("]")
        and (name.startswith("[") or name.count(":") == 1)
    )
