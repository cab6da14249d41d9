"""Clusters for tests: one that is none, in this process, and a real one on the loopback interface."""

from __future__ import annotations

import importlib
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

MEGABYTES = 2**20


class RayError(Exception):
    """Anything that Ray says."""


class Lost(RayError):
    """A node is gone."""


class TaskError(RayError):
    """A task could not be begun."""


class Stream:
    """The news of one task; a node that dies sends nothing after its last."""

    def __init__(self, news: Iterator[Any], *, dies_after: int | None, death: RayError) -> None:
        self._news, self._left, self._death, self._over = news, dies_after, death, False

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        if self._left == 0:
            self.close()
            return self._death
        self._left = None if self._left is None else self._left - 1
        news = only_builtins(next(self._news))
        if news[0] in {"done", "failed"}:  # Ray runs a task to its end whether anybody listens or not
            assert next(self._news, None) is None
        return news

    def close(self) -> None:
        self._over = True
        self._news.close()  # type: ignore[attr-defined]


class PretendedRay:
    """As much of Ray as the engine uses, with tasks that run here one news after another.

    The i-th task dies its `death` after `deaths[i]` news. `between` is called before every wait.
    """

    exceptions = SimpleNamespace(
        WorkerCrashedError=Lost,
        NodeDiedError=Lost,
        ActorDiedError=Lost,
        LocalRayletDiedError=Lost,
        OutOfMemoryError=Lost,
        ObjectLostError=Lost,
        RayTaskError=TaskError,
        RayError=RayError,
    )

    def __init__(self, *, deaths: dict[int, int] | None = None, cpus: float = 2, gpus: float = 0) -> None:
        self.deaths, self.resources = deaths or {}, {"CPU": cpus, "GPU": gpus}
        self.death: RayError = Lost("The node is dead. It was at 127.0.0.1.")
        self.between: Callable[[], None] = lambda: None
        self.streams: list[Stream] = []
        self.cancelled: list[Stream] = []
        self.options: dict[str, object] = {}
        self._turn = 0

    def nodes(self) -> list[dict[str, object]]:
        return [{"Alive": True, "Resources": self.resources}, {"Alive": False, "Resources": {"GPU": 8}}]

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def remote(self, function: Callable[..., Iterator[Any]]) -> Any:
        def begin(*args: object, **given: object) -> Stream:
            only_builtins([list(args), given])
            after = self.deaths.get(len(self.streams))
            stream = Stream(function(*args, **given), dies_after=after, death=self.death)
            self.streams.append(stream)
            return stream

        def options(**given: object) -> SimpleNamespace:
            self.options = given
            return SimpleNamespace(remote=begin)

        return SimpleNamespace(options=options)

    def wait(self, streams: list[Stream], *, timeout: float) -> tuple[list[Stream], list[Stream]]:
        self.between()
        if not timeout:
            return [], streams
        self._turn += 1
        one = streams[self._turn % len(streams)]
        return [one], [other for other in streams if other is not one]

    def get(self, found: Any) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    def cancel(self, stream: Stream) -> None:
        self.cancelled.append(stream)
        stream.close()


def only_builtins(value: Any) -> Any:
    """The value, if it is text, bytes and numbers all through: nothing that would have to be unpickled."""
    assert type(value) in {dict, list, tuple, str, bytes, int, float, bool, type(None)}, type(value)
    if isinstance(value, dict | list | tuple):
        for part in [*value.items()] if isinstance(value, dict) else value:
            only_builtins(part)
    return value


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail, rather than wait for ever, for what a cluster does not do."""
    over = threading.Event()

    def end() -> None:
        over.set()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        yield
    except KeyboardInterrupt:
        if over.is_set():
            pytest.fail(f"This takes longer than {seconds:g} seconds.")
        raise
    finally:
        timer.cancel()


@contextmanager
def loopback_cluster(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of one node with one CPU that listens on the loopback interface and nowhere else."""
    # Ray takes 127.0.0.1 for the address that others know this machine by, but where it is told not to.
    patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    patch.setenv("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    folder = tempfile.mkdtemp(prefix="sx-", dir="/tmp")  # names of sockets have to be short
    patch.setenv("RAY_TMPDIR", folder)
    patch.setenv("TMPDIR", folder)  # a node that is killed takes nothing away
    utils = importlib.import_module("ray.cluster_utils")
    patch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)
    head = {
        **loopback_node(),
        "include_dashboard": False,
        "_system_config": {
            "health_check_initial_delay_ms": 0,
            "health_check_period_ms": 500,
            "health_check_timeout_ms": 1000,
            "health_check_failure_threshold": 4,
        },
    }
    cluster = utils.Cluster(initialize_head=True, head_node_args=head)
    try:
        yield cluster
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def loopback_node() -> dict[str, object]:
    return {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 80 * MEGABYTES}
