"""Certificates: weights proven right on every input, or the input that breaks them.

`certify` is for witnesses and for trained models with one layer of attention, `break_model` for any model.
Both are imported when they are asked for: what trains against worst inputs needs neither ball arithmetic nor
the proofs of witnesses.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from separatrix.certificates.attacks import break_model
    from separatrix.certificates.certifying import certify, replay

__all__ = ["break_model", "certify", "replay"]

_HOMES = {
    "break_model": "separatrix.certificates.attacks",
    "certify": "separatrix.certificates.certifying",
    "replay": "separatrix.certificates.certifying",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
