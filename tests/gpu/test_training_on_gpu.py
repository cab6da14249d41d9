"""Populations on a CUDA device: recorded steps, exact resumption, and members that do not see each other.

`PYTHONPATH=src python3 -m pytest tests/gpu/test_training_on_gpu.py`
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from separatrix.models import model
from separatrix.randomness import Band
from separatrix.store import Store
from separatrix.tasks import Task, task
from separatrix.training import Curriculum, Halving, Member, Training, run_job, train
from separatrix.training.course import Course
from separatrix.training.jobs import job_for
from separatrix.training.running import placing_for
from separatrix.training.sources import Source
from tests.training.test_populations import same
from tests.training.test_resume import contents, facts, interrupted

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # the compiler's own remarks
]

LOOKUP = task("index-lookup", n=12, alphabet=8)
QUICK = Training(steps=60, batch=16, eval_every=20, eval_examples=64, test_examples=64, stop="never")
MINE = Member(lr=3e-3, seed=5, schedule="cosine", warmup=4)
CASES = {
    "transformer": (LOOKUP, {"width": 32}),
    "lstm": (task("dyck", n=12), {"width": 32}),
    "mamba": (task("dyck", n=12), {"layers": 1, "width": 32}),
    "retnet": (LOOKUP, {"width": 32}),
    "dss": (LOOKUP, {"layers": 1, "width": 32, "state": 16}),
}


def test_a_compiled_population_learns() -> None:
    training = Training(steps=2000, eval_every=100, solved=0.995, precision="bfloat16")
    members = [Member(lr=1e-3, seed=seed) for seed in range(3)]
    found = train(task("index-lookup", n=20), "transformer", members=members, training=training)
    assert max(one.accuracy for one in found) >= 0.99


@pytest.mark.parametrize("name", CASES)
def test_it_does_not_matter_who_the_others_are(name: str) -> None:
    asked, params = CASES[name]
    others = [Member(lr=1e-4, seed=7), MINE, Member(lr=1e30, seed=1)]
    strangers = [Member(lr=1e-2, seed=20), MINE, Member(lr=1e-3, seed=21)]
    these, those = (
        train(
            asked,
            model(name, **params),
            members=members,
            training=replace(QUICK, precision="bfloat16"),
            compiled=False,
            deterministic=True,
        )
        for members in (others, strangers)
    )
    assert same(these[1], those[1])


def test_a_recorded_step_is_the_step_on_a_cpu() -> None:
    """Float64 on both, so that only the order of sums differs."""
    training = replace(QUICK, precision="float64")
    here, there = (
        train(LOOKUP, "transformer", members=[MINE], training=training, device=device, compiled=False)[0]
        for device in ("cpu", "cuda")
    )
    for ours, its in zip(
        here.population.state_dict().values(), there.population.state_dict().values(), strict=True
    ):
        assert torch.allclose(ours, its.cpu(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("halving", "compiled"), [(None, False), (Halving(first=20), False), (None, True)], ids=str
)
def test_an_interrupted_training_ends_with_the_same_bytes(
    tmp_path: Path, halving: Halving | None, compiled: bool
) -> None:
    job = job_for(
        LOOKUP,
        model("transformer", width=32),
        members=[MINE, Member(lr=1e-3, seed=1), Member(lr=1e-2, seed=2)],
        training=replace(QUICK, precision="bfloat16", halving=halving),
    )
    settings = {"compiled": compiled, "deterministic": True, "seats": 2}
    run_job(job, store=Store(tmp_path / "whole"), **settings)  # type: ignore[arg-type]
    interrupted(job, tmp_path / "broken", looks=2, **settings)
    run_job(job, store=Store(tmp_path / "broken"), **settings)  # type: ignore[arg-type]
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")
    assert facts(tmp_path / "broken") == facts(tmp_path / "whole")


def test_a_curriculum_records_a_step_for_every_length() -> None:
    training = replace(QUICK, curriculum=Curriculum(start=3, steps=40, stages=2))
    (one,) = train(LOOKUP, "transformer", members=[MINE], training=training, compiled=False)
    assert [point.n for point in one.curve] == [3, 8, 12]


def test_text_tasks_are_recorded_too() -> None:
    asked: Task = task("phone-book", n=4)
    (one,) = train(asked, "lstm", members=[MINE], training=replace(QUICK, steps=4), compiled=False)
    assert one.steps == 4


@pytest.mark.parametrize("name", ["transformer", "mamba", "lstm"])
def test_recorded_bands_are_the_steps_that_they_stand_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph for each band, replayed in turn, beside the same steps taken one by one."""
    job = job_for(
        task("index-lookup", n=60, alphabet=8),
        model(name, layers=1, width=32),
        members=[MINE, Member(lr=1e-3, seed=2)],
        training=replace(QUICK, bands=4),
    )
    placing = placing_for(job, device="cuda", compiled=False)
    recorded, plain = Course(job, placing), Course(job, placing)
    monkeypatch.setattr(
        type(plain.population), "recordable", property(lambda self: self is recorded.population)
    )
    for course in (recorded, plain):
        course.engine.run(7)
        course.engine.run(9, first=7)
    assert len(recorded.engine._graphs) == 4
    assert not plain.engine._graphs
    assert torch.allclose(recorded.packed.values, plain.packed.values, rtol=1e-3, atol=2e-4)
    assert torch.allclose(recorded.meters.loss, plain.meters.loss, rtol=1e-4)
    assert torch.equal(recorded.state.step, plain.state.step)


def test_a_compiled_population_learns_in_bands() -> None:
    training = Training(
        steps=2000, eval_every=100, solved=0.995, precision="bfloat16", bands=4, test_examples=2000
    )
    members = [Member(lr=1e-3, seed=seed) for seed in range(3)]
    found = train(task("index-lookup", n=40), "transformer", members=members, training=training)
    assert max(one.accuracy for one in found) >= 0.98


@pytest.mark.parametrize("bands", [1, 4])
@pytest.mark.parametrize("form", ["random", "ncp"])
def test_compiled_draws_are_those_of_a_cpu(form: str, bands: int) -> None:
    """What members train on, every one with its seed at its step, compiled by Triton."""
    asked = task("equality", n=40, form=form)
    seeds, steps = torch.tensor([3, 2**40]), torch.tensor([0, 123_456])
    compiled = torch.compile(Source(task=asked).draw, dynamic=False)
    for number in range(bands):
        host, device = (
            None if bands == 1 else Band(number=torch.tensor(number, device=where), of=bands)
            for where in ("cpu", "cuda")
        )
        expected = Source(task=asked).draw(seeds, steps, batch=16, band=host)
        found = compiled(seeds.cuda(), steps.cuda(), batch=16, band=device)
        assert torch.equal(found.inputs.cpu(), expected.inputs)
        assert torch.equal(found.targets.cpu(), expected.targets)
        assert torch.equal(found.mask.cpu(), expected.mask)
