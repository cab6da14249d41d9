"""`separatrix reproduce`: what is refused, what fails, and what is cut off."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from separatrix.cli import reproduced
from separatrix.cli.experimenting import owed_further, require_gpu, still_to_do
from separatrix.errors import InvalidInput
from separatrix.experiments import EXPERIMENTS, local
from separatrix.experiments.asked import Asked
from separatrix.experiments.cells import chosen
from separatrix.experiments.engines import Ran
from separatrix.experiments.local import LocalEngine
from separatrix.experiments.projecting import projection_of
from separatrix.experiments.protocols import Settings
from separatrix.experiments.w_istree import w_istree
from separatrix.store import Result, Store
from separatrix.training import Job
from separatrix.training.running import run_job
from tests.cli.running import refused, run
from tests.cli.small_experiments import (
    MEMBERS,
    no_training,
    reproduce,
    settled,
    tiny,
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store of a test."""
    return settled(tmp_path, monkeypatch)


def test_there_is_nothing_to_go_on_with(place: Path) -> None:
    said = (
        f"There is nothing of tiny to go on with in '{place}': it was not begun there; leave --resume out to"
    )
    assert refused("reproduce", "tiny", "--resume").startswith(said)
    assert refused("reproduce", "all", "--resume").startswith("There is nothing to go on with in")
    assert not place.exists()
    (place / "experiments").mkdir(parents=True)
    (place / "experiments" / "tiny.json").write_text("{}", encoding="utf-8")
    assert "lacks the field 'schema'" in refused("reproduce", "tiny", "--resume")


@pytest.mark.slow
def test_a_budget_for_a_gpu_says_what_it_takes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_training(monkeypatch)
    said = refused("reproduce", "s-fig2", "--budget", "quick")
    assert said.startswith(
        "s-fig2 at --budget quick needs a GPU and there is none here: its 26 jobs take at "
    )
    assert " minutes on an H200; " in said
    assert "try --budget smoke here" in said
    said = refused("reproduce", "s-fig2", "tiny", "--budget", "paper", "--out", "x")
    assert "s-fig2, tiny at --budget paper need a GPU" in said
    assert "hours on an H200" in said
    assert not place.exists()
    part = ("tiny", "--budget", "quick", "--rows", "TF", "--columns", "2", "--json")
    monkeypatch.setattr(local, "run_job", run_job)
    reproduce(*part, "--device", "cpu")
    no_training(monkeypatch)
    reproduce(*part, "--out", "again")  # what the store has needs no GPU


def test_what_models_are_owed_needs_a_gpu_too(place: Path) -> None:
    whole = w_istree(Settings(budget="paper"))
    study = chosen(whole, panels=["direct"], rows=["Mamba 0.5M"], columns=[16])
    asked, store = Asked(name="w-istree", budget="paper"), Store(place)
    assert owed_further(study, None) == owed_further(study, store) == 0
    (job,) = study.jobs
    begun = store.begin(job.config_of(job.members[0]), population=job.key)
    store.finish(begun.key, Result(status="done", steps=15_625, correct=600, examples=1000))
    assert (still_to_do(asked, study, store), owed_further(study, store)) == (0, 1)
    with pytest.raises(InvalidInput, match="w-istree at --budget paper needs a GPU and there is none here"):
        require_gpu([(asked, study)], store)
    plan = reproduced.Plan(asked=asked, study=study, left=0, owed=1, projection=projection_of(study))
    assert (plan.fields["steps"], plan.fields["further_steps"]) == (15_625, 78_125)
    lines = dict(reproduced._plan_rows(plan))
    assert lines["jobs"] == "1, 1 of them in the store already; 1 more to train models for longer"
    assert lines["steps"] == "15,625, and 78,125 more at most, of all members together"
    assert "are trained for longer: at most about" in lines["time"]
    assert plan.projection.most_minutes > 4 * plan.projection.minutes > 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "s-fg2",
            "There is no experiment 's-fg2'. Did you mean s-fig2? Known: w-hotpot, s-fig2, tiny, other, all.",
        ),
        ("tiny --rows XX", "There is no row 'XX'. Known: LinTF-(1,8), TF-(1,8), guess."),
        ("tiny --columns 5", "tiny at --budget smoke has the columns 2, 3; got 5."),
        ("tiny --panels look", "There is no panel 'look'. Did you mean lookup?"),
        ("tiny --columns x", "--columns needs a whole number; got 'x'."),
        ("--budget smoke", "Name an experiment right after reproduce, or all;"),
        ("--rows TF tiny", "Name an experiment right after reproduce, or all;"),
        ("--resume", "Name an experiment right after reproduce, or all;"),
        (
            "tiny --show --plan",
            "--plan prices what would be trained, --show shows what was; give one of them.",
        ),
        ("tiny --plan --keep x", "--plan writes nothing; leave --out and --keep away."),
        ("tiny --address 10.0.0.1:1", "--address is for --engine ray; this one is local."),
        ("tiny --gpus-per-job 0.5", "--gpus-per-job is for --engine ray; this one is local."),
        ("tiny --engine ray --device cpu", "--device is for --engine local; this one is ray."),
        ("tiny --engine ray --minutes 5", "--minutes is for --engine local; this one is ray."),
        (
            "tiny --engine ray --address nowhere",
            "A Ray cluster has an address such as 10.0.0.1:6379; got 'nowh",
        ),
        ("tiny --trials 5", "--trials is for --search optuna; this one goes through the paper's grid."),
        ("tiny --trials 0 --search optuna", "A search has at least one trial; got trials=0."),
        ("tiny --model A=b", "--model and --file are for w-hotpot; tiny has neither."),
        ("tiny --file x", "--model and --file are for w-hotpot; tiny has neither."),
        ("w-hotpot --model Ab", "A model is given as NAME=FOLDER"),
        ("w-hotpot --model A=b A=c", "Every model has a name of its own; 'A' was given twice."),
        (
            "w-hotpot --budget quick",
            "w-hotpot asks models that you have on disk; give each with --model NAME=FO",
        ),
        ("w-hotpot --budget quick --model A=nowhere", "nowhere"),
        ("tiny --budget big", "--budget is one of smoke, quick, paper; got 'big'."),
        ("tiny --grid full", "The full grid belongs to --budget paper; got --budget smoke."),
        ("tiny --seeds 1 1", "Seeds are different numbers, at least one"),
        ("tiny --device cuda", "There is no CUDA device here"),
        ("tiny --device tpu", "A device is auto, cpu, cuda or cuda:1; got 'tpu'."),
        ("tiny --processes 0", "Jobs run in at least one process; got processes=0."),
        ("tiny --seats 0", "A population has at least one seat; got seats=0."),
        ("tiny --minutes 0", "A limit of time is a number of minutes above 0; got minutes=0.0."),
        ("tiny --minutes inf", "An experiment's minutes is a finite number; got minutes=inf."),
        ("tiny --out taken", "--out names a folder; '"),
        ("tiny --out a\0b", "The name of a file or folder has no null in it; got one."),
    ],
)
def test_what_is_refused(line: str, words: str, place: Path) -> None:
    Path("taken").write_text("", encoding="utf-8")
    assert words in refused("reproduce", *line.split(" "))
    assert not place.exists(), "nothing is left behind"


