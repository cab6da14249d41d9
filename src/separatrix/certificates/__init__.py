"""Certificates: weights proven right on every input, or the input that breaks them."""

from __future__ import annotations

from separatrix.certificates.certify import certify, replay

__all__ = ["certify", "replay"]
