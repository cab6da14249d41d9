"""The weights that two parties run when no model is given: a witness in numbers as coarse as it bears."""

from __future__ import annotations

from typing import Final

from separatrix.communication.protocols.arranging import Model
from separatrix.communication.protocols.cycle_model import cycle3_model
from separatrix.errors import InvalidInput
from separatrix.models.explicit.base import ExplicitModel
from separatrix.precision import FixedDown, FixedNearest, NumberSystem
from separatrix.tasks.interface import Task
from separatrix.witnesses import Choices, Witness, witness_for

__all__ = ["weights_for"]

_FINER: Final = (2, 3, 4, 5, 6)
"""K of S's numbers, multiples of N^-K, tried in turn until the weights are right in them."""
_DRAWN: Final = 64


def weights_for(
    task: Task, family: str | None, *, variant: str | None = None, numbers: NumberSystem | None = None
) -> Model:
    """The weights in these numbers, else in the first of several in which they are right on samples."""
    systems: list[NumberSystem] = [FixedDown(n=max(task.length, 4), k=k) for k in _FINER]
    refusal: InvalidInput | None = None
    for system in [*systems, FixedNearest(p=61)] if numbers is None else [numbers]:
        try:
            if family == "graph-transformer" and task.name == "cycle3":
                return cycle3_model(task.n, system)
            found = witness_for(task, family=family, variant=variant, choices=Choices(system=system))
        except InvalidInput as error:
            refusal = error
            continue
        if numbers is not None or _right_on_samples(found, task):
            return found
    raise refusal or InvalidInput(
        f"None of the numbers that were tried is fine enough for these weights on {task.name}; name some "
        "with --arithmetic."
    )


def _right_on_samples(witness: Witness, task: Task) -> bool:
    """Numbers in which weights can be written may still be too coarse to compute with."""
    if not isinstance(witness.model, ExplicitModel) or witness.model.classes is None:
        return True
    drawn = task.full_length().sample(_DRAWN, seed=0)
    return bool((witness.model.answers(drawn.inputs)[drawn.mask] == drawn.targets[drawn.mask]).all())
