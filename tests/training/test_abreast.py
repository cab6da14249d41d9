"""Jobs in lanes: all of them are done, as they would be alone, and what goes wrong in one ends no other."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from weakref import ReferenceType, ref

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.models import model
from separatrix.store import Store
from separatrix.tasks import task
from separatrix.training import Member, Training, run_job
from separatrix.training.abreast import Lane, Lanes, run_abreast
from separatrix.training.course import Course
from separatrix.training.engine import Engine
from separatrix.training.jobs import Job, job_for
from separatrix.training.running import Observer, OutOfTime, placing_for
from separatrix.training.turns import Turn
from tests.training.test_resume import contents, facts

PATIENCE = 20.0
QUICK = Training(steps=12, batch=8, eval_every=4, eval_examples=16, test_examples=16, stop="never")
CPU = torch.device("cpu")


def job_of(n: int) -> Job:
    return job_for(
        task("index-lookup", n=n, alphabet=4),
        model("transformer", width=16),
        members=[Member(lr=1e-3, seed=seed) for seed in range(2)],
        training=QUICK,
    )


JOBS = tuple(job_of(n) for n in (3, 4, 5, 6, 7))


def abreast(work: Callable[[Job, Lane], object], *, lanes: int = 2, said: list[str] | None = None) -> Lanes:
    told = [] if said is None else said
    return run_abreast(JOBS, work, lanes=lanes, device=CPU, tell=told.append)


def trained(store: Store, **given: object) -> Callable[[Job, Lane], object]:
    def work(job: Job, lane: Lane) -> object:
        return run_job(job, store=store, device="cpu", turn=lane.turn, is_over=lane.is_over, **given)  # type: ignore[arg-type]

    return work


def test_what_is_trained_in_lanes_is_what_is_trained_alone(tmp_path: Path) -> None:
    alone, beside = Store(tmp_path / "alone"), Store(tmp_path / "beside")
    for job in JOBS:
        run_job(job, store=alone, device="cpu")
    found = abreast(trained(beside), lanes=3)
    assert {job.key for job in found.done} == {job.key for job in JOBS}
    assert found == Lanes(done=found.done)
    assert contents(beside.path) == contents(alone.path)
    assert facts(beside.path) == facts(alone.path)
    assert all(run.provenance["abreast"] for run in beside.runs())
    assert not any("abreast" in run.provenance for run in alone.runs())


def test_steps_and_looks_are_side_by_side_and_populations_made_one_by_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two lanes must be in their steps and looks at the same time, or the barrier breaks."""
    both = threading.Barrier(2)
    busy = threading.Lock()
    looks, makes = Course._look, Course._make

    def run(engine: Engine, steps: int, *, first: int = 0) -> None:
        if first == 0:
            both.wait(PATIENCE)
        for _ in range(steps):
            engine._step(0)

    def look(course: Course, rows: list[int]) -> object:
        both.wait(PATIENCE)
        return looks(course, rows)

    def alone(work: Callable[[], object]) -> object:
        assert busy.acquire(blocking=False), "two at once do what only one may do"
        try:
            time.sleep(0.05)
            return work()
        finally:
            busy.release()

    monkeypatch.setattr(Engine, "record", lambda _: alone(lambda: True))
    monkeypatch.setattr(Engine, "run", run)
    monkeypatch.setattr(Course, "_look", look)
    monkeypatch.setattr(Course, "_make", lambda course, seats: alone(lambda: makes(course, seats)))
    found = run_abreast(JOBS[:2], trained(Store(tmp_path)), lanes=2, device=CPU, tell=pytest.fail)
    assert len(found.done) == 2


def test_what_is_recorded_goes_on_while_another_has_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Turn()
    course = Course(JOBS[0], replace(placing_for(JOBS[0], device="cpu"), turn=turn))
    taken: list[bool] = []

    def steps() -> None:
        with course._recorded() as ready:
            taken.append(ready)

    monkeypatch.setattr(course.engine, "_graphs", {0: None})
    thread = threading.Thread(target=steps, daemon=True)
    with turn.taken():
        thread.start()
        thread.join(PATIENCE)
        assert taken == [True]
    monkeypatch.setattr(course.engine, "_graphs", {})
    thread = threading.Thread(target=steps, daemon=True)
    with turn.taken():
        thread.start()
        thread.join(0.2)
        assert taken == [True]
    thread.join(PATIENCE)
    assert taken == [True, True]


