"""Killed at any moment, a training goes on from its last checkpoint and ends with the same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.models.specs import ModelSpec
from separatrix.models.transformer import Transformer
from separatrix.store import Store
from separatrix.tasks import task
from separatrix.training import Halving, Job, Member, Observer, Training, load_run, run_job
from separatrix.training.course import Course
from separatrix.training.jobs import job_for
from separatrix.training.recipes import SCHEDULES

PROGRAM = """
import json, sys
from separatrix.store import Store
from separatrix.training import Job, Observer, run_job

class Lines(Observer):
    def looked(self, course):
        print(course.taken, flush=True)

    def says(self, note):
        print("note:", note, flush=True)

job = Job.from_json(json.loads(sys.argv[1]))
run_job(job, store=Store(sys.argv[2]), device="cpu", seats=3, observer=Lines(), checkpoint_seconds=0)
"""


def small_job(*, steps: int = 60, halving: Halving | None = None, members: int = 4) -> Job:
    return job_for(
        task("index-lookup", n=8, alphabet=8),
        Transformer.Config(width=16, heads=2, ffn=16),
        members=[
            Member(lr=3e-3, seed=seed, schedule=SCHEDULES[-seed % 3], warmup=5) for seed in range(members)
        ],
        training=Training(
            steps=steps,
            batch=8,
            eval_every=4,
            eval_examples=40,
            test_examples=60,
            stop="never",
            halving=halving,
        ),
    )


def contents(folder: Path) -> dict[str, bytes]:
    """Weights and curves, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for kind in ("weights", "curves")
        for path in sorted((folder / kind).iterdir())
    }


def facts(folder: Path) -> list[tuple[object, ...]]:
    """What the rows say, but for times."""
    return [
        (run.key, run.status, run.steps, run.solved_at, run.correct, run.loss)
        for run in sorted(Store(folder).runs(), key=lambda run: run.key)
    ]


def started(job: Job, store: Path) -> subprocess.Popen[str]:
    import json

    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, json.dumps(job.to_json()), str(store)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    yield from process.stdout


@pytest.mark.parametrize(
    ("halving", "kills"),
    [pytest.param(None, (2, 5), marks=pytest.mark.slow), (Halving(first=8), (4,))],
)
def test_killed_again_and_again_it_ends_with_the_same_bytes(
    tmp_path: Path, halving: Halving | None, kills: tuple[int, ...]
) -> None:
    job = small_job(halving=halving)
    run_job(job, store=Store(tmp_path / "whole"), device="cpu", seats=3)
    resumed_from = []
    for looks in kills:
        process = started(job, tmp_path / "killed")
        seen = 0
        for line in lines(process):
            if line.startswith("note: Going on from step"):
                resumed_from.append(line)
            seen += not line.startswith("note:")
            if seen > looks:
                break
        time.sleep(0.002 * looks)  # somewhere within a step, a look or a write
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        process.stdout.close()  # type: ignore[union-attr]
    assert len(resumed_from) == len(kills) - 1, "every start but the first goes on from a checkpoint"
    run_job(job, store=Store(tmp_path / "killed"), device="cpu", seats=3)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert facts(tmp_path / "killed") == facts(tmp_path / "whole")


def test_what_the_store_has_is_not_trained_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = run_job(small_job(steps=8, members=2), store=store, device="cpu")
    courses: list[int] = []

    class Watching(Observer):
        def looked(self, course: Course) -> None:
            courses.append(course.taken)

    more = run_job(small_job(steps=8, members=3), store=store, device="cpu", observer=Watching())
    assert courses == [4, 8], "only the third member was trained"
    assert [one.run.key for one in more[:2] if one.run] == [one.run.key for one in first if one.run]
    again = run_job(small_job(steps=8, members=3), store=store, device="cpu", observer=Watching())
    assert courses == [4, 8]
    assert [one.accuracy for one in again] == [one.accuracy for one in more]
    assert [one.curve for one in again] == [one.curve for one in more]


def test_two_processes_do_not_train_the_same_population(tmp_path: Path) -> None:
    job = small_job(steps=8)
    store = Store(tmp_path)
    with store.claim(job.key), pytest.raises(InvalidInput, match="is being trained by process"):
        run_job(job, store=store, device="cpu")


class Stop(Exception):
    """Ends a training from within."""


