"""`separatrix train` on a store that has something already: what was cut off, damaged, or is another's."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from separatrix.store import Store
from separatrix.store.checkpoints import Checkpoints
from separatrix.training import Job, Observer, run_job
from separatrix.training.__main__ import read_plan
from separatrix.training.course import Course
from separatrix.training.views import LinesView, NotesView
from tests.cli.running import Ran, refused, run
from tests.cli.test_train import place, tiny, train

__all__ = ["place"]  # the fixture, which every test here uses


def job_of(*argv: str) -> Job:
    """The job that a command line means."""
    train(*argv, "--save-plan", "job-of.json")
    return read_plan(Path("job-of.json")).jobs[0]


class Impatient(Observer):
    def __init__(self, looks: int) -> None:
        self.left_to_see = looks

    def looked(self, course: Course) -> None:
        self.left_to_see -= 1
        if self.left_to_see == 0:
            raise KeyboardInterrupt


LONG = ("--steps", "40", "--eval-every", "5", "--stop", "never")


def cut_off(place: Path, *argv: str) -> tuple[Job, Checkpoints]:
    """A training that was interrupted after it had saved two checkpoints."""
    job = job_of(*LONG, *argv)
    with pytest.raises(KeyboardInterrupt):
        run_job(job, store=Store(place), device="cpu", observer=Impatient(4), checkpoint_seconds=0)
    return job, Checkpoints(Store(place).folder_of(job.key), job.key)


def results(ran: Ran) -> list[Any]:
    runs = ran.answer["runs"]
    for entry in runs:
        del entry["seconds"]
    return list(runs)


def test_ctrl_c_says_how_to_go_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LinesView, "looked", interrupted)
        ran = run(*tiny(*LONG))
        assert (ran.code, ran.out) == (130, "")
        assert ran.err.splitlines()[-1] == (
            "Interrupted before the first checkpoint; the same command begins again with all unfinished."
        )
    cut_off(place)
    monkeypatch.setattr(NotesView, "says", interrupted)
    ran = run(*tiny(*LONG, "--json"))
    assert (ran.code, ran.out) == (130, "")
    assert ran.err == (f"Interrupted; run the same command again to go on from step 15 in '{place}'.\n")


@pytest.mark.slow
def test_what_was_cut_off_goes_on_and_ends_the_same(place: Path, tmp_path: Path) -> None:
    whole = results(train(*LONG, "--store", str(tmp_path / "other"), "--json"))
    _, checkpoints = cut_off(place)
    path = checkpoints.paths()[0]
    ran = train(*LONG, "--json")
    assert ran.err == f"Going on from step 15 of '{path}'.\n"
    assert results(ran) == whole


@pytest.mark.slow
def test_a_corrupted_checkpoint_is_named_and_the_one_before_used(place: Path, tmp_path: Path) -> None:
    whole = results(train(*LONG, "--store", str(tmp_path / "other"), "--json"))
    _, checkpoints = cut_off(place)
    newest, older = checkpoints.paths()
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    ran = train(*LONG, "--json")
    assert f"'{newest}'" in ran.err.splitlines()[0]
    assert f"Training goes on from step 10, '{older}'." in ran.err.splitlines()[0]
    assert results(ran) == whole


@pytest.mark.slow
def test_a_checkpoint_of_another_config_is_left_alone(place: Path, tmp_path: Path) -> None:
    whole = results(train(*LONG, "--store", str(tmp_path / "other"), "--json"))
    _, others = cut_off(tmp_path / "third", "--seeds", "9")
    job = job_of(*LONG)
    folder = Store(place).folder_of(job.key)
    folder.mkdir(parents=True)
    foreign = Path(shutil.copy(others.paths()[0], folder))
    ran = train(*LONG, "--json")
    assert f"'{foreign}' is a checkpoint of another config" in ran.err
    assert "training begins anew" in ran.err
    assert results(ran) == whole
    assert foreign.read_bytes() == others.paths()[0].read_bytes()


def test_a_store_of_a_newer_schema_is_refused_and_stays_as_it_is(place: Path) -> None:
    train()
    database = place / "runs.sqlite"
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = database.read_bytes()
    for argv in ((), ("--plan",)):
        assert refused(*tiny(*argv)) == (
            f"'{database}' was written by a newer separatrix (schema 99; this one knows up to 1) and is left "
            "as it is; upgrade separatrix, or name another store."
        )
    assert database.read_bytes() == before


def test_a_damaged_file_of_a_run_is_named_and_the_run_trained_again(place: Path) -> None:
    first = results(train("--seeds", "0", "1", "--json"))
    path = place / "weights" / f"{first[0]['key']}.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    ran = train("--seeds", "0", "1", "--json")
    assert ran.err.startswith(f"'{path}' is damaged or cut off")
    assert f"kept in '{place}/aside/{first[0]['key']}'.\n" in ran.err
    assert results(ran) == first
    again = train("--seeds", "0", "1", "--json")
    assert (again.err, results(again)) == ("", first)
