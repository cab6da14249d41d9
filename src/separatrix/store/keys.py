"""Keys: what a run is called, a hash of everything that makes it what it is."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Final

from separatrix.errors import InvalidInput
from separatrix.records import freeze, thaw

__all__ = ["SHORT", "canonical", "key_of", "require_key", "short"]

SHORT: Final = 12
"""Characters of a key that are shown: enough to tell a hundred thousand runs apart."""
_KEY: Final = re.compile(r"[0-9a-f]{64}")


def canonical(value: object) -> str:
    """A JSON value as text in one way only: names sorted, no blanks, in ASCII."""
    return json.dumps(thaw(freeze(value)), sort_keys=True, separators=(",", ":"), allow_nan=False)


def key_of(config: Mapping[str, object]) -> str:
    """The SHA-256 of a config's canonical text."""
    return hashlib.sha256(canonical(config).encode()).hexdigest()


def short(key: str) -> str:
    """The beginning of a key, for people."""
    return key[:SHORT]


def require_key(key: str) -> str:
    """The key itself, if it is a whole one: it names files."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidInput(f"A key is the 64 characters of a SHA-256 in hex; got {str(key)[:80]!r}.")
    return key
