"""A kind of model that is known here: how its config is read, and what is counted as its state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from separatrix.audits.anatomy import Anatomy, NumberBits
from separatrix.audits.fields import Fields

__all__ = ["ModelKind"]


@dataclass(frozen=True)
class ModelKind:
    """One `model_type`: the function from its fields to an anatomy, and its state in words."""

    name: str
    read: Callable[[Fields, NumberBits], Anatomy]
    counted: str
