"""Softmax attention over grouped keys, in any arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from separatrix.certificates.enclosures.boxes import Box
from separatrix.certificates.enclosures.key_groups import Attended, KeyGroup
from separatrix.certificates.enclosures.rounding import Rounding
from separatrix.errors import InvalidInput

__all__ = ["attend", "loser_mass"]


def attend(rounding: Rounding, groups: Sequence[KeyGroup]) -> Attended:
    """One query's computed output, and each group's computed weight, whatever the keys in the groups are."""
    return rounding.attend(groups)


def loser_mass(rounding: Rounding, gaps: Sequence[tuple[Box, int]]) -> Box:
    """Σ count · exp(-gap): what so many losers weigh together where the winner weighs 1.

    A gap is how far a loser's logit is computed to lie below the winner's.
    """
    if not gaps:
        return Box.exact(0)
    for gap, count in gaps:
        if gap.size != 1 or count < 0:
            raise InvalidInput(f"A loser has one gap and a count of 0 or more; got {gap.shape}, {count}.")
    parts = [rounding.exp(-gap.reshape()).scaled(count) for gap, count in gaps]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
