"""A GPU that several processes share: when the service is started for them, and that it is ended again.

The service itself is a stand-in that writes down what it is asked and in which folders.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from separatrix.experiments import sharing
from separatrix.experiments.local import LocalEngine
from separatrix.experiments.sharing import share_gpus
from separatrix.store import Store
from tests.experiments.test_rates import job_of

CONTROL = """#!{python}
import json, os, sys, time
asked = {{
    "words": sys.argv[1:],
    "said": "" if "-d" in sys.argv else sys.stdin.read(),
    "pipes": os.environ["CUDA_MPS_PIPE_DIRECTORY"],
    "folders": [os.path.isdir(os.environ["CUDA_MPS_" + name + "_DIRECTORY"]) for name in ("PIPE", "LOG")],
}}
with open({log!r}, "a") as file:
    file.write(json.dumps(asked) + "\\n")
if "-d" in sys.argv and os.fork() == 0:
    time.sleep({stays})  # the daemon, with all that it inherits still open
    open({gone!r}, "w").close()
    os._exit(0)
if {fails}:
    sys.exit("An instance of this daemon is already running")
"""
Asked = Callable[[], list[dict[str, Any]]]
Install = Callable[..., Asked]


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a stand-in on the path; what it was asked then."""

    def install(*, fails: bool = False, stays: float = 0.0) -> Asked:
        log, folder = tmp_path / "asked", tmp_path / "bin"
        folder.mkdir()
        control = folder / "nvidia-cuda-mps-control"
        gone = str(tmp_path / "gone")
        words = {"python": sys.executable, "log": str(log), "fails": fails, "stays": stays, "gone": gone}
        control.write_text(CONTROL.format(**words))
        control.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        return lambda: [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    monkeypatch.setattr(sharing, "_USUAL", str(tmp_path / "nobody"))
    return install


def test_it_lives_as_long_as_the_processes(service: Install) -> None:
    asked = service()
    with share_gpus(2, ["cuda"], tell=pytest.fail) as places:
        pipes = Path(places["CUDA_MPS_PIPE_DIRECTORY"])
        assert pipes.is_dir()
        assert [one["words"] for one in asked()] == [["-d"]]
    begun, ended = asked()
    assert (ended["words"], ended["said"]) == ([], "quit\n")
    assert begun["pipes"] == ended["pipes"] == str(pipes)
    assert begun["folders"] == ended["folders"] == [True, True]
    assert not pipes.parent.exists()


def test_a_daemon_that_keeps_its_pipes_open_is_not_waited_for(service: Install, tmp_path: Path) -> None:
    service(stays=6.0)
    with share_gpus(2, ["cuda"], tell=pytest.fail):
        assert not (tmp_path / "gone").exists(), "it is still at work"


def test_it_is_ended_when_something_breaks(service: Install) -> None:
    asked = service()
    with pytest.raises(KeyboardInterrupt), share_gpus(3, ["cuda:0", "cuda:1"], tell=pytest.fail):
        raise KeyboardInterrupt
    assert [one["said"] for one in asked()] == ["", "quit\n"]


@pytest.mark.parametrize(
    ("processes", "devices"), [(1, ["cuda"]), (2, ["cuda:0", "cuda:1"]), (4, ["cpu"]), (4, ["auto"])]
)
def test_nobody_shares_a_gpu_so_none_is_started(
    service: Install, processes: int, devices: Sequence[str]
) -> None:
    asked = service()
    with share_gpus(processes, devices, tell=pytest.fail) as places:
        assert places == {}
    assert asked() == []


def test_one_that_is_there_is_left_alone(
    service: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, told = service(), list[str]()
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    with share_gpus(2, ["cuda"], tell=told.append) as places:
        assert places == {}
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY")
    monkeypatch.setattr(sharing, "_USUAL", str(tmp_path))
    with share_gpus(2, ["cuda"], tell=told.append) as places:
        assert places == {}
    assert asked() == []
    seems = "Processes share the GPU by the multi-process service that seems to run here already."
    assert told == [seems, seems]


def test_one_that_cannot_be_run_or_does_not_end_is_told_of(service: Install, tmp_path: Path) -> None:
    asked, told = service(), list[str]()
    control = tmp_path / "bin" / "nvidia-cuda-mps-control"
    program = control.read_text()
    with share_gpus(2, ["cuda"], tell=told.append) as places:
        assert places
        control.write_text(program.replace("if False:", "if True:"))
    assert len(asked()) == 2
    control.write_text("no program at all")
    with share_gpus(2, ["cuda"], tell=told.append) as places:
        assert places == {}
    left, refused = told
    assert left.startswith("nvidia-cuda-mps-control, which was started for this, may still run: An instance")
    assert refused.endswith("since nvidia-cuda-mps-control did not start: Exec format error.")


def test_without_it_they_take_turns_and_that_is_said(
    service: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setenv("PATH", str(tmp_path))
    with share_gpus(2, ["cuda"], tell=told.append) as places:
        assert places == {}
    asked = service(fails=True)
    with share_gpus(2, ["cuda"], tell=told.append) as places:
        assert places == {}
    turns = "Processes take turns on the GPU, since"
    assert told == [
        f"{turns} there is no nvidia-cuda-mps-control here to let them share it.",
        f"{turns} nvidia-cuda-mps-control did not start: An instance of this daemon is already running.",
    ]
    assert len(asked()) == 1, "what did not start is not ended"


@pytest.mark.slow
def test_processes_of_the_engine_find_it(
    service: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is told where it is; here they then say that there is no GPU, and it is ended all the same."""
    asked = service()
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    seen: list[dict[str, str]] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda words, **given: _noted(seen, popen, words, given))
    ran = LocalEngine(device="cuda", processes=2).run(
        [job_of(members=1), job_of(members=2)], Store(tmp_path / "store"), tell=lambda line: None
    )
    assert len(ran.failed) == 2
    assert all("no CUDA device" in failure.reason for failure in ran.failed)
    begun, ended = asked()
    assert [one["CUDA_MPS_PIPE_DIRECTORY"] for one in seen] == [begun["pipes"]] * 2
    assert ended["said"] == "quit\n"


def _noted(seen: list[dict[str, str]], popen: Any, words: list[str], given: dict[str, Any]) -> Any:
    if "separatrix.training" in words:
        assert "--shared" in words
        seen.append(given["env"])
    return popen(words, **given)


class Finished:
    """A process that ends at once, but for the first."""

    def __init__(self, words: list[str], seen: list[list[str]]) -> None:
        self.stderr, self._looks = io.StringIO(""), 6 if not seen else 0
        self.returncode = 0
        seen.append(words)

    def poll(self) -> int | None:
        self._looks -= 1
        return None if self._looks > 0 else 0


@pytest.mark.parametrize(
    ("gpus", "processes", "jobs", "devices", "shared"),
    [
        (2, 2, 4, ["cuda:0", "cuda:1", "cuda:1", "cuda:1"], False),
        (2, 3, 3, ["cuda:0", "cuda:1", "cuda:0"], True),
        (1, 8, 1, ["cuda"], False),
        (1, 8, 2, ["cuda", "cuda"], True),
    ],
)
def test_a_job_goes_where_fewest_are_at_work(
    service: Install,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gpus: int,
    processes: int,
    jobs: int,
    devices: list[str],
    shared: bool,
) -> None:
    """The first job outlasts the others. Who has a GPU for itself does not say that it shares one."""
    asked = service()
    seen: list[list[str]] = []
    started = subprocess.Popen

    def popen(words: list[str], **given: Any) -> Any:
        return Finished(words, seen) if "separatrix.training" in words else started(words, **given)

    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(subprocess, "Popen", popen)
    ran = LocalEngine(device="cuda", processes=processes).run(
        [job_of(members=members) for members in range(1, jobs + 1)],
        Store(tmp_path / "store"),
        tell=lambda line: None,
    )
    assert (ran.done, ran.failed) == (jobs, ())
    assert [words[words.index("--device") + 1] for words in seen] == devices
    assert {"--shared" in words for words in seen} == {shared}
    assert bool(asked()) == shared
