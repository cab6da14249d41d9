"""The nested step: exact in every arithmetic, and without a place in the stream for what lies between."""

from __future__ import annotations

import pytest
import torch

from separatrix.models.explicit.codes import Digits, Ladder
from separatrix.models.explicit.positions import Own
from separatrix.precision import FixedDown, Float32, Float64, NumberSystem
from separatrix.tasks.disjointness import Disjointness
from separatrix.witnesses.language import Program, Symbolic, build
from separatrix.witnesses.language.exact import ExactReals

N = 64


def program() -> Program:
    """Is the place above 20? With a residual, and read by a second layer."""
    script = Program(Disjointness(n=N), causal=True)
    bit = script.token("bit", block="bit", code=Digits(count=2))
    place = script.position("place", Own(), Ladder(count=N))
    with script.layer() as layer:
        layer.average("mean", bit)
        late = layer.saturate("late", 1000 * place - 20_500, noise=100)
        both = layer.saturate("both", late + bit - 1, noise=0)
    script.answer_vector(late + 10 * both + 0 * place)
    return script


@pytest.mark.parametrize("system", [Float64(), Float32(), FixedDown(n=64, k=3)], ids=str)
def test_steps_behind_steps_are_exact_beside_a_residual(system: NumberSystem) -> None:
    built = build(program(), system)
    row = Disjointness(n=N).sample(1, seed=2).inputs
    found = built.model.forward(row)[0, :, 0]
    wanted = torch.tensor([(i > 20) * (1 + 10 * int(b)) for i, b in enumerate(row[0])]).double()
    assert torch.equal(found, wanted)
    assert [value[0] for value in Symbolic().outputs(built.program, row[0])] == wanted.tolist()
    reals = ExactReals(built.scales).outputs(built.program, row[0])
    assert [float(value[0].mid()) for value in reals] == wanted.tolist()


def test_what_lies_between_has_no_coordinates() -> None:
    names = [slot.name for slot in build(program(), Float64()).model.layout.slots]
    assert "late" in names
    assert not any("lacking" in name for name in names)
