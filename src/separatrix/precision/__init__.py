"""Arithmetic as a value: the fixed-point numbers of S and of W, and IEEE floats, behind one interface.

    system = FixedDown(n=1024, k=2)
    weights = system.softmax(system.encode(logits))
    system.decode(weights)  # exact fractions

A system is a frozen value that a certificate can name; where a composite operation rounds is a value too
(`RoundingPoints`), passed to the call.
"""

from separatrix.precision.fixed import FixedDown, FixedNearest, FixedPoint
from separatrix.precision.floats import Float32, Float64
from separatrix.precision.integers import Integers
from separatrix.precision.naming import name_of, system_named
from separatrix.precision.system import Numbers, NumberSystem, RoundingPoints, Values, concatenate, stack

__all__ = [
    "FixedDown",
    "FixedNearest",
    "FixedPoint",
    "Float32",
    "Float64",
    "Integers",
    "NumberSystem",
    "Numbers",
    "RoundingPoints",
    "Values",
    "concatenate",
    "name_of",
    "stack",
    "system_named",
]
