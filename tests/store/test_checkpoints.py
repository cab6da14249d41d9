"""Checkpoints that are cut off, changed, foreign, or that the disk has no room for."""

from __future__ import annotations

import errno
import os
import random
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.store import sealed
from separatrix.store.checkpoints import Checkpoint, Checkpoints
from separatrix.store.sealed import read_sealed, write_sealed
from tests.store.test_database import everything, small_disk

OWNER = "a" * 64


def state(step: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return {
        "weights": torch.randn(3, 5, generator=generator),
        "step": torch.tensor(step),
        "alive": torch.tensor([True, False, True]),
        "half": torch.randn(3, generator=generator).bfloat16(),
        "nothing": torch.zeros(0, 4),
        "loss": torch.tensor([float("nan"), float("inf")], dtype=torch.float64),
    }


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Also where they are no numbers."""
    return first.keys() == second.keys() and all(
        first[name].dtype == second[name].dtype
        and first[name].shape == second[name].shape
        and first[name].reshape(-1).view(torch.uint8).equal(second[name].reshape(-1).view(torch.uint8))
        for name in first
    )


@pytest.fixture
def saved(tmp_path: Path) -> Checkpoints:
    checkpoints = Checkpoints(tmp_path / "population", OWNER)
    for step in (100, 200):
        checkpoints.save(state(step), meta={"drawn": step * 7}, step=step)
    return checkpoints


def names(checkpoints: Checkpoints) -> list[str]:
    return sorted(path.name for path in checkpoints.folder.iterdir())


def anew(checkpoints: Checkpoints) -> Checkpoints:
    """As another process finds them."""
    return Checkpoints(checkpoints.folder, checkpoints.owner)


def good(checkpoints: Checkpoints, step: int) -> Checkpoint:
    found = anew(checkpoints).load().checkpoint
    assert found is not None
    assert found.step == step
    assert found.path.name == f"step-{step:012d}.safetensors"
    assert found.meta == {"drawn": step * 7}
    assert same(found.tensors, state(step))
    return found


def test_nothing_saved_is_nothing_loaded(tmp_path: Path) -> None:
    loaded = Checkpoints(tmp_path / "none", OWNER).load()
    assert (loaded.checkpoint, loaded.note) == (None, None)


def test_the_newest_comes_back_and_two_are_kept(saved: Checkpoints) -> None:
    good(saved, 200)
    assert saved.load().note is None
    for step in (300, 400, 500):
        saved.save(state(step), meta={"drawn": step * 7}, step=step)
        good(saved, step)
    assert names(saved) == ["step-000000000400.safetensors", "step-000000000500.safetensors"]


def test_one_that_is_of_no_use_is_passed_over_and_left_alone(saved: Checkpoints) -> None:
    def use(checkpoint: Checkpoint) -> None:
        if checkpoint.step == 200:
            raise InvalidFile(f"'{checkpoint.path}' is of no use.")

    newest, older = saved.paths()
    here = anew(saved)
    loaded = here.load(use)
    assert loaded.checkpoint is not None
    assert (loaded.checkpoint.path, loaded.note) == (
        older,
        f"'{newest}' is of no use. Training goes on from step 100, '{older}'.",
    )
    for step in (150, 250, 300):
        here.save(state(step), meta={"drawn": step * 7}, step=step)
    assert names(saved) == [f"step-000000000{step}.safetensors" for step in (200, 250, 300)]


def test_the_last_step_is_that_of_the_file_written_last(saved: Checkpoints, tmp_path: Path) -> None:
    assert saved.last_step() == 200
    os.utime(saved.paths()[0], ns=(0, 0))
    assert saved.last_step() == 100
    assert Checkpoints(tmp_path / "none", OWNER).last_step() is None


def test_the_same_state_is_the_same_bytes(saved: Checkpoints) -> None:
    path = saved.folder / "step-000000000200.safetensors"
    before = path.read_bytes()
    saved.save(dict(reversed(state(200).items())), meta={"drawn": 1400}, step=200)
    assert path.read_bytes() == before


def test_a_changed_byte_is_found_wherever_it_is(saved: Checkpoints) -> None:
    """Every byte of the file, once: the length, the header with its padding, the numbers."""
    path = saved.paths()[0]
    whole = path.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << random.Random(place).randrange(8)
        path.write_bytes(changed)
        with pytest.raises(InvalidFile, match="is damaged or cut off"):
            read_sealed(path)
    path.write_bytes(whole)
    good(saved, 200)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=400), kept=st.integers(0, 120))
def test_no_bytes_are_taken_for_a_checkpoint(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, kept: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.safetensors"
    write_sealed(path, {"x": torch.ones(2)}, owner=OWNER, meta={})
    whole = path.read_bytes()
    if whole[:kept] + content != whole:
        path.write_bytes(whole[:kept] + content)
        with pytest.raises(InvalidFile):
            read_sealed(path)


def test_a_file_that_is_cut_off_is_passed_over_and_named(saved: Checkpoints) -> None:
    newest = saved.paths()[0]
    whole = newest.read_bytes()
    for length in (0, 5, 8, 100, len(whole) // 2, len(whole) - 1):
        newest.write_bytes(whole[:length])
        good(saved, 100)
        assert anew(saved).load().note == (
            f"'{newest}' is damaged or cut off: it does not have the SHA-256 that it was sealed with. "
            f"Training goes on from step 100, '{saved.paths()[1]}'."
        )


def test_another_populations_file_is_passed_over_and_left_alone(saved: Checkpoints, tmp_path: Path) -> None:
    other = Checkpoints(tmp_path / "other", "b" * 64)
    foreign = shutil.copy(other.save(state(300), meta={}, step=300), saved.folder)
    good(saved, 200)
    resumed = anew(saved)
    note = resumed.load().note
    assert note is not None
    assert f"'{foreign}' is a checkpoint of another config (bbbbbbbbbbbb…, not aaaaaaaaaaaa…)" in note
    assert note.endswith(f"Training goes on from step 200, '{saved.paths()[1]}'.")
    for step in (250, 350, 450):
        resumed.save(state(step), meta={"drawn": step * 7}, step=step)
    assert names(saved) == [f"step-{step:012d}.safetensors" for step in (300, 350, 450)]


def test_a_file_under_another_name_is_passed_over(saved: Checkpoints) -> None:
    saved.paths()[0].rename(saved.folder / "step-000000000999.safetensors")
    good(saved, 100)
    assert "is the checkpoint of step 200 under another name" in str(anew(saved).load().note)


def test_two_good_ones_are_kept_beside_a_damaged_one(saved: Checkpoints) -> None:
    """The damaged one counts for nothing, also while it is the newest of all."""
    saved.paths()[0].write_bytes(b"x")
    resumed = anew(saved)
    assert resumed.load().checkpoint is not None
    resumed.save(state(150), meta={"drawn": 150 * 7}, step=150)
    assert names(saved) == [f"step-{step:012d}.safetensors" for step in (100, 150, 200)]
    good(saved, 150)
    resumed.save(state(250), meta={"drawn": 250 * 7}, step=250)
    assert names(saved) == [f"step-{step:012d}.safetensors" for step in (150, 250)]


def test_a_damaged_one_is_written_over(saved: Checkpoints) -> None:
    saved.paths()[0].write_bytes(b"x")
    resumed = anew(saved)
    resumed.load()
    resumed.save(state(200), meta={"drawn": 1400}, step=200)
    good(saved, 200)
    assert len(names(saved)) == 2
    resumed.save(state(300), meta={"drawn": 2100}, step=300)
    assert names(saved) == [f"step-{step:012d}.safetensors" for step in (200, 300)]


def test_if_none_is_good_it_says_so(saved: Checkpoints) -> None:
    for path in saved.paths():
        path.write_bytes(path.read_bytes()[:-1])
    before = everything(saved.folder)
    loaded = saved.load()
    assert loaded.checkpoint is None
    assert str(loaded.note).endswith(
        f"None of the 2 checkpoints in '{saved.folder}' can be used, so training begins anew."
    )
    saved.paths()[0].unlink()
    assert "The only checkpoint in '" in str(anew(saved).load().note)
    assert before.items() >= everything(saved.folder).items()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_full_disk_is_a_sentence_and_the_one_before_stays(
    saved: Checkpoints, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    before = everything(saved.folder)

    def full(_: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InvalidFile) as refusal:
            saved.save(state(300), meta={}, step=300)
    assert str(refusal.value) == (
        f"The checkpoint of step 300 cannot be written: {os.strerror(code)}; '{saved.paths()[0]}' is as it "
        "was. Make room or mend the place, and run the same again to go on."
    )
    assert everything(saved.folder) == before
    good(saved, 200)


def test_a_disk_that_is_full_in_the_middle(saved: Checkpoints) -> None:
    before = everything(saved.folder)
    large = {"weights": torch.zeros(1 << 20)}
    with small_disk(1 << 16), pytest.raises(InvalidFile, match="File too large"):
        saved.save(large, meta={}, step=300)
    assert everything(saved.folder) == before
    fresh = Checkpoints(saved.folder.with_name("fresh"), OWNER)
    with small_disk(1 << 16), pytest.raises(InvalidFile, match="there is none before it"):
        fresh.save(large, meta={}, step=1)
    assert everything(fresh.folder) == {}


def test_it_reaches_the_disk_before_it_has_its_name(
    saved: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First what the file holds, then its name in the folder."""
    events: list[str] = []
    sync, rename = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        events.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).suffix or "folder")
        sync(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        events.append("rename")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    saved.save(state(300), meta={}, step=300)
    assert events == [".part", "rename", "folder"]


def test_what_cannot_be_kept_is_refused(saved: Checkpoints, tmp_path: Path) -> None:
    before = everything(saved.folder)
    with pytest.raises(InvalidInput, match=r"'x' is of torch\.complex64"):
        saved.save({"x": torch.ones(2, dtype=torch.complex64)}, meta={}, step=300)
    with pytest.raises(InvalidInput, match="numbers in a value are finite"):
        saved.save({}, meta={"loss": float("nan")}, step=300)
    with pytest.raises(InvalidInput, match="A checkpoint needs step"):
        saved.save({}, meta={}, step=-1)
    assert everything(saved.folder) == before
    (tmp_path / "file").touch()
    with pytest.raises(InvalidFile, match=r"cannot be written: (File exists|Not a directory); there is none"):
        Checkpoints(tmp_path / "file", OWNER).save({}, meta={}, step=1)


def test_strangers_things_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "step-000000000001.safetensors")
    (tmp_path / "step-000000000002.safetensors").mkdir()
    loaded = Checkpoints(tmp_path, OWNER).load()
    assert str(loaded.note).count("is no ordinary file") == 2


def test_the_seal_is_where_it_is_looked_for(saved: Checkpoints) -> None:
    content = saved.paths()[0].read_bytes()
    place = content.index(b'"sha256":"') + len('"sha256":"')
    assert place == sealed._PLACE
