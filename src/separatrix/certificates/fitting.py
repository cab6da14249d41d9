"""Whether a trained model can be put to a task: certificates and attacks ask before they begin."""

from __future__ import annotations

from separatrix.errors import InvalidInput
from separatrix.models.population import Population, Signature, signature_of
from separatrix.tasks import Task
from separatrix.tasks.interface import Classes, Tokens
from separatrix.tasks.specs import spec_of

__all__ = ["require_fit"]


def require_fit(population: Population, task: Task) -> None:
    """Refuse a task with other inputs or answers, or longer ones, than the model was made for."""
    made, asked = population.signature, signature_of(task)
    fits = (made.inputs, made.targets) == (asked.inputs, asked.targets) and not (
        asked.ahead and population.is_causal
    )
    if not fits or (population.longest is not None and asked.length > population.longest):
        raise InvalidInput(
            f"This {population.name} was made for {_in_words(made)}; {spec_of(task)} has "
            f"{_in_words(asked)}. Name the task that it was made for."
        )


def _in_words(signature: Signature) -> str:
    inputs, targets = signature.inputs, signature.targets
    read = f"{inputs.size} tokens" if isinstance(inputs, Tokens) else f"rows of {inputs.width} numbers"
    asked = f"{targets.size} classes" if isinstance(targets, Classes) else f"vectors of {targets.width}"
    ahead = ", looking ahead" if signature.ahead else ""
    return f"{signature.length} positions with {read} and {asked}{ahead}"
