"""What was proven about a run, what came of attacks on it and how it writes, in files beside its weights.

    evidence/<run>.coverage.json      for which questions it is proven right, and for which it is broken
    evidence/<run>.breaking.json      the strongest attacks on it, and the inputs that failed
    evidence/<run>.decoding.json      how often it was right when it really wrote

A file is the record itself, as its schema has it. The newer one takes the place of the older, but for attacks
that are weaker than those before.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from separatrix.errors import InvalidFile, NewerFile
from separatrix.evidence import Breaking, Coverage, Decoded
from separatrix.files import naming, replace_file
from separatrix.records import parse_json

__all__ = [
    "BREAKING",
    "COVERAGE",
    "DECODING",
    "FOLDER",
    "SUFFIXES",
    "Evidence",
    "figures_of",
    "outweighs",
    "read_evidence",
    "suffix_of",
    "write_evidence",
]

Evidence: TypeAlias = Coverage | Breaking | Decoded

FOLDER: Final = "evidence"
COVERAGE: Final = "coverage.json"
BREAKING: Final = "breaking.json"
DECODING: Final = "decoding.json"
SUFFIXES: Final = (COVERAGE, BREAKING, DECODING)
_MOST_BYTES: Final = 1 << 29
"""A hundred thousand cases with their inputs stay below this."""

_SUFFIX_OF: Final[dict[type[Evidence], str]] = {Coverage: COVERAGE, Breaking: BREAKING, Decoded: DECODING}
_WRITER_OF: Final[dict[type[Evidence], str]] = {Coverage: "certify", Breaking: "break", Decoded: "reproduce"}
"""The command that writes such a record."""

Kind = TypeVar("Kind", Coverage, Breaking, Decoded)


def suffix_of(record: Evidence) -> str:
    """How the name of the file ends that holds such a record."""
    return _SUFFIX_OF[type(record)]


def outweighs(before: Evidence | None, after: Evidence) -> bool:
    """Whether what is known says more than what is new and should stay; only attacks can be weaker."""
    return isinstance(before, Breaking) and isinstance(after, Breaking) and before.outweighs(after)


def write_evidence(path: Path, record: Evidence) -> None:
    """Put a record in the place of the one before; what fails leaves what was there.

    What outweighs it stays, and so does what a newer version wrote, which is an error; what nobody can read
    is replaced.
    """
    kind: type[Any] = type(record)
    try:
        before = read_evidence(path, kind)
    except NewerFile:
        raise
    except InvalidFile:
        before = None
    if outweighs(before, record):
        return
    # Records hold finite JSON values only, so the same record is the same text in one way only.
    text = json.dumps(record.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    replace_file(path, f"{text}\n".encode(), durable=True)


def read_evidence(path: Path, kind: type[Kind]) -> Kind | None:
    """The record in a file, read strictly; None if there is no file."""
    with naming(path, again=f"`separatrix {_WRITER_OF[kind]}` writes it anew."):
        try:
            if not path.exists():
                return None
            if not path.is_file():
                raise InvalidFile(f"'{path}' is no ordinary file.")
            if path.stat().st_size > _MOST_BYTES:
                raise InvalidFile(f"'{path}' may have {_MOST_BYTES:,} bytes; it has {path.stat().st_size:,}.")
            data = parse_json(path.read_bytes(), what=f"'{path}'", most_bytes=_MOST_BYTES)
        except OSError as failure:
            raise InvalidFile(f"'{path}' cannot be read: {failure.strerror or failure}.") from failure
        return kind.from_json(data)


def figures_of(
    coverage: Coverage | None, breaking: Breaking | None, decoded: Decoded | None = None
) -> dict[str, bool | int]:
    """The totals, for tables: nothing of what nobody tried."""
    figures: dict[str, bool | int] = {}
    if coverage is not None:
        figures |= {
            "certified.cases": len(coverage.cases),
            "certified.proved": coverage.proved,
            "certified.broken": coverage.refuted,
            "certified.unknown": coverage.unknown,
        }
    if breaking is not None:
        figures |= {
            "attacked.broken": breaking.broken,
            "attacked.tried": breaking.tried - breaking.samples.tried,
            "attacked.failures": breaking.attack_failures,
            "attacked.samples": breaking.samples.tried,
            "attacked.sample_failures": breaking.samples.failures,
        }
    if decoded is not None:
        figures |= {
            "decoded.examples": decoded.examples,
            "decoded.right": decoded.right,
            "decoded.unanswered": decoded.unanswered,
            "decoded.searches": decoded.searches,
        }
    return figures
