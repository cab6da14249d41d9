"""From a folder to a server: where it listens, under which names, and how it ends."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from separatrix.errors import InvalidInput
from separatrix.explorer.app import explorer
from separatrix.explorer.folder import Folder
from separatrix.explorer.limits import Limits

__all__ = ["serve", "server_of"]

_USUAL_PORT: Final = 80


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
        http="h11",
        ws="none",
        lifespan="on",
        log_level="warning",
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
    shown = f"[{host}]" if ":" in host else host
    everywhere = host in ("0.0.0.0", "::", "")
    names = ["127.0.0.1", "localhost", "[::1]", *allowed]
    ordered = [*allowed, *names] if everywhere else [shown, *names]
    with_port = [name if _has_port(name) else f"{name}:{port}" for name in ordered]
    bare = ordered if port == _USUAL_PORT else []
    return list(dict.fromkeys([*with_port, *bare]))


def _has_port(name: str) -> bool:
    return name.rpartition(":")[2].isdecimal() and not name.endswith("]") and name.count(":") == 1
