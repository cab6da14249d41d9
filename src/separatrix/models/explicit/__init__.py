"""Layers as the papers write them, with every weight given, evaluated in any number system."""

from __future__ import annotations

from separatrix.models.explicit.base import ExplicitModel

__all__ = ["ExplicitModel"]