def test_the_compiler_forgets_the_others_before_each_population(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not when one is made: lanes make theirs before the first of them is compiled."""
    told: list[str] = []
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module, **_: None)
    monkeypatch.setattr(torch.compiler, "reset", lambda: told.append("reset"))
    placing = [replace(placing_for(job, device="cpu", compiled=True), turn=Turn()) for job in JOBS[:2]]
    engines = [Course(job, place).engine for job, place in zip(JOBS[:2], placing, strict=True)]
    assert told == []
    for engine in (*engines, *engines):
        told.append("steps")
        engine.run(2)
    assert told == ["steps", "reset", "steps", "reset", "steps", "steps"]
    engines[0].another().run(1)
    assert told[-1] == "steps"


def test_steps_that_are_not_recorded_keep_the_turn() -> None:
    turn = Turn()
    course = Course(JOBS[0], replace(placing_for(JOBS[0], device="cpu"), turn=turn))
    with course._recorded():
        assert turn._lock.locked()
    course.engine.record = lambda: True  # type: ignore[method-assign]
    with course._recorded():
        assert not turn._lock.locked()


def test_one_that_fails_ends_no_other_and_is_told_at_once() -> None:
    said: list[str] = []
    heard = threading.Event()

    def work(job: Job, lane: Lane) -> None:
        if job is JOBS[0]:
            while not said:
                heard.wait(0.01)
        if job is JOBS[1]:
            raise InvalidInput("It cannot be.")

    found = abreast(work, said=said)
    assert (len(found.done), found.interrupted, found.for_later) == (4, False, ())
    assert found.failed == ((JOBS[1], "It cannot be."),)
    assert said == [f"{JOBS[1].short_name} failed: It cannot be."]


@pytest.mark.slow
def test_who_finds_no_memory_is_for_later_and_keeps_none() -> None:
    """Whoever else is at work when the error is noted: another may have left just before."""
    held: list[ReferenceType[Tape]] = []

    def work(job: Job, lane: Lane) -> None:
        if job is JOBS[1]:
            tape = Tape()
            held.append(ref(tape))
            try:
                raise RuntimeError(tape)
            except RuntimeError as cause:
                raise torch.OutOfMemoryError("CUDA out of memory") from cause

    for lanes in (1, 2):
        found = abreast(work, lanes=lanes)
        assert (len(found.done), found.for_later, found.failed) == (4, (JOBS[1],), ())
    gc.collect()
    assert [one() for one in held] == [None, None]


class Tape:
    """Something to hold in memory."""


def test_models_of_ones_own_are_done_alone() -> None:
    """They draw from a generator that the whole process shares."""
    own = replace(JOBS[0], model=replace(JOBS[0].model, name="mine:net"))
    done: list[Job] = []
    found = run_abreast(
        [JOBS[1], own, JOBS[2]], lambda job, _: done.append(job), lanes=2, device=CPU, tell=pytest.fail
    )
    assert own not in done
    assert found.for_later == (own,)
    assert len(found.done) == 2


@pytest.mark.parametrize("lanes", [0, 33])
def test_lanes_are_as_many_as_there_are_streams(lanes: int) -> None:
    with pytest.raises(InvalidInput, match=f"Between 1 and 32 jobs are done at a time; got abreast={lanes}"):
        abreast(lambda job, lane: None, lanes=lanes)


def test_what_waits_for_its_turn_when_all_is_over_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    course = Course(JOBS[0], replace(placing_for(JOBS[0], device="cpu"), turn=Turn()))
    monkeypatch.setattr(course.engine, "record", lambda: pytest.fail("it is over"))
    course.advance(halt=lambda: True)
    assert (course.taken, course.outcomes, course.done) == (0, [], False)


@pytest.mark.slow
def test_when_time_is_over_it_is_over_for_all(tmp_path: Path) -> None:
    ends = threading.Event()

    class Watch(Observer):
        def looked(self, course: Course) -> None:
            ends.set()

    def work(job: Job, lane: Lane) -> object:
        return run_job(
            job,
            store=Store(tmp_path),
            device="cpu",
            turn=lane.turn,
            is_over=lambda: ends.is_set() or lane.is_over(),
            observer=Watch(),
        )

    found = abreast(work)
    assert (found.done, found.interrupted, found.failed) == ((), True, ())
    assert len(abreast(trained(Store(tmp_path))).done) == 5, "what was saved goes on"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_lanes_when_they_have_saved(number: signal.Signals) -> None:
    saved, said, begun = list[Job](), list[str](), threading.Barrier(2)

    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    def work(job: Job, lane: Lane) -> None:
        begun.wait(PATIENCE)
        if job is JOBS[0]:
            signal.raise_signal(number)  # it is heard by the main thread
        until = time.monotonic() + PATIENCE
        while not lane.is_over() and time.monotonic() < until:
            time.sleep(0.01)
        saved.append(job)
        raise OutOfTime(1)

    before = signal.signal(signal.SIGTERM, ended)
    try:
        with pytest.raises(KeyboardInterrupt):
            abreast(work, said=said)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert {job.key for job in saved} == {job.key for job in JOBS[:2]}
    terminated = ["Terminated; run the same again to go on from the last steps."]
    assert said == (terminated if number == signal.SIGTERM else [])


def test_a_mistake_of_ours_is_raised_and_ends_all() -> None:
    error = RuntimeError("CUDA error: an illegal memory access was encountered")
    begun: list[Job] = []

    def work(job: Job, lane: Lane) -> None:
        begun.append(job)
        raise error

    with pytest.raises(RuntimeError, match="illegal memory access") as raised:
        abreast(work)
    assert len(begun) <= 2
    assert raised.traceback[-1].name == "work", "where it happened"


@pytest.mark.slow
def test_threads_wait_less_for_one_that_compiles() -> None:
    seen: list[float] = []
    before = sys.getswitchinterval()
    abreast(lambda job, lane: seen.append(sys.getswitchinterval()))
    assert max(seen) <= 0.0005 < before
    assert sys.getswitchinterval() == before
