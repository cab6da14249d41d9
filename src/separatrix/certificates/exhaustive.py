"""Every input, one by one: for tasks that have few."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor

from separatrix.certificates.refusals import NotRun
from separatrix.generation.scripts import Script
from separatrix.models.explicit import ExplicitModel
from separatrix.tasks import Task, Vectors
from separatrix.witnesses.solving import CUT_OFF, written_answers

__all__ = ["MOST_INPUTS", "few_inputs", "first_wrong", "work_of", "wrong_rows"]

MOST_INPUTS: Final = 1 << 20
_MOST_WORK: Final = 1 << 31  # logits over all inputs: minutes
_WORK_AT_ONCE: Final = 1 << 24
_WRITTEN_AT_ONCE: Final = 256
_WRITING: Final = 16  # how much longer a position takes that is written than one that is only read


def work_of(model: ExplicitModel, task: Task, script: Script | None) -> int:
    """Logits, or steps, for one input; a model that writes reads what it wrote."""
    if script is None:
        return model.work(task.length)
    return model.work(task.length + script.limit) * _WRITING


def few_inputs(model: ExplicitModel, task: Task, script: Script | None = None) -> bool:
    """Whether trying them all is a matter of minutes at most."""
    inputs = task.domain_size()
    return inputs <= MOST_INPUTS and inputs * work_of(model, task, script) <= _MOST_WORK


def wrong_rows(
    model: ExplicitModel, task: Task, rows: Shaped[Tensor, "batch pos *width"], script: Script | None = None
) -> Bool[Tensor, "batch"]:
    """Which inputs the model answers wrongly at some position that has an answer, or does not answer.

    An input without any answer, as a tape on which a machine takes too long, asks nothing of it.
    Where a search was cut off it is not known, and if no other input is wrong, that is `NotRun`.
    """
    labels = task.solve(rows)
    if script is not None:
        written = written_answers(model, script, rows)
        cut_off = written == CUT_OFF
        failed: Bool[Tensor, "batch"] = (written != labels.answer) & ~cut_off & labels.mask.any(1)
        if bool(cut_off.any()) and not bool(failed.any()):
            raise NotRun
        return failed
    found = model.answers(rows)
    space = task.target_space
    if isinstance(space, Vectors):
        distance = (found - labels.targets.double()).norm(dim=2)
        wrong = ~(distance < space.tolerance)  # no number is not near
    else:
        wrong = found != labels.targets
    rows_wrong: Bool[Tensor, "batch"] = (wrong & labels.mask).any(1)
    return rows_wrong


def first_wrong(
    model: ExplicitModel,
    task: Task,
    batches: Iterable[Shaped[Tensor, "batch pos *width"]],
    script: Script | None = None,
) -> Shaped[Tensor, "pos *width"] | None:
    """The first input that is answered wrongly; None if all are right, `NotRun` if some were cut off."""
    step = max(1, _WORK_AT_ONCE // max(1, work_of(model, task, script)))
    if script is not None:  # decoding has its own batches, and a cache instead of all logits at once
        step = max(step, _WRITTEN_AT_ONCE)
    unfinished: NotRun | None = None
    for rows in batches:
        for part in torch.split(rows, step):
            try:
                wrong = wrong_rows(model, task, part, script)
            except NotRun as refusal:
                unfinished = refusal
                continue
            if bool(wrong.any()):
                return part[int(wrong.int().argmax())]
    if unfinished is not None:
        raise unfinished
    return None
