"""What a witness is: weights, the theorem they show, and the claims their proof rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from separatrix.accounting import Size
from separatrix.evidence import Claim
from separatrix.evidence.html import grid, pairs
from separatrix.models.explicit import ExplicitModel
from separatrix.precision import NumberSystem, name_of
from separatrix.tasks import Task
from separatrix.theorems import Artefact, theorem
from separatrix.witnesses.language import Built

__all__ = ["Witness"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Witness:
    """A model that does a task on every input, as a theorem says one exists.

    `claims` are what its proof rests on, without intervals: a certificate proves them on the weights.
    `built` is the program and its scales, where the weights were written in the language of this package.
    """

    task: Task
    theorem: str
    family: str
    variant: str
    model: ExplicitModel
    claims: tuple[Claim, ...]
    built: Built | None = None

    @property
    def arithmetic(self) -> NumberSystem:
        """The numbers it was built for."""
        return self.model.arithmetic

    @property
    def size(self) -> Size:
        """Every count, at the length of the task's inputs and in the bits of its arithmetic."""
        return self.model.size(self.task.length, self.arithmetic.bits)

    @property
    def artefact(self) -> Artefact:
        """The key of what it shows."""
        return Artefact(
            theorem=self.theorem,
            kind="witness",
            task=self.task.name,
            family=self.family,
            variant=self.variant,
        )

    def __str__(self) -> str:
        stated = theorem(self.theorem)
        lines = [f"{stated.id}: {self.task.name} by {self.family}", self.model.describe()]
        lines += [f"  rests on: {claim.statement} ({claim.requirement})" for claim in self.claims]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        about = pairs(
            f"Witness: {self.theorem}",
            (
                ("task", self.task.name),
                ("family", self.family),
                ("variant", self.variant),
                ("arithmetic", name_of(self.arithmetic)),
                ("model", self.model.describe()),
            ),
        )
        counts = grid(
            "Size",
            ("what", "count", "unit"),
            ((name, f"{count:,}", unit) for name, count, unit in self.size.rows(n=self.task.length)),
        )
        return about + counts
