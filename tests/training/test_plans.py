"""`python3 -m separatrix.training PLAN.json`: a plan on a machine that has little more than torch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from separatrix.models.specs import ModelSpec
from separatrix.models.transformer import Transformer
from separatrix.store import Store
from separatrix.tasks import task
from separatrix.training import Job, Member, Observer, Plan, Training
from separatrix.training import __main__ as program
from separatrix.training.__main__ import main, read_plan
from separatrix.training.course import Course
from separatrix.training.engine import Engine
from separatrix.training.jobs import job_for

RESTRICTED = """
import runpy, sys

ABSENT = {"cyclopts", "flint", "re2", "matplotlib", "jinja2", "beartype", "einops"}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
runpy.run_module("separatrix.training", run_name="__main__", alter_sys=True)
"""


def small_job(*, steps: int = 20, seeds: tuple[int, ...] = (0, 1)) -> Job:
    return job_for(
        task("index-lookup", n=8, alphabet=8),
        Transformer.Config(width=16, heads=2),
        members=[Member(seed=seed) for seed in seeds],
        training=Training(steps=steps, batch=8, eval_every=10, eval_examples=20, test_examples=30),
    )


def written(folder: Path, *jobs: Job) -> Path:
    path = folder / "plan.json"
    path.write_text(json.dumps(Plan(jobs=jobs).to_json()))
    return path


def ran(
    capsys: pytest.CaptureFixture[str], path: Path, *options: str
) -> tuple[int, list[dict[str, Any]], str]:
    code = main([str(path), "--device", "cpu", "--store", str(path.parent / "store"), *options])
    out, err = capsys.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], err


@pytest.mark.slow
def test_little_more_than_torch_is_needed(tmp_path: Path) -> None:
    path = written(tmp_path, small_job())
    command = [sys.executable, "-c", RESTRICTED, str(path), "--device", "cpu", "--store", str(tmp_path / "s")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["config"]["member"]["seed"] for line in lines] == [0, 1]
    assert "step 20 of 20" in done.stderr


def test_jobs_may_be_done_abreast(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, each under its number, one that stands there twice too."""
    jobs = small_job(steps=10), small_job(steps=10, seeds=(5,)), small_job(steps=10)
    code, lines, err = ran(capsys, written(tmp_path, *jobs), "--abreast", "2")
    assert code == 0, err
    found = sorted((line["job"], line["config"]["member"]["seed"]) for line in lines)
    assert found == [(0, 0), (0, 1), (1, 5), (2, 0), (2, 1)]


@pytest.mark.parametrize("shared", [False, True])
def test_what_shared_its_device_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shared: bool
) -> None:
    path = written(tmp_path, small_job(steps=10))
    code, _, err = ran(capsys, path, *(["--shared"] if shared else []))
    assert code == 0, err
    runs = Store(tmp_path / "store").runs()
    assert len(runs) == 2
    assert all(("abreast" in run.provenance) == shared for run in runs)


@pytest.mark.slow
def test_jobs_are_done_one_after_another_and_not_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = small_job(), small_job(steps=10, seeds=(5,))
    path = written(tmp_path, *jobs)
    code, lines, err = ran(capsys, path)
    assert code == 0
    assert [(line["job"], line["steps"], line["status"]) for line in lines] == [
        (0, 20, "done"),
        (0, 20, "done"),
        (1, 10, "done"),
    ]
    for line in lines:
        low, high = line["interval"]
        assert 0 <= low <= line["accuracy"] <= high <= 1
        assert line["examples"] == 30
    assert "step 20 of 20" in err
    again = ran(capsys, path)
    assert again[:2] == (0, lines)
    assert "2 in the store already" in again[2]
    assert "step" not in again[2]


def test_to_prepare_takes_a_step_of_every_job_and_keeps_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    monkeypatch.setattr(Engine, "run", lambda _, steps: taken.append(steps))
    code, lines, _ = ran(capsys, written(tmp_path, small_job(), small_job(seeds=(3,))), "--prepare")
    assert (code, lines, taken) == (0, [], [1, 1])
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_an_interrupted_plan_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, small_job(), small_job(steps=10, seeds=(5,)))
    _, whole, _ = ran(capsys, path, "--store", str(tmp_path / "other"))

    class Impatient(Observer):
        def __init__(self, _: object) -> None:
            pass

        def looked(self, course: Course) -> None:
            if len(course.job.members) == 1:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(program, "LinesView", Impatient)
        code, lines, err = ran(capsys, path)
    assert (code, len(lines)) == (130, 2)
    assert err == "Interrupted; run the same again to go on from the last checkpoint.\n"
    code, lines, _ = ran(capsys, path)
    assert code == 0
    for line in (*lines, *whole):
        del line["seconds"]
    assert lines == whole


