"""Strings of bits over a loopback socket: two processes that know one secret, and frames of bounded size.

Before a message stands its length in bits, four bytes that carry no news: both parties know beforehand how
long each message is. No frame is longer than a whole run, and no wait is endless.
"""

from __future__ import annotations

import hmac
import socket
import time
from typing import Final, final

from separatrix.communication.wire import BitString, Channel
from separatrix.errors import SeparatrixError
from separatrix.evidence import Party

__all__ = ["Line", "RowChannel", "called", "listening", "met"]

_HOST: Final = "127.0.0.1"
_LENGTH: Final = 4
_PROOF: Final = 32


def listening(timeout: float) -> socket.socket:
    """A socket of this machine only, at a port that the system chooses."""
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.bind((_HOST, 0))
    server.listen(1)
    server.settimeout(timeout)
    return server


def met(server: socket.socket, secret: bytes, *, timeout: float) -> socket.socket:
    """The connection of the party that knows the secret; strangers are hung up on."""
    end = time.monotonic() + timeout
    while (left := end - time.monotonic()) > 0:
        server.settimeout(left)
        try:
            connection, _ = server.accept()
        except TimeoutError:
            break
        connection.settimeout(min(left, 5.0))
        try:
            if hmac.compare_digest(_exactly(connection, _PROOF), _proof(secret, "Bob")):
                connection.sendall(_proof(secret, "Alice"))
                connection.settimeout(timeout)
                return connection
        except (OSError, SeparatrixError):
            pass  # whoever it was, it was not Bob
        connection.close()
    raise SeparatrixError(f"The other party did not come within {timeout:g} s.")


def called(port: int, secret: bytes, *, timeout: float) -> socket.socket:
    """A connection to the party that listens at a port and knows the secret."""
    connection = socket.create_connection((_HOST, port), timeout=timeout)
    try:
        connection.sendall(_proof(secret, "Bob"))
        known = hmac.compare_digest(_exactly(connection, _PROOF), _proof(secret, "Alice"))
    except BaseException:
        connection.close()
        raise
    if not known:
        connection.close()
        raise SeparatrixError("Who listens there does not know the secret of this run.")
    return connection


@final
class Line:
    """Frames over one connection."""

    def __init__(self, connection: socket.socket, *, most_bits: int) -> None:
        """No frame of either party has more than `most_bits` bits."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection, self._most = connection, most_bits

    def put(self, message: BitString) -> None:
        """Send a frame."""
        self._connection.sendall(message.bits.to_bytes(_LENGTH, "big") + message.data)

    def get(self) -> BitString:
        """Wait for a frame."""
        bits = int.from_bytes(_exactly(self._connection, _LENGTH), "big")
        if bits > self._most:
            raise SeparatrixError(f"A message of {bits:,} bits came; no run of this protocol has as many.")
        return BitString(bits=bits, data=_exactly(self._connection, -(-bits // 8)))


@final
class RowChannel(Channel):
    """One input's messages, all of them remembered, on a line that several inputs share."""

    def __init__(self, line: Line) -> None:
        """Nothing was said yet."""
        self._line = line
        self.events: list[tuple[str | None, BitString]] = []
        """Messages in order: those that were sent with their names, those that came without."""

    def send(self, name: str, message: BitString) -> None:
        """Hand it to the line."""
        self.events.append((name, message))
        self._line.put(message)

    def receive(self) -> BitString:
        """Take the next off the line."""
        message = self._line.get()
        self.events.append((None, message))
        return message


def _proof(secret: bytes, party: Party) -> bytes:
    """What shows that a party knows the secret, and which party it is."""
    return hmac.digest(secret, party.encode(), "sha256")


def _exactly(connection: socket.socket, count: int) -> bytes:
    """So many bytes, or a sentence about why they do not come."""
    parts, left = [], count
    while left:
        try:
            part = connection.recv(min(left, 1 << 20))
        except TimeoutError as error:
            raise SeparatrixError("The other party sent nothing for too long.") from error
        if not part:
            raise SeparatrixError("The other party hung up.")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
