"""Every file format has a version: files of old are read, files of tomorrow are refused in a sentence."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import pyarrow.parquet as pq
import pytest
import torch

import separatrix
from separatrix.accounting import Size
from separatrix.atlas.certified import Certified
from separatrix.atlas.coverage import CoverageRecord, read_coverage
from separatrix.atlas.plots.points import Front
from separatrix.atlas.plots.points import Measured as MeasuredWitness
from separatrix.audits.probing import Probe
from separatrix.errors import InvalidFile, NewerFile
from separatrix.evidence import (
    Bound,
    Breaking,
    Certificate,
    Counterexample,
    Coverage,
    Decoded,
    TaskSpec,
    Transcript,
)
from separatrix.experiments.asked import Asked, last_asked
from separatrix.experiments.attention_pictures import AttentionPictures
from separatrix.experiments.measurements import Measurement
from separatrix.interop.answer_log import Answer, answer_log
from separatrix.interop.hub_records import HubRecord
from separatrix.interop.onnx_files import OnnxManifest
from separatrix.interop.task_datasets import TaskFolder
from separatrix.models.specs import ModelSpec
from separatrix.records import JsonObject, Reader, Record, Upgrade, parse_json, same_json, upgraded
from separatrix.store import Run, Store, bundles
from separatrix.store import curves as curve_files
from separatrix.store import sealed as sealed_files
from separatrix.store.bundles import tables
from separatrix.store.checkpoints import Checkpoints
from separatrix.store.curves import Point, read_curve, write_curve
from separatrix.store.sealed import read_sealed, write_sealed
from separatrix.training import Member, Plan, Training
from separatrix.training.jobs import Job
from separatrix.training.remembered import load_run, remembered
from separatrix.witnesses.files import WitnessRecord, stated_certificate

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "tests" / "data" / "formats" / "version-1"
PAGE = ROOT / "docs" / "formats.md"
OWNER = "cd" * 32
NEWER = (
    r"was written by a newer separatrix \(version 2; this one knows up to 1\); upgrade separatrix to read it"
)
RECORDS: Mapping[str, type[Record]] = {
    "asked.json": Asked,
    "attention.json": AttentionPictures,
    "bound.json": Bound,
    "breaking.json": Breaking,
    "certified.json": Certified,
    "counterexample.json": Counterexample,
    "coverage.json": Coverage,
    "decoding.json": Decoded,
    "front.json": Front,
    "hub.json": HubRecord,
    "job.json": Job,
    "measured-witness.json": MeasuredWitness,
    "measured.jsonl": Measurement,
    "model.json": ModelSpec,
    "onnx.json": OnnxManifest,
    "plan.json": Plan,
    "probe.json": Probe,
    "run.json": Run,
    "size.json": Size,
    "task-folder.json": TaskFolder,
    "transcript.json": Transcript,
    "witness/certificate.json": Certificate,
    "witness/witness.json": WitnessRecord,
    "answers.jsonl": Answer,
}
"""Files with one record each, and what reads them."""
INSIDE = {
    "against",
    "attempt",
    "attention-picture",
    "broken-input",
    "case",
    "claim",
    "coverage-row",
    "curriculum",
    "front-corner",
    "halving",
    "inputs-covered",
    "interval",
    "member",
    "message",
    "onnx-tensor",
    "probe-score",
    "probe-wall",
    "reading-score",
    "state-part",
    "tensor-shape",
    "task",
    "training",
    "via",
}
"""Records that are only ever written inside others, whose version is theirs."""


@final
@dataclass(frozen=True, kw_only=True)
class Grown(Record):
    """A record in its third version: first it had inches, then it had no note."""

    SCHEMA: ClassVar[str] = "separatrix.test-grown"
    UPGRADES: ClassVar[tuple[Upgrade, ...]] = (
        lambda old: {"millimetres": int(old["inches"]) * 254 // 10},  # type: ignore[call-overload]
        lambda old: {**old, "note": ""},
    )

    millimetres: int
    note: str

    def to_fields(self) -> JsonObject:
        return {"millimetres": self.millimetres, "note": self.note}

    @classmethod
    def from_fields(cls, read: Reader) -> Grown:
        return cls(millimetres=read.count("millimetres"), note=read.text("note"))


def grown(version: int, **fields: object) -> Grown:
    return Grown.from_json({"schema": Grown.SCHEMA, "version": version, **fields})


def test_older_versions_come_up_step_by_step() -> None:
    newest = Grown(millimetres=254, note="")
    assert newest.to_json()["version"] == 3
    assert grown(1, inches=10) == grown(2, millimetres=254) == grown(3, millimetres=254, note="") == newest
    assert Grown.from_json(newest.to_json()) == newest


@pytest.mark.parametrize(
    ("version", "fields", "sentence"),
    [
        (
            4,
            {"millimetres": 1, "note": ""},
            r"newer separatrix \(version 4; this one knows up to 3\); upgrade",
        ),
        (0, {"inches": 1}, "says that it is of version 0, which there never was"),
        (1, {"feet": 1}, "does not have the fields of its version 1"),
        (1, {"inches": "many"}, "does not have the fields of its version 1"),
        (2, {"inches": 1}, "lacks the field 'millimetres'"),
        (2, {"millimetres": 1, "more": 2}, "does not know: 'more'"),
    ],
)
def test_what_is_of_no_version_is_refused(version: int, fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidFile, match=sentence):
        grown(version, **fields)


def read(name: str) -> dict[str, Any]:
    found = parse_json((KEPT / name).read_bytes())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("name", RECORDS)
def test_records_of_old_are_read(name: str) -> None:
    data, kind = read(name), RECORDS[name]
    record = kind.from_json(data)
    assert kind.from_json(record.to_json()) == record
    if not kind.UPGRADES:
        assert same_json(record.to_json(), data)


@pytest.mark.parametrize("name", RECORDS)
def test_records_of_tomorrow_are_refused(name: str) -> None:
    kind = RECORDS[name]
    newer = len(kind.UPGRADES) + 2
    with pytest.raises(
        NewerFile, match=rf"^{kind.SCHEMA} was written by a newer separatrix \(version {newer};"
    ):
        kind.from_json({**read(name), "version": newer})


def test_every_record_is_kept_or_inside_another() -> None:
    written = [
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r'SCHEMA(?:: ClassVar\[str\])? = "separatrix\.([a-z-]+)"', path.read_text())
    ]
    assert len(written) == len(set(written)), "two records have one schema"
    kinds: list[type[Record]] = [*RECORDS.values(), CoverageRecord]
    kept = {kind.SCHEMA.removeprefix("separatrix.") for kind in kinds}
    assert set(written) == kept | INSIDE
    page = PAGE.read_text()
    assert [name for name in sorted(kept) if f"`separatrix.{name}`" not in page] == []


def test_a_record_of_coverage_of_old_is_read() -> None:
    """It did not say its version."""
    text = (KEPT / "coverage-record.json").read_text()
    record = read_coverage(text)
    assert len(record.rows) == 2
    assert read_coverage(json.dumps(record.to_json())) == record
    with pytest.raises(NewerFile, match=NEWER):
        read_coverage(json.dumps({**record.to_json(), "version": 2}))


def test_a_witness_of_old_is_loaded_and_proved() -> None:
    witness = separatrix.load(KEPT / "witness")
    kept = stated_certificate(KEPT / "witness", witness)
    assert kept is not None
    fresh = separatrix.certify(witness)
    assert isinstance(fresh, Certificate)
    assert (fresh.verdict, fresh.weights_sha256) == ("proved", kept.weights_sha256)


def test_a_checkpoint_of_old_is_taken_up() -> None:
    found = Checkpoints(KEPT / "checkpoints", OWNER).load()
    assert found.note is None
    assert found.checkpoint is not None
    assert (found.checkpoint.step, found.checkpoint.meta) == (20, {"rates": [0.001]})
    assert torch.equal(found.checkpoint.tensors["weight"], torch.arange(6.0).reshape(2, 3))


def test_a_checkpoint_of_tomorrow_is_passed_over_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = {"weight": torch.ones(1)}
    path = tmp_path / "step-000000000020.safetensors"
    with monkeypatch.context() as tomorrow:
        tomorrow.setattr(sealed_files, "_UPGRADES", (dict,))
        write_sealed(path, tensors, owner=OWNER, meta={"step": 20, "meta": {}})
    checkpoints = Checkpoints(tmp_path, OWNER)
    found = checkpoints.load()
    assert found.checkpoint is None
    assert found.note is not None
    assert re.search(NEWER, found.note)
    for step in (30, 40, 50):
        checkpoints.save(tensors, meta={}, step=step)
    assert path.exists()


@pytest.mark.parametrize("version", ["", "one", "1.0", "-1", "٣", "1" * 30])
def test_a_seal_with_a_version_that_is_none_is_refused(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_files, "_said", lambda owner, meta: {"version": version, "owner": owner})
    write_sealed(tmp_path / "file", {}, owner=OWNER, meta={})
    with pytest.raises(InvalidFile, match="which is no whole number"):
        read_sealed(tmp_path / "file")


def test_a_curve_of_old_is_read_and_a_new_one_says_its_version(tmp_path: Path) -> None:
    points = read_curve(KEPT / "curve.parquet")
    assert [point.step for point in points] == [20, 40]
    write_curve(tmp_path / "again.parquet", points)
    assert read_curve(tmp_path / "again.parquet") == points
    said = pq.read_metadata(tmp_path / "again.parquet").metadata[b"separatrix.curve"]
    assert json.loads(said) == {"schema": "separatrix.curve", "version": 1}
    assert not pq.read_metadata(KEPT / "curve.parquet").metadata


def test_a_curve_of_tomorrow_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as tomorrow:
        tomorrow.setattr(curve_files, "_UPGRADES", (dict,))
        write_curve(tmp_path / "curve.parquet", [Point(step=1)])
        assert read_curve(tmp_path / "curve.parquet") == (Point(step=1),)
    with pytest.raises(NewerFile, match=NEWER):
        read_curve(tmp_path / "curve.parquet")


def test_a_bundle_of_old_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = bundles.read_bundle(KEPT / "bundle")
    assert (bundle.name, len(bundle.runs), len(bundle.curve(bundle.runs[0].key))) == ("kept", 1, 2)
    assert {type(record) for record in bundle.evidence[bundle.runs[0].key]} == {Breaking, Coverage}
    # And so it is when a newer version has an upgrade for its metadata.
    seen: list[object] = []

    def upgrade(old: JsonObject) -> JsonObject:
        seen.append(old["part"])
        return old

    monkeypatch.setattr(tables, "_UPGRADES", (upgrade,))
    assert bundles.read_bundle(KEPT / "bundle").runs == bundle.runs
    assert seen == ["runs", "curves", "evidence"]


def old_store(folder: Path) -> Store:
    """A store with the one run that was kept."""
    run = Run.from_json(read("run.json"))
    folder.mkdir()
    shutil.copy(KEPT / "runs.sqlite", folder / "runs.sqlite")
    store = Store(folder)
    for kind, suffix, kept in (
        ("weights", "safetensors", "weights-of-a-run.safetensors"),
        ("curves", "parquet", "curve.parquet"),
    ):
        place = store.place(kind, run.key, suffix)
        place.parent.mkdir()
        shutil.copy(KEPT / kept, place)
    return store


def test_a_store_of_old_is_opened_and_its_run_answers(tmp_path: Path) -> None:
    store = old_store(tmp_path / "store")
    (run,) = store.runs()
    assert run == Run.from_json(read("run.json"))
    trained = load_run(store, run.key)
    assert (trained.accuracy, len(trained.curve)) == (run.accuracy, 2)


def test_weights_of_tomorrow_are_not_trained_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that a newer version finished is no run that was lost."""
    store = old_store(tmp_path / "store")
    (run,) = store.runs()
    path = store.place("weights", run.key, "safetensors")
    kept = read_sealed(path)
    with monkeypatch.context() as tomorrow:
        tomorrow.setattr(sealed_files, "_UPGRADES", (dict,))
        write_sealed(path, kept.tensors, owner=kept.owner, meta=kept.meta)
    config = Reader(read("run.json")["config"], what="the config")
    job = Job(
        task=config.record("task", TaskSpec),
        model=config.record("model", ModelSpec),
        training=config.record("training", Training),
        members=(config.record("member", Member),),
    )
    with pytest.raises(NewerFile, match=NEWER):
        remembered(job, store, own_code=False)
    assert not (store.path / "aside").exists()


