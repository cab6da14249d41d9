"""Which jobs a study still needs: longest first, each once, and more where ours lies far from the paper's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from separatrix.experiments import study_of
from separatrix.experiments.cells import Cell, Study, chosen
from separatrix.experiments.outcomes import outcome_of
from separatrix.experiments.protocols import Settings
from separatrix.experiments.scheduling import packed, second_looks, unfinished, work_of
from separatrix.store import Result, Status, Store, key_of
from separatrix.training.jobs import Job
from separatrix.training.recipes import Member
from separatrix.training.remembered import is_finished
from tests.experiments.fakes import fake_run, known

PAPER = Settings(budget="paper")
TF_200 = chosen(study_of("s-fig2", PAPER), panels=["index-lookup"], rows=["TF"], columns=[200])


def with_jobs(study: Study, *jobs: Job) -> Study:
    panel = study.panels[0]
    cells = tuple(Cell(row=str(place), column=place, jobs=(job,)) for place, job in enumerate(jobs))
    return replace(study, panels=(replace(panel, cells=cells),))


@pytest.mark.slow
def test_what_takes_longest_comes_first() -> None:
    jobs = packed(study_of("s-fig2", PAPER))
    works = [work_of(job) for job in jobs]
    assert works == sorted(works, reverse=True)
    assert len(jobs) == len(study_of("s-fig2", PAPER).jobs)
    assert jobs[0].task.params["n"] == 400
    assert jobs[-1].task.params["n"] == 20


def test_cells_alike_in_all_but_their_members_share_a_population() -> None:
    (job,) = TF_200.jobs
    members = [Member(lr=1e-3, seed=seed) for seed in range(3)]
    first, second = replace(job, members=tuple(members[:2])), replace(job, members=tuple(members[1:]))
    other = replace(job, training=replace(job.training, batch=32), members=tuple(members[:1]))
    found = packed(with_jobs(TF_200, first, second, other))
    assert sorted(len(each.members) for each in found) == [1, 3]
    assert max(found, key=lambda each: len(each.members)).members == tuple(members)


def ended(store: Store, job: Job, number: int, status: Status) -> None:
    begun = store.begin(job.config_of(job.members[number]), population=job.key)
    store.finish(begun.key, Result(status=status, steps=10, correct=5, examples=10))


def test_a_job_is_finished_when_each_member_has_an_end(tmp_path: Path) -> None:
    store, (job,) = Store(tmp_path), TF_200.jobs
    short = replace(job, members=job.members[:3])
    assert unfinished([short], store) == (short,)
    ended(store, short, 0, "done")
    ended(store, short, 1, "dropped")
    assert not is_finished(short, store)
    store.begin(short.config_of(short.members[2]), population=short.key)  # begun, and cut off
    assert not is_finished(short, store)
    ended(store, short, 2, "stopped")
    assert is_finished(short, store)
    assert unfinished([short, job], store) == (job,)


@pytest.mark.parametrize(("correct", "again"), [(1000, 0), (951, 0), (949, 1)])
def test_a_cell_far_from_the_paper_gets_two_more_seeds_and_the_neighbouring_rates(
    correct: int, again: int
) -> None:
    (job,) = TF_200.jobs  # the paper has 100.0 there
    place = [member.lr for member in job.members].index(5e-4)
    outcome = outcome_of(TF_200, known([fake_run(job, place, correct=correct)]), measured={})
    jobs = second_looks(outcome)
    assert len(jobs) == again
    for second in jobs:
        assert (second.task, second.model, second.training) == (job.task, job.model, job.training)
        assert {(member.lr, member.seed) for member in second.members} == {
            (lr, seed) for lr in (1e-4, 5e-4, 1e-3) for seed in (1, 2)
        }
        assert not {key_of(second.config_of(m)) for m in second.members} & {
            key_of(job.config_of(m)) for m in job.members
        }


def test_a_cell_whose_best_run_began_otherwise_is_looked_at_as_it_is_trained_now() -> None:
    (job,) = TF_200.jobs
    params = {name: value for name, value in job.model.params.items() if name != "initial"}
    before = replace(job, model=replace(job.model, params=params))
    assert before != job
    (second,) = second_looks(outcome_of(TF_200, known([fake_run(before, correct=500)]), measured={}))
    assert second.model == job.model


def test_a_cell_without_its_full_budget_is_not_looked_at_again() -> None:
    (job,) = TF_200.jobs
    outcome = outcome_of(TF_200, known([fake_run(job, correct=500, steps=10_000)]), measured={})
    assert second_looks(outcome) == ()


def test_at_the_end_of_the_grid_there_is_one_neighbour() -> None:
    (job,) = TF_200.jobs
    outcome = outcome_of(TF_200, known([fake_run(job, 0, correct=500)]), measured={})
    (second,) = second_looks(outcome)
    assert {member.lr for member in second.members} == {1e-2, 5e-3}
