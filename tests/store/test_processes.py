"""Several processes at once, and processes that are killed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from separatrix.store import Store, key_of
from tests.store.examples import CURVE, config

WRITER = """
import sys
from dataclasses import replace
from separatrix.store import Store
from tests.store.examples import CURVE, RIGHT, config
place, me, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for round in range(rounds):
    store = Store(place)
    for seed in (round, 1000 * (me + 1) + round):  # one that both write, one of its own
        key = store.begin(config(seed), population="a" * 64).key
        store.write_curve(key, CURVE)
        store.finish(key, replace(RIGHT, steps=seed))
    assert store.run(key).steps == seed
    assert all(run.status in ("running", "done") for run in store.runs())
"""


def intact(store: Store) -> bool:
    with closing(sqlite3.connect(store.path / "runs.sqlite")) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.slow
def test_two_processes_write_at_once(tmp_path: Path) -> None:
    """Into a store that neither has made yet."""
    rounds = 15
    place = tmp_path / "runs"
    command = [sys.executable, "-c", WRITER, str(place)]
    writers = [
        subprocess.Popen([*command, str(me), str(rounds)], stderr=subprocess.PIPE, text=True)
        for me in range(2)
    ]
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [("", 0)] * 2
    store = Store(place, must_exist=True)
    seeds = [*range(rounds), *range(1000, 1000 + rounds), *range(2000, 2000 + rounds)]
    assert store.all_keys() == {key_of(config(seed)) for seed in seeds}
    assert all(store.run(key_of(config(seed))).steps == seed for seed in seeds)
    assert all(store.curve(run.key) == CURVE for run in store.runs())
    assert len(store.members("a" * 64)) == len(seeds)
    assert intact(store)


KILLED = """
import os, random, signal, sys, time
import torch
from pathlib import Path
from separatrix.store import Store, database
from tests.store.examples import CURVE, RIGHT, config
from tests.store.test_processes import intact
place, population = sys.argv[1], "a" * 64
torch.set_num_threads(1)

def write():
    store = Store(place)
    with store.claim(population) as checkpoints:
        last = checkpoints.load().checkpoint
        step = 0 if last is None else last.step
        while True:
            step += 1
            checkpoints.save({"x": torch.full((50_000,), float(step))}, meta={"step": step}, step=step)
            key = store.begin(config(step), population=population).key
            store.write_curve(key, CURVE)
            store.write_weights(key, {"x": torch.full((3000,), float(step))})
            store.finish(key, RIGHT)

seen = 0
for round in range(12):
    child = os.fork()
    if child == 0:
        try:
            write()
        finally:
            os._exit(1)
    time.sleep(random.Random(round).uniform(0.0, 0.25))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    store = Store(place)
    assert intact(store)
    runs = store.runs()
    for run in runs[-3:]:
        assert store.curve(run.key) in ((), CURVE)
        if run.finished:
            assert store.weights(run.key).tensors["x"].numel() == 3000
    assert [run.finished for run in runs].count(False) <= round + 1
    with store.claim(population) as checkpoints:
        found = checkpoints.load()
        assert found.note is None, found.note
        assert len(checkpoints.paths()) <= 3
        assert not list(checkpoints.folder.glob(".*.part"))
        if found.checkpoint is not None:
            assert found.checkpoint.step >= seen
            seen = found.checkpoint.step
            assert found.checkpoint.tensors["x"].eq(seen).all()
            assert found.checkpoint.meta == {"step": seen}
print(seen)
"""


@pytest.mark.slow
def test_a_killed_writer_leaves_a_whole_store(tmp_path: Path) -> None:
    """SIGKILL at any moment, from the making of the store on."""
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "runs")], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 5
