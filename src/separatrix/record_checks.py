"""What the fields of a record must be, each refused with one sentence that names the record."""

from __future__ import annotations

import math

from separatrix.errors import InvalidInput
from separatrix.records import LARGEST_COUNT, LONGEST_TEXT, kind_of

__all__ = ["require_count", "require_kind", "require_measured", "require_text", "require_texts"]


def require_text(owner: str, **texts: str) -> None:
    """Refuse fields that should say something and are not text, are blank or far too long."""
    for name, value in texts.items():
        if not isinstance(value, str) or not value.strip():
            raise InvalidInput(f"{owner} needs its {name.replace('_', ' ')} as text; got {kind_of(value)}.")
        if len(value) > LONGEST_TEXT:
            raise InvalidInput(
                f"{owner}: {name.replace('_', ' ')} may have {LONGEST_TEXT} characters; got {len(value)}."
            )


def require_texts(owner: str, name: str, texts: tuple[str, ...]) -> None:
    """Refuse what is no tuple of texts that each say something; a lone text is a common mistake."""
    if not isinstance(texts, tuple):
        raise InvalidInput(f"{owner} needs its {name} as a tuple of texts; got {kind_of(texts)}.")
    for text in texts:
        require_text(owner, **{name: text})


def require_count(owner: str, *, least: int = 0, **counts: int) -> None:
    """Refuse counts that are no whole numbers from `least` to 10^30."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_COUNT:
            raise InvalidInput(
                f"{owner} needs {name.replace('_', ' ')} as a whole number from {least} to 10^30; "
                f"got {value if isinstance(value, int | float) and abs(value) < 10**40 else kind_of(value)}."
            )


def require_measured(owner: str, name: str, value: object) -> float:
    """The value as a float; refuses what is no number, negative, infinite or beyond every float."""
    try:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        number = math.inf
    if not 0 <= number < math.inf:
        raise InvalidInput(f"{owner} needs {name} as a finite number of at least 0; got {kind_of(value)}.")
    return number


def require_kind(owner: str, name: str, value: object, kind: type, *, or_none: bool = False) -> None:
    """Refuse a part of another type than it should have."""
    if isinstance(value, kind) or (or_none and value is None):
        return
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    raise InvalidInput(
        f"{owner}'s {name} is {article} {kind.__name__}{' or None' if or_none else ''}; "
        f"got {type(value).__name__}."
    )
