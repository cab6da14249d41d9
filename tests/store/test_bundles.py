"""Bundles: what goes in comes out equal, the same runs are the same bytes, and writing again adds to them."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidFile, InvalidInput, UnknownName
from separatrix.files import written_whole
from separatrix.records import freeze
from separatrix.store import Point, Result, Run, Store, key_of
from separatrix.store.bundles import (
    KINDS,
    MOST_POINTS,
    Bundle,
    bundle_runs,
    bundles_in,
    make_bundle,
    merge_bundles,
    read_bundle,
    results_folder,
    write_bundle,
)
from separatrix.store.bundles.bundle import kind_of
from separatrix.store.bundles.contents import bundle_from, contents_of
from separatrix.store.bundles.tables import CURVES, RUNS
from separatrix.store.evidence import SUFFIXES
from separatrix.store.runs import FINISHED
from tests.evidence.examples import make_breaking
from tests.store.bundle_examples import bundle_of, found_in, put, three_runs
from tests.store.examples import CURVE, config, finished
from tests.store.test_evidence import make_coverage

ROOT = Path(__file__).parents[2]
FOLDER = Path("results/mine")

whole = st.integers(0, 2**63 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | finite | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=8), values, max_size=4)
readable = st.text(st.characters(codec="utf-8"), max_size=40)


@st.composite
def arbitrary_runs(draw: st.DrawFn) -> Run:
    made = {
        "task": {"name": draw(st.text(max_size=9)), "params": draw(objects)},
        "model": {"name": draw(st.text(max_size=9)), "params": draw(objects)},
        "member": draw(objects),
        "training": draw(objects),
    }
    figures: dict[str, Any] = {name: draw(st.none() | whole) for name in RUNS.optional_counts}
    figures |= {name: draw(st.none() | finite) for name in RUNS.optional_measured}
    frozen, provenance = freeze(made), freeze(draw(objects))
    assert isinstance(frozen, Mapping)
    assert isinstance(provenance, Mapping)
    return Run(
        key=key_of(made),
        config=frozen,
        status=draw(st.sampled_from(FINISHED)),
        steps=draw(whole),
        seconds=draw(finite),
        provenance=provenance,
        created=draw(readable),
        updated=draw(readable),
        **figures,
    )


@st.composite
def arbitrary_curves(draw: st.DrawFn) -> list[Point]:
    steps = sorted(draw(st.sets(whole, max_size=6)))
    counts, floats = st.none() | whole, st.none() | finite
    return [
        Point(
            step=step,
            loss=draw(floats),
            rate=draw(floats),
            n=draw(counts),
            correct=draw(counts),
            examples=draw(counts),
            label_accuracy=draw(floats),
        )
        for step in steps
    ]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return three_runs(tmp_path / "runs")


@pytest.fixture
def bundle(runs: list[Run]) -> Bundle:
    return bundle_of(runs)


@given(st.lists(st.tuples(arbitrary_runs(), arbitrary_curves()), max_size=4), st.randoms())
@settings(max_examples=40, deadline=None)
def test_whatever_goes_in_comes_out_and_is_the_same_bytes_in_any_order(
    pairs: list[tuple[Run, list[Point]]], mixer: Any
) -> None:
    pairs = list({run.key: (run, curve) for run, curve in pairs}.values())
    curves = {run.key: curve for run, curve in pairs}
    contents = contents_of(make_bundle([run for run, _ in pairs], curves, name="mine", notes="ä\n"))
    found = bundle_from(contents, FOLDER)
    assert (found.name, found.notes) == ("mine", "ä\n")
    assert {run.key: run for run in found.runs} == {run.key: run for run, _ in pairs}
    assert {run.key: list(found.curve(run.key)) for run in found.runs} == curves
    mixer.shuffle(pairs)
    again = make_bundle([run for run, _ in pairs], {run.key: curve for run, curve in pairs}, name="mine")
    assert contents_of(replace(again, notes="ä\n")) == contents
    assert contents_of(found) == contents, "what was read is written as it was"


def test_a_bundle_is_read_as_it_was_made(bundle: Bundle, tmp_path: Path) -> None:
    folder = put(tmp_path / "mine", contents_of(bundle))
    assert sorted(found_in(folder)) == ["curves.parquet", "evidence.parquet", "runs.parquet"]
    found = read_bundle(str(folder))
    assert found == bundle
    first, second, third = found.runs
    assert found.curve(first.key) == CURVE
    assert found.curve(second.key) == ()
    assert dict(found.points) == {first.key: 3, second.key: 0, third.key: 2}
    assert list(found.curves) == [first.key, third.key]
    assert found.evidence[second.key] == (make_breaking(), make_coverage())
    assert first.provenance["deterministic"] is True
    assert "correct" not in repr(found.curves)
    with pytest.raises(UnknownName, match="There is no run 'abc' in the bundle 'mine'"):
        found.curve("abc")


def test_nothing_is_a_bundle_too() -> None:
    empty = make_bundle([], {}, name="none")
    assert bundle_from(contents_of(empty), FOLDER) == empty


def test_the_columns_are_those_of_runs_and_points() -> None:
    assert {*RUNS.columns} == {field.name for field in fields(Run)} | {"points"}
    assert {*CURVES.columns} == {field.name for field in fields(Point)} | {"key"}


def test_every_kind_of_evidence_is_known() -> None:
    assert [f"{name}.json" for name in KINDS] == list(SUFFIXES)
    for name, kind in KINDS.items():
        assert f"separatrix.{name}" == kind.SCHEMA
    for record in (make_coverage(), make_breaking()):
        assert KINDS[kind_of(record)] is type(record)


@pytest.mark.slow
def test_another_process_writes_the_same_bytes(store: Store, runs: list[Run], tmp_path: Path) -> None:
    store.write_evidence(runs[0].key, make_coverage())
    bundle_runs(store, store.runs(), tmp_path / "one", name="mine")
    script = (
        "import sys; from pathlib import Path; from separatrix.store import Store\n"
        "from separatrix.store.bundles import bundle_runs\n"
        "store = Store(sys.argv[1])\n"
        "bundle_runs(store, reversed(store.runs()), Path(sys.argv[2]), name='mine')"
    )
    subprocess.run([sys.executable, "-c", script, str(store.path), str(tmp_path / "two")], check=True)
    assert found_in(tmp_path / "one") == found_in(tmp_path / "two")
    bundle_runs(store, store.runs()[:1], tmp_path / "two", name="mine")
    assert found_in(tmp_path / "one") == found_in(tmp_path / "two"), "and so does who adds what is there"


def test_other_programs_read_the_files(bundle: Bundle, tmp_path: Path) -> None:
    folder = put(tmp_path / "mine", contents_of(bundle))
    table = pq.read_table(folder / "runs.parquet").to_pylist()
    assert [row["key"] for row in table] == [run.key for run in bundle.runs]
    assert [json.loads(row["config"])["model"]["name"] for row in table] == ["transformer"] * 3
    assert [row["accuracy"] for row in table] == [0.99] * 3
    curves = pq.ParquetFile(folder / "curves.parquet")
    assert curves.metadata.row_group(0).column(0).compression == "ZSTD"
    assert "RLE_DICTIONARY" in curves.metadata.row_group(0).column(0).encodings
    said = json.loads(curves.metadata.metadata[b"separatrix.bundle"])
    assert said["version"] == 1
    assert said["most_points"] == MOST_POINTS
    assert "evenly spaced" in said["thinned"]


@pytest.mark.parametrize("count", [399, 400, 401, 1000, 5000])
def test_long_curves_are_thinned_and_say_so(runs: list[Run], count: int) -> None:
    key = runs[0].key
    points = [Point(step=10 * step, loss=1.0 / (step + 1)) for step in range(count)]
    found = bundle_from(contents_of(make_bundle(runs[:1], {key: points}, name="a")), FOLDER)
    kept = found.curve(key)
    assert found.points[key] == count
    assert len(kept) == min(count, 400)
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert set(kept) <= set(points)
    gaps = {later.step - sooner.step for sooner, later in itertools.pairwise(kept)}
    assert max(gaps) - min(gaps) <= 10
    assert merge_bundles(found, found) == found, "it is not thinned again"


def test_a_sweep_is_small(store: Store) -> None:
    runs = [replace(run, status="done") for run in store.begin_all([config(seed) for seed in range(200)])]
    curves = {
        run.key: [Point(step=9 * i, loss=1 / (i + 1), correct=i, examples=99) for i in range(50)]
        for run in runs
    }
    assert sum(map(len, contents_of(make_bundle(runs, curves, name="a")).values())) < 100_000


def test_only_what_has_finished_goes_in(store: Store, tmp_path: Path) -> None:
    done = finished(store)
    running = store.begin(config(1))
    stopped = store.finish(store.begin(config(2)).key, Result(status="stopped", steps=0))
    retired = store.finish(store.begin(config(3)).key, Result(status="retired", steps=5, loss=float("nan")))
    dropped = store.finish(
        store.begin(config(4)).key, Result(status="dropped", steps=5, correct=1, examples=2)
    )
    made = bundle_runs(store, store.runs(), tmp_path / "mine")
    assert {run.key: run for run in made.runs} == {run.key: run for run in (done, retired, dropped)}
    assert made.name == "mine"
    for run in (running, stopped):
        with pytest.raises(InvalidInput, match=f"are done, retired, dropped; {run.short} is {run.status}"):
            make_bundle([done, run], {}, name="mine")


def test_what_makes_no_bundle(runs: list[Run]) -> None:
    first, second, _ = runs
    for name in ("", "a b", "../a", ".a", "a" * 101, "ä", "a\n"):
        with pytest.raises(InvalidInput, match="A bundle's name has up to 100 letters"):
            make_bundle(runs, {}, name=name)
    with pytest.raises(InvalidInput, match="notes may have 20,000 characters"):
        make_bundle(runs, {}, name="a", notes="x" * 20_001)
    with pytest.raises(InvalidInput, match=f"A bundle has a run once; {first.short} was given twice"):
        make_bundle([first, second, first], {}, name="a")
    for more in ({"curves": {"f" * 64: CURVE}}, {"curves": {}, "evidence": {"f" * 64: [make_coverage()]}}):
        with pytest.raises(InvalidInput, match="curve or evidence of the run ffffffffffff, but no such run"):
            make_bundle(runs, **more, name="a")
    with pytest.raises(InvalidInput, match=f"in the order of their steps; of {first.short} not"):
        make_bundle(runs, {first.key: CURVE[::-1]}, name="a")
    with pytest.raises(InvalidInput, match=f"two records of coverage of the run {first.short}"):
        make_bundle(runs, {}, name="a", evidence={first.key: [make_coverage(), make_coverage(seconds=3.0)]})


def test_what_cannot_be_written_leaves_nothing(runs: list[Run], tmp_path: Path) -> None:
    for wrong, words in (
        (replace(runs[0], steps=2**63), "counts below 2^63; these runs have others"),
        (replace(runs[0], loss=float("nan")), "numbers in a value are finite; got nan"),
        (replace(runs[0], key="f" * 64), "which is not that of its config"),
        (replace(runs[0], created="x" * 41), "may have 40 characters"),
    ):
        with pytest.raises((InvalidInput, InvalidFile)) as caught:
            write_bundle(tmp_path / "mine", [wrong], {}, name="mine")
        assert words in str(caught.value)
    with pytest.raises(InvalidInput, match="these curves have others"):
        write_bundle(tmp_path / "mine", runs, {runs[0].key: [Point(step=2**63)]}, name="mine")
    assert not (tmp_path / "mine").exists()


def test_writing_again_keeps_the_union(runs: list[Run], tmp_path: Path) -> None:
    first, second, third = runs
    folder = tmp_path / "deep" / "mine"
    write_bundle(folder, [first, second], {first.key: CURVE}, name="mine", notes="once")
    made = write_bundle(folder, [third, second], {second.key: CURVE[:1]}, name="mine")
    assert made == read_bundle(folder)
    assert made.runs == (first, second, third)
    assert (made.curve(first.key), made.curve(second.key)) == (CURVE, CURVE[:1])
    assert made.notes == "once"
    assert write_bundle(folder, [], {}, name="mine", notes="twice").notes == "twice"
    with pytest.raises(InvalidInput, match=r"The bundle in '.*mine' is called 'mine', not 'other'; name ano"):
        write_bundle(folder, [], {}, name="other")
    assert sorted(found_in(folder)) == ["curves.parquet", "runs.parquet"]


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        ({}, "newer"),
        ({"steps": 1001}, "newer"),
        ({"steps": 999}, "older"),
        ({"steps": 999, "updated": "2999-01-01T00:00:00Z"}, "older"),
        ({"updated": "2999-01-01T00:00:00Z"}, "newer"),
        ({"updated": "1999-01-01T00:00:00Z"}, "older"),
    ],
)
def test_of_a_run_in_both_one_stays_with_all_that_is_its_own(
    runs: list[Run], change: dict[str, Any], stays: str
) -> None:
    key = runs[0].key
    old = make_bundle(runs[:1], {key: CURVE}, name="a", evidence={key: [make_coverage()]})
    other = replace(runs[0], seconds=99.0, **change)
    new = make_bundle(
        [other], {key: [*CURVE[1:], Point(step=5000)]}, name="a", evidence={key: [make_breaking()]}
    )
    merged = merge_bundles(old, new)
    kept = new if stays == "newer" else old
    assert merged.runs == kept.runs
    assert merged.curve(key) == kept.curve(key)
    expected = kept.evidence[key] if change else (make_breaking(), make_coverage())
    assert merged.evidence[key] == expected
    if change:
        assert merge_bundles(new, old) == merged, "whichever comes first"


def test_a_curve_is_not_lost_to_none(runs: list[Run]) -> None:
    with_curve = make_bundle(runs, {runs[0].key: CURVE}, name="a")
    without = make_bundle(runs, {}, name="a")
    assert merge_bundles(with_curve, without) == merge_bundles(without, with_curve) == with_curve


def test_newer_evidence_takes_the_place_of_older(runs: list[Run]) -> None:
    key = runs[0].key
    old = make_bundle(runs, {}, name="a", evidence={key: [make_coverage(), make_breaking()]})
    new = make_bundle(runs, {}, name="a", evidence={key: [make_coverage(seconds=77.0)]})
    assert merge_bundles(old, new).evidence[key] == (make_breaking(), make_coverage(seconds=77.0))


def test_weaker_attacks_do_not_take_the_place_of_stronger_ones(runs: list[Run]) -> None:
    key, strong, weak = runs[0].key, make_breaking(), make_breaking(attempts=(), seed=9)
    bundles = [make_bundle(runs, {}, name="a", evidence={key: [each]}) for each in (strong, weak)]
    assert merge_bundles(*bundles).evidence[key] == (strong,)
    assert merge_bundles(*reversed(bundles)).evidence[key] == (strong,)


def test_evidence_goes_with_the_run_it_was_about(runs: list[Run], tmp_path: Path) -> None:
    key = runs[0].key
    write_bundle(tmp_path / "a", runs, {}, name="a", evidence={key: [make_coverage()]})
    assert (tmp_path / "a" / "evidence.parquet").exists()
    write_bundle(tmp_path / "a", [replace(runs[0], steps=2000)], {}, name="a")
    assert sorted(found_in(tmp_path / "a")) == ["curves.parquet", "runs.parquet"]
    assert read_bundle(tmp_path / "a").evidence == {}


def test_what_fails_half_way_changes_nothing(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bundle(tmp_path / "a", runs[:1], {}, name="a")
    before = found_in(tmp_path / "a")

    @contextmanager
    def failing(path: Path, *, durable: bool = False) -> Iterator[TextIOWrapper]:
        if path.name == CURVES.file:
            raise InvalidFile("No space left on device")
        with written_whole(path, durable=durable) as file:
            yield file

    monkeypatch.setattr("separatrix.store.bundles.folders.written_whole", failing)
    with pytest.raises(InvalidFile, match="No space left"):
        write_bundle(tmp_path / "a", runs, {runs[0].key: CURVE}, name="a")
    assert found_in(tmp_path / "a") == before


def test_runs_take_their_place_last(runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    placed: list[str] = []

    @contextmanager
    def watched(path: Path, *, durable: bool = False) -> Iterator[TextIOWrapper]:
        with written_whole(path, durable=durable) as file:
            yield file
            assert not any(part.stat().st_size == 0 for part in path.parent.glob(".*.part")), (
                "all are written"
            )
        placed.append(path.name)

    monkeypatch.setattr("separatrix.store.bundles.folders.written_whole", watched)
    write_bundle(tmp_path / "a", runs, {}, name="a", evidence={runs[0].key: [make_coverage()]})
    assert placed == ["evidence.parquet", "curves.parquet", "runs.parquet"]


def test_where_results_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def seen_from(package: Path) -> Path | None:
        monkeypatch.setattr("separatrix.store.bundles.results._PACKAGE", package)
        return results_folder()

    checkout, installed = tmp_path / "checkout", tmp_path / "lib" / "separatrix"
    package = checkout / "src" / "separatrix"
    for folder in (package, installed, tmp_path / "results"):
        folder.mkdir(parents=True)
    assert seen_from(package) is None
    (checkout / "results").mkdir()
    assert seen_from(package) is None, "the folder may be anybody's"
    for folder in (checkout, tmp_path):
        (folder / "pyproject.toml").write_text("")
    assert seen_from(package) == checkout / "results"
    (checkout / "results").rmdir()
    assert seen_from(package) is None
    assert seen_from(installed) is None, "the folder around it belongs to somebody else"
    (installed / "results").mkdir()
    assert seen_from(installed) == installed / "results"
    (package / "results").mkdir()
    assert seen_from(package) == package / "results"


def test_bundles_in_a_folder(bundle: Bundle, tmp_path: Path) -> None:
    assert bundles_in(None) == bundles_in(tmp_path / "none") == bundles_in(tmp_path) == ()
    (tmp_path / "README.md").write_text("x")
    (tmp_path / "empty").mkdir()
    names = "fabgcdhe"
    for name in names:
        put(tmp_path / name, contents_of(bundle))
    assert bundles_in(tmp_path) == tuple(tmp_path / name for name in sorted(names))


def test_published_results_can_be_read() -> None:
    folder = results_folder()
    assert folder is not None
    assert (folder / "README.md").is_file()
    for place in bundles_in(folder):
        assert read_bundle(place).name == place.name


def test_a_wheel_has_the_results() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["only-include"] == ["src/separatrix", "results"]
    assert wheel["sources"] == {"src/separatrix": "separatrix", "results": "separatrix/results"}
    assert (ROOT / "results").is_dir()
