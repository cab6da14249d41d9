"""Connections that nobody keeps by doing nothing.

uvicorn waits for ever for the rest of a request's head, and for a reader to take an answer. Each connection
that waits so counts among the few that may be open, so a handful of half-sent requests would shut everybody
else out. Here every connection has uvicorn's own protocol inside and a clock beside it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast, final

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from separatrix.explorer.limits import Limits

__all__ = ["connections_within"]

_LOOKS: Final = 4
"""How many times the clock looks within the shorter of the two times."""
_BEYOND: Final = 2
"""Times the connections that are served: so many are told that they are too many, more are cut."""


def connections_within(limits: Limits) -> type[asyncio.Protocol]:
    """What uvicorn makes for each connection."""

    def made(
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> asyncio.Protocol:
        return _Connection(H11Protocol(config, server_state, app_state, _loop), server_state, limits)

    # uvicorn calls it and does nothing else with it.
    return cast("type[asyncio.Protocol]", made)


@final
class _Connection(asyncio.Protocol):
    """One connection. It is the application's turn, or the other end's; each has its time."""

    def __init__(self, inner: H11Protocol, state: ServerState, limits: Limits) -> None:
        self._inner = inner
        self._state = state
        self._limits = limits
        self._transport: asyncio.Transport | None = None
        self._clock: asyncio.TimerHandle | None = None
        self._turn: tuple[RequestResponseCycle | None, bool] = (None, False)
        self._since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless far too many are here already."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._inner.connection_made(transport)
        if len(self._state.connections) > _BEYOND * self._limits.connections:
            transport.abort()
            return
        self._since = asyncio.get_running_loop().time()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        if self._clock is not None:
            self._clock.cancel()
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """As uvicorn does."""
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """As uvicorn does."""
        self._inner.eof_received()
        return None

    def pause_writing(self) -> None:
        """As uvicorn does."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """As uvicorn does."""
        self._inner.resume_writing()

    def _look(self) -> None:
        """Whose turn it is, and since when; an end that lets its time pass is cut off, buffers and all."""
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        cycle = self._inner.cycle
        turn = (cycle, cycle is not None and not cycle.response_complete)
        if turn != self._turn:
            self._turn, self._since = turn, loop.time()
        allowed = self._limits.turn_seconds if turn[1] else self._limits.head_seconds
        if loop.time() - self._since > allowed:
            self._transport.abort()
            return
        self._clock = loop.call_later(min(self._limits.head_seconds, allowed) / _LOOKS, self._look)
