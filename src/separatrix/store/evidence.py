"""What was proven about a run and what came of attacks on it, in files beside its weights.

    evidence/<run>.coverage.json      for which questions it is proven right, and for which it is broken
    evidence/<run>.breaking.json      the last attacks on it, and the inputs that failed

A file is the record itself, as its schema has it. The newer one takes the place of the older.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from separatrix.errors import InvalidFile
from separatrix.evidence import Breaking, Coverage
from separatrix.files import replace_file
from separatrix.records import parse_json

__all__ = [
    "BREAKING",
    "COVERAGE",
    "FOLDER",
    "SUFFIXES",
    "Evidence",
    "figures_of",
    "read_evidence",
    "suffix_of",
    "write_evidence",
]

Evidence: TypeAlias = Coverage | Breaking

FOLDER: Final = "evidence"
COVERAGE: Final = "coverage.json"
BREAKING: Final = "breaking.json"
SUFFIXES: Final = (COVERAGE, BREAKING)
_MOST_BYTES: Final = 1 << 29
"""A hundred thousand cases with their inputs stay below this."""

Kind = TypeVar("Kind", Coverage, Breaking)


def suffix_of(record: Evidence) -> str:
    """How the name of the file ends that holds such a record."""
    return COVERAGE if isinstance(record, Coverage) else BREAKING


def write_evidence(path: Path, record: Evidence) -> None:
    """Put a record in the place of the one before; what fails leaves what was there."""
    # Records hold finite JSON values only, so the same record is the same text in one way only.
    text = json.dumps(record.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    replace_file(path, f"{text}\n".encode(), durable=True)


def read_evidence(path: Path, kind: type[Kind]) -> Kind | None:
    """The record in a file, read strictly; None if there is no file."""
    again = f"`separatrix {'certify' if kind is Coverage else 'break'}` writes it anew."
    try:
        if not path.exists():
            return None
        if not path.is_file():
            raise InvalidFile(f"'{path}' is no ordinary file.")
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidFile(f"'{path}' may have {_MOST_BYTES:,} bytes; it has {path.stat().st_size:,}.")
        data = parse_json(path.read_bytes(), what=f"'{path}'", most_bytes=_MOST_BYTES)
        return kind.from_json(data)
    except OSError as failure:
        raise InvalidFile(f"'{path}' cannot be read: {failure.strerror or failure}.") from failure
    except InvalidFile as problem:
        name = "" if str(path) in str(problem) else f"'{path}' is of no use: "
        raise InvalidFile(f"{name}{problem} {again}") from problem


def figures_of(coverage: Coverage | None, breaking: Breaking | None) -> dict[str, bool | int]:
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
    return figures
