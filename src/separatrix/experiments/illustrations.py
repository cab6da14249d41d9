"""Pictures that a study has beside its tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from separatrix.records import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Illustration"]


@dataclass(frozen=True, kw_only=True)
class Illustration:
    """A picture by name: the record that it shows, and how to draw it."""

    name: str
    caption: str
    record: Record
    draw: Callable[[], Figure]
