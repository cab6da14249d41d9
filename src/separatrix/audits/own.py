"""The audit of a model of our own, which is counted for the inputs of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from separatrix.audits.auditing import Audit, walls_within
from separatrix.errors import InvalidInput
from separatrix.models.population import ModelConfig, signature_of
from separatrix.models.sizing import size_of
from separatrix.models.specs import ModelSpec, config_of, kind_and_config
from separatrix.tasks import Task
from separatrix.tasks import task as make_task
from separatrix.tasks.interface import Tokens

__all__ = ["audit_own", "own_config"]

_USUAL_BITS: Final = 32
_USUAL_TASK: Final = "index-lookup"


def own_config(model: object) -> ModelConfig:
    """The config of a model that is given as one, as a spec, or as the JSON of a spec."""
    if isinstance(model, Mapping):
        model = ModelSpec.from_json(model)
    if isinstance(model, ModelSpec):
        model = config_of(model)
    if not isinstance(model, ModelConfig):
        raise InvalidInput(
            "An audit is made of a path to a config.json, of its fields, or of a model such as "
            f"separatrix.model('mamba'); got a {type(model).__name__}."
        )
    return model


def audit_own(
    config: ModelConfig, *, lengths: tuple[int, ...], precision: int | None, task: Task | None
) -> Audit:
    """Count a model of our own for what a task has it read, by default index lookup at the largest length.

    Without a precision its numbers have 32 bits.
    """
    task = make_task(_USUAL_TASK, n=max(lengths)) if task is None else task
    bits = _USUAL_BITS if precision is None else precision
    size = size_of(config, task, precision=bits)
    kind, _ = kind_and_config(config)
    reads = signature_of(task).inputs
    # Inputs that are no words have no alphabet; the form for two symbols holds all the same.
    words = reads.size if isinstance(reads, Tokens) else 2
    return Audit(
        source=kind.name,
        model_type=kind.name,
        generic=False,
        composition=f"{size.layers} × {kind.title}",
        vocabulary=words,
        recurrent_bits=bits,
        size=size,
        lengths=lengths,
        walls=walls_within(size, words),
        notes=(f"Counted for the inputs of {task.name} with n = {task.n:,}.",),
    )
