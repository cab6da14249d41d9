"""Connecting to a Ray cluster, or saying within seconds why that cannot be.

Ray waits for minutes for an address where nothing or something else answers, and may then end the process. So
the port is tried first, and then a process of its own connects, which can be given up.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, Final

from separatrix.errors import InvalidInput

__all__ = ["connected"]

_SECONDS: Final = 8.0
"""That a cluster has to answer."""
_SECONDS_TO_IMPORT: Final = 60.0
_MEMBER: Final = "this machine has to be a node of the cluster, by `ray start --address=HOST:PORT`"
_PROBE: Final = """
import logging, sys
import ray
print("imported", flush=True)
ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.CRITICAL)
ray.shutdown()
"""
_LEFT_OUT: Final = "RAY_DEDUP_LOGS_SKIP_REGEX"
"""Which lines Ray does not print; it reads this when it is imported."""


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to the cluster at an address for the block; a connection that there is stays."""
    where = _checked(address or os.environ.get("RAY_ADDRESS") or "auto")
    ray = _imported()
    with redirect_stdout(sys.stderr):  # what Ray prints all the same; standard output is for results
        if ray.is_initialized():
            yield ray
            return
        _probe(where)
        _connect(ray, where)
        try:
            yield ray
        finally:
            ray.shutdown()


def _imported() -> Any:
    """Ray, which few need, imported now, and told not to print what its daemons say."""
    asked = os.environ.get(_LEFT_OUT)
    os.environ[_LEFT_OUT] = asked or "."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("ray")
    except ImportError as failure:
        raise InvalidInput(
            "The engine ray needs Ray, which is not installed: pip install 'separatrix[cluster]'."
        ) from failure
    finally:
        if asked is None:
            del os.environ[_LEFT_OUT]


def _checked(address: str) -> str:
    """The address, if it is of a kind that can be connected to and something listens there."""
    if address == "auto":
        return address
    if address.startswith("ray://"):
        raise InvalidInput(
            f"Results do not come back through Ray's client; got {address[:100]}. Give the cluster's "
            f"HOST:PORT; {_MEMBER}."
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InvalidInput(f"A Ray cluster has an address such as 10.0.0.1:6379; got '{address[:100]}'.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS / 2).close()
    except OSError as failure:
        raise _unanswered(address, failure.strerror or str(failure)) from failure
    return address


def _probe(address: str) -> None:
    """Have a process connect: one that hangs can be ended, and one that is ended takes nothing with it."""
    words = [sys.executable, "-c", _PROBE, address]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as probe:
        giving_up = threading.Timer(_SECONDS_TO_IMPORT, probe.kill)
        giving_up.start()
        try:
            assert probe.stdout is not None
            probe.stdout.readline()
            giving_up.cancel()
            _, said = probe.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise _unanswered(address, f"no cluster after {_SECONDS:g} seconds") from None
        finally:
            giving_up.cancel()
            probe.kill()
    if probe.returncode:
        raise _unanswered(address, (said.strip().splitlines() or ["it did not say why"])[-1][:300])


def _connect(ray: Any, address: str) -> None:
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if main else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except Exception as failure:  # Ray has many kinds for it
        raise _unanswered(address, str(failure)[:300]) from failure
    finally:
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)  # Ray has put its own there


def _unanswered(address: str, reason: str) -> InvalidInput:
    reason = " ".join(reason.split()).split(". ")[0].rstrip(".")
    if address == "auto":
        return InvalidInput(
            f"There is no Ray cluster on this machine ({reason}); start one with `ray start --head`, give an "
            "address, or use the engine local."
        )
    return InvalidInput(
        f"No Ray cluster answers at {address}: {reason}; start it, or give the address of another, and "
        f"{_MEMBER}."
    )
