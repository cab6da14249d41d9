"""Names of number systems, for files and command lines: float64, float32, down:1024,2, nearest:17."""

from __future__ import annotations

import re
from typing import Final

from separatrix.errors import InvalidInput
from separatrix.precision.fixed import FixedDown, FixedNearest
from separatrix.precision.floats import Float32, Float64
from separatrix.precision.system import NumberSystem

__all__ = ["name_of", "system_named"]

_DOWN: Final = re.compile(r"down:([1-9][0-9]{0,8}),([1-9][0-9]{0,2})", re.ASCII)
_NEAREST: Final = re.compile(r"nearest:([1-9][0-9]{0,3})", re.ASCII)


def name_of(system: NumberSystem) -> str:
    """The name under which `system_named` finds it again."""
    match system:
        case Float64():
            return "float64"
        case Float32():
            return "float32"
        case FixedDown():
            return f"down:{system.n},{system.k}"
        case FixedNearest():
            return f"nearest:{system.p}"
    raise AssertionError(f"{system} has no name")


def system_named(text: str) -> NumberSystem:
    """The system of a name; S's numbers are down:N,K (multiples of N^-K), W's are nearest:P (P bits, odd)."""
    if text in ("float64", "float32"):
        return Float64() if text == "float64" else Float32()
    if found := _DOWN.fullmatch(text):
        return FixedDown(n=int(found[1]), k=int(found[2]))
    if found := _NEAREST.fullmatch(text):
        return FixedNearest(p=int(found[1]))
    raise InvalidInput(
        f"An arithmetic is float64, float32, down:N,K (multiples of N^-K, rounded down) or nearest:P "
        f"(P bits, rounded to nearest); got {text[:40]!r}. Try float64."
    )
