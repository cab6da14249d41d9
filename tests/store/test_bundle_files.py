"""Files of bundles from strangers, broken disks and other versions: each is refused in a sentence."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from separatrix.errors import InvalidFile
from separatrix.store import Point, Run
from separatrix.store.bundles import (
    Bundle,
    has_bundle,
    make_bundle,
    read_bundle,
    write_bundle,
)
from separatrix.store.bundles.contents import _row_of, _seal, bundle_from, contents_of
from separatrix.store.bundles.tables import CURVES, EVIDENCE, RUNS, parquet_of
from tests.store.bundle_examples import bundle_of, found_in, put, three_runs
from tests.store.test_evidence import make_coverage

FOLDER = Path("results/mine")


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return three_runs(tmp_path / "runs")


@pytest.fixture
def bundle(runs: list[Run]) -> Bundle:
    return bundle_of(runs)


def refusal(contents: Mapping[str, bytes]) -> str:
    with pytest.raises(InvalidFile) as caught:
        bundle_from(contents, FOLDER)
    message = str(caught.value)
    assert str(FOLDER) in message
    assert "\n" not in message
    return message


def test_files_of_two_bundles_are_told_apart(bundle: Bundle) -> None:
    contents = contents_of(bundle)
    fewer = contents_of(make_bundle(bundle.runs[1:], {}, name="mine"))
    for file in (CURVES.file, EVIDENCE.file):
        cut = {name: content for name, content in contents.items() if name != file}
        assert f"{file}' is missing: it is damaged, of another bundle" in refusal(cut)
    assert "curves.parquet' does not belong to the runs beside it" in refusal(
        {**contents, CURVES.file: fewer[CURVES.file]}
    )
    assert "does not belong to the runs beside it" in refusal({**contents, RUNS.file: fewer[RUNS.file]})
    assert "evidence.parquet' does not belong" in refusal({**fewer, EVIDENCE.file: contents[EVIDENCE.file]})


@pytest.mark.parametrize("file", [RUNS.file, CURVES.file, EVIDENCE.file])
def test_no_byte_can_change_unnoticed(bundle: Bundle, file: str) -> None:
    contents = contents_of(bundle)
    content = contents[file]
    for place in range(0, len(content), max(1, len(content) // 150)):
        for flip in (1, 128):
            damaged = bytearray(content)
            damaged[place] ^= flip
            try:
                found = bundle_from({**contents, file: bytes(damaged)}, FOLDER)
            except InvalidFile:
                continue
            assert file == RUNS.file
            assert found == bundle, place


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 9, b"x" * 100, None])
def test_what_is_no_parquet_file(bundle: Bundle, content: bytes | None) -> None:
    contents = contents_of(bundle)
    made = contents[RUNS.file][:-9] if content is None else content
    assert "runs.parquet' is damaged or no Parquet file" in refusal({**contents, RUNS.file: made})


def test_places_without_a_bundle(tmp_path: Path, bundle: Bundle) -> None:
    for place in (tmp_path / "none", tmp_path):
        assert not has_bundle(place)
        with pytest.raises(
            InvalidFile, match=r"There is no bundle in '.*': it has no runs.parquet; `separatr"
        ):
            read_bundle(place)
    with pytest.raises(InvalidFile, match="cannot be made: embedded null byte"):
        write_bundle(Path("nul\0"), [], {}, name="a")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidFile, match=r"The folder '.*file' cannot be made: File exists"):
        write_bundle(tmp_path / "file", bundle.runs, {}, name="a")
    os.mkfifo(put(tmp_path / "pipe", {}) / "runs.parquet")
    with pytest.raises(InvalidFile, match=r"runs.parquet' is no ordinary file"):
        read_bundle(tmp_path / "pipe")
    half = put(tmp_path / "half", {"curves.parquet": b"somebody's own"})
    with pytest.raises(InvalidFile, match="There is no bundle in"):
        write_bundle(half, bundle.runs, {}, name="a")
    assert found_in(half) == {"curves.parquet": b"somebody's own"}


def test_a_damaged_bundle_is_never_written_over(bundle: Bundle, tmp_path: Path) -> None:
    contents = contents_of(bundle)
    folder = put(tmp_path / "mine", {**contents, CURVES.file: contents[CURVES.file][:-1]})
    before = found_in(folder)
    with pytest.raises(InvalidFile, match="write the bundle anew"):
        write_bundle(folder, bundle.runs, {}, name="mine")
    assert found_in(folder) == before


def with_meta(content: bytes, change: Callable[[dict[bytes, bytes]], Mapping[bytes, bytes]]) -> bytes:
    """The same table under other metadata."""
    with pq.ParquetFile(pa.BufferReader(content)) as file:
        table, meta = file.read(), dict(file.metadata.metadata)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(change(meta))
    return bytes(sink.getvalue().to_pybytes())


def said(**changes: object) -> Callable[[dict[bytes, bytes]], Mapping[bytes, bytes]]:
    name = b"separatrix.bundle"
    return lambda meta: {name: json.dumps({**json.loads(meta[name]), **changes}).encode()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (said(version=2), "was written by a newer separatrix (version 2; this one knows up to 1); upgrade"),
        (said(version=0), "is of version 0, which there never was"),
        (said(version="1"), "Field 'version' of the metadata of 'results/mine/runs.parquet' must be a whole"),
        (said(schema="another"), "is of schema 'another', not 'separatrix.bundle'"),
        (said(part="curves"), "Field 'part' of the metadata of 'results/mine/runs.parquet' contradicts"),
        (said(more=1), "has fields that its schema does not know: 'more'"),
        (said(name="../x"), "breaks a rule: A bundle's name has up to 100 letters"),
        (said(name="other"), "is damaged or was edited: its rows are not those it was written with"),
        (said(notes="other"), "is damaged or was edited"),
        (said(files={}), "is damaged or was edited"),
        (said(seal="0" * 64), "is damaged or was edited"),
        (lambda _: {b"separatrix.bundle": b"{"}, "is not JSON"),
        (lambda _: {b"separatrix.bundle": b"[" * 5000}, "is nested too deep"),
        (lambda _: {b"separatrix.bundle": b" " * (2**20 + 1)}, "is no part of a bundle of runs"),
        (lambda meta: {**meta, b"pandas": b"{}"}, "is no part of a bundle of runs; `separatrix runs bundle`"),
        (lambda _: {b"other": b"{}"}, "is no part of a bundle of runs"),
    ],
)
def test_what_a_file_says_about_itself(
    bundle: Bundle, change: Callable[[dict[bytes, bytes]], Mapping[bytes, bytes]], words: str
) -> None:
    contents = contents_of(bundle)
    assert words in refusal({**contents, RUNS.file: with_meta(contents[RUNS.file], change)})


def test_other_columns_are_refused(bundle: Bundle) -> None:
    contents = contents_of(bundle)
    meta = pq.ParquetFile(pa.BufferReader(contents[RUNS.file])).metadata.metadata
    table = pq.read_table(pa.BufferReader(contents[RUNS.file]))
    for other in (
        table.drop_columns(["loss"]),
        table.append_column("more", table.column("steps")),
        table.set_column(6, "steps", table.column("steps").cast(pa.float64())),
        table.select([*table.column_names[::-1]]),
    ):
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, other.schema, store_schema=False) as writer:
            writer.write_table(other)
            writer.add_key_value_metadata(meta)
        assert "has other columns than the runs of a bundle" in refusal(
            {**contents, RUNS.file: sink.getvalue().to_pybytes()}
        )


def forged(
    rows: Sequence[Mapping[str, Any]], points: Sequence[Mapping[str, Any]] = (), records: Sequence[Any] = ()
) -> dict[str, bytes]:
    """A bundle of arbitrary rows with every seal in order, as a stranger may make it."""
    meta = {"most_points": 400, "thinned": "the first point, the last and evenly spaced ones between"}
    files = {CURVES.file: parquet_of(CURVES, points, meta)}
    if records:
        files[EVIDENCE.file] = parquet_of(EVIDENCE, records, {})
    about: dict[str, object] = {
        "name": "a",
        "notes": "",
        "files": {n: hashlib.sha256(c).hexdigest() for n, c in files.items()},
    }
    sealed = {**about, "seal": _seal(about, [{n: row[n] for n in RUNS.columns} for row in rows])}
    return {RUNS.file: parquet_of(RUNS, rows, sealed), **files}


def point(**columns: Any) -> dict[str, Any]:
    return {**dict.fromkeys(CURVES.columns), "step": 0, **columns}


def test_forging_would_work(runs: list[Run]) -> None:
    rows = [_row_of(run, 1) for run in runs]
    record = {"key": runs[0].key, "kind": "coverage", "record": json.dumps(make_coverage().to_json())}
    found = bundle_from(forged(rows, [point(key=run.key) for run in runs], [record]), FOLDER)
    assert found.runs == tuple(runs)
    assert found.curve(runs[2].key) == (Point(step=0),)
    assert found.evidence == {runs[0].key: (make_coverage(),)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"config": "{}"}, "A run's config has the objects task, model, member, training"),
        ({"config": "{"}, "is not JSON"),
        ({"config": '{"a":1,"a":2}'}, "repeats a field name"),
        ({"key": "f" * 64}, "has the key 'ffffffffffff', which is not that of its config"),
        ({"provenance": "[]"}, "Field 'provenance' of the run"),
        ({"status": "running"}, "A bundle has runs that have finished; the run"),
        ({"status": "odd"}, "is one of running done retired dropped stopped; got 'odd'"),
        ({"steps": -1}, "must lie between 0 and 10^30"),
        ({"points": -1}, "Field 'points' of the run"),
        ({"config": "x" * (2**18 + 1)}, "has a config of 262,145 bytes; 262,144 are read"),
    ],
)
def test_rows_that_are_no_runs(runs: list[Run], change: dict[str, Any], words: str) -> None:
    assert words in refusal(forged([{**_row_of(runs[0], 0), **change}]))


def test_runs_come_once_and_in_order(runs: list[Run]) -> None:
    rows = [_row_of(run, 0) for run in runs]
    assert f"has the run {runs[1].short} twice" in refusal(forged([*rows[:2], rows[1]]))
    assert "has its runs in another order" in refusal(forged(rows[::-1]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([{}, {"key": "f" * 64}], "has a curve of the run 'ffffffffffff', which is not in the bundle"),
        ([{}], "has 1 of the 2 points of the run"),
        ([{}, {"step": 1}, {"step": 2}], "has 3 of the 2 points of the run"),
        ([{}, {"step": 0}], "has a curve that is not in the order of its steps"),
        ([{"step": 5}, {"step": 4}], "has a curve that is not in the order of its steps"),
        ([{"step": -1}, {}], "has a step below 0"),
        ([{"correct": -1}, {"step": 1}], "has a correct below 0"),
        ([{"loss": float("nan")}, {"step": 1}], "has a loss that is no finite number"),
        ([{"rate": float("inf")}, {"step": 1}], "has a rate that is no finite number"),
        ([{"key": "x" * 65}, {"step": 1}], "has a key of 65 bytes; 64 are read"),
    ],
)
def test_points_that_make_no_curve(runs: list[Run], changes: list[dict[str, Any]], words: str) -> None:
    points = [point(**{"key": runs[0].key, **change}) for change in changes]
    assert words in refusal(forged([_row_of(runs[0], 2)], points))


def test_a_curve_comes_in_one_piece(runs: list[Run]) -> None:
    first, second, _ = (run.key for run in runs)
    rows = [_row_of(runs[0], 2), _row_of(runs[1], 1)]
    points = [point(key=first), point(key=second), point(key=first, step=1)]
    assert f"has the curve of the run {runs[0].short} in pieces" in refusal(forged(rows, points))
    assert bundle_from(forged(rows, [points[0], points[2], points[1]]), FOLDER).points[first] == 2


def test_a_thinned_curve_has_all_the_points_it_may(runs: list[Run]) -> None:
    points = [point(key=runs[0].key, step=step) for step in range(401)]
    row = _row_of(runs[0], 1000)
    assert len(bundle_from(forged([row], points[:400]), FOLDER).curve(runs[0].key)) == 400
    for count in (399, 401):
        assert f"has {count} of the 1,000 points of the run {runs[0].short}; it should have 400." in refusal(
            forged([row], points[:count])
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"key": "f" * 64}, "is about the run 'ffffffffffff' too, which is not in the bundle"),
        ({"kind": "opinion"}, "has evidence of the kind 'opinion'; known are coverage, breaking"),
        ({"kind": "breaking"}, "is of no use: Expected a record of schema 'separatrix.breaking'"),
        ({"record": "{"}, "is not JSON"),
        ({"record": "{}"}, "lacks the field 'schema'"),
        (None, "has two records of coverage of the run"),
    ],
)
def test_evidence_that_is_none(runs: list[Run], change: dict[str, str] | None, words: str) -> None:
    record = {"key": runs[0].key, "kind": "coverage", "record": json.dumps(make_coverage().to_json())}
    records = [record, record] if change is None else [{**record, **change}]
    assert words in refusal(forged([_row_of(runs[0], 0)], (), records))


def test_there_are_limits(bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = contents_of(bundle)
    folder = put(tmp_path / "mine", contents)
    few = replace(RUNS, most_rows=2)
    with monkeypatch.context() as patch:
        patch.setattr("separatrix.store.bundles.contents.RUNS", few)
        assert "runs.parquet' may have 2 rows; it has 3." in refusal(contents)
    for place in ("tables", "folders"):
        with monkeypatch.context() as patch:
            patch.setattr(f"separatrix.store.bundles.{place}.MOST_BYTES", 1000)
            with pytest.raises(InvalidFile, match="may have 1,000 bytes; it has "):
                read_bundle(folder)
    with monkeypatch.context() as patch:
        patch.setattr("separatrix.store.bundles.tables.MOST_BYTES", len(contents[RUNS.file]))
        wide = parquet_of(RUNS, [{**_row_of(bundle.runs[0], 0), "config": "x" * 2**18}], {})
        assert len(wide) < len(contents[RUNS.file])
        assert "runs.parquet' may unpack to " in refusal({RUNS.file: wide})
    assert read_bundle(folder) == bundle


def test_a_text_that_is_repeated_is_no_bomb(runs: list[Run]) -> None:
    """Few bytes on the disk that would be many in memory."""
    row = {**_row_of(runs[0], 0), "created": "x" * 200_000}
    content = parquet_of(RUNS, [row] * 3000, {})
    assert len(content) < 50_000
    assert "has more text in its column created than the 268,435,456 bytes" in refusal({RUNS.file: content})
