"""Which jobs a study still needs, in which order: what takes longest first, and nothing twice.

Cells that ask for the same task, model and training share a population: their members are one job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import torch

from separatrix.experiments.cells import Study
from separatrix.experiments.outcomes import StudyOutcome, best_run, ended_runs, fitting, wants_more
from separatrix.models.population import Population, signature_of
from separatrix.models.specs import build, kind_of
from separatrix.store import Run, Store, key_of
from separatrix.training.jobs import Job
from separatrix.training.recipes import Member
from separatrix.training.remembered import is_finished

__all__ = ["further_jobs", "packed", "second_looks", "unfinished", "work_of"]

_MORE_SEEDS: Final = 2


def packed(study: Study) -> tuple[Job, ...]:
    """The study's jobs, those alike in all but their members joined, the longest first."""
    return _joined(study.jobs)


def further_jobs(study: Study, runs: Sequence[Run]) -> tuple[Job, ...]:
    """Those of cells whose models have not learned their task in the steps that they had, each with the
    learning rate that came furthest.
    """
    found = []
    for cell in [cell for cell in study.cells if cell.further]:
        best = best_run(cell, runs)
        if best is not None and wants_more(cell, ended_runs(cell, runs)):
            found += [replace(job, members=_at(best.rate, job.members)) for job in cell.further]
    return _joined(found)


def _at(rate: float, members: Iterable[Member]) -> tuple[Member, ...]:
    """The members, one for each seed, with this learning rate."""
    return tuple({each.seed: replace(each, lr=rate) for each in members}.values())


def _joined(jobs: Iterable[Job]) -> tuple[Job, ...]:
    joined: dict[str, Job] = {}
    for job in jobs:
        alike = key_of(
            {
                "task": job.task.to_fields(),
                "model": job.model.to_fields(),
                "training": job.training.to_fields(),
            }
        )
        known = joined.get(alike)
        members = job.members if known is None else tuple(dict.fromkeys(known.members + job.members))
        joined[alike] = replace(job, members=members)
    return tuple(sorted(joined.values(), key=work_of, reverse=True))


def work_of(job: Job) -> float:
    """About how long a job takes, in no unit: parameters touched at every position of every step."""
    parameters = sum(values.numel() for values in _shapes_of(job).parameters())
    training = job.training
    # A recurrent step costs time even where it has little to compute, hence the constant.
    return float(training.steps) * len(job.members) * job.built_task.length * (parameters + 50_000)


def _shapes_of(job: Job) -> Population:
    """One member, of ours without numbers, since thousands of jobs are put in order."""
    ours = kind_of(job.model.name).__module__.startswith("separatrix.")
    with torch.device("meta" if ours else "cpu"):
        return build(job.model, signature_of(job.built_task), 1)


def unfinished(jobs: Iterable[Job], store: Store) -> tuple[Job, ...]:
    """Those that are still to be trained, in their order."""
    return tuple(job for job in jobs if not is_finished(job, store))


def second_looks(outcome: StudyOutcome) -> tuple[Job, ...]:
    """For cells whose full budget ended far from the paper: two more seeds with the neighbouring rates.

    One that has had them is not looked at a third time.
    """
    found = []
    for one in outcome.cells:
        own = {member.seed for job in one.cell.jobs for member in job.members}
        if not one.far_off or one.best is None or not own.issuperset(one.seeds):
            continue
        tried = [*one.cell.further, *one.cell.jobs]
        alike = [job for job in tried if fitting(replace(one.cell, jobs=(job,)), (one.best,))]
        job = next((job for job in alike if job.training.steps == one.most_steps), alike[-1])
        found.append(replace(job, members=_neighbours(job, rate=one.rate or 0.0)))
    return tuple(found)


def _neighbours(job: Job, *, rate: float) -> tuple[Member, ...]:
    rates = sorted({member.lr for member in job.members})
    place = rates.index(rate) if rate in rates else 0
    near = rates[max(0, place - 1) : place + 2]
    first = job.members[0]
    seeds = range(max(member.seed for member in job.members) + 1, 10**6)
    return tuple(
        replace(first, lr=lr, seed=seed)
        for seed, _ in zip(seeds, range(_MORE_SEEDS), strict=False)
        for lr in near
    )