class Stopping(Observer):
    """Lets a training come to so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks, self.notes = looks, list[str]()

    def steps(self, course: Course, count: int) -> None:
        if self.looks <= 0:
            raise Stop

    def looked(self, course: Course) -> None:
        self.looks -= 1

    def says(self, note: str) -> None:
        self.notes.append(note)


def interrupted(job: Job, store: Path, looks: int, **settings: Any) -> Path:
    """A store in which the job was broken off, and the folder of its checkpoints."""
    with pytest.raises(Stop):
        run_job(job, store=Store(store), observer=Stopping(looks), checkpoint_seconds=0, **settings)
    return Store(store).folder_of(job.key)


def test_a_damaged_checkpoint_is_passed_over_and_named(tmp_path: Path) -> None:
    job = small_job(steps=20, members=2)
    run_job(job, store=Store(tmp_path / "whole"), device="cpu")
    folder = interrupted(job, tmp_path / "broken", looks=3, device="cpu")
    older, newer = sorted(folder.glob("*.safetensors"))
    damaged = bytearray(newer.read_bytes())
    damaged[-3] ^= 1
    newer.write_bytes(damaged)
    watching = Stopping(looks=99)
    run_job(job, store=Store(tmp_path / "broken"), device="cpu", observer=watching)
    assert newer.name in watching.notes[0]
    assert older.name in watching.notes[0]
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


@pytest.mark.parametrize("embedding", ["frozen", "sinusoidal"])
def test_tables_that_are_not_trained_are_there_again(tmp_path: Path, embedding: str) -> None:
    """A checkpoint holds what is trained; the rest comes from the members' seeds, or from a formula."""
    job = small_job(steps=12, members=3)
    job = replace(
        job, model=ModelSpec(name=job.model.name, params={**job.model.params, "embedding": embedding})
    )
    run_job(job, store=Store(tmp_path / "whole"), device="cpu", seats=2)
    interrupted(job, tmp_path / "broken", looks=2, device="cpu", seats=2)
    run_job(job, store=Store(tmp_path / "broken"), device="cpu", seats=2)
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_without_a_good_checkpoint_it_begins_anew_and_says_so(tmp_path: Path) -> None:
    job = small_job(steps=12, members=2)
    run_job(job, store=Store(tmp_path / "whole"), device="cpu")
    folder = interrupted(job, tmp_path / "broken", looks=2, device="cpu")
    for path in folder.glob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:100])
    watching = Stopping(looks=99)
    run_job(job, store=Store(tmp_path / "broken"), device="cpu", observer=watching)
    assert "begins anew" in watching.notes[0]
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_ctrl_c_saves_between_two_steps_and_goes_on_exactly(tmp_path: Path) -> None:
    """In the middle of a stretch between looks, long before a checkpoint is due."""
    job = small_job(steps=60)
    job = replace(job, training=replace(job.training, eval_every=30))
    run_job(job, store=Store(tmp_path / "whole"), device="cpu", seats=3)

    class Interrupting(Observer):
        def steps(self, course: Course, count: int) -> None:
            if course.taken == 30:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_job(job, store=Store(tmp_path / "cut"), device="cpu", seats=3, observer=Interrupting())
    (kept,) = Store(tmp_path / "cut").folder_of(job.key).glob("*.safetensors")
    assert kept.stem == "step-000000000040"
    run_job(job, store=Store(tmp_path / "cut"), device="cpu", seats=3)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    assert facts(tmp_path / "cut") == facts(tmp_path / "whole")


def test_a_run_is_loaded_back_from_the_store_alone(tmp_path: Path) -> None:
    job = small_job(steps=8, members=1)
    (trained,) = run_job(job, store=Store(tmp_path), device="cpu")
    assert trained.run is not None
    loaded = load_run(Store(tmp_path), trained.run.short)
    assert (loaded.member, loaded.correct, loaded.curve) == (trained.member, trained.correct, trained.curve)
    inputs = job.built_task.sample(5, seed=3).inputs
    assert torch.equal(
        loaded.population.member(0).forward(inputs), trained.population.member(0).forward(inputs)
    )
    config = job.config_of(Member(lr=1.0, seed=77))
    run = Store(tmp_path).begin(config)
    with pytest.raises(InvalidInput, match="has not finished; train it to its end first"):
        load_run(Store(tmp_path), run.key)
