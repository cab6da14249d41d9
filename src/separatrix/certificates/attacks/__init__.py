"""Attacks: structured families, state collisions, gradients and evolution, all after an input that fails."""

from __future__ import annotations

from separatrix.certificates.attacks.breaking import ATTACKS, break_model
from separatrix.certificates.attacks.budgets import seconds_of
from separatrix.certificates.attacks.hunts import Attack, Hunt

__all__ = ["ATTACKS", "Attack", "Hunt", "break_model", "seconds_of"]
