"""The proof of S-E for recurrent models: boxes that hold what is computed, and weights that it refuses."""

from __future__ import annotations

import pytest
import torch
from flint import fmpq

from separatrix.certificates import certify
from separatrix.certificates.enclosures import Box, rounding_of
from separatrix.certificates.lemmas.recurrent import advanced, scored
from separatrix.certificates.proofs import proof_for
from separatrix.certificates.proofs.dyck_rnn import _invariant, _next, prove
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.models.explicit.recurrent_tokens import ACTIVATIONS, Activation
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks import Task
from separatrix.tasks.dyck import Dyck
from separatrix.witnesses import Choices, Witness, witness_for
from separatrix.witnesses.dyck_rnn import dyck_rnn_model
from tests.witnesses.checking import mutations, right_on_every_input

SYSTEMS: tuple[NumberSystem, ...] = (Float64(), Float32(), FixedNearest(p=31), FixedDown(n=16, k=4))
SOFT = "sigmoid-type activations"


def built(task: Dyck, system: NumberSystem, variant: str = "") -> Witness:
    return witness_for(task, family="rnn", variant=variant, choices=Choices(system=system))


def proved(model: RecurrentModel, task: Task) -> bool:
    try:
        claims = prove(model, task, rounding_of(model.arithmetic))
    except NotProved:
        return False
    return all(claim.verdict == "proved" for claim in claims)


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("form", ["recognise", "next"])
def test_every_activation_is_proven(activation: Activation, system: NumberSystem, form: str) -> None:
    task = Dyck(n=1 << 20, types=1, depth=2, form=form)  # type: ignore[arg-type]
    assert proved(dyck_rnn_model(task, activation=activation).with_arithmetic(system), task)


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("types", "depth"), [(2, 2), (3, 1), (1, 5)])
def test_more_types_and_depths(types: int, depth: int, activation: Activation, system: NumberSystem) -> None:
    task = Dyck(n=64, types=types, depth=depth)
    assert proved(dyck_rnn_model(task, activation=activation).with_arithmetic(system), task)


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "system"), [("", Float64()), (SOFT, Float32())], ids=str)
def test_a_million_brackets_are_certified(variant: str, system: NumberSystem) -> None:
    """Of two types and depth 2: eight boxes, and steps from each."""
    witness = built(Dyck(n=1 << 20), system, variant)
    assert witness.variant == variant
    assert proof_for("S-E", "dyck", variant) is prove
    certificate = certify(witness)
    assert certificate.verdict == "proved"
    assert certificate.inputs.log10 > 600_000


@pytest.mark.parametrize(
    ("variant", "system", "every"),
    [
        ("", FixedNearest(p=15), 7),
        (SOFT, FixedNearest(p=31), 11),
        pytest.param("", FixedNearest(p=15), 1, marks=pytest.mark.slow),
        pytest.param(SOFT, FixedNearest(p=31), 1, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_every_survivor_of_a_mutation_is_harmless(variant: str, system: NumberSystem, every: int) -> None:
    witness = built(Dyck(n=10, types=1, depth=2), system, variant)
    tried, survivors = 0, []
    for what, mutant in mutations(witness, every=every):
        tried += 1
        assert isinstance(mutant.model, RecurrentModel)
        if proved(mutant.model, mutant.task):
            survivors.append((what, mutant))
    assert tried > 90 // every
    assert len(survivors) < tried / 2
    for what, mutant in survivors:
        assert right_on_every_input(mutant), what


def test_bits_that_are_none_are_refused() -> None:
    """With half the weights of the stack and twice those that read it, answers stay right."""
    task = Dyck(n=8, types=1, depth=1)
    plain = dyck_rnn_model(task)
    tensors = dict(plain.tensors())
    for name, tensor in plain.tensors().items():
        if name.startswith("update.write"):
            tensors[name] = tensor / 2
        elif name.startswith(("update.from_state", "readout")) and not name.endswith("bias"):
            tensors[name] = tensor * 2
    halved = RecurrentModel.from_parts(plain.spec(), tensors)
    assert not proved(halved, task)
    said = {**plain.spec(), "binary": []}
    assert proved(RecurrentModel.from_parts(said, tensors), task)


@pytest.mark.slow
def test_other_tasks_and_too_many_stacks_are_refused() -> None:
    model = dyck_rnn_model(Dyck(n=8, types=2, depth=2))
    for task in (
        Dyck(n=8, types=2, depth=1),
        Dyck(n=8, types=2, depth=3),
        Dyck(n=8, types=3, depth=2),
        Dyck(n=8, types=2, depth=2, form="next"),
    ):
        assert not proved(model, task)
    for deep in (Dyck(n=8, types=2, depth=12), Dyck(n=8, types=1, depth=1 << 18)):
        assert not proved(dyck_rnn_model(deep), deep)


def exactly(model: RecurrentModel, numbers: object) -> Box:
    return Box.exact(model.arithmetic.decode(numbers))  # type: ignore[arg-type]


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("draws", [3, pytest.param(12, marks=pytest.mark.slow)])
def test_what_is_computed_lies_in_the_enclosures(
    draws: int, activation: Activation, system: NumberSystem
) -> None:
    """From any state near bits, one step and the scores; from a box of states as well as from each alone."""
    task = Dyck(n=8, types=1, depth=2)
    model = dyck_rnn_model(task, activation=activation).with_arithmetic(system)
    rounding = rounding_of(system)
    generator = torch.Generator().manual_seed(5)
    corners = torch.randint(0, 2, (4, model.state.width), generator=generator).double()
    near = corners + 0.06 * (torch.rand(draws, 4, model.state.width, generator=generator).double() - 0.5)
    for token in (0, 1):
        whole = rounding.encode(Box.exact(corners).widened(fmpq(1, 32)))
        images = advanced(rounding, model, torch.tensor(token), whole)
        scores = scored(rounding, model, whole)
        for states in near:
            state = system.encode(states)
            assert whole.contains(exactly(model, state))
            after = exactly(model, model.advance(torch.full((4,), token), state))
            assert images.contains(after)
            assert scores.contains(exactly(model, model.scores_of(state)))
            single = advanced(rounding, model, torch.tensor(token), exactly(model, state))
            assert single.contains(after)
            assert images.contains(single)


@pytest.mark.slow
@pytest.mark.parametrize("system", [Float64(), Float32(), FixedNearest(p=31)], ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_states_of_strings_stay_in_their_boxes(activation: Activation, system: NumberSystem) -> None:
    task = Dyck(n=40, types=1, depth=2)
    model = dyck_rnn_model(task, activation=activation).with_arithmetic(system)
    boxes, _ = _invariant(model, task, rounding_of(system))
    rows = task.sample(6, seed=1).inputs
    stacks: list[tuple[int, ...] | None] = [()] * len(rows)
    state = model.start(len(rows))
    for position in range(task.n):
        state = model.advance(rows[:, position], state)
        stacks = [
            _next(task, stack, int(token)) for stack, token in zip(stacks, rows[:, position], strict=True)
        ]
        found = exactly(model, state)
        for row, stack in enumerate(stacks):
            assert boxes[stack].contains(found[row : row + 1])
