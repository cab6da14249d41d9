"""How a job goes on: which steps its population takes in how many rows, and where it is made anew."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from separatrix.training.jobs import Job
from separatrix.training.running import placing_for

__all__ = ["Stretch", "stretches_of"]


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Steps that a population takes in one size, and the examples that it answers at looks on the way."""

    rows: int
    steps: int
    looked_at: int
    compiled: bool
    """Whether the population is a new one, which has to be compiled."""


def stretches_of(job: Job, *, until: int | None = None, seats: int | None = None) -> tuple[Stretch, ...]:
    """How a job goes on a GPU, up to its last step or to the look at which all end.

    Of more members than there are seats for, each lot is taken to begin when the one before has ended.
    """
    training, members = job.training, len(job.members)
    end = training.steps if until is None else min(training.steps, until)
    rows = placing_for(job, device="cpu", seats=seats).seats
    lots = [rows] * (members // rows) + ([members % rows] if members % rows else [])
    return tuple(stretch for lot in lots for stretch in _of_a_lot(job, lot, end))


def _of_a_lot(job: Job, members: int, end: int) -> list[Stretch]:
    training = job.training
    placing = replace(placing_for(job, device="cpu"), device=torch.device("cuda"), compiled=True)
    halving = training.halving
    rungs = () if halving is None else tuple(rung for rung in halving.rungs(training.steps) if rung < end)
    found: list[Stretch] = []
    rows = left = members
    compiled, last = True, 0
    for stop in (*rungs, end):
        stays = left if stop == end or halving is None else -(-left // halving.factor)
        looks = stop // training.eval_every - last // training.eval_every + (stop % training.eval_every > 0)
        tests = training.test_examples if stays < left or stop == end else 0
        found.append(
            Stretch(
                rows=rows,
                steps=stop - last,
                looked_at=looks * training.eval_examples + tests,
                compiled=compiled,
            )
        )
        left, last = stays, stop
        compiled = placing.closes_up(rows=rows, taken=left, steps_left=training.steps - stop)
        rows = left if compiled else rows
    return found
