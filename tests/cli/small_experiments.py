"""Small experiments for the tests of `separatrix reproduce`, in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.cells import cell_len

from separatrix.cli import experimenting, reproduced
from separatrix.experiments import EXPERIMENTS, local
from separatrix.experiments.cells import Cell, Measured, Panel, Study
from separatrix.experiments.protocols import Settings
from separatrix.models import model
from separatrix.tasks import task
from separatrix.training import Member, Training
from separatrix.training.jobs import job_for
from tests.cli.running import Ran as Answer
from tests.cli.running import run

MEMBERS = 2
STEPS = 4
ONE = ("tiny", "--rows", "TF", "--columns", "2")


def tiny(name: str) -> Callable[[Settings], Study]:
    """A study of two models at two lengths and a solver; its budgets differ in nothing but their steps."""

    def study(settings: Settings) -> Study:
        steps = STEPS if settings.small else STEPS + 1
        training = Training(steps=steps, batch=4, eval_every=2, eval_examples=8, test_examples=20)
        cells = [
            Cell(
                row=f"{label}-(1,8)",
                column=n,
                jobs=(
                    job_for(
                        task("index-lookup", n=n, alphabet=2),
                        model(architecture, layers=1, width=8),
                        members=[Member(lr=lr, seed=seed) for seed in settings.seeds for lr in (1e-3, 1e-2)],
                        training=training,
                    ),
                ),
            )
            for label, architecture in (("LinTF", "linear-transformer"), ("TF", "transformer"))
            for n in (2, 3)
        ]
        solved = Cell(
            row="guess", column=2, measure=lambda store: Measured(right=10, examples=20, note="a coin")
        )
        return Study(
            name=name,
            title="Index lookup, small",
            work="S",
            where="nowhere",
            claim="Nobody claims anything.",
            budget=settings.budget,
            panels=(
                Panel(name="lookup", title="Lookup", cells=tuple(cells)),
                Panel(name="guesses", title="Guesses", cells=(solved,), said="Words."),
            ),
        )

    return study


def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store, a folder and two small experiments of its own for every test; figures take time to draw."""
    monkeypatch.setenv("SEPARATRIX_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    known = {name: EXPERIMENTS.get(name) for name in ("w-hotpot", "s-fig2")}
    monkeypatch.setattr(EXPERIMENTS, "_builtin", tuple(known))
    monkeypatch.setattr(EXPERIMENTS, "_entries", {**known, "tiny": tiny("tiny"), "other": tiny("other")})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(reproduced, "write_figures", lambda outcome, folder: folder.mkdir(parents=True) or [])
    monkeypatch.setattr(experimenting, "results_folder", lambda: None)
    return tmp_path / "store"


def reproduce(*argv: str) -> Answer:
    ran = run("reproduce", *argv)
    assert ran.code == 0, ran.err
    return ran


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """As if these experiments were not there."""
    monkeypatch.setattr(EXPERIMENTS, "_builtin", tuple(n for n in EXPERIMENTS._builtin if n not in names))
    kept = {name: entry for name, entry in EXPERIMENTS._entries.items() if name not in names}
    monkeypatch.setattr(EXPERIMENTS, "_entries", kept)


def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("something is trained")

    monkeypatch.setattr(local, "run_job", refuse)


def narrow(text: str) -> None:
    for line in text.splitlines():
        assert cell_len(line) <= 80, line
