"""Every witness on a CUDA device: right answers, those of the CPU, in floats and in fixed point."""

from __future__ import annotations

import pytest
import torch
from benchmarks.witness_tasks import example_for
from torch import Tensor

from separatrix.generation.decoding import generate
from separatrix.generation.scripts import Script, answers_of
from separatrix.models import CausalModel
from separatrix.models.explicit import ExplicitModel
from separatrix.precision import FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks import Vectors, task
from separatrix.witnesses import CATALOGUE, Choices, Entry, witness_for

pytestmark = pytest.mark.gpu

SYSTEMS: tuple[NumberSystem, ...] = (Float64(), Float32(), FixedNearest(p=47))
NEEDS = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@NEEDS
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize(
    "entry", CATALOGUE, ids=lambda entry: f"{entry.theorem} {entry.task} {entry.family} {entry.variant}"
)
def test_answers_are_right_and_those_of_the_cpu(entry: Entry, system: NumberSystem) -> None:
    about = example_for(entry)
    built = entry.builder()(about, Choices())
    if isinstance(system, Float32) and entry.theorem in ("R-qSA", "S-E-cited"):
        system = Float64()  # these need more than 24 bits at their example's size
    model = built.model.with_arithmetic(system) if not isinstance(system, FixedNearest) else built.model
    if isinstance(system, FixedNearest):
        model = entry.builder()(about, Choices(system=system)).model
    batch = about.sample(2, seed=5)
    labels = about.solve(batch.inputs)
    if built.script is not None:
        writes_on_the_device_what_it_writes_on_the_host(model, built.script, batch.inputs, labels.answer)
        return
    host, device = model.answers(batch.inputs), model.answers(batch.inputs.cuda()).cpu()
    space = about.target_space
    if isinstance(space, Vectors):
        distance = (device - labels.targets.double()).norm(dim=2)
        assert bool((distance < space.tolerance)[labels.mask].all())
    else:
        assert torch.equal(device[labels.mask], labels.targets[labels.mask])
        assert torch.equal(device[labels.mask], host[labels.mask])


def writes_on_the_device_what_it_writes_on_the_host(
    model: ExplicitModel, script: Script, rows: Tensor, answers: Tensor
) -> None:
    """Word by word; where it searches, what it makes of the prompt, for that needs no search engine."""
    assert isinstance(model, CausalModel)
    prompts = [script.prompt(row) for row in rows]
    if script.searches:
        read = torch.tensor([prompts[0]])
        assert torch.equal(model.forward(read.cuda()).argmax(-1).cpu(), model.forward(read).argmax(-1))
        return
    host, device = (generate(model, prompts, script, device=where) for where in ("cpu", "cuda"))
    assert device == host
    assert answers_of(device, script) == answers.tolist()


@NEEDS
def test_a_million_symbols_are_looked_up() -> None:
    about = task("index-lookup", n=1 << 20)
    batch = about.full_length().sample(1, seed=0, device="cuda")
    model = witness_for(about).model
    answer = model.answers(batch.inputs, at=torch.tensor([[about.n]], device="cuda"))
    assert int(answer) == int(batch.targets[batch.mask])
