"""A second process that compiles what comes next: what it is given, and that it never outlives its use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.cuda._utils import _get_device_index

from separatrix.models import model
from separatrix.records import parse_json
from separatrix.tasks import task
from separatrix.training import Halving, Member, Training, ahead
from separatrix.training import __main__ as program
from separatrix.training.ahead import compiling_ahead, to_compile
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


def test_on_a_cpu_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_started", lambda words, said: pytest.fail(str(words)))
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
    card.setattr(ahead, "_started", lambda words, said: pytest.fail(str(words)))
    with compiling_ahead([job_of(n) for n in jobs], tell=pytest.fail, **given):
        pass


def _sleeping(found: list[Any]) -> Any:
    """A process that has one of its own, as the compiler's has; both would stay for a minute."""

    def started(words: Sequence[str], said: Path) -> subprocess.Popen[bytes]:
        found.append(list(words))
        found.append(Plan.from_json(parse_json(Path(words[0]).read_bytes(), what="the plan")))
        inner = "import subprocess as s; p = s.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
        process = subprocess.Popen(
            [sys.executable, "-c", inner], stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdout is not None
        found.append([process.pid, int(process.stdout.readline())])
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
    card.setattr(ahead, "_started", _sleeping(found))
    with (
        nullcontext() if error is None else pytest.raises(error),
        compiling_ahead([job_of(8), job_of(9)], backend="triton", own_code=True, tell=pytest.fail),
    ):
        words, plan, processes = found
        assert all(_is_there(pid) for pid in processes)
        if error is not None:
            raise error
    assert words[1:] == [
        "--prepare", "--beside", str(os.getpid()), "--device", "cuda", "--backend", "triton", "--own-code",
    ]  # fmt: skip
    assert plan.jobs == to_compile([job_of(8), job_of(9)])
    until = time.monotonic() + 10
    while any(_is_there(pid) for pid in processes) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(_is_there(pid) for pid in processes)
    assert not Path(words[0]).exists()


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
    ahead.keep_to_the_side(torch.device(device))
    ahead.keep_to_the_side(torch.device("cpu"))
    assert limits == [(0.25, number)]
    assert nice == [10, 10]


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths that the program has compiled; of 9 it says that there is no memory for it."""
    found: list[int] = []

    def prepare(job: Job, **_: Any) -> None:
        if job.built_task.n == 9:
            raise torch.OutOfMemoryError("out of memory")
        found.append(job.built_task.n)

    monkeypatch.setattr(program, "prepare_job", prepare)
    monkeypatch.setattr(program, "keep_to_the_side", lambda device: None)
    return found


def _plan(folder: Path) -> str:
    path = folder / "plan.json"
    jobs = tuple(job_of(n, members=1) for n in (8, 9, 10))
    path.write_text(json.dumps(Plan(jobs=jobs).to_json()))
    return str(path)


def test_what_finds_no_room_is_passed_over_beside_another(tmp_path: Path, prepared: list[int]) -> None:
    words = [_plan(tmp_path), "--prepare", "--device", "cpu"]
    assert program.main([*words, "--beside", str(os.getppid())]) == 0
    assert prepared == [8, 10]
    prepared.clear()
    assert program.main(words) == 2
    assert prepared == [8]


def test_it_does_not_outlive_the_process_beside_which_it_compiles(
    tmp_path: Path, prepared: list[int]
) -> None:
    assert program.main([_plan(tmp_path), "--prepare", "--device", "cpu", "--beside", "1234567"]) == 0
    assert prepared == []
