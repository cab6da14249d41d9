"""Files of a store that are damaged, missing or of another version: named, kept, and made anew."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from separatrix.errors import InvalidFile
from separatrix.models.transformer import Transformer
from separatrix.store import Run, Store
from separatrix.store.aside import set_aside
from separatrix.store.sealed import read_sealed, write_sealed
from separatrix.tasks import task
from separatrix.training import Halving, Job, Member, Observer, Training, load_run, run_job
from separatrix.training.course import Course
from separatrix.training.jobs import job_for
from tests.training.test_resume import Stop, contents, facts, interrupted, small_job


class Watching(Observer):
    """Notes what is said and who is trained; breaks off behind a step, if that is wished."""

    def __init__(self, *, until: int = 1000) -> None:
        self.notes, self.trained, self.until = list[str](), set[int](), until

    def steps(self, course: Course, count: int) -> None:
        self.trained |= {seat.member for seat in course.seats if seat.member is not None}
        if course.taken >= self.until:
            raise Stop

    def says(self, note: str) -> None:
        self.notes.append(note)


def weights_of(store: Path, job: Job, member: int) -> Path:
    (run,) = [run for run in Store(store).runs() if _seed(run) == job.members[member].seed]
    return Store(store).place("weights", run.key, "safetensors")


def _seed(run: Run) -> object:
    member = run.config["member"]
    assert not isinstance(member, str | int | float | tuple | None)
    return member["seed"]


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def misnamed(path: Path) -> None:
    """Whole, and of a model whose parts had other names."""
    sealed = read_sealed(path)
    renamed = {f"old.{name}": values for name, values in sealed.tensors.items()}
    write_sealed(path, renamed, owner=sealed.owner, meta=sealed.meta)


def anothers(path: Path) -> None:
    other = next(each for each in path.parent.iterdir() if each != path)
    path.write_bytes(other.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (flipped, "is damaged or cut off"),
        (Path.unlink, "are missing"),
        (anothers, "holds the weights of another run"),
        (misnamed, "does not fit this model"),
        (lambda path: path.write_bytes(b""), "is damaged or cut off"),
    ],
)
def test_a_run_without_its_weights_is_trained_again_and_nobody_else(
    tmp_path: Path, spoil: Callable[[Path], None], words: str
) -> None:
    job = small_job(steps=8, members=3)
    run_job(job, store=Store(tmp_path), device="cpu")
    whole, rows = contents(tmp_path), facts(tmp_path)
    path = weights_of(tmp_path, job, 1)
    row = Store(tmp_path).run(path.stem)
    spoil(path)
    spoilt = path.read_bytes() if path.exists() else None
    with pytest.raises(InvalidFile, match=words):
        load_run(Store(tmp_path), path.stem)
    watching = Watching()
    found = run_job(job, store=Store(tmp_path), device="cpu", observer=watching)
    assert [one.member for one in found] == list(job.members)
    assert watching.trained == {1}
    (note,) = watching.notes
    aside = tmp_path / "aside" / path.stem
    assert f"'{path}'" in note
    assert words in note
    assert note.endswith(
        f"The run {row.short} ({job.members[1]}) is trained again; what there was of it is kept in '{aside}'."
    )
    assert (contents(tmp_path), facts(tmp_path)) == (whole, rows)
    kept = aside / "weights.safetensors"
    assert (kept.read_bytes() if kept.exists() else None) == spoilt
    assert Run.from_json(json.loads((aside / "run.json").read_text())) == row
    assert (aside / "curves.parquet").read_bytes() == whole[f"curves/{path.stem}.parquet"]


@pytest.mark.slow
def test_a_damaged_curve_costs_no_weights(tmp_path: Path) -> None:
    job = small_job(steps=8, members=2)
    run_job(job, store=Store(tmp_path), device="cpu")
    whole = contents(tmp_path)
    weights = weights_of(tmp_path, job, 0)
    curve = tmp_path / "curves" / f"{weights.stem}.parquet"
    kept = weights.read_bytes()
    for time, name in enumerate((weights.stem, f"{weights.stem}-2")):
        curve.write_bytes(b"damaged %d" % time)
        watching = Watching()
        run_job(job, store=Store(tmp_path), device="cpu", observer=watching)
        assert f"'{curve}' is damaged or no curve" in watching.notes[0]
        assert watching.trained == {0}
        assert (tmp_path / "aside" / name / "weights.safetensors").read_bytes() == kept
        assert (tmp_path / "aside" / name / "curves.parquet").read_bytes() == b"damaged %d" % time
    assert contents(tmp_path) == whole


def test_a_file_that_may_not_be_read_is_left_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = small_job(steps=8, members=1)
    run_job(job, store=Store(tmp_path), device="cpu")
    before = contents(tmp_path)

    def forbidden(*_: object) -> None:
        raise InvalidFile("'it' cannot be read: Permission denied.") from PermissionError()

    monkeypatch.setattr(Store, "weights", forbidden)
    with pytest.raises(InvalidFile, match="Permission denied"):
        run_job(job, store=Store(tmp_path), device="cpu")
    assert contents(tmp_path) == before
    assert not (tmp_path / "aside").exists()


@pytest.mark.slow
def test_where_members_are_compared_one_lost_file_costs_all_of_them(tmp_path: Path) -> None:
    """Checkpoints from after it had left are of no use then."""
    job = small_job(steps=40, halving=Halving(first=8))
    run_job(job, store=Store(tmp_path), device="cpu", seats=3, checkpoint_seconds=0)
    whole, rows = contents(tmp_path), facts(tmp_path)
    (dropped, *_) = [run.key for run in Store(tmp_path).runs() if run.status == "dropped"]
    flipped(Store(tmp_path).place("weights", dropped, "safetensors"))
    watching = Watching()
    run_job(job, store=Store(tmp_path), device="cpu", seats=3, observer=watching)
    assert watching.trained == {0, 1, 2, 3}
    assert "is from after members had left who are trained again." in watching.notes[1]
    assert "training begins anew" in watching.notes[1]
    assert (contents(tmp_path), facts(tmp_path)) == (whole, rows)


@pytest.mark.slow
def test_compared_members_do_not_join_a_course_under_way(tmp_path: Path) -> None:
    """They would come to a rung behind the others, who had gone on without them."""
    job = small_job(steps=40, halving=Halving(first=8))
    run_job(job, store=Store(tmp_path / "whole"), device="cpu", seats=3)
    interrupted(job, tmp_path / "broken", looks=3, device="cpu", seats=3)
    (dropped, *_) = [run.key for run in Store(tmp_path / "broken").runs() if run.status == "dropped"]
    flipped(Store(tmp_path / "broken").place("weights", dropped, "safetensors"))
    watching = Watching()
    run_job(job, store=Store(tmp_path / "broken"), device="cpu", seats=3, observer=watching)
    assert watching.trained == {0, 1, 2, 3}
    assert "step-000000000012.safetensors' is from after members had left" in watching.notes[1]
    assert facts(tmp_path / "broken") == facts(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("killed_after", [1, 2])
def test_a_lost_member_is_none_that_never_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_after: int
) -> None:
    """Where training stops with the first, both are without a result; also if that is cut off again."""
    easy = task("index-lookup", n=2, alphabet=2)
    members = [Member(lr=1e-2, seed=0), Member(lr=1e-9, seed=1), Member(lr=1e-9, seed=2)]
    training = Training(steps=600, batch=32, eval_every=20, eval_examples=100, test_examples=50, stop="first")
    model = Transformer.Config(width=16, heads=2, ffn=16)
    job = job_for(easy, model, members=members, training=training)
    run_job(job, store=Store(tmp_path), device="cpu", seats=2)
    whole, rows = contents(tmp_path), facts(tmp_path)
    weights_of(tmp_path, job, 1).unlink()
    moved: list[Run] = []

    def moving(store: Store, run: Run) -> Path:
        if len(moved) == killed_after:
            raise Stop
        moved.append(run)
        return set_aside(store, run)

    with monkeypatch.context() as patch:
        patch.setattr("separatrix.training.remembered.set_aside", moving)
        with pytest.raises(Stop):
            run_job(job, store=Store(tmp_path), device="cpu", seats=2, observer=Watching(until=0))
    assert len(moved) == killed_after
    watching = Watching()
    found = run_job(job, store=Store(tmp_path), device="cpu", seats=2, observer=watching)
    assert [one.status for one in found] == ["done", "dropped"]
    assert watching.trained == {0, 1}
    assert (contents(tmp_path), facts(tmp_path)) == (whole, rows)
    solver = weights_of(tmp_path, job, 0).stem
    assert (tmp_path / "aside" / solver / "weights.safetensors").read_bytes() == (
        whole[f"weights/{solver}.safetensors"]
    )


def in_turn(steps: int = 20) -> Job:
    """Two members that are trained one after the other in one seat."""
    return small_job(steps=steps, members=2)


@pytest.mark.slow
def test_a_checkpoint_from_after_it_had_left_does_not_bring_it_back(tmp_path: Path) -> None:
    job = in_turn()
    run_job(job, store=Store(tmp_path), device="cpu", seats=1, checkpoint_seconds=0)
    whole = contents(tmp_path)
    folder = Store(tmp_path).folder_of(job.key)
    stale = {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}
    assert min(stale) == "step-000000000032.safetensors"
    weights_of(tmp_path, job, 0).unlink()
    broken_off = Watching(until=8)
    with pytest.raises(Stop):
        run_job(job, store=Store(tmp_path), device="cpu", seats=1, observer=broken_off, checkpoint_seconds=0)
    assert broken_off.trained == {0}
    again = Watching()
    run_job(job, store=Store(tmp_path), device="cpu", seats=1, observer=again)
    assert again.trained == {0}
    assert again.notes[-1].startswith("Going on from step 8 of ")
    assert contents(tmp_path) == whole
    assert all((folder / name).read_bytes() == content for name, content in stale.items())


@pytest.mark.slow
def test_a_lost_member_joins_those_who_go_on(tmp_path: Path) -> None:
    job = in_turn()
    run_job(job, store=Store(tmp_path / "whole"), device="cpu", seats=1)
    interrupted(job, tmp_path / "broken", looks=7, device="cpu", seats=1)
    flipped(weights_of(tmp_path / "broken", job, 0))
    watching = Watching()
    run_job(job, store=Store(tmp_path / "broken"), device="cpu", seats=1, observer=watching)
    assert watching.notes[-1].startswith("Going on from step 28 of ")
    assert watching.trained == {0, 1}
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")
    assert facts(tmp_path / "broken") == facts(tmp_path / "whole")


def with_another_field(path: Path) -> None:
    sealed = read_sealed(path)
    inner = sealed.meta["meta"]
    assert isinstance(inner, dict)
    write_sealed(
        path, sealed.tensors, owner=sealed.owner, meta={**sealed.meta, "meta": {**inner, "phase": 3}}
    )


def without_a_tensor(path: Path) -> None:
    sealed = read_sealed(path)
    tensors = {name: values for name, values in sealed.tensors.items() if name != "square"}
    write_sealed(path, tensors, owner=sealed.owner, meta=sealed.meta)


def wider(path: Path) -> None:
    sealed = read_sealed(path)
    tensors = {**sealed.tensors, "mean": torch.zeros(2, 3)}
    write_sealed(path, tensors, owner=sealed.owner, meta=sealed.meta)


def of_more_members(path: Path) -> None:
    sealed = read_sealed(path)
    inner = sealed.meta["meta"]
    assert isinstance(inner, dict)
    write_sealed(
        path, sealed.tensors, owner=sealed.owner, meta={**sealed.meta, "meta": {**inner, "waiting": [7]}}
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_another_field, "the checkpoint has fields that its schema does not know: 'phase'."),
        (without_a_tensor, "it lacks 'square'."),
        (wider, "'mean' has another shape."),
        (of_more_members, "its members are not those of the job."),
    ],
)
def test_a_checkpoint_that_does_not_fit_gives_way_to_the_one_before(
    tmp_path: Path, change: Callable[[Path], None], words: str
) -> None:
    job = small_job(steps=20, members=2)
    run_job(job, store=Store(tmp_path / "whole"), device="cpu")
    folder = interrupted(job, tmp_path / "broken", looks=3, device="cpu")
    older, newer = sorted(folder.glob("*.safetensors"))
    change(newer)
    kept = newer.read_bytes()
    watching = Watching()
    run_job(job, store=Store(tmp_path / "broken"), device="cpu", observer=watching)
    assert watching.notes == [
        f"'{newer}' does not fit this job: {words} Training goes on from step 8, '{older}'.",
        f"Going on from step 8 of '{older}'.",
    ]
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")
    assert newer.read_bytes() == kept, "another version may have a use for it"


def test_if_none_fits_training_begins_anew(tmp_path: Path) -> None:
    job = small_job(steps=12, members=2)
    run_job(job, store=Store(tmp_path / "whole"), device="cpu")
    folder = interrupted(job, tmp_path / "broken", looks=2, device="cpu")
    paths = sorted(folder.glob("*.safetensors"), reverse=True)
    for path in paths:
        with_another_field(path)
    watching = Watching()
    run_job(job, store=Store(tmp_path / "broken"), device="cpu", observer=watching)
    (note,) = watching.notes
    assert all(f"'{path}' does not fit this job" in note for path in paths)
    assert note.endswith(f"None of the 2 checkpoints in '{folder}' can be used, so training begins anew.")
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_memory_that_runs_out_is_no_fault_of_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = small_job(steps=12, members=2)
    interrupted(job, tmp_path, looks=2, device="cpu")

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Course, "_restore", full)
    with pytest.raises(torch.OutOfMemoryError):
        run_job(job, store=Store(tmp_path), device="cpu")


def test_rows_say_how_far_a_run_has_come(tmp_path: Path) -> None:
    """At the last checkpoint: those in seats have taken steps, and who waits has taken none."""
    job = small_job(steps=20, members=3)
    job = replace(job, training=replace(job.training, eval_every=5))
    interrupted(job, tmp_path, looks=2, device="cpu", seats=2)
    store = Store(tmp_path)
    assert sorted(run.steps for run in store.runs(status="running")) == [0, 10, 10]
    assert store.cut_off() == store.all_keys()
    with store.claim(job.key):
        assert store.cut_off() == frozenset()
    run_job(job, store=store, device="cpu", seats=2)
    assert store.cut_off() == frozenset()
    assert [run.steps for run in store.runs()] == [20] * 3
    assert os.listdir(tmp_path / "checkpoints") == [job.key]
