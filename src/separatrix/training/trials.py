"""What cannot be computed here is refused before a training is announced or anything of it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from separatrix.models.kernels.choice import use_backend
from separatrix.training.engine import arithmetic
from separatrix.training.jobs import Job
from separatrix.training.labelled import questions
from separatrix.training.memory import require_room

if TYPE_CHECKING:
    from separatrix.training.placing import Placing

__all__ = ["require_computable"]


def require_computable(job: Job, placing: Placing) -> None:
    """Refuse a job of which a step does not fit, or that asks for a way to compute that is not to be had."""
    require_room(job, placing)
    if placing.backend != "auto":  # which always finds a way
        _try_backend(job, placing)


def _try_backend(job: Job, placing: Placing) -> None:
    """One example there and not back: only the mixers themselves know which ways they have, and where."""
    task, device = job.built_task, placing.device
    dtype = torch.float64 if job.training.precision == "float64" else torch.float32
    population = job.population(1, own_code=placing.own_code).to(device=device, dtype=dtype)
    use_backend(population, placing.backend)
    asked = questions(task.full_length().sample(1, seed=0), 1, most=task.asking.most)
    with torch.no_grad(), arithmetic(job.training.precision, device):
        population(asked.inputs.to(device), None if asked.at is None else asked.at.to(device))
