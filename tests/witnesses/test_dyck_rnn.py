"""The stack of a recurrent model against a list used as a stack: all short strings, then long ones."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch import Tensor

from separatrix.errors import TooLarge
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.models.explicit.recurrent_tokens import ACTIVATIONS, Activation
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks.dyck import Dyck
from separatrix.witnesses.dyck_rnn import dyck_rnn_model
from tests.witnesses.dyck_claims import DyckClaims, dyck_rnn_claims

SYSTEMS: tuple[NumberSystem, ...] = (Float64(), Float32(), FixedNearest(p=31), FixedDown(n=16, k=4))
SMALL = [(2, 2, 6), (1, 3, 8), (1, 1, 6), (3, 1, 4), (2, 3, 6), (3, 2, 4), (8, 2, 2), (4, 5, 4)]


def members(row: list[int], depth: int) -> list[int]:
    """Whether each prefix is in the language, with a list for a stack."""
    stack: list[int] = []
    alive, verdicts = True, []
    for bracket in row:
        if bracket % 2 == 0:
            stack.append(bracket // 2)
            alive = alive and len(stack) <= depth
        else:
            alive = alive and bool(stack) and stack.pop() == bracket // 2
        verdicts.append(int(alive and not stack))
    return verdicts


@pytest.mark.slow
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("types", "depth", "n"), SMALL)
def test_every_prefix_of_every_short_string(types: int, depth: int, n: int, activation: Activation) -> None:
    task = Dyck(n=n, types=types, depth=depth)
    model = dyck_rnn_model(task, activation=activation)
    inputs = torch.cat(list(task.enumerate()))
    answers = model.answers(inputs)
    assert torch.equal(answers[:, -1], task.solve(inputs).answer)
    some = slice(None, None, max(len(inputs) // 500, 1))
    assert answers[some].tolist() == [members(row, depth) for row in inputs[some].tolist()]


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("system", SYSTEMS[1:], ids=str)
def test_every_short_string_in_other_numbers(system: NumberSystem, activation: Activation) -> None:
    task = Dyck(n=4, types=2, depth=2)
    inputs = torch.cat(list(task.enumerate()))
    model = dyck_rnn_model(task, activation=activation).with_arithmetic(system)
    last = torch.full((len(inputs), 1), 3)
    assert torch.equal(model.answers(inputs, at=last)[:, 0], task.solve(inputs).answer)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    ("types", "depth", "system"), [(2, 2, Float64()), (8, 3, Float32()), (2, 40, Float32())]
)
def test_long_strings(types: int, depth: int, system: NumberSystem, activation: Activation) -> None:
    task = Dyck(n=120, types=types, depth=depth)
    batch = task.sample(16, seed=3)
    last = torch.full((16, 1), task.n - 1)
    model = dyck_rnn_model(task, activation=activation).with_arithmetic(system)
    answers = model.answers(batch.inputs, at=last)[:, 0]
    assert torch.equal(answers, batch.targets[batch.mask])
    assert 0 < int(answers.sum()) < 16


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_what_may_follow(activation: Activation) -> None:
    """In the form next, after every prefix of every short member and of some long ones."""
    for types, depth, n in [(2, 2, 8), (1, 3, 10), (3, 1, 6), (8, 2, 4)]:
        task = Dyck(n=n, types=types, depth=depth, form="next")
        model = dyck_rnn_model(task, activation=activation)
        for inputs in task.enumerate():
            assert torch.equal(model.answers(inputs), task.solve(inputs).targets)
    task = Dyck(n=60, types=5, depth=6, form="next")
    batch = task.sample(8, seed=2)
    assert torch.equal(dyck_rnn_model(task, activation=activation).answers(batch.inputs), batch.targets)


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS[2:], ids=str)
def test_long_strings_in_fixed_point(system: NumberSystem) -> None:
    task = Dyck(n=30, types=8, depth=3)
    batch = task.sample(4, seed=4)
    last = torch.full((4, 1), task.n - 1)
    for activation in ("sigmoid", "tanh", "hard-sigmoid"):
        model = dyck_rnn_model(task, activation=activation).with_arithmetic(system)
        assert torch.equal(model.answers(batch.inputs, at=last)[:, 0], batch.targets[batch.mask])


def states(model: RecurrentModel, inputs: Tensor) -> Tensor:
    """The state after every token, as float64."""
    state, seen = model.start(len(inputs)), []
    for position in range(inputs.shape[1]):
        state = model.advance(inputs[:, position], state)
        seen.append(model.arithmetic.decode_float64(state))
    return torch.stack(seen, dim=1)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("types", "depth", "count"), [(2, 2, 8), (1, 3, 5), (3, 2, 14), (2, 3, 16)])
def test_reachable_states_are_the_automaton(
    types: int, depth: int, count: int, activation: Activation
) -> None:
    """From each state found, every bracket once: up to rounding, as many appear as promised."""
    task = Dyck(n=2, types=types, depth=depth)
    model = dyck_rnn_model(task, activation=activation)
    claims = dyck_rnn_claims(task, activation=activation)
    found = {(0,) * model.state.width: [0.0] * model.state.width}
    waiting = list(found.values())
    while waiting:
        state = model.arithmetic.encode(torch.tensor([waiting.pop()] * 2 * types, dtype=torch.float64))
        after = model.arithmetic.decode_float64(model.advance(torch.arange(2 * types), state))
        assert float((after - after.round()).abs().max()) <= claims.state_error
        for row in after.tolist():
            name = tuple(round(entry) for entry in row)
            if name not in found:
                found[name] = row
                waiting.append(row)
        assert len(found) <= count
    assert len(found) == claims.automaton_states == count
    assert all(set(name) <= {0, 1} for name in found)


@pytest.mark.slow
@pytest.mark.parametrize("types", [1, 2, 8])
@pytest.mark.parametrize("activation", ["sigmoid", "tanh"])
def test_errors_stay_below_the_claim(types: int, activation: Activation) -> None:
    """Random brackets die early, so strings of the language and their corruptions are watched."""
    task = Dyck(n=60, types=types, depth=3)
    inputs = task.sample(8, seed=types).inputs
    exact = states(dyck_rnn_model(task), inputs)
    claims = dyck_rnn_claims(task, activation=activation)
    assert claims.contracts()
    for system in (Float64(), Float32()):
        seen = states(dyck_rnn_model(task, activation=activation).with_arithmetic(system), inputs)
        assert 0 < float((seen - exact).abs().max()) <= float(claims.state_error) / 4


@pytest.mark.slow
@pytest.mark.parametrize("types", [1, 2, 8])
def test_errors_as_large_as_the_claim_shrink(types: int) -> None:
    """The step that the proof by induction takes: from states off by all of δ, in any direction."""
    task = Dyck(n=2, types=types, depth=2)
    exact, soft = dyck_rnn_model(task), dyck_rnn_model(task, activation="sigmoid")
    claims = dyck_rnn_claims(task, activation="sigmoid")
    live = torch.zeros(2 + types + types * types, exact.state.width, dtype=torch.float64)
    live[1, -1] = 1  # dead
    for top in range(types):
        live[2 + top, top] = 1
        for below in range(types):
            live[2 + types + top * types + below, [top, types + below]] = 1
    generator = torch.Generator().manual_seed(types)
    delta = float(claims.state_error)
    system = Float64()
    for token in range(2 * types):
        tokens = torch.full((len(live),), token)
        right = system.decode_float64(exact.advance(tokens, system.encode(live)))
        for _ in range(8):
            signs = torch.randint(0, 2, live.shape, generator=generator) * 2 - 1
            after = system.decode_float64(soft.advance(tokens, system.encode(live + delta * signs)))
            assert float((after - right).abs().max()) <= delta / 4


def test_claims_are_the_numbers_of_the_proof() -> None:
    claims = dyck_rnn_claims(Dyck(n=2, types=2, depth=2), activation="sigmoid")
    assert (claims.unit_error, claims.state_error, claims.margin) == (
        Fraction(1, 48),
        Fraction(1, 12),
        Fraction(1, 4),
    )
    assert claims.state_numbers == 5
    weak = {"state_numbers": 5, "automaton_states": 8, "state_error": Fraction(1, 12)}
    assert not DyckClaims(
        gain=16,
        unit_error=Fraction(1, 48),
        margin=Fraction(1, 4),
        **weak,  # type: ignore[arg-type]
    ).contracts()
    assert not DyckClaims(
        gain=4,
        unit_error=Fraction(0),
        margin=Fraction(1, 2),
        **weak,  # type: ignore[arg-type]
    ).contracts()
    for activation in ACTIVATIONS:
        assert dyck_rnn_claims(Dyck(n=2, types=8, depth=1 << 10), activation=activation).contracts()


def test_the_size_is_constant_and_counts_the_state() -> None:
    for types, depth in [(2, 2), (8, 1), (3, 7)]:
        model = dyck_rnn_model(Dyck(n=400, types=types, depth=depth))
        size = model.size(400, 16)
        assert size.state_bits(400) == size.state_bits(2) == types * depth + 1 == model.start(1).shape[1]
        units = types**2 * (depth - 1) + types * (depth + 1) + 2
        assert size.ffn_width == units
        soft = dyck_rnn_model(Dyck(n=400, types=types, depth=depth), activation="sigmoid")
        assert soft.size(400, 16).state_bits(400) == 16 * (types * depth + 1)
    seen = states(dyck_rnn_model(Dyck(n=8)), Dyck(n=8).sample(64, seed=1).inputs)
    assert bool(((seen == 0) | (seen == 1)).all())


@pytest.mark.slow
def test_every_matrix_matters() -> None:
    """Each block set to 0 in turn makes some answer wrong or a state appear that the automaton has not."""
    task = Dyck(n=6)
    inputs = torch.cat(list(task.enumerate()))[::3]
    model = dyck_rnn_model(task)
    right, reached = model.answers(inputs), states(model, inputs)
    harmless = set()
    for name, tensor in model.tensors().items():
        if bool(tensor.any()):
            changed = {**model.tensors(), name: torch.zeros_like(tensor)}
            mutant = RecurrentModel.from_parts(model.spec(), changed)
            assert not torch.equal(states(mutant, inputs), reached) or "readout" in name
            if torch.equal(mutant.answers(inputs), right):
                harmless.add(name)
    # What empties the stack of the dead or keeps it empty changes states but no answer.
    assert harmless == {f"update.from_state.{place}" for place in (0, 1, 3, 8)}


def test_too_deep_is_refused() -> None:
    with pytest.raises(TooLarge, match="at most 2\\^24 are built"):
        dyck_rnn_model(Dyck(n=2, types=8, depth=1 << 20))
