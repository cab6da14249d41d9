"""What is cleared away, and above all what is not."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch

from separatrix.store import Result, Store
from separatrix.store.cleaning import clean
from tests.store.examples import RIGHT, config, finished
from tests.store.test_database import everything

PART = ".0123456789abcdef.part"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "runs")
    store_weights(made, finished(made).key)
    return made


def store_weights(store: Store, key: str) -> None:
    store.write_weights(key, {"x": torch.ones(3)})


def population(store: Store, name: str, *results: Result | None) -> Path:
    """Checkpoints of a population of which each member ended so, or goes on."""
    with store.claim(name * 64) as checkpoints:
        for step in (1, 2):
            checkpoints.save({"x": torch.ones(3)}, meta={}, step=step)
    seeds = [100 * ord(name) + place for place in range(len(results))]
    runs = store.begin_all([config(seed) for seed in seeds], population=name * 64)
    for run, result in zip(runs, results, strict=True):
        if result is not None:
            store.finish(run.key, result)
    return store.path / "checkpoints" / (name * 64)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


WHOLE = ["claim.lock", "step-000000000001.safetensors", "step-000000000002.safetensors"]


def test_a_tidy_store_stays_as_it_is(store: Store) -> None:
    before = everything(store.path)
    cleaned = clean(store)
    assert (cleaned.removed, cleaned.bytes, cleaned.claimed) == ((), 0, ())
    assert everything(store.path) == before


def test_checkpoints_go_when_all_members_have_finished(store: Store) -> None:
    retired, dropped = Result(status="retired", steps=1), Result(status="dropped", steps=1)
    stopped = Result(status="stopped", steps=1)
    done = population(store, "a", RIGHT, retired, dropped)
    running = population(store, "b", RIGHT, None)
    interrupted = population(store, "c", RIGHT, stopped)
    unknown = population(store, "d")
    cleaned = clean(store)
    assert [leftover.path.parent for leftover in cleaned.removed] == [done, done]
    assert {leftover.why for leftover in cleaned.removed} == {"all members have finished"}
    assert not done.exists()
    assert left(running) == left(interrupted) == left(unknown) == WHOLE


def test_what_is_claimed_is_never_touched(store: Store) -> None:
    folder = population(store, "a", RIGHT)
    (folder / PART).write_bytes(b"half")
    before = everything(folder)
    with store.claim("a" * 64) as checkpoints:
        checkpoints.save({"x": torch.ones(3)}, meta={}, step=2)
        (folder / PART).write_bytes(b"half")
        for dry_run in (True, False):
            cleaned = clean(store, dry_run=dry_run)
            assert (cleaned.removed, cleaned.claimed) == ((), ("a" * 64,))
        assert everything(folder).keys() == before.keys()
    assert len(clean(store).removed) == 3
    assert not folder.exists()


def test_files_of_no_run_go(store: Store) -> None:
    orphans = [
        store.path / "curves" / f"{'e' * 64}.parquet",
        store.path / "weights" / f"{'f' * 64}.safetensors",
    ]
    kept = [
        store.path / "curves" / "notes.txt",
        store.path / "curves" / f"{'e' * 64}.txt",
        store.path / "weights" / f"{'e' * 64}.parquet",
        store.path / "mine.parquet",
        store.path / "checkpoints" / "mine" / "step-000000000001.safetensors",
    ]
    for path in (*orphans, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
    before = everything(store.path)
    dry = clean(store, dry_run=True)
    assert everything(store.path) == before
    assert [leftover.path for leftover in dry.removed] == orphans
    assert dry.bytes == 10
    assert clean(store) == dry
    gone = {str(path.relative_to(store.path)) for path in orphans}
    assert everything(store.path) == {name: content for name, content in before.items() if name not in gone}


def test_a_temporary_file_goes_when_nobody_can_be_writing_it(store: Store) -> None:
    fresh, old = store.path / "curves" / PART, store.path / "weights" / PART
    dead = population(store, "b", None) / PART
    for path in (fresh, old, dead):
        path.write_bytes(b"half")
    hours_ago = time.time() - 7200
    os.utime(old, (hours_ago, hours_ago))
    assert [leftover.path for leftover in clean(store).removed] == [old, dead]
    assert fresh.exists()
    assert left(dead.parent) == WHOLE


def test_links_are_not_followed(store: Store, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in (f"{'e' * 64}.parquet", "step-000000000001.safetensors", PART):
        (elsewhere / name).write_bytes(b"mine")
    before = everything(elsewhere)
    folder = population(store, "a", RIGHT)
    folder.rename(tmp_path / "moved")
    folder.symlink_to(elsewhere)
    (store.path / "curves" / f"{'e' * 64}.parquet").symlink_to(elsewhere / f"{'e' * 64}.parquet")
    assert clean(store).removed == ()
    assert everything(elsewhere) == before


def test_what_else_lies_in_a_folder_stays(store: Store) -> None:
    folder = population(store, "a", RIGHT)
    (folder / "notes.txt").write_text("mine")
    clean(store)
    assert left(folder) == ["claim.lock", "notes.txt"]


def test_a_removed_population_can_be_claimed_again(store: Store) -> None:
    population(store, "a", RIGHT)
    clean(store)
    with store.claim("a" * 64) as checkpoints:
        assert checkpoints.load().checkpoint is None
        checkpoints.save({"x": torch.ones(3)}, meta={}, step=1)