def refused(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> str:
    code, lines, err = ran(capsys, path, *options)
    assert (code, lines) == (2, [])
    assert err.count("\n") == 1
    assert not (path.parent / "store").exists()
    return err.strip()


def broken() -> Iterator[tuple[str, str]]:
    plan = Plan(jobs=(small_job(),)).to_json()
    text = json.dumps(plan)
    yield "", "is not JSON"
    yield text[:-5], "is not JSON"
    yield "[]", "separatrix.plan is a JSON object; got an array."
    yield (
        '{"schema": "separatrix.job"}',
        "Expected a record of schema 'separatrix.plan'; got 'separatrix.job'.",
    )
    newer = "separatrix.plan was written by a newer separatrix (version 2; this one knows up to 1); upgrade"
    yield json.dumps({**plan, "version": 2}), newer
    yield json.dumps({**plan, "jobs": []}), "A plan has at least one job; none was given."
    yield json.dumps({**plan, "more": 1}), "more"
    yield text.replace('"lr": 0.001', '"lr": 0'), "A learning rate is a finite number above 0; got lr=0.0."
    yield text.replace('"lr": 0.001', '"lr": NaN'), "has NaN, which is no JSON number."
    yield text.replace('"heads": 2', '"heads": 3'), "got width=16 and heads=3. Try width=15."
    yield text.replace('"transformer"', '"transfomer"'), "Did you mean transformer"
    yield (
        text.replace('"index-lookup"', '"nearest-neighbour"'),
        "nearest-neighbour has no parameter 'alphabet'",
    )
    yield text.replace('"steps": 20', '"steps": 0'), "Training needs steps from 1 to 2^40 − 1; got steps=0."
    curriculum = '"curriculum": {"start": 2, "steps": 20, "stages": 4}'
    yield (
        text.replace('"curriculum": null', curriculum),
        "A curriculum comes to the full n when its steps are",
    )
    yield "[" * 5000, "nested too deep"


@pytest.mark.parametrize(("text", "words"), list(broken()))
def test_a_bad_plan_is_one_sentence(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    assert words in refused(capsys, path)


def test_a_plan_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a\x1b[2Jb.json"
    assert refused(capsys, path) == (
        f"The plan '{tmp_path}/a\\x1b[2Jb.json' cannot be read: No such file or directory."
    )
    assert "cannot be read: Is a directory." in refused(capsys, tmp_path)


def test_the_last_job_is_looked_at_before_the_first_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, other = small_job().to_fields(), small_job().to_fields()
    other["model"] = {"name": "graph-transformer", "params": {}}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"schema": "separatrix.plan", "version": 1, "jobs": [good, other]}))
    assert refused(capsys, path).startswith("graph-transformer reads an adjacency matrix")


def test_code_that_a_plan_names_is_run_only_if_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_plan_net.py").write_text(
        "from torch import nn\n\n"
        "def make(signature):\n"
        "    return nn.Sequential(nn.Embedding(signature.inputs.size, 4), nn.Linear(4, signature.out))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    fields = small_job(seeds=(0,)).to_fields()
    fields["model"] = ModelSpec(name="own_plan_net:make").to_fields()
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"schema": "separatrix.plan", "version": 1, "jobs": [fields]}))
    assert refused(capsys, path) == (
        "The model own_plan_net:make is made by code of its own; add --own-code if you trust it."
    )
    assert "own_plan_net" not in sys.modules
    code, lines, _ = ran(capsys, path, "--own-code")
    assert code == 0
    assert lines[0]["config"]["model"]["name"] == "own_plan_net:make"


def test_options_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, small_job())
    for option, value, words in (
        ("--seats", "0", "a whole number from 1 to 10^18 − 1 is needed; got '0'"),
        ("--seats", "9" * 5000, f"a whole number from 1 to 10^18 − 1 is needed; got '{'9' * 40}'"),
        ("--store", "", "the name of a folder is needed; got an empty one"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main([str(path), option, value])
        assert stopped.value.code == 2
        assert words in capsys.readouterr().err
    code, _, err = ran(capsys, path, "--device", "tpu")
    assert (code, err) == (2, "A device is auto, cpu, cuda or cuda:1; got 'tpu'.\n")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    ],
)
def test_too_little_memory_is_a_sentence(
    error: Exception, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(program, "run_job", fail)
    code, _, err = ran(capsys, written(tmp_path, small_job()))
    assert (code, err) == (
        2,
        "This does not fit in memory; give fewer --seats, or a plan with a smaller model, batch or n.\n",
    )


def test_our_own_mistakes_are_not_taken_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(program, "run_job", fail)
    with pytest.raises(RuntimeError, match="multiplied"):
        ran(capsys, written(tmp_path, small_job()))


@pytest.mark.slow
def test_what_cannot_fit_is_refused_before_there_is_a_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, small_job(), small_job(steps=10))
    monkeypatch.setattr("separatrix.training.memory.memory_of", lambda _: 1000)
    assert refused(capsys, path).startswith("A step of 2 members on 8 examples of 9 positions needs at least")
    monkeypatch.undo()
    assert ran(capsys, path)[0] == 0
    monkeypatch.setattr("separatrix.training.memory.memory_of", lambda _: 1000)
    assert ran(capsys, path)[0] == 0, "what a store has need not fit"


def test_a_plan_comes_back_as_it_was(tmp_path: Path) -> None:
    plan = Plan(jobs=(small_job(), small_job(steps=10)))
    assert read_plan(written(tmp_path, *plan.jobs)) == plan
