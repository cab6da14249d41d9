"""What the files of a bundle hold: a bundle to the bytes of its files, and back, each byte accounted for."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, final

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.records import JsonObject, Reader, parse_json
from separatrix.store.bundles.bundle import KINDS, MOST_POINTS, Bundle, kind_of, require_name
from separatrix.store.bundles.tables import CURVES, EVIDENCE, RUNS, parquet_of, read_parquet, texts_of
from separatrix.store.curves import Point
from separatrix.store.evidence import Evidence
from separatrix.store.keys import canonical, short
from separatrix.store.runs import Run

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["bundle_from", "contents_of"]

_LONGEST_KEY: Final = 64
_LONGEST_TEXT: Final = 2**18
"""Bytes of a config or a provenance; they are about a thousand."""
_LONGEST_RECORD: Final = 2**26
_THINNED: Final[JsonObject] = {
    "most_points": MOST_POINTS,
    "thinned": "the first point, the last and evenly spaced ones between",
}


def contents_of(bundle: Bundle) -> dict[str, bytes]:
    """The files of a bundle by their names, `runs.parquet` first."""
    points = [
        {"key": key, **{name: getattr(point, name) for name in CURVES.columns if name != "key"}}
        for key in sorted(bundle.curves)
        for point in bundle.curves[key]
    ]
    records = [
        {"key": key, "kind": kind_of(record), "record": _text_of(record)}
        for key in sorted(bundle.evidence)
        for record in bundle.evidence[key]
    ]
    beside = {CURVES.file: parquet_of(CURVES, points, _THINNED)}
    if records:
        beside[EVIDENCE.file] = parquet_of(EVIDENCE, records, {})
    rows = [_row_of(run, bundle.points[run.key]) for run in bundle.runs]
    said: JsonObject = {
        "name": bundle.name,
        "notes": bundle.notes,
        "files": {file: hashlib.sha256(content).hexdigest() for file, content in beside.items()},
    }
    return {RUNS.file: parquet_of(RUNS, rows, {**said, "seal": _seal(said, rows)}), **beside}


def _text_of(record: Evidence) -> str:
    return json.dumps(record.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _row_of(run: Run, points: int) -> JsonObject:
    row = {**run.to_fields(), "points": points}
    for name in ("config", "provenance"):
        row[name] = canonical(row[name])
    for name in (*RUNS.measured, *RUNS.optional_measured):
        value = getattr(run, name)
        row[name] = None if value is None else float(value)
    return row


def _seal(said: JsonObject, rows: Sequence[JsonObject]) -> str:
    """A hash of all that `runs.parquet` says."""
    digest = hashlib.sha256(canonical(said).encode())
    for row in rows:
        digest.update(b"\n" + canonical(row).encode())
    return digest.hexdigest()


def bundle_from(contents: Mapping[str, bytes], folder: Path) -> Bundle:
    """The bundle that the files of a folder hold."""
    what = f"'{folder / RUNS.file}'"
    read, table = read_parquet(RUNS, contents[RUNS.file], what=what)
    rows = _rows_of(table, what=what)
    said = _said(read, rows, what=what)
    _check_beside(said["files"], contents, folder)
    runs = tuple(_run_of(row, what=what) for row in rows)
    for first, second in itertools.pairwise(runs):
        if first.key == second.key:
            raise InvalidFile(f"{what} has the run {first.short} twice.")
        if first.key > second.key:
            raise InvalidFile(f"{what} has its runs in another order than that of their keys.")
    points = {str(row["key"]): row["points"] for row in rows}
    return Bundle(
        name=str(said["name"]),
        notes=str(said["notes"]),
        runs=runs,
        points=MappingProxyType(points),
        curves=_Curves.read(contents[CURVES.file], points, what=f"'{folder / CURVES.file}'"),
        evidence=MappingProxyType(
            _evidence_in(contents[EVIDENCE.file], points, what=f"'{folder / EVIDENCE.file}'")
            if EVIDENCE.file in contents
            else {}
        ),
    )


def _rows_of(table: pa.Table, *, what: str) -> list[dict[str, Any]]:
    columns = {
        name: texts_of(table, name, longest=_LONGEST_TEXT, what=what)
        if name in RUNS.texts
        else table.column(name).to_pylist()
        for name in RUNS.columns
    }
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _said(read: Reader, rows: Sequence[JsonObject], *, what: str) -> JsonObject:
    """Name, notes and the hashes of the other files; what was changed since it was sealed is refused."""
    said: JsonObject = {"name": read.text("name"), "notes": read.text("notes"), "files": read.value("files")}
    seal = read.text("seal")
    read.finish()
    try:
        require_name(str(said["name"]))
        whole = seal == _seal(said, rows)
    except InvalidInput as problem:
        raise InvalidFile(f"{what} breaks a rule: {problem}") from problem
    if not whole:
        raise InvalidFile(f"{what} is damaged or was edited: its rows are not those it was written with.")
    return said


def _check_beside(files: object, contents: Mapping[str, bytes], folder: Path) -> None:
    """The other files are those that were written together with the runs."""
    found = {
        file: hashlib.sha256(content).hexdigest() for file, content in contents.items() if file != RUNS.file
    }
    known = dict(files) if isinstance(files, Mapping) else {}
    if not {CURVES.file} <= set(known) <= {CURVES.file, EVIDENCE.file}:
        raise InvalidFile(f"'{folder / RUNS.file}' names other files than those of a bundle.")
    for file in sorted({*known, *found}):
        if found.get(file) != known.get(file):
            wrong = "is missing" if file not in found else "does not belong to the runs beside it"
            raise InvalidFile(
                f"'{folder / file}' {wrong}: it is damaged, of another bundle, or writing was cut off; take "
                "all files from one place or write the bundle anew."
            )


def _run_of(row: Mapping[str, Any], *, what: str) -> Run:
    about = f"the run {row['key'][:12]!r} of {what}"
    fields = {name: value for name, value in row.items() if name != "points"}
    for name in ("config", "provenance"):
        fields[name] = parse_json(fields[name], what=f"the {name} of {about}")
    run = Run.read(Reader(fields, what=about))
    if not run.finished:
        raise InvalidFile(f"A bundle has runs that have finished; {about} is {run.status}.")
    if row["points"] < 0:
        raise InvalidFile(f"Field 'points' of {about} must be at least 0.")
    return run


@final
class _Curves(Mapping[str, tuple[Point, ...]]):
    """Curves that were all checked and of which each is taken out of its table when somebody asks for it."""

    def __init__(self, table: pa.Table, spans: Mapping[str, tuple[int, int]]) -> None:
        self._table, self._spans = table, spans

    def __getitem__(self, key: str) -> tuple[Point, ...]:
        rows: list[dict[str, Any]] = self._table.slice(*self._spans[key]).to_pylist()
        return tuple(Point(**row) for row in rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    @classmethod
    def read(cls, content: bytes, points: Mapping[str, int], *, what: str) -> _Curves:
        """The curves of a file, each of a run and with all the points it should have."""
        read, table = read_parquet(CURVES, content, what=what)
        for name, value in _THINNED.items():
            read.agrees(name, value)
        read.finish()
        spans: dict[str, tuple[int, int]] = {}
        start = 0
        for key, group in itertools.groupby(texts_of(table, "key", longest=_LONGEST_KEY, what=what)):
            length = sum(1 for _ in group)
            if key not in points:
                raise InvalidFile(
                    f"{what} has a curve of the run {short(key)!r}, which is not in the bundle."
                )
            if key in spans:
                raise InvalidFile(f"{what} has the curve of the run {short(key)} in pieces.")
            spans[key] = (start, length)
            start += length
        for key, whole in points.items():
            _, length = spans.get(key, (0, 0))
            if length != min(whole, MOST_POINTS):
                raise InvalidFile(
                    f"{what} has {length:,} of the {whole:,} points of the run {short(key)}; it should have "
                    f"{min(whole, MOST_POINTS):,}."
                )
        _check_points(table, spans.values(), what=what)
        return cls(table.drop_columns(["key"]), spans)


def _check_points(table: pa.Table, spans: Collection[tuple[int, int]], *, what: str) -> None:
    """Every row makes a point, and every curve goes on: found out for whole columns at once."""
    import numpy as np  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    for name in (*CURVES.counts, *CURVES.optional_counts):
        if pc.any(pc.less(table.column(name), 0)).as_py():
            raise InvalidFile(f"{what} has a {name} below 0.")
    for name in CURVES.optional_measured:
        if pc.all(pc.is_finite(table.column(name))).as_py() is False:
            raise InvalidFile(f"{what} has a {name} that is no finite number.")
    steps = table.column("step").to_numpy()
    rises = np.diff(steps) > 0
    rises[[start - 1 for start, _ in spans if start]] = True
    if not rises.all():
        raise InvalidFile(f"{what} has a curve that is not in the order of its steps.")


def _evidence_in(content: bytes, points: Mapping[str, int], *, what: str) -> dict[str, tuple[Evidence, ...]]:
    read, table = read_parquet(EVIDENCE, content, what=what)
    read.finish()
    keys, kinds, records = (
        texts_of(table, name, longest=longest, what=what)
        for name, longest in (("key", _LONGEST_KEY), ("kind", _LONGEST_KEY), ("record", _LONGEST_RECORD))
    )
    found: dict[str, dict[str, Evidence]] = {}
    for key, kind, text in zip(keys, kinds, records, strict=True):
        if key not in points:
            raise InvalidFile(f"{what} is about the run {short(key)!r} too, which is not in the bundle.")
        if kind not in KINDS:
            raise InvalidFile(f"{what} has evidence of the kind {kind!r}; known are {', '.join(KINDS)}.")
        of_run = found.setdefault(key, {})
        if kind in of_run:
            raise InvalidFile(f"{what} has two records of {kind} of the run {short(key)}.")
        about = f"the {kind} of the run {short(key)} in {what}"
        try:
            of_run[kind] = KINDS[kind].from_json(parse_json(text, what=about, most_bytes=_LONGEST_RECORD))
        except InvalidFile as problem:
            raise InvalidFile(f"{about} is of no use: {problem}") from problem
    return {key: tuple(of_run[kind] for kind in sorted(of_run)) for key, of_run in found.items()}
