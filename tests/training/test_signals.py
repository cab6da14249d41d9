"""SIGTERM and Ctrl-C: what was trained is saved between two steps, and then the signal does what it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from separatrix.cli import main
from separatrix.store import Store
from separatrix.training import Job, Observer, run_job
from separatrix.training.course import Course
from separatrix.training.signals import interruptible
from separatrix.training.views import LinesView
from tests.training.test_plans import written
from tests.training.test_resume import contents, facts, small_job

TRAIN = (
    "separatrix train index-lookup --n 8 --alphabet 8 --model transformer --width 16 --heads 2 --batch 8 "
    "--steps 60 --eval-every 30 --eval-examples 20 --test-examples 30 --stop never --store cut"
)


class Ended(BaseException):
    """What a caller's own handler raises."""


class Signalling(Observer):
    """Sends a signal at every report of steps between the first look and the second."""

    def __init__(self, number: int) -> None:
        self.number, self.notes = number, list[str]()

    def steps(self, course: Course, count: int) -> None:
        if course.taken == 30 and course.seats[0].step == 30:
            os.kill(os.getpid(), self.number)

    def says(self, note: str) -> None:
        self.notes.append(note)


@pytest.fixture
def own_handler() -> Iterator[list[int]]:
    """SIGTERM raises `Ended`, unless the test puts another handler in its place."""
    seen: list[int] = []

    def end(number: int, _: object) -> None:
        seen.append(number)
        raise Ended

    before = signal.signal(signal.SIGTERM, end)
    yield seen
    signal.signal(signal.SIGTERM, before)


def between_looks() -> Job:
    job = small_job(steps=60, members=2)
    return replace(job, training=replace(job.training, eval_every=30))


@pytest.mark.slow
def test_sigterm_saves_between_two_steps_and_then_does_what_it_does(
    tmp_path: Path, own_handler: list[int]
) -> None:
    job, before = between_looks(), signal.getsignal(signal.SIGTERM)
    run_job(job, store=Store(tmp_path / "whole"), device="cpu")
    assert signal.getsignal(signal.SIGTERM) is before
    watching = Signalling(signal.SIGTERM)
    with pytest.raises(Ended):
        run_job(job, store=Store(tmp_path / "cut"), device="cpu", observer=watching)
    assert own_handler == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is before
    (kept,) = Store(tmp_path / "cut").folder_of(job.key).glob("*.safetensors")
    assert kept.stem == "step-000000000040"
    assert watching.notes == ["Terminated; run the same again to go on from step 40."]
    run_job(job, store=Store(tmp_path / "cut"), device="cpu")
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    assert facts(tmp_path / "cut") == facts(tmp_path / "whole")


@pytest.mark.usefixtures("own_handler")
def test_where_sigterm_is_ignored_it_stays_so(tmp_path: Path) -> None:
    job = between_looks()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    found = run_job(job, store=Store(tmp_path), device="cpu", observer=Signalling(signal.SIGTERM))
    assert [one.steps for one in found] == [60, 60]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    assert not list(Store(tmp_path).folder_of(job.key).glob("*.safetensors"))


@pytest.mark.slow
@pytest.mark.usefixtures("own_handler")
def test_a_handler_that_returns_lets_training_go_on(tmp_path: Path) -> None:
    job, seen = between_looks(), list[int]()
    run_job(job, store=Store(tmp_path / "whole"), device="cpu")
    signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    run_job(job, store=Store(tmp_path / "told"), device="cpu", observer=Signalling(signal.SIGTERM))
    assert seen
    assert set(seen) == {signal.SIGTERM}
    assert contents(tmp_path / "told") == contents(tmp_path / "whole")


def test_a_second_signal_does_not_wait(own_handler: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    cases = (
        (signal.SIGTERM, signal.SIGTERM, Ended),
        (signal.SIGTERM, signal.SIGINT, KeyboardInterrupt),
        (signal.SIGINT, signal.SIGINT, KeyboardInterrupt),
    )
    clock = 0.0
    monkeypatch.setattr("time.monotonic", lambda: clock)
    for first, second, raised in cases:
        with interruptible() as asked:
            os.kill(os.getpid(), first)
            assert asked.is_set()
            assert own_handler == []
            clock += 1.5 if first == second == signal.SIGTERM else 0.1
            with pytest.raises(raised):
                os.kill(os.getpid(), second)
        own_handler.clear()


def test_an_echo_of_sigterm_is_no_second_one(own_handler: list[int]) -> None:
    with interruptible() as asked:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
        assert asked.is_set()
        assert own_handler == []
        with pytest.raises(Ended):
            asked.answer()
        with pytest.raises(Ended):  # from now on they are the caller's
            os.kill(os.getpid(), signal.SIGTERM)


def test_other_threads_leave_signals_alone(own_handler: list[int]) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def in_thread() -> None:
        with interruptible() as asked:
            seen.extend((signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT), asked.is_set()))

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert seen == [*before, False]
    assert own_handler == []


def test_the_command_line_ends_with_143_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def signalling(self: LinesView, course: Course, count: int) -> None:
        if course.taken == 30:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", TRAIN.split())
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(LinesView, "steps", signalling)
            patch.setattr(LinesView, "looked", lambda *_: None)
            assert main() == 143
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[1:] == ["Terminated; run the same again to go on from step 40."]
    assert main() == 0
    assert "Going on from step 40 of " in capsys.readouterr().err


@pytest.mark.slow
def test_a_plan_ends_with_the_signal_and_goes_on(tmp_path: Path) -> None:
    job = small_job(steps=200_000, members=1)
    path = written(tmp_path, replace(job, training=replace(job.training, eval_every=200)))
    command = [sys.executable, "-m", "separatrix.training", str(path), "--device", "cpu"]
    with subprocess.Popen(
        [*command, "--store", str(tmp_path / "store")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith("step "):
                break
        running.terminate()
        rest = running.stderr.read()
        assert running.wait(timeout=60) == -signal.SIGTERM
    assert "Terminated; run the same again to go on from step " in rest
    assert len(list((tmp_path / "store" / "checkpoints").rglob("*.safetensors"))) == 1
