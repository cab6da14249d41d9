"""A small language for weights: fields, heads, gadgets, and the obligations they rest on.

A program says what is computed. `build` lays its fields out, derives every scale from what the readers of a
head can bear and from the arithmetic, and writes plain tensors. `Symbolic` says what the program means,
`ExactReals` what it computes on the real numbers, and the tensors are what runs.
"""

from __future__ import annotations

from separatrix.witnesses.language.build import Built, build
from separatrix.witnesses.language.forms import Field, Linear, constant, joined, total
from separatrix.witnesses.language.operations import Obligation, Rival
from separatrix.witnesses.language.program import LayerScript, Program, address_rivals
from separatrix.witnesses.language.symbolic import Symbolic

__all__ = [
    "Built",
    "Field",
    "LayerScript",
    "Linear",
    "Obligation",
    "Program",
    "Rival",
    "Symbolic",
    "address_rivals",
    "build",
    "constant",
    "joined",
    "total",
]
