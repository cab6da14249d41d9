"""Jobs are put in order by what they compute, which leaves nothing behind that a training would trip over."""

from __future__ import annotations

from typing import Any

import pytest

from separatrix.experiments.scheduling import work_of
from separatrix.models import MODELS, model
from separatrix.models.dss import hippo_frequencies
from separatrix.tasks import task
from separatrix.training.jobs import Job, job_for
from separatrix.training.recipes import Member, Training

LOOKUP = task("index-lookup", n=8)


def job_of(name: str, *, width: int = 16) -> Job:
    return job_for(LOOKUP, model(name, layers=2, width=width), members=[Member()], training=Training(steps=8))


@pytest.mark.parametrize("name", ["dss", "lstm", "mamba", "retnet", "linear-transformer", "transformer"])
def test_what_was_put_in_order_can_be_given_its_first_weights(name: str) -> None:
    hippo_frequencies.cache_clear()
    job = job_of(name)
    assert work_of(job_of(name, width=32)) > work_of(job) > 0
    population = job.population(1)
    assert work_of(job) == 8 * LOOKUP.length * (
        sum(each.numel() for each in population.parameters()) + 50_000
    )
    population.initialise([0])
    assert all(each.device.type == "cpu" and each.isfinite().all() for each in population.parameters())


def test_what_others_wrote_is_built_where_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may look at its numbers while it is built."""
    kind = MODELS.get("mamba")
    built: list[str] = []

    def build(self: Any, *given: Any, **named: Any) -> None:
        begun(self, *given, **named)
        built.append(next(iter(self.parameters())).device.type)

    begun: Any = kind.__init__
    monkeypatch.setattr(kind, "__init__", build)
    work_of(job_of("mamba"))
    monkeypatch.setattr(kind, "__module__", "theirs")
    work_of(job_of("mamba"))
    assert built == ["meta", "cpu"]
