"""Jobs abreast on a CUDA device: streams of one process that must not touch each other's memory.

`PYTHONPATH=src python3 -m pytest tests/gpu/test_abreast_on_gpu.py`
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from separatrix.models import model
from separatrix.store import Store
from separatrix.tasks import task
from separatrix.training import Halving, Member, Training, run_job
from separatrix.training.abreast import Lane, run_abreast
from separatrix.training.jobs import Job, job_for
from separatrix.training.running import deterministically
from tests.training.test_resume import contents, facts

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # the compiler's own remarks
]

TRAINING = Training(
    steps=600,
    batch=32,
    precision="bfloat16",
    eval_every=200,
    eval_examples=64,
    test_examples=64,
    stop="never",
    halving=Halving(first=200),
)
JOBS = tuple(
    job_for(
        task("index-lookup", n=n, alphabet=8),
        model(name, layers=2, width=64),
        members=[Member(lr=lr, seed=n) for lr in (1e-3, 3e-3)],
        training=TRAINING,
    )
    for name, n in (("transformer", 60), ("mamba", 40), ("retnet", 50), ("dss", 30), ("transformer", 30))
)


def test_what_is_trained_abreast_is_what_is_trained_alone(tmp_path: Path) -> None:
    """To the byte, in three lanes, each with matrix products, looks, members that leave, and recordings made
    while others replay theirs.
    """
    alone, beside = Store(tmp_path / "alone"), Store(tmp_path / "beside")

    def work(job: Job, lane: Lane) -> object:
        return run_job(job, store=beside, compiled=False, turn=lane.turn, is_over=lane.is_over)

    with deterministically(True):
        for job in JOBS:
            run_job(job, store=alone, compiled=False)
        found = run_abreast(JOBS, work, lanes=3, device=torch.device("cuda"), tell=pytest.fail)
    assert len(found.done) == 5
    assert contents(beside.path) == contents(alone.path)
    assert facts(beside.path) == facts(alone.path)


def test_compiled_populations_learn_abreast(tmp_path: Path) -> None:
    """Each is compiled while the others replay what was compiled before."""
    training = Training(steps=2000, eval_every=100, solved=0.995, precision="bfloat16", test_examples=2000)
    jobs = [
        job_for(
            task("index-lookup", n=n),
            model("transformer"),
            members=[Member(lr=1e-3, seed=seed) for seed in range(2)],
            training=training,
        )
        for n in (12, 16, 20)
    ]
    store = Store(tmp_path)

    def work(job: Job, lane: Lane) -> object:
        return run_job(job, store=store, turn=lane.turn, is_over=lane.is_over)

    found = run_abreast(jobs, work, lanes=2, device=torch.device("cuda"), tell=pytest.fail)
    assert len(found.done) == 3
    for job in jobs:
        best = max(run.accuracy or 0.0 for run in store.runs(n=job.built_task.n))
        assert best >= 0.99
