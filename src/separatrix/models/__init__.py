"""Models: the interfaces every model meets, and layers written out as the papers define them."""

from __future__ import annotations

from separatrix.models.interface import CausalModel, SequenceModel

__all__ = ["CausalModel", "SequenceModel"]
