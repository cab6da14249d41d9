"""From options to whole inputs of a task."""

from __future__ import annotations

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from separatrix.certificates.questions.interface import Question, Region
from separatrix.tasks import Task
from separatrix.tasks.interface import Tokens

__all__ = ["spelled"]


def spelled(
    task: Task, question: Question, region: Region, options: Int[Tensor, "batch seen"]
) -> Shaped[Tensor, "batch pos *width"]:
    """Inputs that begin with these options; behind them an end that the region has, and padding."""
    options = options.cpu()
    missing = question.length - options.shape[1]
    if missing:  # any end that the region has behind this beginning
        other = 1 - torch.nn.functional.one_hot(options, region.allowed.shape[1]).double()
        free = torch.zeros(len(options), missing, region.allowed.shape[1], dtype=torch.float64)
        options = region.least(torch.cat([other, free], 1)).options
    rows = question.inputs(options)
    behind = task.length - rows.shape[1]
    if not behind:
        return rows
    space = task.input_space
    fill = space.pad if isinstance(space, Tokens) else 0
    assert fill is not None, "a task whose inputs end early has padding"
    return torch.cat([rows, torch.full((len(rows), behind, *rows.shape[2:]), fill, dtype=rows.dtype)], 1)
