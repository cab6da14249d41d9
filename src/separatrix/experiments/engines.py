"""What runs jobs: on this machine or on a cluster, all into one store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from separatrix.store import Store
from separatrix.training.jobs import Job

__all__ = ["Engine", "Failure", "Ran", "Tell"]

Tell = Callable[[str], None]
"""Takes one line for whoever watches."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A job that could not be done, and why, in a sentence."""

    job: Job
    reason: str


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How many jobs were done, which failed, and whether time ran out before the rest."""

    done: int
    failed: tuple[Failure, ...] = ()
    interrupted: bool = False


class Engine(Protocol):
    """Does jobs in the order given, several at once if it can, and keeps all that comes out in the store."""

    def run(self, jobs: Sequence[Job], store: Store, *, tell: Tell) -> Ran:
        """Do the jobs. One that fails is reported, and the others go on."""
