"""What a node of a cluster does: train one job in a store of its own, and send back what comes of it.

Nothing here needs Ray. What is sent is text and bytes, in the order in which it happened, so the store that
it is kept in is at any time what this one was a little before.
"""

from __future__ import annotations

import platform
import queue
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import torch

from separatrix.errors import SeparatrixError
from separatrix.experiments.cluster.parcels import Parcel, pack, unpack
from separatrix.records import parse_json
from separatrix.store import Store, key_of
from separatrix.store.checkpoints import Checkpoints
from separatrix.training.course import Course, Outcome
from separatrix.training.jobs import Job
from separatrix.training.memory import ran_out
from separatrix.training.running import Observer, run_job
from separatrix.version import __version__

__all__ = ["Kind", "News", "train_here"]

Kind: TypeAlias = Literal["begun", "kept", "note", "failed", "done"]
News: TypeAlias = tuple[Kind, str, Parcel]
"""What happened, a sentence about it, and what is to be kept of it."""

_PATIENCE: Final = 0.5
"""Seconds after which a wait looks up: an interrupt that Ray sends wakes nobody."""
_GRACE: Final = 5.0


def train_here(
    job: bytes,
    parcel: Parcel,
    *,
    version: str,
    device: str,
    threads: int,
    seats: int | None,
    compiled: bool | None,
    checkpoint_seconds: float,
) -> Iterator[News]:
    """Do a job, given as JSON, going on from what the parcel holds; the last news are `done` or `failed`."""
    if version != __version__:
        yield "failed", f"{platform.node()} has separatrix {__version__}, and the job needs {version}.", {}
        return
    torch.set_num_threads(threads)
    outbox: queue.SimpleQueue[News] = queue.SimpleQueue()
    unwanted = threading.Event()
    with tempfile.TemporaryDirectory(prefix="separatrix-", ignore_cleanup_errors=True) as folder:

        def work() -> None:
            try:
                asked = Job.from_json(parse_json(job, what="a job"))
                store = Store(Path(folder))
                with store.claim(asked.key) as checkpoints:
                    unpack(parcel, asked, store, checkpoints)
                courier = _Courier(asked, store, outbox, unwanted)
                run_job(
                    asked,
                    store=store,
                    device=device,
                    seats=seats,
                    compiled=compiled,
                    observer=courier,
                    checkpoint_seconds=checkpoint_seconds,
                )
                outbox.put(("done", "", courier.rest()))
            except BaseException as error:  # whatever it is, who waits for an end must hear of it
                outbox.put(("failed", _reason(error), {}))

        trainer = threading.Thread(target=work, daemon=True)
        trainer.start()
        try:
            yield "begun", platform.node(), {}
            yield from _until_the_end(outbox)
        finally:
            unwanted.set()
            trainer.join(_GRACE)


def _until_the_end(outbox: queue.SimpleQueue[News]) -> Iterator[News]:
    while True:
        try:
            news = outbox.get(timeout=_PATIENCE)
        except queue.Empty:
            continue
        yield news
        if news[0] in {"done", "failed"}:
            return


class _Unwanted(Exception):
    """Nobody waits for this job any more."""


class _Courier(Observer):
    """Sends members that have finished, and every checkpoint."""

    def __init__(
        self, job: Job, store: Store, outbox: queue.SimpleQueue[News], unwanted: threading.Event
    ) -> None:
        self._job, self._store, self._outbox, self._unwanted = job, store, outbox, unwanted
        self._checkpoints = Checkpoints(store.folder_of(job.key), job.key)
        self._keys = [key_of(job.config_of(member)) for member in job.members]
        self._sent: set[str] = set()
        self._newest = next(iter(self._checkpoints.paths()), None)
        self._announced = self._left = False

    def begins(self, job: Job, *, seats: int, finished: Sequence[int]) -> None:
        """Members that have been trained before are known where this came from."""
        self._sent.update(self._keys[number] for number in finished)

    def steps(self, course: Course, count: int) -> None:
        """Send who left at the last look; and where all stand, at first and with every checkpoint."""
        if self._unwanted.is_set():
            raise _Unwanted
        newest = next(iter(self._checkpoints.paths()), None)
        saved = newest if newest != self._newest else None
        if saved is not None or self._left or not self._announced:
            self._newest, self._announced = newest, True
            self._outbox.put(("kept", "", self._parcel(checkpoint=saved)))

    def left(self, job: Job, outcome: Outcome) -> None:
        """Note who is to be sent: all that leave at one look go in one parcel."""
        self._left = True

    def _parcel(self, checkpoint: Path | None) -> Parcel:
        """Everybody who is not known to have finished where this goes."""
        keys = [key for key in self._keys if key not in self._sent]
        parcel = pack(self._job, self._store, keys=keys, checkpoint=checkpoint)
        self._sent.update(run.key for run in self._store.members(self._job.key) if run.finished)
        self._left = False
        return parcel

    def says(self, note: str) -> None:
        """Pass it on, without the place on this node that it may name."""
        self._outbox.put(("note", note.replace(f"{self._store.path}/", ""), {}))

    def rest(self) -> Parcel:
        """Everything that was not sent: who left last, and who never began because another had won."""
        return self._parcel(checkpoint=None)


def _reason(error: BaseException) -> str:
    if isinstance(error, SeparatrixError):
        return str(error)
    if ran_out(error):
        return f"It does not fit in the memory of {platform.node()}; give a job more of it, or fewer seats."
    return f"{platform.node()}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
