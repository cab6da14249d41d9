"""A second process that compiles what comes next: what it is given, and that it never outlives its use."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, Any

import pytest
import torch
from torch.cuda._utils import _get_device_index

from separatrix.errors import InvalidInput
from separatrix.models import model
from separatrix.tasks import task
from separatrix.training import Halving, Member, Training, ahead
from separatrix.training.ahead import Ahead, compiling_ahead, to_compile
from separatrix.training.jobs import Job, Plan, job_for

CUDA = torch.device("cuda")


def job_of(n: int, *, members: int = 7, halving: Halving | None = None) -> Job:
    return job_for(
        task("index-lookup", n=n, alphabet=8),
        model("transformer", width=16),
        members=[Member(seed=seed) for seed in range(members)],
        training=Training(steps=250_000, eval_every=2_500, halving=halving, stop="first"),
    )


def test_every_population_but_the_first_is_compiled_in_its_turn() -> None:
    dropping = Halving(first=40_000, factor=3)
    found = to_compile([job_of(8, halving=dropping), job_of(9, halving=dropping), job_of(10, members=2)])
    assert [(one.built_task.n, len(one.members)) for one in found] == [
        (8, 3),
        (8, 1),
        (9, 7),
        (9, 3),
        (9, 1),
        (10, 2),
    ]
    assert {one.training.steps for one in found} == {250_000}, "which the compiled update has in it"
    assert all(one.training.halving is None for one in found)
    assert to_compile([job_of(8)]) == ()
    assert [len(one.members) for one in to_compile([job_of(8, members=5)], seats=3)] == [2]
    assert to_compile([job_of(8), job_of(8)]) == (), "the same population is there already"


def test_lanes_need_their_next_populations_at_the_same_time() -> None:
    dropping = Halving(first=40_000, factor=3)
    jobs = [job_of(n, halving=dropping) for n in (8, 9, 10)]
    found = [(one.built_task.n, len(one.members)) for one in to_compile(jobs, lanes=2)]
    assert found == [(8, 3), (9, 3), (8, 1), (9, 1), (10, 7), (10, 3), (10, 1)]
    twice = to_compile([jobs[0], jobs[0], jobs[2]], lanes=2)
    assert [(one.built_task.n, len(one.members)) for one in twice] == [one for one in found if one[0] != 9], (
        "the first population of both is the same"
    )


def test_on_a_cpu_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "started", lambda *given: pytest.fail(str(given)))
    with compiling_ahead([job_of(8), job_of(9)], device="cpu", tell=pytest.fail):
        pass


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As if there were a GPU of 80 GB."""
    monkeypatch.setattr(ahead, "chosen_device", lambda name: CUDA)
    monkeypatch.setattr(ahead, "memory_of", lambda device: 80 * 10**9)
    return monkeypatch


@pytest.mark.parametrize(
    ("jobs", "given", "memory"),
    [((8,), {}, 80), ((8, 9), {"compiled": False}, 80), ((8, 9), {}, 24)],
    ids=["one population", "nothing is compiled", "a small card"],
)
def test_where_it_is_of_no_use_nothing_is_started(
    card: pytest.MonkeyPatch, jobs: Sequence[int], given: dict[str, Any], memory: int
) -> None:
    card.setattr(ahead, "memory_of", lambda device: memory * 10**9)
    card.setattr(ahead, "started", lambda *given: pytest.fail(str(given)))
    with compiling_ahead([job_of(n) for n in jobs], tell=pytest.fail, **given):
        pass


def _sleeping(found: list[Any]) -> Any:
    """A process that has one of its own, as the compiler's has; both would stay for a minute."""

    def started(plan: Plan, words: Sequence[str], said: IO[bytes]) -> subprocess.Popen[bytes]:
        inner = "import subprocess as s; p = s.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
        process = subprocess.Popen(
            [sys.executable, "-c", inner],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        found.extend([list(words), plan, [process.pid, int(process.stdout.readline())]])
        process.stdout.close()
        return process

    return started


def _is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, RuntimeError])
def test_it_ends_with_the_work_and_with_all_that_it_started(
    card: pytest.MonkeyPatch, error: type[BaseException] | None
) -> None:
    found: list[Any] = []
    card.setattr(ahead, "started", _sleeping(found))
    with (
        nullcontext() if error is None else pytest.raises(error),
        compiling_ahead([job_of(8), job_of(9)], backend="triton", own_code=True, tell=pytest.fail),
    ):
        words, plan, processes = found
        assert all(_is_there(pid) for pid in processes)
        if error is not None:
            raise error
    assert words == ["--device", "cuda", "--backend", "triton", "--own-code"]
    assert plan.jobs == to_compile([job_of(8), job_of(9)])
    assert _all_gone(processes)


def _all_gone(processes: Sequence[int]) -> bool:
    until = time.monotonic() + 10
    while any(_is_there(pid) for pid in processes) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(_is_there(pid) for pid in processes)


PARENT = """
import sys, time
import torch
from separatrix.errors import InvalidInput
from separatrix.models import model
from separatrix.tasks import task
from separatrix.training import Member, Training, ahead
from separatrix.training.jobs import job_for

class Card:
    type = "cuda"
    def __str__(self):
        return "cpu"  # where the child then really takes a step of each, a minute in all

ahead.chosen_device = lambda name: Card()
ahead.memory_of = lambda device: 10**12
jobs = [
    job_for(task("index-lookup", n=n), model("mamba", width=64), members=[Member()], training=Training())
    for n in range(100, 300)
]
with ahead.compiling_ahead(jobs, tell=print) as second:
    print(second._process.pid, flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_it_does_not_outlive_the_process_that_trains(how: signal.Signals) -> None:
    """The real one, in the middle of its work, when its parent is ended without another word."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    until = time.monotonic() + 60
    while _niceness(child) != 10 and time.monotonic() < until:  # it has come to its work
        time.sleep(0.05)
    assert _niceness(child) == 10
    parent.send_signal(how)
    parent.wait(30)
    parent.stdout.close()
    assert _all_gone([child])


