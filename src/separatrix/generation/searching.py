"""A search by regular expression, as a tool that a model calls while it writes.

The pattern comes from a model and is not trusted: it runs in RE2, which takes time in proportion to the text,
within the limits of `SearchLimits`. Nothing raises and nothing hangs. FAILED is the answer of a search that
was completed and found no match. A search that was cut off is TIMEOUT, and a pattern that is none, that has
no group, or whose group took no part in the match is INVALID: neither may pass for one that found nothing.
"""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass
from enum import Enum
from typing import Final, final

from separatrix.errors import InvalidInput
from separatrix.generation import matching
from separatrix.generation.patterns import SearchLimits, expanded

__all__ = [
    "FAILED",
    "INVALID",
    "TIMEOUT",
    "Found",
    "Result",
    "Unfound",
    "require_engine",
    "search",
    "search_bytes",
]


@final
@dataclass(frozen=True)
class Found:
    """What the first group of the first match captured."""

    text: str


@final
class Unfound(Enum):
    """Why a search returned nothing."""

    FAILED = "failed"
    TIMEOUT = "timeout"
    INVALID = "invalid"


FAILED: Final = Unfound.FAILED
TIMEOUT: Final = Unfound.TIMEOUT
INVALID: Final = Unfound.INVALID

Result = Found | Unfound


def require_engine() -> None:
    """Refuse in a sentence where RE2 is not installed; nothing but a search needs it."""
    if importlib.util.find_spec("re2") is None:
        raise InvalidInput(
            "A search needs RE2, and the package google-re2 is not installed here; "
            "install it, or choose a family that does not search."
        )


def search(pattern: str, text: str, limits: SearchLimits | None = None) -> Result:
    """The first group of the first match of the pattern in the text."""
    try:
        spelled = text.encode()
    except UnicodeEncodeError:
        require_engine()
        return INVALID
    return search_bytes(pattern, spelled, limits)


def search_bytes(pattern: str, text: bytes, limits: SearchLimits | None = None) -> Result:
    """The same in a text that is UTF-8 already."""
    require_engine()
    limits = limits or SearchLimits()
    started = time.thread_time()
    ready = _ready(expanded(pattern, limits), text, limits)
    if ready is not None and ready.program * len(text) > limits.work and _is_printable(text):
        ready = _ready(expanded(pattern, limits, printable=True), text, limits)
    if ready is None:
        return INVALID
    if len(text) > limits.text:
        return TIMEOUT
    try:
        if ready.program * len(text) <= limits.work:
            return _read(text, ready.match(text))
        # What the pattern has cost so far is part of it.
        left = limits.seconds - (time.thread_time() - started)
        return _read(text, ready.match_within(text, left)) if left > 0 else TIMEOUT
    except matching.NotFinished:
        return TIMEOUT


def _ready(pattern: str | None, text: bytes, limits: SearchLimits) -> matching.Ready | None:
    try:
        encoded = b"" if pattern is None else pattern.encode()
    except UnicodeEncodeError:
        return None
    # On ASCII a byte is a character in either encoding, and programs for bytes are half as large; only
    # numbers of characters beyond a byte are refused there.
    latin = text.isascii() and encoded.isascii() and b"\\x{" not in encoded
    return matching.ready(encoded, latin=latin, memory=limits.memory) if encoded else None


def _is_printable(text: bytes) -> bool:
    return text.isascii() and text.decode().isprintable()


def _read(text: bytes, span: matching.Span | None) -> Result:
    if span is None:
        return FAILED
    start, end = span
    try:
        return Found(text[start:end].decode()) if start >= 0 else INVALID
    except UnicodeDecodeError:
        # A pattern may ask for single bytes, and a byte of a longer character is no text.
        return INVALID
