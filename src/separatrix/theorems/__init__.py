"""Every result of the three papers as data: what it says, what it assumes, and what is owed for it.

The letters are S (arXiv 2406.09347), R (arXiv 2306.02896) and W (arXiv 2402.18510); UP marks upper partners,
the constructions that show how much of a lower bound is needed. Code, documentation and the atlas read
this one table. It declares what is owed and knows nothing of what exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from separatrix.registry import unknown_name
from separatrix.theorems import partners, r, s, w
from separatrix.theorems.families import FAMILIES, Family, families_around, families_within, family
from separatrix.theorems.kinds import WORKS, Artefact, Kind, Owed, Row, Slip, Source, Status, Theorem, Work

__all__ = [
    "FAMILIES",
    "THEOREMS",
    "WORKS",
    "Artefact",
    "Family",
    "Kind",
    "Owed",
    "Row",
    "Slip",
    "Source",
    "Status",
    "Theorem",
    "Work",
    "families_around",
    "families_within",
    "family",
    "open_questions",
    "rows",
    "theorem",
]

THEOREMS: Mapping[str, Theorem] = MappingProxyType(
    {entry.id: entry for entry in (*s.RESULTS, *r.RESULTS, *w.RESULTS, *s.OPEN, *r.OPEN, *partners.PARTNERS)}
)

_ROWS = (
    ("S-T1", ("S-T1",)),
    ("S-T2", ("S-T2",)),
    ("S-T3, S-P9", ("S-T3", "S-P9")),
    ("S-T4", ("S-T4",)),
    ("S-L1, S-T5/T10", ("S-L1", "S-T5", "S-T10")),
    ("S (E)", ("S-E",)),
    ("S (E, cited)", ("S-E-cited",)),
    ("S-L4, S-T11", ("S-L4", "S-T11")),
    ("S-T12", ("S-T12",)),
    ("S-T6", ("S-T6",)),
    ("S-T13", ("S-T13",)),
    ("S-L5, S-C13.1", ("S-L5", "S-C13.1")),
    ("S-T7, S-T8", ("S-T7", "S-T8")),
    ("R-qSA", ("R-qSA",)),
    ("R-M2, R-M3", ("R-M2", "R-M3")),
    ("R-M3′", ("R-M3′",)),
    ("R-G", ("R-G",)),
    ("W-4.1", ("W-4.1",)),
    ("W-4.6", ("W-4.6",)),
    ("W-4.7", ("W-4.7",)),
    ("W-4.8", ("W-4.8",)),
    ("W-5.1", ("W-5.1",)),
    ("W-5.2/5.3", ("W-5.2", "W-5.3")),
    ("W-5.4", ("W-5.4",)),
    ("W-5.6/5.7", ("W-5.6", "W-5.7")),
    ("W-5.8", ("W-5.8",)),
)

_PLAIN = {name.replace("′", "'").lower(): name for name in THEOREMS}


def theorem(name: str) -> Theorem:
    """The theorem of this id; letter case does not matter, and a straight quote may stand for the prime."""
    known = _PLAIN.get(name.replace("′", "'").lower())
    if known is None:
        raise unknown_name("theorem", name, tuple(THEOREMS))
    return THEOREMS[known]


def rows() -> tuple[Row, ...]:
    """The table of results, in order: papers S, R, W. Open questions and upper partners stand outside it."""
    return tuple(Row(label=label, theorems=tuple(THEOREMS[name] for name in ids)) for label, ids in _ROWS)


def open_questions() -> tuple[Theorem, ...]:
    """What nobody has proven either way."""
    return tuple(entry for entry in THEOREMS.values() if entry.status == "open")
