"""What a job would cost: counts against a second reckoning, and that asking leaves nothing behind."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.population import Signature
from separatrix.models.specs import ModelSpec, kind_of, model_spec_of
from separatrix.store import Store
from separatrix.tasks import task
from separatrix.tasks.interface import Tokens
from separatrix.tasks.specs import spec_of
from separatrix.training import Halving, Job, Member, Training, run_job
from separatrix.training import costs as costing
from separatrix.training.costs import Cost, Timing, cost_of, rows_of
from separatrix.training.memory import step_bytes
from separatrix.training.running import placing_for

WIDTH = 6


def made(signature: Signature) -> nn.Module:
    """Two products at every position, so that the operations can be counted by hand."""
    assert isinstance(signature.inputs, Tokens)
    table = nn.Embedding(signature.inputs.size, WIDTH)
    return nn.Sequential(table, nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, signature.out))


def small(*, seeds: int = 3, model: str = "transformer", name: str = "index-lookup", **training: Any) -> Job:
    settings = {"steps": 4, "batch": 5, "eval_every": 2, "eval_examples": 4, "test_examples": 4, **training}
    kind = MODELS.get(model)
    config = kind.Config(width=16)
    return Job(
        task=spec_of(task(name, n=8)),
        model=model_spec_of(kind, config),
        training=Training(**settings),
        members=tuple(Member(seed=seed) for seed in range(seeds)),
    )


@pytest.mark.slow
def test_counts() -> None:
    job = small(seeds=5)
    cost = cost_of(job, seats=2, device="cpu")
    size = job.population(1).size(8, 32)
    assert (cost.members, cost.in_store, cost.to_train) == (5, 0, 5)
    assert (cost.seats, cost.rounds) == (2, 3)
    assert (cost.steps, cost.examples, cost.all_steps) == (4, 20, 20)
    assert cost.parameters == size.parameters
    assert cost.bytes == 2 * 3 * 4 * size.parameters
    assert cost.step_bytes == step_bytes(job, placing_for(job, seats=2, device="cpu")) > cost.bytes
    assert cost_of(small(precision="float64"), device="cpu").bytes == 3 * 3 * 8 * size.parameters


def test_operations_are_those_counted_by_hand() -> None:
    name = f"{__name__}:made"
    lookup = task("index-lookup", n=8)
    job = dataclasses.replace(small(seeds=1), model=ModelSpec(name=name))
    flops, source = costing._flops(job, own_code=True)
    # A product of (pos × WIDTH) and (WIDTH × out) forward, and twice as much backward for two gradients.
    forward = 2 * lookup.length * WIDTH * (WIDTH + lookup.target_space.size)  # type: ignore[union-attr]
    assert flops == 5 * 3 * forward
    assert source == "counted in matrix products"
    assert kind_of(name, own_code=True).name == name


@pytest.mark.parametrize("model", MODELS.names())
def test_every_model_is_counted(model: str) -> None:
    name = {"graph-transformer": "cycle3", "fnn": "q-sparse-averaging"}.get(model, "index-lookup")
    flops, source = costing._flops(small(model=model, name=name), own_code=False)
    assert flops > 0
    assert source == "counted in matrix products"


def test_what_cannot_be_counted_is_reckoned(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> int:
        raise NotImplementedError

    monkeypatch.setattr(costing, "_counted", fail)
    job = small()
    flops, source = costing._flops(job, own_code=False)
    assert flops == 6 * job.population(1).size(8, 32).parameters * 5 * job.built_task.length
    assert source == "reckoned as 6 × parameters × positions"


@pytest.mark.slow
def test_what_the_store_has_costs_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    job = small(seeds=2)
    run_job(job, store=store, device="cpu", checkpoint_seconds=0)
    before = sorted(tmp_path.rglob("*"))
    more = cost_of(small(seeds=3), store=store, device="cpu")
    assert (more.in_store, more.to_train, more.seats) == (2, 1, 1)
    none = cost_of(job, store=store, device="cpu")
    assert (none.to_train, none.rounds, none.seconds, none.timing) == (0, 0, None, None)
    assert ("in the store already", "2") in rows_of(none)
    # Other training, other runs.
    assert cost_of(small(seeds=2, steps=5), store=store, device="cpu").in_store == 0
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
def test_members_that_are_compared_are_trained_again_together(tmp_path: Path) -> None:
    """As long as one of them is not done."""
    store = Store(tmp_path)
    job = small(seeds=3, halving=Halving(first=2))
    run_job(job, store=store, device="cpu")
    assert cost_of(job, store=store, device="cpu").to_train == 0
    store.reopen(store.runs()[0].key)
    cost = cost_of(job, store=store, device="cpu")
    assert (cost.in_store, cost.to_train) == (2, 3)
    assert any("compared" in text for _, text in rows_of(cost))
    others = cost_of(small(seeds=2, halving=Halving(first=2)), store=store, device="cpu")
    assert others.in_store == 0, "in other company they are other runs"


def cost(**changed: Any) -> Cost:
    timing = Timing(step=0.5, looks=3.0, test=2.0, device="cpu, 1 thread", part=None)
    usual: dict[str, Any] = {"members": 7, "in_store": 0, "to_train": 7, "seats": 4, "rounds": 2}
    usual |= {"steps": 100, "examples": 6400, "parameters": 10, "flops": 1_234_567, "flops_from": "counted"}
    usual |= {"bytes": 999, "step_bytes": 12_345_678, "checkpoint_step": None, "bounded": True}
    usual |= {"timing": timing}
    return Cost(**{**usual, **changed})


def test_time_is_rounds_of_steps_and_looks() -> None:
    assert cost().seconds == 2 * (100 * 0.5 + 3 + 2)
    rows = dict(rows_of(cost()))
    assert rows["time"] == "at most about 110 s; less if members stop early"
    assert rows["rate, measured here"] == "2 steps/s, 8 member-steps/s (cpu, 1 thread)"
    assert rows["FLOP in all"] == "864 M"
    assert rows["memory of a step"] == "at least 12.3 MB"
    assert dict(rows_of(cost(bounded=False)))["time"] == "about 110 s"
    assert dict(rows_of(cost(checkpoint_step=40)))["checkpoint to go on from"] == "step 40"


def test_json_has_the_counts_and_what_follows_from_them() -> None:
    fields = cost().to_fields()
    assert fields["all_steps"] == 700
    assert fields["seconds"] == 110
    assert fields["timing"] == {
        "step": 0.5,
        "looks": 3.0,
        "test": 2.0,
        "device": "cpu, 1 thread",
        "part": None,
        "attacks": 0.0,
    }


@pytest.mark.slow
def test_a_slow_step_is_timed_in_part_and_scaled_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[int, int]] = []
    usual = costing._course

    def watched(job: Job, placing: Any, *, seats: int, batch: int) -> Any:
        ran.append((seats, batch))
        return usual(job, placing, seats=seats, batch=batch)

    monkeypatch.setattr(costing, "_course", watched)
    clock = {"small": 0.25}  # seconds of a step of one member on two examples
    monkeypatch.setattr(costing, "_seconds", lambda work, device: work() or clock["small"])
    timing = cost_of(small(seeds=4, batch=32), device="cpu").timing
    assert timing is not None
    # 2 s pay for 16 examples of one member; the whole are 4 × 32.
    assert ran == [(1, 2), (1, 16)]
    assert timing.part == "1 of 4 seats and 16 of 32 examples"
    assert timing.step == pytest.approx(0.25 / 8 * 8)
    ran.clear()
    clock["small"] = 1e-6
    quick = cost_of(small(seeds=4, batch=32), device="cpu").timing
    assert quick is not None
    assert quick.part is None
    assert ran == [(1, 2), (4, 32)]


def test_a_part_never_goes_below_one_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costing, "_seconds", lambda work, device: work() or 1e6)
    timing = cost_of(small(seeds=2), device="cpu").timing
    assert timing is not None
    assert timing.part == "1 of 2 seats and 1 of 5 examples"


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="graph-transformer reads an adjacency matrix"):
        cost_of(small(model="graph-transformer"), device="cpu")
