"""Series of numbers that no training made, written down: one file a series in a store, one file in results.

    STORE/measured/<key>.json       a series, under the hash of its question
    results/NAME/measured.jsonl     those of an experiment, a line a series, in the order of their keys

The same series are the same bytes, and adding to a file takes nothing away.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import torch

from separatrix.errors import InvalidFile, NewerFile
from separatrix.experiments.cells import Measured, Series
from separatrix.files import replace_file
from separatrix.options import require
from separatrix.records import JsonObject, JsonValue, Reader, Record, freeze, parse_json, thaw
from separatrix.store import Store, key_of
from separatrix.store.provenance import provenance

__all__ = ["KEPT", "Measurement", "keep_series", "measured_now", "read_series", "series_in", "write_series"]

KEPT: Final = "measured.jsonl"
"""Beside a bundle, or without one: the series of an experiment."""
_FOLDER: Final = "measured"
_MOST_BYTES: Final = 1 << 24
_LONGEST_LINE: Final = 1 << 20
_LARGEST: Final = 10**9


@final
@dataclass(frozen=True, kw_only=True)
class Count:
    """One number of a series."""

    column: int
    right: float
    examples: int
    seconds: float
    note: str

    def __post_init__(self) -> None:
        require(
            0 <= self.right <= self.examples and self.seconds >= 0,
            f"A count has from none to all of its examples right; got {self.right} of {self.examples}.",
        )


@final
@dataclass(frozen=True, kw_only=True)
class Measurement(Record):
    """A series with its question and where it was computed."""

    SCHEMA = "separatrix.measurement"

    question: Mapping[str, JsonValue]
    counts: tuple[Count, ...]
    provenance: Mapping[str, JsonValue]

    def __post_init__(self) -> None:
        columns = [count.column for count in self.counts]
        require(len(set(columns)) == len(columns), "A series has one number in a column.")

    @property
    def key(self) -> str:
        """The hash of the question."""
        return key_of(self.question)

    @property
    def by_column(self) -> Mapping[int, Measured]:
        """Its numbers."""
        return {
            count.column: Measured(
                right=count.right, examples=count.examples, seconds=count.seconds, note=count.note
            )
            for count in self.counts
        }

    def to_fields(self) -> JsonObject:
        """The question, a list for each part of the numbers, every note once, and where all comes from."""
        notes = list(dict.fromkeys(count.note for count in self.counts))
        return {
            "question": _thawed(self.question),
            "columns": [count.column for count in self.counts],
            "right": [int(each.right) if each.right.is_integer() else each.right for each in self.counts],
            "examples": [count.examples for count in self.counts],
            "seconds": [count.seconds for count in self.counts],
            "notes": notes,
            "noted": [notes.index(count.note) for count in self.counts],
            "provenance": _thawed(self.provenance),
        }

    @classmethod
    def from_fields(cls, read: Reader) -> Measurement:
        """Read strictly: lists of one length, and notes that there are."""
        question = _object(read, "question")
        columns, right, examples, seconds, noted = (
            _numbers(read, name) for name in ("columns", "right", "examples", "seconds", "noted")
        )
        notes = read.texts("notes")
        for name, values in (
            ("right", right),
            ("examples", examples),
            ("seconds", seconds),
            ("noted", noted),
        ):
            require(len(values) == len(columns), f"There is one of '{name}' for each column.")
        whole = (*columns, *examples, *noted)
        require(all(each.is_integer() for each in whole), "Columns, examples and notes are whole numbers.")
        require(all(each < len(notes) for each in noted), "A column has a note that is not there.")
        counts = tuple(
            Count(column=int(a), right=b, examples=int(c), seconds=d, note=notes[int(e)])
            for a, b, c, d, e in zip(columns, right, examples, seconds, noted, strict=True)
        )
        return cls(question=question, counts=counts, provenance=_object(read, "provenance"))


def _numbers(read: Reader, name: str) -> list[float]:
    values = read.items(name)
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
            raise InvalidFile(f"Field '{name}' of {read.what} must be a list of numbers from 0 to 10^9.")
    return [float(value) for value in values if isinstance(value, int | float)]


def _object(read: Reader, name: str) -> Mapping[str, JsonValue]:
    value = read.value(name)
    if not isinstance(value, Mapping):
        raise InvalidFile(f"Field '{name}' of {read.what} must be an object.")
    return value


def _frozen(value: JsonObject) -> Mapping[str, JsonValue]:
    frozen = freeze(value)
    assert isinstance(frozen, Mapping)
    return frozen


def _thawed(value: Mapping[str, JsonValue]) -> JsonObject:
    return {name: thaw(each) for name, each in value.items()}


def measured_now(series: Series) -> Measurement:
    """Measure a series here."""
    found = series.measure()
    return Measurement(
        question=_frozen(series.question),
        counts=tuple(
            Count(
                column=column,
                right=float(one.right),
                examples=one.examples,
                seconds=round(one.seconds, 3),
                note=one.note,
            )
            for column, one in sorted(found.items())
        ),
        provenance=_frozen(provenance(torch.device("cpu"), precision="float64", deterministic=True)),
    )


def write_series(store: Store, measurement: Measurement) -> None:
    """Keep a series in a store."""
    folder = store.path / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / f"{measurement.key}.json", _line(measurement).encode())


def series_in(store: Store) -> dict[str, Measurement]:
    """Every series of a store by its key; one that is damaged is as good as none, and is measured again."""
    found = {}
    for path in sorted((store.path / _FOLDER).glob("*.json")):
        try:
            [one] = _parsed(path)
        except NewerFile:
            raise
        except (InvalidFile, ValueError):
            continue
        if one.key == path.stem:
            found[one.key] = one
    return found


def read_series(folder: Path) -> dict[str, Measurement]:
    """Every series that was kept in a folder by its key; none where there is no such file."""
    path = folder / KEPT
    if not path.is_file():
        return {}
    lines = _parsed(path)
    found = {one.key: one for one in lines}
    if len(found) < len(lines):
        raise InvalidFile(f"'{path}' has a series twice.")
    return found


def keep_series(folder: Path, measurements: Iterable[Measurement]) -> None:
    """Add series to those in a folder; one that is there already is replaced."""
    known = {**read_series(folder), **{one.key: one for one in measurements}}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise InvalidFile(
            f"Results need a folder; '{folder}' cannot be one: {failure.strerror}."
        ) from failure
    replace_file(folder / KEPT, "".join(_line(known[key]) for key in sorted(known)).encode())


def _line(measurement: Measurement) -> str:
    return f"{json.dumps(measurement.to_json(), allow_nan=False, ensure_ascii=False)}\n"


def _parsed(path: Path) -> Sequence[Measurement]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidFile(f"'{path}' may have {_MOST_BYTES:,} bytes and has more.")
        content = path.read_bytes()
    except OSError as failure:
        raise InvalidFile(f"'{path}' cannot be read: {failure.strerror or failure}.") from failure
    found = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            found.append(Measurement.from_json(parse_json(line, what="it", most_bytes=_LONGEST_LINE)))
        except NewerFile:
            raise
        except InvalidFile as problem:
            raise InvalidFile(f"Line {number:,} of '{path}' is of no use: {problem}") from problem
    return found
