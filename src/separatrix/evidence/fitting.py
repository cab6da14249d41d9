"""Whether a theorem claims what a piece of evidence cites it for."""

from __future__ import annotations

from typing import Final

from separatrix.errors import InvalidInput
from separatrix.theorems import Kind, Owed, Theorem, families_within, theorem

__all__ = ["check_run", "claims_that_cover"]

_WITH_A_CACHE: Final = (*families_within("transformer"), "hybrid")
"""Families whose models, read from left to right, carry a state that grows with what they have read."""


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


def check_run(entry: Theorem, *, task: str, family: str) -> None:
    """Refuse a run of a family that the theorem's protocol does not run.

    S-T2 asks of a model only that it carries a state across the cut, and a cache of keys and values is one.
    So a run by S-T2 may also be of a family with such a cache, though no bound on recurrent models binds it.
    """
    if entry.id != "S-T2" or family not in _WITH_A_CACHE:
        claims_that_cover(entry, "protocol", task=task, family=family)


def _covers(owed: Owed, family: str | None) -> bool:
    if family is None:
        return not owed.families
    return any(family in families_within(outer) for outer in owed.families)
