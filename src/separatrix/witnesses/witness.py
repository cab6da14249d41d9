"""What a witness is: weights, the theorem they show, and the claims their proof rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from separatrix.accounting import Size
from separatrix.evidence import Claim
from separatrix.evidence.html import grid, pairs
from separatrix.generation.scripts import Script
from separatrix.models.explicit import ExplicitModel
from separatrix.precision import NumberSystem, name_of
from separatrix.tasks import Task
from separatrix.theorems import Artefact, theorem
from separatrix.witnesses.language import Built

__all__ = ["Witness", "shown_by"]

_COUNTS_AS: Final = {"machine-runs": "turing"}
"""What a theorem says of the task turing it says of every machine, so of those from elsewhere too."""


def shown_by(theorem_id: str, task: str, family: str, variant: str) -> Artefact:
    """The key of what weights for a task show; a theorem about every task is shown by any of them."""
    about = _COUNTS_AS.get(task, task) if theorem(theorem_id).tasks else None
    return Artefact(theorem=theorem_id, kind="witness", task=about, family=family, variant=variant)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Witness:
    """A model that does a task on every input, as a theorem says one exists.

    `claims` are what its proof rests on, without intervals: a certificate proves them on the weights.
    `built` is the program and its scales, where the weights were written in the language of this package.
    `script` says how a model that writes before it answers is asked and understood; without one it answers
    at once.
    """

    task: Task
    theorem: str
    family: str
    variant: str
    model: ExplicitModel
    claims: tuple[Claim, ...]
    built: Built | None = None
    script: Script | None = None

    @property
    def arithmetic(self) -> NumberSystem:
        """The numbers it was built for."""
        return self.model.arithmetic

    @property
    def positions(self) -> int:
        """The longest text it reads: an input, and where it writes, all that it may write."""
        return self.task.length if self.script is None else self.script.longest

    @property
    def size(self) -> Size:
        """Every count, at the longest text and in the bits of its arithmetic."""
        return self.model.size(self.positions, self.arithmetic.bits)

    @property
    def artefact(self) -> Artefact:
        """The key of what it shows."""
        return shown_by(self.theorem, self.task.name, self.family, self.variant)

    def __str__(self) -> str:
        stated = theorem(self.theorem)
        lines = [f"{stated.id}: {self.task.name} by {self.family}", self.model.describe()]
        lines += [f"  rests on: {claim.statement} ({claim.requirement})" for claim in self.claims]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<witness of {self.theorem}: {self.task.name} with n={self.task.n} by {self.family}>"

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
            ((name, f"{count:,}", unit) for name, count, unit in self.size.rows(n=self.positions)),
        )
        return about + counts
