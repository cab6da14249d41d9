"""Training against worst inputs on a CUDA device: a recorded step draws what is found later.

`PYTHONPATH=src python3 -m pytest tests/gpu/test_against_on_gpu.py`
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from separatrix.models import model
from separatrix.models.population import signature_of
from separatrix.models.transformer import Transformer
from separatrix.store import Store
from separatrix.tasks import task
from separatrix.training import Against, Member, Training, run_job, train
from separatrix.training.against import Attack
from separatrix.training.jobs import job_for
from tests.training.test_populations import same
from tests.training.test_resume import contents, facts, interrupted

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # the compiler's own remarks
]

LOOKUP = task("index-lookup", n=12, alphabet=8, lengths="full")
QUICK = Training(
    steps=60,
    batch=16,
    eval_every=20,
    eval_examples=64,
    test_examples=64,
    stop="never",
    against=Against(every=8, share=0.25, cases=32, kept=64),
)
MINE = Member(lr=3e-3, seed=5)


@pytest.fixture(autouse=True)
def _always_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack members that have learned nothing yet, so that a few steps will do."""
    monkeypatch.setattr("separatrix.training.against._READY", 0.0)


@pytest.mark.parametrize("asked", [LOOKUP, task("dyck", n=12)], ids=lambda asked: str(asked.name))
def test_the_same_inputs_are_found_as_on_a_cpu(asked) -> None:  # type: ignore[no-untyped-def]
    population = Transformer(Transformer.Config(width=32), signature_of(asked), members=1).initialise([5])
    weights = {name: 3 * value for name, value in population.state_dict().items()}
    found = []
    for device in ("cpu", "cuda"):
        attack = Attack(population.to(device), asked, cases=64)
        moved = {name: value.to(device) for name, value in weights.items()}
        found.append(attack.found(moved, seed=1, step=8))
    here, there = ({tuple(row) for row in each.inputs.tolist()} for each in found)
    assert len(here & there) > 0.8 * len(here), "but for leads that are equal up to rounding"


def test_a_recorded_step_draws_what_is_found_later() -> None:
    settings = {"device": "cuda", "compiled": False, "deterministic": True}
    plain, one, again = (
        train(LOOKUP, "transformer", members=[MINE], training=training, **settings)[0]  # type: ignore[arg-type]
        for training in (replace(QUICK, against=None), QUICK, QUICK)
    )
    assert same(one, again)
    assert not same(one, plain)


@pytest.mark.parametrize("compiled", [False, True])
def test_cut_off_it_goes_on_with_the_same_bytes(tmp_path: Path, compiled: bool) -> None:
    job = job_for(
        LOOKUP,
        model("transformer", width=32),
        members=[MINE, Member(lr=1e-3, seed=1), Member(lr=1e-2, seed=2)],
        training=replace(QUICK, precision="bfloat16"),
    )
    settings = {"device": "cuda", "compiled": compiled, "deterministic": True, "seats": 2}
    run_job(job, store=Store(tmp_path / "whole"), **settings)  # type: ignore[arg-type]
    interrupted(job, tmp_path / "broken", looks=4, **settings)
    run_job(job, store=Store(tmp_path / "broken"), **settings)  # type: ignore[arg-type]
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")
    assert facts(tmp_path / "broken") == facts(tmp_path / "whole")
