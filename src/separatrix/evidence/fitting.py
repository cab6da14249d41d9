"""Whether a theorem claims what a piece of evidence cites it for."""

from __future__ import annotations

from separatrix.errors import InvalidInput
from separatrix.theorems import Kind, Owed, Theorem, families_within, theorem

__all__ = ["claims_that_cover"]


def claims_that_cover(entry: Theorem, kind: Kind, *, task: str, family: str | None) -> tuple[Owed, ...]:
    """The theorem's claims of this kind for the task and the family, at least one; else it is refused.

    A claim about a family covers those within it; one that names no task covers every task. No family means
    two parties and no model. A theorem that restates another claims what that one claims.
    """
    source = theorem(entry.restates) if entry.restates else entry
    found = tuple(
        owed
        for owed in source.owes
        if owed.kind == kind and (not owed.tasks or task in owed.tasks) and _covers(owed, family)
    )
    if not found:
        raise InvalidInput(f"{entry.id} claims no {kind} for {task} by {family or 'two parties'}.")
    return found


def _covers(owed: Owed, family: str | None) -> bool:
    if family is None:
        return not owed.families
    return any(family in families_within(outer) for outer in owed.families)
