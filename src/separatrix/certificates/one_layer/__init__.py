"""Models with one layer of attention: right on every input, case by case, or the input that breaks them."""

from __future__ import annotations

from separatrix.certificates.one_layer.attack import Effort
from separatrix.certificates.one_layer.certifying import Observer, certify_one_layer

__all__ = ["Effort", "Observer", "certify_one_layer"]
