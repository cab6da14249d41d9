"""Runs as tables for other programs: a row each, a column for every setting and every figure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from separatrix.errors import InvalidInput
from separatrix.files import replace_file
from separatrix.store.runs import Run

__all__ = ["SUFFIXES", "Figures", "as_csv", "export", "rows_of"]

SUFFIXES: Final = (".csv", ".json", ".jsonl", ".parquet")
_SCHEMA: Final = {"schema": "separatrix.runs", "version": 1}
_FIRST: Final = ("key", "status", "steps", "solved_at", "accuracy", "low", "high", "correct", "examples")

Cell: TypeAlias = bool | int | float | str | None
Figures: TypeAlias = Mapping[str, Mapping[str, bool | int]]
"""What evidence says in numbers, by the keys of runs."""


def export(runs: Sequence[Run], path: Path, *, evidence: Figures | None = None) -> None:
    """Write the runs whole into a file, in the form that its name says.

    What was found out about them is beside them: in columns, or in JSON under their keys.
    """
    match path.suffix.lower():
        case ".csv":
            content = as_csv(runs, evidence=evidence).encode()
        case ".json":
            beside = {"evidence": evidence} if evidence else {}
            data = {**_SCHEMA, "runs": [run.to_json() for run in runs], **beside}
            content = f"{_json(data)}\n".encode()
        case ".jsonl":
            content = "".join(f"{_json(run.to_json())}\n" for run in runs).encode()
        case ".parquet":
            content = _as_parquet(runs, evidence)
        case _:
            raise InvalidInput(f"Runs are written to {', '.join(SUFFIXES)}; got the name '{path.name}'.")
    replace_file(path, content)


def rows_of(
    runs: Sequence[Run], *, evidence: Figures | None = None
) -> tuple[list[str], list[dict[str, Cell]]]:
    """The columns, those that every run has first, and the rows; a setting is named `member.lr`."""
    rows = [{**_flat(run), **(evidence or {}).get(run.key, {})} for run in runs]
    names = {name for row in rows for name in row}
    return [*_FIRST, *sorted(names.difference(_FIRST))], rows


def as_csv(runs: Sequence[Run], *, evidence: Figures | None = None) -> str:
    """The table as text; what a run does not have is empty."""
    names, rows = rows_of(runs, evidence=evidence)
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _as_parquet(runs: Sequence[Run], evidence: Figures | None) -> bytes:
    import pyarrow as pa  # noqa: PLC0415  heavy, and needed here only
    import pyarrow.parquet as pq  # noqa: PLC0415

    names, rows = rows_of(runs, evidence=evidence)
    columns = {name: _of_one_kind([row.get(name) for row in rows]) for name in names}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def _of_one_kind(values: list[Cell]) -> list[Cell]:
    """A column of one type: whole numbers among floats become floats, other mixtures JSON text."""
    kinds = {type(value) for value in values if value is not None}
    huge = any(isinstance(value, int) and abs(value) >= 2**63 for value in values)
    if len(kinds) <= 1 and not huge:
        return values
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    return [None if value is None else _json(value) for value in values]


def _flat(run: Run) -> dict[str, Cell]:
    row: dict[str, Cell] = {}
    for name, value in run.to_fields().items():
        if name == "config":
            _flatten(value, "", row)
        else:
            _flatten(value, name, row)
    return row


def _flatten(value: object, name: str, row: dict[str, Cell]) -> None:
    if isinstance(value, Mapping):
        for part, inner in value.items():
            _flatten(inner, f"{name}.{part}" if name else str(part), row)
    elif value is None or isinstance(value, bool | int | float | str):
        row[name] = value
    else:
        row[name] = _json(value)


def _json(value: object) -> str:
    return json.dumps(value, allow_nan=False)
