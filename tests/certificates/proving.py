"""What tests of proofs share: whether one goes through, and whether what it lets pass is harmless."""

from __future__ import annotations

from separatrix.certificates.enclosures import rounding_of
from separatrix.certificates.proofs import proof_for
from separatrix.certificates.refusals import NotProved
from separatrix.tasks import Task
from separatrix.witnesses import Witness
from tests.witnesses.checking import mutations, right_on_every_input

__all__ = ["proved", "survivors_are_harmless"]


def proved(witness: Witness, task: Task | None = None) -> bool:
    """Whether the general proof of a witness goes through, for its own task or another."""
    about = task or witness.task
    prove = proof_for(witness.theorem, about.name, witness.variant)
    assert prove is not None
    try:
        claims = prove(witness.model, about, rounding_of(witness.arithmetic))
    except NotProved:
        return False
    return all(claim.verdict == "proved" for claim in claims)


def survivors_are_harmless(witness: Witness, *, every: int = 1) -> tuple[int, int]:
    """How many mutants are proven, and how many there are; each that is proven is right on every input."""
    assert proved(witness)
    mutants = [mutant for _, mutant in mutations(witness, every=every)]
    survivors = [mutant for mutant in mutants if proved(mutant)]
    assert all(right_on_every_input(mutant) for mutant in survivors)
    return len(survivors), len(mutants)
