"""Models: the interfaces every model meets, and layers written out as the papers define them."""

from __future__ import annotations

from separatrix.models.interface import AnyCausalModel, CausalModel, SequenceModel

__all__ = ["AnyCausalModel", "CausalModel", "SequenceModel"]
