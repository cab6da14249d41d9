"""Reproducing a figure, here and in processes: nothing twice, nothing lost, failures told."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.experiments import local, study_of
from separatrix.experiments.__main__ import main
from separatrix.experiments.cells import Measured, Study, chosen
from separatrix.experiments.engines import Failure, Ran, Tell
from separatrix.experiments.local import LocalEngine
from separatrix.experiments.outcomes import outcome_of
from separatrix.experiments.protocols import Settings
from separatrix.experiments.reproducing import reproduce
from separatrix.experiments.scheduling import further_jobs, packed, second_looks, unfinished
from separatrix.store import Store
from separatrix.training.course import Course
from separatrix.training.jobs import Job
from separatrix.training.running import Observer, OutOfTime, run_job
from separatrix.training.turns import Turn
from separatrix.training.views import LinesView
from tests.experiments.fakes import fake_run, known

ONE = chosen(study_of("s-eq-depth"), panels=["eq-random"], rows=["1"], columns=[8])
FEW = chosen(study_of("s-eq-depth"), panels=["eq-random"])


@dataclass
class Recorded:
    """An engine that trains nothing and writes down what it was asked for."""

    asked: list[Job] = field(default_factory=list)
    right: int = 0

    def run(self, jobs: Sequence[Job], store: Store, *, tell: Tell) -> Ran:
        self.asked += jobs
        for job in jobs:
            for number in range(len(job.members)):
                put(store, job, number, correct=self.right - number)
        return Ran(done=len(jobs))


def put(store: Store, job: Job, number: int, *, correct: int) -> None:
    from separatrix.store import Result

    run = fake_run(job, number, correct=correct)
    begun = store.begin(job.config_of(job.members[number]), population=job.key)
    store.finish(begun.key, Result(status="done", steps=run.steps, correct=correct, examples=1000))


def summary(study: Study, store: Store) -> dict[str, tuple[int | None, int]]:
    return {run.key: (run.correct, run.steps) for run in store.runs()}


def test_a_study_is_trained_once_and_read_the_second_time(tmp_path: Path) -> None:
    store = Store(tmp_path)
    told: list[str] = []
    first = reproduce(ONE, store, device="cpu", tell=told.append)
    (cell,) = first.outcome.cells
    assert (cell.state, cell.steps, first.failed, first.interrupted) == ("done", 30, (), False)
    assert cell.curve
    before = summary(ONE, store)
    again = reproduce(ONE, store, device="cpu", tell=told.append)
    assert again.outcome.to_fields() == first.outcome.to_fields()
    assert summary(ONE, store) == before
    assert "1 of 1 jobs are in the store already." in told


@pytest.mark.slow
def test_processes_bring_what_one_process_brings(tmp_path: Path) -> None:
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    part = chosen(FEW, columns=[8])
    reproduce(part, here, device="cpu")
    told: list[str] = []
    found = reproduce(part, there, engine=LocalEngine(device="cpu", processes=2), tell=told.append)
    assert not found.failed
    assert summary(part, there) == summary(part, here)
    done = {line.partition(" done in ")[0] for line in told if " done in " in line}
    assert done == {job.short_name for job in packed(part)}, "lines tell the widths of a model apart"
    assert {name for name in done if any(line.startswith(f"[{name}] ") for line in told)} == done
    assert all("abreast" in run.provenance for run in there.runs()), "two processes shared one processor"


def test_jobs_abreast_bring_what_jobs_one_by_one_bring(tmp_path: Path) -> None:
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    part = chosen(FEW, columns=[8])
    reproduce(part, here, device="cpu")
    said = io.StringIO()
    engine = LocalEngine(device="cpu", abreast=2, observer=LinesView(said))
    found = reproduce(part, there, engine=engine)
    assert not found.failed
    assert summary(part, there) == summary(part, here)
    names = {line[1 : line.index("]")] for line in said.getvalue().splitlines()}
    assert names == {job.short_name for job in packed(part)}


@pytest.mark.parametrize(
    ("kind", "gigabytes", "lanes"), [("cuda", 140, 2), ("cuda", 80, 1), ("cuda", None, 1), ("cpu", 500, 1)]
)
def test_several_at_once_are_usual_on_a_large_gpu_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, gigabytes: int | None, lanes: int
) -> None:
    memory = None if gigabytes is None else gigabytes * 10**9
    monkeypatch.setattr(local, "chosen_device", lambda _: torch.device(kind))
    monkeypatch.setattr(local, "memory_of", lambda _: memory)
    monkeypatch.setattr(local, "compiling_ahead", lambda *_, **__: nullcontext())
    monkeypatch.setattr(LocalEngine, "_here", lambda *_: Ran(done=1))
    monkeypatch.setattr(LocalEngine, "_side_by_side", lambda *given: Ran(done=given[-1]))
    jobs = packed(chosen(FEW, columns=[8]))
    assert len(jobs) == 2
    store = Store(tmp_path)
    assert LocalEngine(abreast=4, with_room=True).run(jobs, store, tell=pytest.fail).done == lanes
    assert LocalEngine(abreast=4).run(jobs, store, tell=pytest.fail).done == 2, (
        "who asks for several gets them"
    )


@pytest.mark.parametrize(
    ("words", "abreast", "with_room"),
    [
        (["--budget", "paper"], 4, True),
        (["--budget", "paper", "--abreast", "1"], 1, False),
        (["--budget", "paper", "--processes", "2"], 1, True),
        (["--budget", "quick"], 1, True),
        (["--abreast", "2"], 2, False),
    ],
)
def test_the_small_command_has_the_same_usual_number_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], abreast: int, with_room: bool
) -> None:
    found: list[LocalEngine] = []

    def not_reproduced(*_: object, engine: LocalEngine, **__: object) -> None:
        found.append(engine)
        raise InvalidInput("That is enough.")

    monkeypatch.setattr("separatrix.experiments.__main__.reproduce", not_reproduced)
    assert main(["s-fig3", *words, "--store", str(tmp_path)]) == 2
    assert [(engine.abreast, engine.with_room) for engine in found] == [(abreast, with_room)]


def test_who_finds_no_memory_abreast_is_done_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = packed(chosen(FEW, columns=[8]))
    begun, told = threading.Barrier(2), list[str]()

    def run(job: Job, *, turn: Turn | None = None, **given: Any) -> object:
        if turn is not None:
            begun.wait(20)
            if job is jobs[0]:
                raise torch.OutOfMemoryError("CUDA out of memory")
        return run_job(job, turn=turn, **given)

    monkeypatch.setattr(local, "run_job", run)
    ran = LocalEngine(device="cpu", abreast=2).run(jobs, Store(tmp_path), tell=told.append)
    assert (ran.done, ran.failed, ran.interrupted) == (2, (), False)
    assert told == ["Jobs that are done alone, for want of memory beside others: 1."]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_time_that_runs_out_leaves_the_rest_for_the_next_call(tmp_path: Path, processes: int) -> None:
    store = Store(tmp_path)
    slow = _stretched(ONE, steps=1_000_000)
    found = reproduce(slow, store, engine=LocalEngine(device="cpu", minutes=0.12, processes=processes))
    assert found.interrupted
    assert [cell.state for cell in found.outcome.cells] == ["under way"]
    assert unfinished(packed(slow), store)
    assert not store.cut_off() or all(run.status == "running" for run in store.runs())


def test_a_job_whose_time_is_over_is_saved_and_none_is_begun_after_it(tmp_path: Path) -> None:
    store, jobs = Store(tmp_path), packed(_stretched(ONE, steps=1_000_000))
    watched = _Patient()
    until = time.monotonic() + 0.05
    with pytest.raises(OutOfTime, match="Time is over after step"):
        run_job(jobs[0], store=store, device="cpu", observer=watched, until=until)
    (kept,) = store.folder_of(jobs[0].key).glob("*.safetensors")
    assert kept.stem == f"step-{watched.taken:012}"
    with pytest.raises(OutOfTime, match="after step 0"):
        run_job(jobs[0], store=store, device="cpu", observer=watched, until=until)
    assert kept.exists()


class _Patient(Observer):
    """Sleeps until the time of a job is over."""

    taken = 0

    def steps(self, course: Course, count: int) -> None:
        time.sleep(0.05)

    def looked(self, course: Course) -> None:
        self.taken = course.taken


def _stretched(study: Study, *, steps: int) -> Study:
    (cell,) = study.cells
    jobs = tuple(replace(job, training=replace(job.training, steps=steps, stop="never")) for job in cell.jobs)
    return replace(study, panels=(replace(study.panels[0], cells=(replace(cell, jobs=jobs),)),))


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    whole, killed = Store(tmp_path / "whole"), tmp_path / "killed"
    words = [sys.executable, "-m", "separatrix.experiments", "s-eq-depth", "--panels", "eq-random"]
    process = subprocess.Popen(
        [*words, "--device", "cpu", "--store", str(killed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not _finished(killed):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    assert 1 <= _finished(killed) < 8
    found = reproduce(FEW, Store(killed), device="cpu")
    reproduce(FEW, whole, device="cpu")
    assert not found.failed
    assert summary(FEW, Store(killed)) == summary(FEW, whole)


def _finished(place: Path) -> int:
    if not (place / "runs.sqlite").exists():
        return 0
    return sum(run.finished for run in Store(place).runs())


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_job_that_cannot_be_done_is_told_and_the_others_go_on(tmp_path: Path, processes: int) -> None:
    first, second = packed(chosen(FEW, columns=[8]))
    broken = replace(first, model=replace(first.model, params={**first.model.params, "heads": 3}))
    told: list[str] = []
    ran = LocalEngine(device="cpu", processes=processes).run(
        [broken, second], Store(tmp_path), tell=told.append
    )
    assert (ran.done, ran.interrupted) == (1, False)
    (failure,) = ran.failed
    assert failure.job == broken
    assert "shares its width evenly among its heads" in failure.reason


def test_at_the_full_budget_cells_far_from_the_paper_are_trained_again(tmp_path: Path) -> None:
    study = chosen(
        study_of("s-fig2", Settings(budget="paper")), panels=["index-lookup"], rows=["TF"], columns=[400]
    )
    engine = Recorded(right=500)
    store = Store(tmp_path / "far")
    reproduce(study, store, engine=engine)
    assert [len(job.members) for job in engine.asked] == [7, 4]
    reproduce(study, store, engine=engine)
    assert len(engine.asked) == 2
    near = Recorded(right=999)
    reproduce(study, Store(tmp_path / "near"), engine=near)
    assert [len(job.members) for job in near.asked] == [7]


def test_models_that_have_not_learned_their_task_are_trained_for_longer(tmp_path: Path) -> None:
    whole = study_of("w-istree", Settings(budget="paper"))
    study = chosen(whole, panels=["direct"], rows=["Mamba 0.5M"], columns=[16])
    engine, store = Recorded(right=600), Store(tmp_path / "slow")
    (cell,) = reproduce(study, store, engine=engine).outcome.cells
    assert [job.training.steps for job in engine.asked] == [15_625, 78_125]
    assert (cell.steps, cell.most_steps, cell.full_budget) == (15_625, 78_125, True)
    reproduce(study, store, engine=engine)
    assert len(engine.asked) == 2
    learned = Recorded(right=990)
    (cell,) = reproduce(study, Store(tmp_path / "quick"), engine=learned).outcome.cells
    assert [job.training.steps for job in learned.asked] == [15_625]
    assert (cell.most_steps, cell.full_budget) == (15_625, True)


def test_what_was_cut_off_is_not_trained_for_longer(tmp_path: Path) -> None:
    study = chosen(
        study_of("w-istree", Settings(budget="paper")), panels=["direct"], rows=["Mamba 0.5M"], columns=[16]
    )
    (job,), (longer,) = study.jobs, study.further
    assert replace(longer, training=replace(longer.training, steps=15_625)) == job
    few = fake_run(job, correct=600, steps=8_000)
    assert further_jobs(study, [few]) == ()
    assert further_jobs(study, []) == ()
    assert further_jobs(study, [few, fake_run(job, correct=600)]) == (longer,)
    assert further_jobs(study, [fake_run(job, correct=600), fake_run(longer, correct=995)]) == ()
    before, after = (
        outcome_of(study, known(runs), measured={}).cells[0]
        for runs in ([fake_run(job, correct=600)], [fake_run(longer, correct=995)])
    )
    assert (before.steps, before.most_steps, before.full_budget) == (15_625, 78_125, False)
    assert (after.steps, after.most_steps, after.full_budget) == (78_125, 78_125, True)


def test_a_longer_run_that_is_not_decoded_counts_as_trained() -> None:
    whole = study_of("w-istree", Settings(budget="paper"))
    study = chosen(whole, panels=["cot"], rows=["Hybrid 0.5M"], columns=[16])
    (job,), (longer,) = study.jobs, study.further
    short, long = fake_run(job, correct=600), fake_run(longer, correct=590)
    scores = {short.key: Measured(right=800, examples=1000)}
    (cell,) = outcome_of(study, known([short], decoded=scores), measured={}).cells
    assert (cell.accuracy, cell.full_budget, cell.far_off) == (0.8, False, False)
    outcome = outcome_of(study, known([short, long], decoded=scores), measured={})
    (cell,) = outcome.cells
    assert (cell.accuracy, cell.steps, cell.most_steps) == (0.8, 15_625, 78_125)
    assert (cell.full_budget, cell.far_off) == (True, True)
    (again,) = second_looks(outcome)
    assert (again.training.steps, [member.seed for member in again.members]) == (78_125, [1, 2])
    other = replace(job, training=replace(job.training, steps=8_000))
    lucky = fake_run(other, correct=700)
    scores = {lucky.key: Measured(right=900, examples=1000)}
    (cell,) = outcome_of(study, known([lucky, short], decoded=scores), measured={}).cells
    assert (cell.steps, cell.most_steps, cell.full_budget) == (8_000, 78_125, False)


def test_what_is_trained_for_longer_has_the_rate_that_came_furthest() -> None:
    study = chosen(
        study_of("w-istree", Settings(budget="paper")), panels=["direct"], rows=["Mamba 0.5M"], columns=[16]
    )
    (job,) = study.jobs
    found = replace(job, members=tuple(replace(job.members[0], lr=lr) for lr in (1e-3, 2e-4, 5e-5)))
    runs = [fake_run(found, number, correct=right) for number, right in enumerate((500, 700, 600))]
    (longer,) = further_jobs(study, runs)
    assert [(member.lr, member.seed) for member in longer.members] == [(2e-4, 0)]


def test_what_was_done_is_not_told_again(tmp_path: Path) -> None:
    study = chosen(
        study_of("w-istree", Settings(budget="paper")), panels=["direct"], rows=["Mamba 0.5M"], columns=[16]
    )
    said = "Cells that have not learned their task, and are trained for longer: 1."
    told: list[str] = []
    for times in (1, 1):
        reproduce(study, Store(tmp_path), engine=Recorded(right=600), tell=told.append)
        assert told.count(said) == times


def test_minutes_are_those_of_all_that_an_engine_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[float] = []
    monkeypatch.setattr(local, "run_job", lambda job, *, until, **_: ends.append(until))
    engine = LocalEngine(device="cpu", minutes=5)
    for _ in range(2):
        engine.run(ONE.jobs, Store(tmp_path), tell=print)
    assert ends[0] == ends[1] > 0


def test_without_training_the_rest_is_measured_all_the_same(tmp_path: Path) -> None:
    study = chosen(study_of("s-eq-one"), panels=["eq-one"], rows=["shortcut: symbol counts"])
    found = reproduce(study, Store(tmp_path), engine=Recorded())
    assert [cell.accuracy for cell in found.outcome.cells] == [1.0, 1.0]


def test_failures_of_an_engine_are_handed_on(tmp_path: Path) -> None:
    (job,) = packed(ONE)

    class Failing:
        def run(self, jobs: Sequence[Job], store: Store, *, tell: Tell) -> Ran:
            return Ran(done=0, failed=(Failure(job=job, reason="No."),))

    found = reproduce(ONE, Store(tmp_path), engine=Failing())
    assert [failure.reason for failure in found.failed] == ["No."]
    assert [cell.state for cell in found.outcome.cells] == ["not run"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"processes": 0}, "at least one process"),
        ({"minutes": 0}, "above 0"),
        ({"abreast": 0}, "Between 1 and 32 jobs are done at a time; got abreast=0"),
        ({"abreast": 2, "processes": 2}, "in one process, or in several processes; got abreast=2 and"),
    ],
)
def test_an_engine_refuses_what_makes_no_sense(given: dict[str, int], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        LocalEngine(**given)  # type: ignore[arg-type]


def test_the_module_prints_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["s-eq-depth", "--panels", "eq-random", "--rows", "1", "--columns", "8"]
    assert main([*words, "--store", str(tmp_path), "--device", "cpu"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["experiment"] == "s-eq-depth"
    assert [cell["state"] for cell in out["panels"][0]["cells"]] == ["done"]
    assert main(["s-fig9", "--store", str(tmp_path)]) == 2
    assert "There is no experiment 's-fig9'" in capsys.readouterr().err