def test_a_folder_without_weights_is_refused(place: Path) -> None:
    Path("folder").mkdir()
    argv = ("w-hotpot", "--budget", "quick", "--model", "Transformer=folder")
    assert "has no config.json, so it is no folder of a Hugging Face model" in refused("reproduce", *argv)
    Path("folder", "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    assert "weights" in refused("reproduce", *argv)
    assert not place.exists()


def test_a_cluster_that_does_not_answer_is_refused(place: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"  # bound, and nobody listens
        said = refused("reproduce", "tiny", "--engine", "ray", "--address", address)
    assert said.startswith(f"No Ray cluster answers at {address}: ")
    assert not place.exists()


def test_a_job_that_fails_is_told_and_the_others_go_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from separatrix.errors import InvalidInput

    done = run_job

    def fail(job: Job, **settings: Any) -> Any:
        if job.built_task.n == 3:
            raise InvalidInput("It fell over.")
        return done(job, **settings)

    monkeypatch.setattr(local, "run_job", fail)
    ran = run("reproduce", "tiny", "--rows", "TF")
    assert ran.code == 1
    assert "Failed: transformer-(1,8) on index-lookup at 3: It fell over." in ran.err
    said = "Not all could be done; `separatrix reproduce tiny --resume` goes on from the last checkpoints."
    assert ran.err.splitlines()[-1] == said
    assert "not run" in ran.out
    monkeypatch.setattr(reproduced, "write_figures", lambda outcome, folder: [])
    again = run("reproduce", "tiny", "--resume", "--json")
    assert again.code == 1
    (failure,) = again.answer["failed"]
    assert (failure["model"]["name"], failure["task"]["params"]["n"]) == ("transformer", 3)
    assert failure["reason"] == "It fell over."


def test_time_runs_out_for_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float | None] = []

    def late(self: LocalEngine, jobs: Sequence[Job], store: Store, *, tell: Any) -> Ran:
        limits.append(self.minutes)
        return Ran(done=0, interrupted=len(limits) == 2)

    monkeypatch.setattr(LocalEngine, "run", late)
    monkeypatch.setitem(EXPERIMENTS._entries, "third", tiny("third"))
    ran = run("reproduce", "tiny", "other", "third", "--minutes", "5", "--store", "my store")
    assert ran.code == 1
    first, second = limits
    assert first is not None
    assert second is not None
    assert second < first < 5
    again = "separatrix reproduce tiny other third --resume --store 'my store'"
    assert ran.err.splitlines()[-1].startswith(f"Time ran out before all was done; `{again}` goes on")
    assert "third  Index" not in ran.out
    monkeypatch.setattr(reproduced, "write_figures", lambda outcome, folder: [])
    every = run("reproduce", "tiny", "other", "--minutes", "1e-9", "--json")
    assert (every.code, every.answer["interrupted"], len(limits)) == (1, True, 2)


def test_an_interrupt_says_how_to_go_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run_job

    def interrupted(job: Job, **settings: Any) -> Any:
        if Store(place).runs():
            raise KeyboardInterrupt
        return done(job, **settings)

    monkeypatch.setattr(local, "run_job", interrupted)
    ran = run("reproduce", "tiny", "--rows", "TF")
    assert (ran.code, ran.out) == (130, "")
    said = "Interrupted; `separatrix reproduce tiny --resume` goes on from the last checkpoints."
    assert ran.err.splitlines()[-1] == said
    monkeypatch.setattr(local, "run_job", done)
    assert len(Store(place).runs()) == MEMBERS
    assert reproduce("tiny", "--resume").out.count("TF-(1,8)") == 2
    assert len(Store(place).runs()) == 2 * MEMBERS
