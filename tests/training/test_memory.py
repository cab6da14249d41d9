"""What a step holds, against what one really keeps; what cannot fit is refused before anything is written."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from separatrix.errors import TooLarge
from separatrix.models import MODELS
from separatrix.models.population import Signature
from separatrix.models.specs import ModelSpec
from separatrix.store import Store
from separatrix.tasks import task
from separatrix.tasks.interface import Tokens
from separatrix.training import Job, Member, Training, run_job
from separatrix.training import memory as reckoning
from separatrix.training.costs import cost_of
from separatrix.training.course import Course
from separatrix.training.jobs import job_for
from separatrix.training.memory import in_thousands, memory_of, ran_out, require_room, step_bytes
from separatrix.training.running import placing_for

CPU = torch.device("cpu")


def job_of(model: str = "transformer", *, n: int = 300, seeds: int = 2, **training: Any) -> Job:
    name = {"graph-transformer": "cycle3", "fnn": "q-sparse-averaging"}.get(model, "index-lookup")
    settings = {"steps": 4, "batch": 4, "eval_every": 2, "eval_examples": 4, "test_examples": 4, **training}
    return job_for(
        task(name, n=n),
        MODELS.get(model).Config(width=16),
        members=[Member(seed=seed) for seed in range(seeds)],
        training=Training(**settings),
    )


def really_kept(job: Job) -> int:
    """Bytes of all that autograd holds behind the way forward of a whole step, and of the matrices."""
    course = Course(job, placing_for(job, device="cpu"))
    weights = course.packed.values
    storages: dict[int, int] = {}

    def keep(values: Tensor) -> Tensor:
        storages[values.untyped_storage().data_ptr()] = values.untyped_storage().nbytes()
        return values

    asked = course.engine._ask(course.rates.seed, course.state.step, course.engine._bands[0])
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda values: values):
        outputs = course.population(asked.inputs, asked.at)
        total = outputs.float().sum()
    storages[asked.inputs.untyped_storage().data_ptr()] = asked.inputs.untyped_storage().nbytes()
    storages.pop(weights.untyped_storage().data_ptr(), None)
    assert total.requires_grad
    return 5 * weights.untyped_storage().nbytes() + sum(storages.values())


@pytest.mark.parametrize("model", MODELS.names())
def test_the_reckoning_is_near_what_a_step_keeps(model: str) -> None:
    """Measured at 128 and 256 positions for one member, against the whole of the step itself."""
    job = job_of(model, n={"graph-transformer": 20, "third-order": 40, "fnn": 20}.get(model, 300))
    reckoned = step_bytes(job, placing_for(job, device="cpu"))
    assert 0.5 < reckoned / really_kept(job) < 1.3


def test_it_grows_with_seats_batch_and_length() -> None:
    def reckoned(**changes: Any) -> int:
        job = job_of(**changes)
        return step_bytes(job, placing_for(job, device="cpu"))

    base = reckoned(n=1000)
    assert reckoned(n=1000, seeds=4) == 2 * base
    assert 1.8 < reckoned(n=1000, batch=128) / reckoned(n=1000, batch=64) <= 2
    assert 1.8 < reckoned(n=2000, batch=64) / reckoned(n=1000, batch=64) < 2.1
    assert 1.8 < reckoned(n=1000, precision="float64") / base <= 2


def test_on_a_gpu_only_what_no_kernel_can_do_without_is_counted() -> None:
    job = job_for(
        task("index-lookup", n=1000),
        MODELS.get("transformer").Config(width=16, layers=3),
        members=[Member()],
        training=Training(batch=4),
    )
    here = placing_for(job, device="cpu")
    there = replace(here, device=torch.device("cuda"))
    parameters = sum(values.numel() for values in job.population(1).parameters())
    streams = 2 * (3 - 1) * 4 * 16  # before both halves of all blocks but the last
    assert step_bytes(job, there) == 5 * 4 * parameters + 4 * 1001 * (8 + 8 + 1 + streams)
    assert step_bytes(job, there) < step_bytes(job, here)


def made(signature: Signature) -> nn.Module:
    """Made for one length, so that it cannot be measured at another."""
    assert isinstance(signature.inputs, Tokens)
    if signature.length != 301:
        raise RuntimeError("no such length")
    return nn.Sequential(nn.Embedding(signature.inputs.size, 4), nn.Linear(4, signature.out))


def test_what_cannot_be_measured_is_its_weights_and_examples() -> None:
    job = job_of(seeds=1)
    job = Job(
        task=job.task, model=ModelSpec(name=f"{__name__}:made"), training=job.training, members=job.members
    )
    placing = placing_for(job, device="cpu", own_code=True)
    parameters = sum(values.numel() for values in job.population(1, own_code=True).parameters())
    assert step_bytes(job, placing) == 5 * 4 * parameters + 4 * 301 * (8 + 8 + 1)


def in_memory(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(reckoning, "memory_of", lambda _: size)


@pytest.mark.slow
def test_a_step_that_cannot_fit_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(n=1000, seeds=6)
    needed = step_bytes(job, placing_for(job, device="cpu"))
    in_memory(monkeypatch, needed)
    require_room(job, placing_for(job, device="cpu"))
    in_memory(monkeypatch, needed // 3 + 1)
    with pytest.raises(TooLarge) as refusal:
        run_job(job, store=Store(tmp_path), device="cpu")
    assert str(refusal.value) == (
        f"A step of 6 members on 4 examples of 1,001 positions needs at least {in_thousands(needed)}B of "
        f"memory, and this machine has {in_thousands(needed // 3 + 1)}B; try seats=2."
    )
    assert Store(tmp_path).runs() == ()
    with pytest.raises(TooLarge, match="try seats=2"):
        cost_of(job, device="cpu")
    assert len(run_job(job, store=Store(tmp_path), device="cpu", seats=2)) == 6
    in_memory(monkeypatch, 1000)
    assert len(run_job(job, store=Store(tmp_path), device="cpu")) == 6, "what a store has need not fit"
    with pytest.raises(TooLarge, match=r"A step of 1 member on 1 example of 301 .* model, batch or n\."):
        run_job(job_of(seeds=1, batch=1), device="cpu")


@pytest.mark.slow
def test_two_million_positions_are_refused_at_once() -> None:
    """More than any machine has: the reckoning itself must not take what it forbids."""
    job = job_of("linear-rnn", n=2_000_000, seeds=64, batch=64)
    with pytest.raises(TooLarge, match=r"64 examples of 2,000,001 positions needs at least [0-9.]+ TB"):
        require_room(job, placing_for(job, device="cpu"))


def test_what_is_small_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> int:
        raise AssertionError

    monkeypatch.setattr(reckoning, "step_bytes", never)
    job = job_of(n=8)
    require_room(job, placing_for(job, device="cpu"))


def test_memory_is_that_of_the_machine_or_of_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(reckoning, "_LIMITS", (str(limit), str(tmp_path / "none")))
    whole = memory_of(CPU)
    kilobytes = re.search(r"MemTotal: +([0-9]+) kB", Path("/proc/meminfo").read_text())
    assert kilobytes is not None
    assert whole == 1024 * int(kilobytes[1])
    limit.write_text("max\n")
    assert memory_of(CPU) == whole
    limit.write_text("123456789\n")
    assert memory_of(CPU) == 123456789


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_torch_has_several_ways_to_say_it(error: BaseException, said: bool) -> None:
    assert ran_out(error) is said


def test_torchs_own_error_is_known() -> None:
    with pytest.raises(RuntimeError) as refusal:
        torch.empty(1 << 60)
    assert ran_out(refusal.value)
