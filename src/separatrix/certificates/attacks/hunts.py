"""What an attack is, and the hunt it takes part in: who may try what for how long, and what came of it."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from typing import ClassVar, Final, final

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from separatrix.certificates.attacks.domains import Domain
from separatrix.certificates.attacks.subjects import Subject
from separatrix.evidence import Attempt, Counterexample
from separatrix.randomness import Draws
from separatrix.tasks import Labels, Task

__all__ = ["Attack", "Hunt", "TimeIsUp"]


_SETTLED_AT_ONCE: Final = 1 << 8


class TimeIsUp(Exception):
    """The attack's share of the budget is spent; what it found so far counts."""


@final
class Hunt:
    """One attack's part: it judges inputs, counts them, and keeps those that fail."""

    def __init__(
        self,
        subject: Subject,
        domain: Domain,
        *,
        attack: str,
        seed: int,
        until: float,
        rounds: int | None,
        enough: int,
    ) -> None:
        """`until` is a time of `time.monotonic`; `enough` failures are kept."""
        self.subject, self.domain, self.seed, self.rounds = subject, domain, seed, rounds
        self._attack, self._until, self._most = attack, until, enough
        self._begun = time.monotonic()
        self._tried, self._least = 0, math.inf
        self._failed: dict[bytes, Shaped[Tensor, "pos *width"] | None] = {}

    @property
    def task(self) -> Task:
        """The task."""
        return self.subject.task

    @property
    def enough(self) -> bool:
        """Whether as many different inputs have failed as were asked for."""
        return len(self._failed) >= self._most

    @property
    def seconds_left(self) -> float:
        """Of this attack's share."""
        return self._until - time.monotonic()

    def goes_on(self, round_number: int) -> bool:
        """Whether this round, counted from 0, is still to be played."""
        return not self.enough and (self.rounds is None or round_number < self.rounds)

    def draws(self, batch: int, *, start: int = 0) -> Draws:
        """Random numbers of this attack's own, one row for each input of a batch."""
        return Draws(seed=self.seed, stream=f"break/{self._attack}", batch=batch, start=start)

    def count(self, tried: int) -> None:
        """Inputs, or beginnings of inputs, that were run elsewhere."""
        self._tried += tried

    def judge(
        self, rows: Shaped[Tensor, "batch pos *width"], labels: Labels | None = None
    ) -> Float[Tensor, "batch"]:
        """The least margin of each row; infinite for rows that are no inputs or ask nothing.

        With labels, the rows are known to be inputs and the labels to be theirs. Raises `TimeIsUp` between
        batches.
        """
        margins = torch.full((len(rows),), math.inf, dtype=torch.float64)
        kept = torch.arange(len(rows))
        if labels is None:
            rows, valid = self._settled(rows)
            kept = valid.nonzero().squeeze(1)
        for part in torch.split(kept, self.subject.at_once):
            if not len(part):
                break
            self._watch()
            if labels is None:
                asked = self.task.solve(rows[part])
            else:
                asked = Labels(targets=labels.targets[part], mask=labels.mask[part])
            margins[part] = self._judged(rows[part], asked)
        return margins

    def _watch(self) -> None:
        if self.seconds_left <= 0:
            raise TimeIsUp

    def _settled(
        self, rows: Shaped[Tensor, "batch pos *width"]
    ) -> tuple[Shaped[Tensor, "batch pos *width"], Bool[Tensor, "batch"]]:
        """As the domain says, a few rows at a time: some tasks take long to say it."""
        parts = []
        for part in torch.split(rows, _SETTLED_AT_ONCE):
            self._watch()
            parts.append(self.domain.settled(part))
        return torch.cat([part for part, _ in parts]), torch.cat([valid for _, valid in parts])

    def _judged(self, rows: Shaped[Tensor, "batch pos *width"], labels: Labels) -> Float[Tensor, "batch"]:
        margins, wrong = self.subject.judged(rows, labels)
        self._tried += int(labels.mask.any(1).sum())
        self._least = min(self._least, float(margins.amin()))
        for row in rows[wrong]:
            # Those beyond enough are counted and not kept.
            key = row.numpy().tobytes()
            self._failed.setdefault(key, row.clone() if len(self._failed) < self._most else None)
        return margins

    def attempt(self, note: str) -> Attempt:
        """What the attack came to."""
        return Attempt(
            attack=self._attack,
            tried=self._tried,
            failures=len(self._failed),
            least_margin=self._least if math.isfinite(self._least) else None,
            seconds=round(time.monotonic() - self._begun, 3),
            note=note,
        )

    def confirmed(self) -> tuple[tuple[Counterexample, ...], int]:
        """Failures that fail again alone, and how many of those kept do not."""
        kept = [row for row in self._failed.values() if row is not None]
        again = [self.subject.replayed(row) for row in kept]
        shown = tuple(found for found in again if found is not None)
        return shown, len(kept) - len(shown)


class Attack(ABC):
    """A way to look for inputs that a model is wrong on."""

    name: ClassVar[str]

    @abstractmethod
    def run(self, hunt: Hunt) -> str | None:
        """Judge inputs until there are no more, or enough have failed; a note on what else matters.

        None where it has nothing to do with the task, so that nobody need hear of it.
        """