def test_what_was_asked_of_old_is_read(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    shutil.copy(KEPT / "asked.json", tmp_path / "experiments" / "s-fig2.json")
    asked = last_asked("s-fig2", tmp_path)
    assert asked is not None
    assert (asked.rows, asked.columns, asked.minutes) == (("lstm",), (20,), 1.5)


def test_answers_of_old_are_read_and_of_tomorrow_not_dropped(tmp_path: Path) -> None:
    shutil.copy(KEPT / "answers.jsonl", tmp_path / "answers.jsonl")
    with answer_log(tmp_path) as log:
        assert (len(log), log.notes) == (1, ())
    newer = json.dumps({**read("answers.jsonl"), "version": 2}) + "\n"
    (tmp_path / "answers.jsonl").write_text(newer)
    with pytest.raises(NewerFile, match=NEWER), answer_log(tmp_path):
        pass
    assert (tmp_path / "answers.jsonl").read_text() == newer


def test_evidence_of_tomorrow_names_its_file(tmp_path: Path) -> None:
    store = old_store(tmp_path / "store")
    (run,) = store.runs()
    path = store.place("evidence", run.key, "coverage.json")
    path.parent.mkdir()
    path.write_text(json.dumps({**read("coverage.json"), "version": 2}))
    with pytest.raises(NewerFile, match=f"{run.key}.coverage.json' is of no use here: .*{NEWER}"):
        store.coverage(run.key)


def test_upgrades_leave_the_newest_alone() -> None:
    fields: JsonObject = {"a": 1}
    assert upgraded(fields, version=2, upgrades=(lambda old: {},), what="it") is fields
