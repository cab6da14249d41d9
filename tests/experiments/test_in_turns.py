"""Processes that compile side by side and measure one at a time."""

from __future__ import annotations

import os
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from benchmarks.in_turns import measured_in_turns

from separatrix.training.jobs import Job
from separatrix.training.recipes import Training
from tests.experiments.test_rates import job_of

JOBS = [job_of(members=members, training=Training(steps=100)) for members in (1, 2, 3, 4, 5, 6)]


def _timed(job: Job, turn: AbstractContextManager[Any]) -> dict[str, Any]:
    """Holds its turn for a moment, and says when; three members find no memory."""
    threads = os.environ["TORCHINDUCTOR_COMPILE_THREADS"]
    with turn:
        begun = time.monotonic()
        time.sleep(0.3)
        ended = time.monotonic()
    if len(job.members) == 3:
        raise RuntimeError("CUDA out of memory")
    time.sleep(0.3)  # the other one has time to take a job
    return {
        "members": len(job.members),
        "process": os.getpid(),
        "turn": (begun, ended),
        "threads": threads,
    }


def _breathing(job: Job, turn: AbstractContextManager[Any]) -> dict[str, Any]:
    """Says when it had its turn, and when a thread beside it was at work before, meanwhile and behind."""
    breaths, over = [], threading.Event()

    def breathe() -> None:
        while not over.wait(0.02):
            breaths.append(time.monotonic())

    threading.Thread(target=breathe, daemon=True).start()
    time.sleep(1.0)
    with turn:
        begun = time.monotonic()
        time.sleep(0.5)
        ended = time.monotonic()
    time.sleep(1.0)
    over.set()
    return {"process": os.getpid(), "turn": (begun, ended), "breaths": breaths}


def _slow(job: Job, turn: AbstractContextManager[Any]) -> dict[str, Any]:
    if len(job.members) > 1:
        time.sleep(600)
    return {"process": os.getpid()}


@pytest.mark.slow
def test_all_is_measured_once_and_never_two_at_a_time() -> None:
    before = dict(os.environ)
    rows = list(measured_in_turns(JOBS, _timed, processes=2, seconds=120))
    assert sorted(row["members"] for row in rows) == [1, 2, 4, 5, 6]  # a failure ends nothing else
    assert len({row["process"] for row in rows}) == 2
    assert {row["threads"] for row in rows} == {"1"}
    turns = sorted(row["turn"] for row in rows)
    assert all(first[1] <= second[0] for first, second in pairwise(turns))
    assert dict(os.environ) == before


@pytest.mark.slow
def test_who_has_the_turn_is_alone() -> None:
    """The others do nothing meanwhile, and all of them go on behind it."""
    rows = list(measured_in_turns(JOBS, _breathing, processes=3, seconds=120))
    assert len(rows) == len(JOBS)
    compared = 0
    for row in rows:
        begun, ended = row["turn"]
        assert any(begun < breath < ended for breath in row["breaths"]), "its own thread goes on"
        others = [other["breaths"] for other in rows if other["process"] != row["process"]]
        assert not any(begun < breath < ended for breaths in others for breath in breaths)
        compared += sum(breaths[0] < begun and ended < breaths[-1] for breaths in others)
    assert compared, "somebody else was at work before a turn and behind it"


@pytest.mark.slow
def test_when_the_time_is_over_nobody_is_left() -> None:
    begun = time.monotonic()
    jobs = [replace(job, training=replace(job.training, steps=200)) for job in JOBS[:2]]
    (row,) = measured_in_turns(jobs, _slow, processes=1, seconds=30)
    assert time.monotonic() - begun < 60
    with pytest.raises(ProcessLookupError):
        os.kill(row["process"], 0)
