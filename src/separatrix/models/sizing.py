"""How large a trainable model is, on the inputs of a task."""

from __future__ import annotations

from separatrix.accounting import Size
from separatrix.models.population import ModelConfig, signature_of
from separatrix.models.specs import kind_and_config
from separatrix.tasks.interface import Task

__all__ = ["size_of"]


def size_of(model: str | ModelConfig, task: Task, *, precision: int = 32) -> Size:
    """Every count of a model, given by name or by config, for a task with numbers of so many bits."""
    kind, config = kind_and_config(model)
    return kind(config, signature_of(task), members=1).size(task.length, precision)
