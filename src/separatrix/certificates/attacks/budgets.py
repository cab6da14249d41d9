"""Time as people write it."""

from __future__ import annotations

import math
import re
from typing import Final

from separatrix.errors import InvalidInput

__all__ = ["checked_budget", "seconds_of"]

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "": 1.0}
_TIME: Final = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([a-z]*)\s*")


def seconds_of(text: str) -> float:
    """A time such as 500ms, 60s, 2m or 1h in seconds; a number alone is seconds."""
    found = _TIME.fullmatch(text)
    if found is None or found[2] not in _UNITS:
        raise InvalidInput(f"A time is a number and a unit, such as 500ms, 60s, 2m or 1h; got {text[:40]!r}.")
    return checked_budget(float(found[1]) * _UNITS[found[2]])


def checked_budget(seconds: float) -> float:
    """The same number of seconds, if it is finite and more than none."""
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0 < seconds < math.inf:
        raise InvalidInput(f"A budget is a positive number of seconds; got {seconds!r}. Try 60.")
    return float(seconds)