@pytest.mark.slow
def test_it_ends_well_by_itself_while_the_one_that_trains_goes_on() -> None:
    process = ahead.started(Plan(jobs=(job_of(8, members=1),)), ["--device", "cpu"])
    assert process.wait(60) == 0
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.slow
def test_a_long_plan_does_not_hold_up_the_work(card: pytest.MonkeyPatch) -> None:
    """Of a thousand jobs, to a process that never reads it: a pipe takes a twentieth of that."""
    real = subprocess.Popen
    card.setattr(
        subprocess,
        "Popen",
        lambda words, **given: real([words[0], "-c", "import time; time.sleep(20)"], **given),
    )
    with compiling_ahead([job_of(n) for n in range(10, 1010)], tell=pytest.fail) as second:
        process = second._process
        assert process is not None
        assert process.poll() is None, "the block began before the other ended"
    assert process.poll() is not None


def _niceness(pid: int) -> int | None:
    try:
        return os.getpriority(os.PRIO_PROCESS, pid)
    except ProcessLookupError:
        return None


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.exit('Something went wrong.\\n')", "Something went wrong."),
        ("import sys; sys.exit(3)", "it said nothing"),
        ("pass", None),
    ],
)
def test_what_fails_ahead_is_told_at_the_end(card: pytest.MonkeyPatch, code: str, told: str | None) -> None:
    """The real start, but of another program."""
    heard: list[str] = []
    real = subprocess.Popen
    begun: list[subprocess.Popen[bytes]] = []

    def other(words: Sequence[str], **settings: Any) -> subprocess.Popen[bytes]:
        begun.append(real([words[0], "-c", code], **settings))
        return begun[-1]

    card.setattr(subprocess, "Popen", other)
    with compiling_ahead([job_of(8), job_of(9)], tell=heard.append):
        begun[0].wait(30)
    first = "Compiling ahead ended early, which cost nothing but time: "
    assert heard == ([] if told is None else [first + told])


@pytest.mark.parametrize(("device", "number"), [("cuda", 2), ("cuda:1", 1)])
def test_a_quarter_of_the_memory_is_enough(monkeypatch: pytest.MonkeyPatch, device: str, number: int) -> None:
    """torch wants a number and refuses a device without one."""
    limits: list[tuple[float, int]] = []
    nice: list[int] = []
    monkeypatch.setattr(os, "nice", nice.append)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    monkeypatch.setattr(
        torch.cuda,
        "set_per_process_memory_fraction",
        lambda share, where: limits.append((share, _get_device_index(where))),
    )
    ahead._keep_to_the_side(torch.device(device))
    ahead._keep_to_the_side(torch.device("cpu"))
    assert limits == [(0.25, number)]
    assert nice == [10, 10]


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Lengths and rows that were compiled. For 9 there is no memory, and 10 is refused."""
    found: list[tuple[int, int]] = []

    def prepare(job: Job, *, seats: int, **_: Any) -> None:
        if job.built_task.n == 9:
            raise torch.OutOfMemoryError("out of memory")
        if job.built_task.n == 10:
            raise InvalidInput("Ten is not to my taste.")
        found.append((job.built_task.n, seats))

    monkeypatch.setattr(ahead, "prepare_job", prepare)
    monkeypatch.setattr(ahead, "_keep_to_the_side", lambda device: None)
    monkeypatch.setattr(ahead, "_end_with", lambda stream: None)
    return found


def _given(monkeypatch: pytest.MonkeyPatch, *lengths: int) -> None:
    plan = Plan(jobs=tuple(job_of(n, members=n) for n in lengths))
    line = json.dumps(plan.to_json()).encode() + b"\nnothing of this is read"
    given = TextIOWrapper(BytesIO(line))
    given.fileno = lambda: -1  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", given)


@pytest.mark.slow
def test_what_finds_no_room_or_is_wrong_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, prepared: list[tuple[int, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    _given(monkeypatch, 8, 9, 10, 11)
    assert ahead.main(["--device", "cpu"]) == 1
    assert prepared == [(8, 8), (11, 11)]
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("transformer-(1,16) on index-lookup at 10: ")
    assert said[0].endswith("Ten is not to my taste.")
    prepared.clear()
    _given(monkeypatch, 8, 9)
    assert ahead.main(["--device", "cpu"]) == 0
    assert prepared == [(8, 8)]


def test_work_without_room_is_done_again_when_nothing_else_is(card: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    card.setattr(ahead, "started", _sleeping(found))
    tries: list[bool] = []

    def work() -> str:
        tries.append(_is_there(found[2][0]))
        if len(tries) == 1:
            raise torch.OutOfMemoryError("out of memory")
        return "done"

    def fails() -> None:
        raise torch.OutOfMemoryError("out of memory")

    with compiling_ahead([job_of(8), job_of(9)], tell=pytest.fail) as second:
        with pytest.raises(RuntimeError, match="another matter"):
            second.making_room(_raiser(RuntimeError("another matter")))
        assert second.making_room(work) == "done"
        assert tries == [True, False]
        with pytest.raises(torch.OutOfMemoryError):
            second.making_room(fails)
    with pytest.raises(torch.OutOfMemoryError):
        Ahead().making_room(fails)


def _raiser(error: Exception) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work
