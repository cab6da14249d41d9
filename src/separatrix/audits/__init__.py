"""Size and wall of a model that somebody else made, from its config alone."""

from __future__ import annotations

from separatrix.audits.auditing import Audit, audit
from separatrix.audits.walls import Wall

__all__ = ["Audit", "Wall", "audit"]
