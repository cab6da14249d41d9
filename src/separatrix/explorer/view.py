"""What a view of the explorer is: a question in JSON, answered in JSON, within a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

from separatrix.errors import InvalidInput, SeparatrixError
from separatrix.explorer.folder import Folder

__all__ = ["Answer", "Deadline", "TimeIsUp", "View", "chosen", "number_in", "only", "text_in"]


class TimeIsUp(SeparatrixError):
    """The time for an answer is over; nothing is known about what was asked."""


@final
class Deadline:
    """When an answer has to be there. Work that goes in steps asks between them whether to go on.

    Work that does not ask is ended from outside when the time is over.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, 0 when it is over."""
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise when it is over."""
        if self.left <= 0:
            raise TimeIsUp("This takes longer than the explorer allows; choose a smaller n.")


Answer = Callable[[dict[str, object], Folder, Deadline], dict[str, object]]
"""From what was asked to what is shown, both JSON; wrong input raises `InvalidInput`."""


@final
@dataclass(frozen=True, kw_only=True)
class View:
    """One thing to look at: how it is called, what it says, and how a question is answered."""

    name: str
    """As in its address: `#name` in the page and `/api/name`."""
    title: str
    says: str
    """One line about what one sees."""
    default: Mapping[str, object]
    """A first input, so that the view shows something at once."""
    answer: Answer


def only(asked: Mapping[str, object], *names: str) -> None:
    """Refuse fields that mean nothing: they are not swallowed."""
    for name in asked:
        if name not in names:
            raise InvalidInput(f"A question here has the fields {', '.join(names)}; got {name[:40]!r}.")


def text_in(asked: Mapping[str, object], name: str, *, longest: int, default: str | None = None) -> str:
    """A text of bounded length."""
    value = asked.get(name, default)
    if not isinstance(value, str):
        raise InvalidInput(f"'{name}' is a text of at most {longest} characters; got {_kind(value)}.")
    if len(value) > longest:
        raise InvalidInput(f"'{name}' may have {longest} characters; it has {len(value)}.")
    return value


def number_in(
    asked: Mapping[str, object], name: str, *, least: int, most: int, default: int | None = None
) -> int:
    """A whole number in a range."""
    value = asked.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"'{name}' is a whole number from {least} to {most}; got {_kind(value)}.")
    if not least <= value <= most:
        raise InvalidInput(f"'{name}' lies between {least} and {most}; got {str(value)[:40]}.")
    return value


def chosen(
    asked: Mapping[str, object], name: str, choices: tuple[str, ...], *, default: str | None = None
) -> str:
    """One of a few words."""
    value = text_in(asked, name, longest=200, default=default)
    if value not in choices:
        raise InvalidInput(f"'{name}' is one of {', '.join(choices)}; got {value[:40]!r}.")
    return value


def _kind(value: object) -> str:
    names: dict[type, str] = {dict: "an object", list: "an array", bool: "a boolean", type(None): "nothing"}
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    return names.get(type(value), f"the number {str(value)[:40]}")
