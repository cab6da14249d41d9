"""The public API: lazy, complete, and as the snapshot says."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import separatrix
from separatrix.accounting import Size
from separatrix.communication import Wall
from separatrix.evidence import Bound, Certificate, Transcript
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.tasks import Batch, Task
from separatrix.witnesses import Witness
from separatrix.witnesses.solving import Solution

SNAPSHOT = Path(__file__).parent / "data" / "public_api.txt"


@pytest.mark.slow
def test_every_name_works_after_every_submodule_is_imported(tmp_path: Path) -> None:
    for module in pkgutil.walk_packages(separatrix.__path__, "separatrix."):
        importlib.import_module(module.name)
    built = separatrix.witness_for(separatrix.task("index-lookup", n=4, alphabet=2))
    remembering = separatrix.witness_for(built.task, family="rnn")
    assert isinstance(remembering.model, RecurrentModel)
    storing = remembering.model
    row = built.task.full_length().sample(1, seed=0).inputs[0]
    member = separatrix.Member(lr=1e-3, seed=1)
    quick = separatrix.Training(steps=2, batch=4, eval_examples=8, test_examples=8)
    calls: dict[str, Callable[[], object]] = {
        "MODELS": lambda: separatrix.MODELS.get("mamba"),
        "TASKS": lambda: separatrix.TASKS.get("index-lookup"),
        "Member": lambda: member,
        "Store": lambda: separatrix.Store(tmp_path / "runs").runs(),
        "Training": lambda: quick,
        "SeparatrixError": lambda: separatrix.SeparatrixError("a sentence"),
        "__version__": lambda: separatrix.__version__,
        "audit": lambda: separatrix.audit(separatrix.model("mamba"), n=(100,)),
        "bound": lambda: separatrix.bound(built.task, "rnn"),
        "bounds_for": lambda: separatrix.bounds_for(built.task, "rnn"),
        "break_model": lambda: separatrix.break_model(built, budget=0.5, samples=10, rounds=1),
        "certify": lambda: separatrix.certify(built),
        "collide": lambda: separatrix.collide(storing, built.task, most=8),
        "frontier": lambda: separatrix.frontier(separatrix.task("match2", n=2, modulus=2)),
        "load": lambda: separatrix.load(separatrix.save(built, tmp_path / "witness")),
        "make_atlas": lambda: separatrix.make_atlas(tmp_path).read_text(encoding="utf-8"),
        "model": lambda: separatrix.model("mamba", layers=1, width=16),
        "probe": lambda: _sentence(lambda: separatrix.probe(tmp_path / "none", task="phone-book")),
        "reproduce": lambda: separatrix.reproduce(
            "r-qsa", separatrix.Store(tmp_path / "figure"), device="cpu"
        ),
        "run_protocol": lambda: separatrix.run_protocol(remembering, built.task, row),
        "sample": lambda: separatrix.sample("index-lookup", 3, n=4),
        "save": lambda: separatrix.save(built, tmp_path / "again"),
        "size_of": lambda: separatrix.size_of("mamba", built.task, precision=16),
        "solve": lambda: separatrix.solve(built.task, "s1 s0 @2"),
        "task": lambda: separatrix.task("index-lookup", n=4),
        "train": lambda: separatrix.train(built.task, "lstm", members=[member], training=quick),
        "wall": lambda: separatrix.wall("index-lookup", family="rnn", state_bits=64),
        "witness_for": lambda: built,
    }
    assert sorted(calls) == sorted(separatrix.__all__)
    results = {name: call() for name, call in calls.items()}
    assert isinstance(results["task"], Task)
    assert isinstance(results["sample"], Batch)
    assert isinstance(results["load"], Witness)
    assert isinstance(results["size_of"], Size)
    assert isinstance(results["solve"], Solution)
    assert results["solve"].text == "s0"
    assert isinstance(results["certify"], Certificate)
    assert results["certify"].verdict == "proved"
    assert isinstance(results["bound"], Bound)
    assert results["bound"].at_least == 4
    assert isinstance(results["wall"], Wall)
    assert results["wall"].largest_n == 10
    assert results["collide"] is None
    assert isinstance(results["run_protocol"], Transcript)
    assert results["run_protocol"].agrees
    assert str(results["probe"]).endswith(".")
    assert str(results["make_atlas"]).lower().startswith("<!doctype html>")


def _sentence(call: Callable[[], object]) -> str:
    """What a call that needs an extra or a model on disk says without them."""
    with pytest.raises(separatrix.SeparatrixError) as refusal:
        call()
    return str(refusal.value)


def test_sample_is_the_tasks_own() -> None:
    drawn = separatrix.sample("index-lookup", 3, seed=7, start=2, n=4, alphabet=8)
    own = separatrix.task("index-lookup", n=4, alphabet=8).sample(5, seed=7)
    assert drawn.inputs.equal(own.inputs[2:])


def test_errors_of_the_api_are_sentences() -> None:
    with pytest.raises(separatrix.SeparatrixError, match=r"There is no task 'dick'\. Did you mean dyck"):
        separatrix.sample("dick", 1, n=4)
    with pytest.raises(separatrix.SeparatrixError, match="A batch holds at least one example; got batch=0"):
        separatrix.sample("index-lookup", 0, n=4)
    with pytest.raises(AttributeError, match="module 'separatrix' has no attribute 'tusk'"):
        _ = separatrix.tusk


def test_names_are_listed_before_they_are_used() -> None:
    script = (
        "import separatrix, sys;"
        "print(set(separatrix.__all__) <= set(dir(separatrix)), 'torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "False"]


def test_the_api_is_as_the_snapshot_says() -> None:
    lines = [_line(name, getattr(separatrix, name)) for name in sorted(separatrix.__all__)]
    assert "\n".join(lines) + "\n" == SNAPSHOT.read_text(encoding="utf-8"), (
        "The public API changed; if that is meant, write the new lines to tests/data/public_api.txt."
    )


def _line(name: str, value: Any) -> str:
    if inspect.isclass(value):
        return f"class {name}({', '.join(base.__name__ for base in value.__bases__)})"
    if inspect.isfunction(value):
        return f"{name}{inspect.signature(value)}"
    return f"{name}: {type(value).__name__}"
