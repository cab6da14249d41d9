"""What comes from another machine is read like a stranger's file: wrong parcels leave the store as it was."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from separatrix.errors import InvalidFile
from separatrix.experiments.cluster.parcels import Parcel, pack, unpack
from separatrix.models.transformer import Transformer
from separatrix.store import Result, Store
from separatrix.tasks import task
from separatrix.training import Job, Member, Training, run_job
from separatrix.training.jobs import job_for


def small_job(n: int) -> Job:
    return job_for(
        task("index-lookup", n=n, alphabet=4),
        Transformer.Config(width=8, heads=2, ffn=8),
        members=[Member(lr=0.01), Member(lr=0.001)],
        training=Training(steps=4, batch=4, eval_every=2, eval_examples=10, test_examples=10, stop="never"),
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("trained"))
    run_job(JOB, store=store, device="cpu", checkpoint_seconds=0)
    return store


JOB = small_job(4)


@pytest.fixture
def parcel(trained: Store) -> Parcel:
    newest = sorted(trained.folder_of(JOB.key).glob("step-*"))[-1]
    return pack(JOB, trained, checkpoint=newest)


def arrive(parcel: Parcel, place: Path, job: Job = JOB) -> Store:
    store = Store(place)
    with store.claim(job.key) as checkpoints:
        unpack(parcel, job, store, checkpoints)
    return store


def test_everything_arrives(trained: Store, parcel: Parcel, tmp_path: Path) -> None:
    store = arrive(parcel, tmp_path)
    keys = [run.key for run in trained.members(JOB.key)]
    assert [run.key for run in store.members(JOB.key)] == keys
    for key in keys:
        assert store.run(key).provenance == trained.run(key).provenance
        assert store.run(key).seconds == trained.run(key).seconds
        assert store.curve(key) == trained.curve(key)
        for kind, suffix in (("weights", "safetensors"), ("curves", "parquet")):
            assert (
                store.place(kind, key, suffix).read_bytes() == trained.place(kind, key, suffix).read_bytes()
            )
    [name] = [name for name in parcel if name.startswith("step-")]
    assert (store.folder_of(JOB.key) / name).read_bytes() == parcel[name]


def changed(parcel: Parcel, what: str) -> Parcel:
    keys = [row["key"] for row in json.loads(parcel["runs.json"])["runs"]]
    weights, curve = f"{keys[0]}.safetensors", f"{keys[0]}.parquet"
    [step] = [name for name in parcel if name.startswith("step-")]
    lacking = {"no rows": "runs.json", "no weights": weights}.get(what)
    other: dict[str, Parcel] = {
        "other weights": {weights: parcel[f"{keys[1]}.safetensors"]},
        "a bit": {weights: parcel[weights][:-1] + bytes([parcel[weights][-1] ^ 1])},
        "no curve": {curve: b"PAR1"},
        "a row": {"runs.json": parcel["runs.json"].replace(b'"lr": 0.01', b'"lr": 0.02')},
        "the checkpoint": {step: parcel[step][:-1]},
    }
    return {name: content for name, content in parcel.items() if name != lacking} | other.get(what, {})


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("no rows", "the rows of a parcel"),
        ("no weights", "came without its file"),
        ("other weights", "came with the weights of another"),
        ("a bit", "damaged or cut off"),
        ("no curve", "damaged or no curve"),
        ("a row", "which is not that of its config"),
        ("the checkpoint", "damaged or cut off"),
    ],
)
def test_what_is_wrong_is_refused(parcel: Parcel, tmp_path: Path, what: str, words: str) -> None:
    with pytest.raises(InvalidFile, match=words):
        arrive(changed(parcel, what), tmp_path)
    store = Store(tmp_path)
    if what != "the checkpoint":  # which comes last
        assert not any(run.finished for run in store.runs())
    assert not list(store.folder_of(JOB.key).glob("step-*"))


def test_runs_of_another_job_are_refused(parcel: Parcel, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="no member of"):
        arrive(parcel, tmp_path, small_job(5))


def test_a_name_leads_nowhere(parcel: Parcel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a" / "b"))
    arrive(
        {**parcel, "../../step-000000000001.safetensors": b"", "../stray.safetensors": b""}, tmp_path / "c"
    )
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("a/**/*")) == ["a/b"]


def test_who_has_solved_the_task_comes_last(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for solved_at, member in zip((2, None), JOB.members, strict=True):
        run = store.begin(JOB.config_of(member), population=JOB.key)
        store.write_weights(run.key, {})
        store.write_curve(run.key, ())
        store.finish(run.key, Result(status="done", steps=2, solved_at=solved_at))
    rows = json.loads(pack(JOB, store)["runs.json"])["runs"]
    assert [row["solved_at"] for row in rows] == [None, 2]
