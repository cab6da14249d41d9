"""Evidence about runs: kept whole, read strictly, replaced by what is newer, and gone with its run."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import time
from pathlib import Path

import pytest

from separatrix.errors import InvalidFile, NewerFile, UnknownName
from separatrix.evidence import Case, Coverage, Decoded
from separatrix.store import Run, Store
from separatrix.store.aside import set_aside
from separatrix.store.cleaning import clean
from separatrix.store.evidence import figures_of, outweighs
from separatrix.store.exporting import as_csv, export
from tests.evidence.examples import make_breaking, make_counterexample, make_decoded
from tests.store.examples import finished
from tests.store.test_database import everything


def make_coverage(*, seconds: float = 1.5) -> Coverage:
    """Three cases, one of each verdict."""
    found = make_counterexample()
    return Coverage(
        weights_sha256=found.weights_sha256,
        task=found.task,
        arithmetic="float32",
        cases=(
            Case(query="@1", target="s0", verdict="proved", margin=0.25, asked=3, found=0.5),
            Case(query="@1", target="s1", verdict="refuted", margin=-1e30, asked=3, found=-0.5, input=(1, 2)),
            Case(query="@2", target="s0", verdict="unknown", margin=-0.125, asked=3, found=0.5),
        ),
        checker="separatrix 0",
        assumptions=("sums in any order",),
        counterexample=found,
        sampled=1000,
        sampled_right=999,
        seconds=seconds,
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def run(store: Store) -> Run:
    return finished(store)


def test_what_is_kept_comes_back_equal(store: Store, run: Run) -> None:
    assert store.coverage(run.key) is None
    assert store.breaking(run.key) is None
    assert store.decoding(run.key) is None
    path = store.write_evidence(run.key, make_coverage())
    other = store.write_evidence(run.key, make_breaking())
    third = store.write_evidence(run.key, make_decoded())
    assert path == store.path / "evidence" / f"{run.key}.coverage.json"
    assert other == store.path / "evidence" / f"{run.key}.breaking.json"
    assert third == store.path / "evidence" / f"{run.key}.decoding.json"
    assert store.coverage(run.short) == make_coverage()
    assert store.breaking(run.short) == make_breaking()
    assert store.decoding(run.short) == make_decoded()
    assert Decoded.from_json(json.loads(third.read_text())) == make_decoded()
    assert Coverage.from_json(json.loads(path.read_text())) == make_coverage()


def test_a_record_is_one_text_only_and_the_newer_one_stays(store: Store, run: Run) -> None:
    path = store.write_evidence(run.key, make_coverage())
    text = path.read_text()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) + "\n"
    store.write_evidence(run.key, make_coverage(seconds=99.0))
    found = store.coverage(run.key)
    assert found is not None
    assert found.seconds == 99.0
    store.write_evidence(run.key, make_coverage())
    assert path.read_text() == text
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_only_runs_have_evidence(store: Store, run: Run) -> None:
    with pytest.raises(UnknownName, match="There is no run 'eee"):
        store.write_evidence("e" * 64, make_coverage())
    with pytest.raises(UnknownName, match="There is no run 'eee"):
        store.coverage("e" * 64)
    assert not (store.path / "evidence").exists()
    (store.path / "evidence").write_text("in the way")
    with pytest.raises(InvalidFile, match=r"The folder '.*evidence' cannot be made"):
        store.write_evidence(run.key, make_coverage())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not JSON"),
        (b"[" * 99_999, "is nested too deep"),
        (b"{}", "is of no use: separatrix.coverage lacks the field 'schema'"),
        (json.dumps(make_breaking().to_json()).encode(), "Expected a record of schema 'separatrix.coverage'"),
        (
            json.dumps({**make_coverage().to_json(), "proved": 2}).encode(),
            "contradicts the fields it follows",
        ),
        (b" " * 2_000, "may have 1,000 bytes; it has 2,000."),
        (json.dumps({**make_coverage().to_json(), "more": 2}).encode(), "that its schema does not know"),
    ],
)
def test_a_damaged_file_is_a_sentence_with_its_remedy(
    store: Store, run: Run, content: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.write_evidence(run.key, make_coverage())
    if content == b" " * 2_000:
        monkeypatch.setattr("separatrix.store.evidence._MOST_BYTES", 1_000)
    path.write_bytes(content)
    with pytest.raises(InvalidFile) as caught:
        store.coverage(run.key)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert str(caught.value).endswith("`separatrix certify` writes it anew.")


def test_what_cannot_be_opened_is_a_sentence(store: Store, run: Run) -> None:
    path = store.write_evidence(run.key, make_breaking())
    path.unlink()
    path.mkdir()
    with pytest.raises(InvalidFile, match=r"is no ordinary file\. `separatrix break` writes it anew"):
        store.breaking(run.key)
    store.write_evidence(run.key, make_decoded()).write_text("{}")
    with pytest.raises(
        InvalidFile, match=r"lacks the field 'schema'\. `separatrix reproduce` writes it anew"
    ):
        store.decoding(run.key)


def test_gc_knows_the_files(store: Store, run: Run) -> None:
    store.write_evidence(run.key, make_coverage())
    store.write_evidence(run.key, make_breaking())
    store.write_evidence(run.key, make_decoded())
    folder = store.path / "evidence"
    kept = [folder / f"{'e' * 64}.json", folder / f"{'e' * 64}.txt", folder / "notes.coverage.json"]
    orphans = [folder / f"{'e' * 64}.{kind}.json" for kind in ("breaking", "coverage", "decoding")]
    half = folder / ".0123456789abcdef.part"
    for path in (*kept, *orphans, half):
        path.write_bytes(b"12345")
    hours_ago = time.time() - 7200
    os.utime(half, (hours_ago, hours_ago))
    before = everything(store.path)
    removed = clean(store).removed
    assert [each.path for each in removed] == [half, *orphans], "each of them once"
    gone = {str(path.relative_to(store.path)) for path in (*orphans, half)}
    assert everything(store.path) == {name: content for name, content in before.items() if name not in gone}


def test_what_is_set_aside_takes_its_evidence_along(store: Store, run: Run) -> None:
    store.write_evidence(run.key, make_coverage())
    store.write_evidence(run.key, make_breaking())
    store.write_evidence(run.key, make_decoded())
    folder = set_aside(store, run)
    names = {each.name for each in folder.iterdir()}
    assert {f"evidence.{kind}.json" for kind in ("breaking", "coverage", "decoding")} <= names
    assert store.coverage(run.key) is None, "the run is trained again, to weights of its own"
    assert store.breaking(run.key) is None
    assert store.decoding(run.key) is None


def test_figures_beside_the_runs(store: Store, run: Run, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    assert figures_of(None, None) == {}
    figures = figures_of(make_coverage(), make_breaking(), make_decoded())
    assert figures == {
        "certified.cases": 3,
        "certified.proved": 1,
        "certified.broken": 1,
        "certified.unknown": 1,
        "attacked.broken": True,
        "attacked.tried": 400,
        "attacked.failures": 3,
        "attacked.samples": 1000,
        "attacked.sample_failures": 0,
        "decoded.examples": 1000,
        "decoded.right": 900,
        "decoded.unanswered": 60,
        "decoded.searches": 41_234,
    }
    runs, evidence = [run, finished(store, 1)], {run.key: figures}
    rows = list(csv.DictReader(io.StringIO(as_csv(runs, evidence=evidence))))
    assert [row["certified.proved"] for row in rows] == ["1", ""]
    assert [row["decoded.right"] for row in rows] == ["900", ""]
    for name in ("a.parquet", "a.json"):
        export(runs, tmp_path / name, evidence=evidence)
    table = pq.read_table(tmp_path / "a.parquet").to_pydict()
    assert table["attacked.broken"] == [True, None]
    data = json.loads((tmp_path / "a.json").read_text())
    assert data["evidence"] == {run.key: figures}
    assert [Run.from_json(each) for each in data["runs"]] == runs


def test_an_unbroken_model_says_so_in_figures() -> None:
    fine = dataclasses.replace(make_breaking(), counterexamples=())
    assert figures_of(None, fine)["attacked.broken"] is False


def test_attacks_outweigh_those_that_tried_less_or_found_nothing() -> None:
    broken, unbroken = make_breaking(), make_breaking(counterexamples=())
    brief, other = make_breaking(attempts=()), make_breaking(weights_sha256="f" * 64, counterexamples=())
    assert outweighs(broken, brief)
    assert outweighs(brief, unbroken), "an input that fails says more than many that do not"
    assert not outweighs(brief, broken)
    assert not outweighs(unbroken, brief)
    assert not outweighs(broken, make_breaking(seed=9)), "the newer of two that say as much"
    assert not outweighs(broken, other), "those are about other weights"
    assert not outweighs(None, brief)
    assert not outweighs(make_coverage(), make_coverage(seconds=9.0))


def test_the_store_itself_keeps_what_says_more(store: Store, run: Run) -> None:
    strong, weak = make_breaking(), make_breaking(attempts=())
    assert strong.outweighs(weak)
    for record in (weak, strong, weak):
        path = store.write_evidence(run.key, record)
    assert store.breaking(run.key) == strong
    path.write_text("{}", encoding="utf-8")
    store.write_evidence(run.key, weak)
    assert store.breaking(run.key) == weak, "what nobody can read is replaced"
    newer = {**json.loads(path.read_text("utf-8")), "version": 99}
    path.write_text(json.dumps(newer), encoding="utf-8")
    with pytest.raises(NewerFile):
        store.write_evidence(run.key, strong)
    assert json.loads(path.read_text("utf-8")) == newer
