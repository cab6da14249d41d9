"""The benchmark of whole trainings abreast, on small populations."""

from __future__ import annotations

import json

import pytest
from benchmarks import abreast_trainings

from separatrix.experiments.rates import seconds_per_step
from separatrix.experiments.scheduling import work_of
from separatrix.models import model
from separatrix.tasks import task
from separatrix.training.jobs import Job, job_for
from separatrix.training.recipes import Member, Training


def small(name: str) -> Job:
    training = Training(
        steps=16, batch=8, eval_every=4, eval_examples=40, test_examples=40, precision="bfloat16"
    )
    members = [Member(lr=3e-3, seed=seed) for seed in range(2)]
    return job_for(
        task("index-lookup", n=8), model(name, layers=2, width=16), members=members, training=training
    )


@pytest.mark.slow
def test_both_ways_are_timed_and_learn_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abreast_trainings, "_FIRST_STEPS", 4)
    row = abreast_trainings.compared([small("mamba"), small("lstm")], lanes=2, device="cpu")
    assert len(row["seconds"]) == len(row["seconds_in_turn"]) == 2
    assert min(*row["seconds"], *row["seconds_in_turn"]) > 0
    assert 1 <= row["projected"] <= 2
    assert row["apart"] < 5  # of 40 examples one is 2.5 points
    assert len(row["accuracies"]) == 4
    assert all(0 < seconds < 100 for seconds in row["reckoned"].values())
    assert row["reckoned"].keys() == {"1", "2"}
    assert row["reckoned"]["2"] < row["reckoned"]["1"]
    page = abreast_trainings.page([row])
    assert "mamba-(2,16) on index-lookup at 8, lstm-(2,16) on index-lookup at 8" in page


def test_runs_that_went_astray_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abreast_trainings, "_seconds", lambda *_: 1.0)
    with pytest.raises(RuntimeError, match="0 runs ended one after another and 0 abreast"):
        abreast_trainings.compared([small("mamba")], lanes=2, device="cpu")


def test_each_population_has_about_as_much_to_do() -> None:
    jobs = abreast_trainings.jobs_of(1, seconds=10.0)
    assert [work_of(job) for job in jobs] == sorted(map(work_of, jobs), reverse=True)
    for job in jobs:
        rate = seconds_per_step(job)
        assert rate is not None
        assert 9 < rate.seconds * job.training.steps < 11
        assert abreast_trainings.LOOKS * job.training.eval_every == job.training.steps
        assert job.training.eval_every % job.training.bands == 0


def test_copies_of_a_population_are_trainings_of_their_own() -> None:
    plain, copies = (abreast_trainings.jobs_of(1, seconds=10.0, copies=count) for count in (1, 3))
    assert len(copies) == 3 * len(plain)
    assert len({job.key for job in copies}) == len(copies)
    assert {member.seed for job in copies for member in job.members} == {0, 1, 2}
    assert {job.key for job in plain} < {job.key for job in copies}


@pytest.mark.slow
def test_each_way_can_be_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abreast_trainings, "_FIRST_STEPS", 4)
    row = abreast_trainings.compared([small("mamba"), small("lstm")], lanes=2, device="cpu", once=True)
    assert len(row["seconds"]) == len(row["seconds_in_turn"]) == 1


def test_the_page_is_that_of_the_figures() -> None:
    data = abreast_trainings.DATA
    assert data.with_suffix(".md").read_text() == abreast_trainings.page(json.loads(data.read_text()))


def test_there_is_a_page_before_there_are_figures() -> None:
    assert "Not run." in abreast_trainings.page([])
