"""What a view says of the weights it ran."""

from __future__ import annotations

from separatrix.precision import name_of
from separatrix.theorems import theorem
from separatrix.witnesses.witness import Witness

__all__ = ["weights_of"]


def weights_of(witness: Witness) -> dict[str, object]:
    """The theorem that they show, and how large they are."""
    size = witness.size
    return {
        "theorem": witness.theorem,
        "statement": theorem(witness.theorem).statement,
        "family": witness.family,
        "layers": size.layers,
        "width": size.width,
        "heads": size.heads,
        "parameters": size.parameters,
        "arithmetic": name_of(witness.arithmetic),
    }
