"""Every input, one by one: for tasks that have few."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor

from separatrix.models.explicit import ExplicitModel
from separatrix.tasks import Task, Vectors

__all__ = ["MOST_INPUTS", "few_inputs", "first_wrong", "wrong_rows"]

MOST_INPUTS: Final = 1 << 20
_MOST_WORK: Final = 1 << 31  # logits over all inputs: minutes
_WORK_AT_ONCE: Final = 1 << 24


def few_inputs(model: ExplicitModel, task: Task) -> bool:
    """Whether trying them all is a matter of minutes at most."""
    inputs = task.domain_size()
    return inputs <= MOST_INPUTS and inputs * model.work(task.length) <= _MOST_WORK


def wrong_rows(
    model: ExplicitModel, task: Task, rows: Shaped[Tensor, "batch pos *width"]
) -> Bool[Tensor, "batch"]:
    """Which inputs the model answers wrongly at some position that has an answer."""
    labels = task.solve(rows)
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
    model: ExplicitModel, task: Task, batches: Iterable[Shaped[Tensor, "batch pos *width"]]
) -> Shaped[Tensor, "pos *width"] | None:
    """The first input that is answered wrongly; None if all are right."""
    step = max(1, _WORK_AT_ONCE // model.work(task.length))
    for rows in batches:
        for part in torch.split(rows, step):
            wrong = wrong_rows(model, task, part)
            if bool(wrong.any()):
                return part[int(wrong.int().argmax())]
    return None
