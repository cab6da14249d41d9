"""Models that store their input, against the tasks' own oracles: all small inputs, then long ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks import task as make_task
from separatrix.tasks.interface import TokenTask
from separatrix.witnesses.stored_input import state_bits, stored_input_model

SYSTEMS: tuple[NumberSystem, ...] = (Float32(), FixedNearest(p=15), FixedDown(n=16, k=2))


def named(name: str, **parameters: Any) -> Any:
    title = ", ".join([name, *(f"{key}={value}" for key, value in parameters.items())])
    return pytest.param((name, parameters), id=title)


def built(case: tuple[str, dict[str, Any]]) -> TokenTask:
    task = make_task(case[0], **case[1])
    assert isinstance(task, TokenTask)
    return task


SMALL = [
    named("index-lookup", n=5, alphabet=4),
    named("index-lookup", n=4, alphabet=5),
    named("index-lookup", n=9, alphabet=2),
    named("index-lookup", n=1, alphabet=1),
    named("associative-recall", n=3, keys=4, values=3),
    named("associative-recall", n=4, keys=4, values=2),
    named("associative-recall", n=2, keys=9, values=5),
    named("associative-recall", n=1, keys=1, values=1),
    named("associative-recall", n=6, form="sequence", alphabet=3),
    named("associative-recall", n=4, form="sequence", alphabet=5),
    named("associative-recall", n=8, form="sequence", alphabet=2),
    named("associative-recall", n=2, form="sequence", alphabet=1),
    named("mqar", n=4, vocabulary_size=8),
    named("mqar", n=6, vocabulary_size=6),
    named("mqar", n=2, vocabulary_size=14),
    named("mqar", n=2, vocabulary_size=2),
    named("equality", n=14),
    named("equality", n=6, form="one", alphabet=3),
    named("equality", n=4, form="random", alphabet=6),
    named("equality", n=2, form="one", alphabet=37),
    named("equality", n=6, form="random", alphabet=1),
]

LONG = [
    named("index-lookup", n=200),
    named("index-lookup", n=100, alphabet=1000),
    named("associative-recall", n=128, lengths="full"),
    named("associative-recall", n=100, keys=1 << 20, values=7),
    named("associative-recall", n=200, form="sequence"),
    named("associative-recall", n=130, form="sequence", alphabet=5, lengths="full"),
    named("mqar", n=64, vocabulary_size=8192),
    named("equality", n=200, form="one"),
    named("equality", n=200, form="random"),
]

FORMS = [
    named("index-lookup", n=4, alphabet=3),
    named("associative-recall", n=3, keys=3, values=2),
    named("associative-recall", n=4, form="sequence", alphabet=3),
    named("mqar", n=4, vocabulary_size=4),
    named("equality", n=6, form="one", alphabet=3),
]


def wrong(model: RecurrentModel, task: TokenTask, inputs: Tensor) -> int:
    """Labelled positions with another answer than the oracle's."""
    labels = task.solve(inputs)
    asked = int(labels.mask.sum(1)[0])
    assert bool((labels.mask.sum(1) == asked).all())
    at = labels.mask.nonzero()[:, 1].reshape(-1, asked)
    return int((model.answers(inputs, at=at) != labels.targets.gather(1, at)).sum())


@pytest.mark.parametrize("case", SMALL)
def test_every_small_input(case: tuple[str, dict[str, Any]]) -> None:
    task = built(case)
    model = stored_input_model(task)
    assert task.domain_size() < 1 << 16
    for inputs in task.enumerate():
        assert wrong(model, task, inputs) == 0


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
@pytest.mark.parametrize("case", FORMS)
def test_every_small_input_in_other_numbers(case: tuple[str, dict[str, Any]], system: NumberSystem) -> None:
    task = built(case)
    model = stored_input_model(task).with_arithmetic(system)
    for inputs in task.enumerate():
        assert wrong(model, task, inputs) == 0


@pytest.mark.slow
@pytest.mark.parametrize("case", LONG)
def test_long_inputs(case: tuple[str, dict[str, Any]]) -> None:
    task = built(case)
    assert wrong(stored_input_model(task), task, task.sample(8, seed=5).inputs) == 0


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_long_inputs_in_other_numbers(system: NumberSystem) -> None:
    for name, n in (("index-lookup", 60), ("associative-recall", 40), ("equality", 60)):
        task = built((name, {"n": n}))
        assert (
            wrong(stored_input_model(task).with_arithmetic(system), task, task.sample(4, seed=6).inputs) == 0
        )


@pytest.mark.slow
def test_a_thousand_symbols() -> None:
    task = built(("index-lookup", {"n": 1024, "lengths": "full"}))
    model = stored_input_model(task)
    assert model.state.width == 1024 * 6 + 2 * 10
    assert sum(tensor.numel() for tensor in model.tensors().values()) < 60_000
    assert wrong(model, task, task.sample(4, seed=7).inputs) == 0


FORMULAS = [
    (("index-lookup", {"n": 1024, "alphabet": 64}), 1024 * 6 + 2 * 10),
    (("index-lookup", {"n": 9, "alphabet": 5}), 9 * 3 + 2 * 4),
    (("associative-recall", {"n": 100, "keys": 200, "values": 16}), 100 * (8 + 4) + 8 + 7),
    (("associative-recall", {"n": 16, "form": "sequence", "alphabet": 17}), 17 * 5 + 5),
    (("mqar", {"n": 64, "vocabulary_size": 8192}), 64 * 12 + 12 + 6),
    (("equality", {"n": 64}), 32 + 5),
    (("equality", {"n": 10, "form": "one"}), 5 * 10 + 3),
]


@pytest.mark.parametrize(("case", "bits"), FORMULAS, ids=str)
def test_the_state_has_the_bits_of_the_formula(case: tuple[str, dict[str, Any]], bits: int) -> None:
    task = built(case)
    model = stored_input_model(task)
    size = model.size(task.length, 32)
    assert state_bits(task) == size.state_bits(task.length) == size.state_bits(1) == bits
    assert model.start(3).shape == (3, bits)
    assert f"{bits * 32:,} bits at 32 bits each" in size.source


def always_bits(model: RecurrentModel) -> bool:
    """Whether states hold 0 and 1 only, after tokens in any order, far beyond the length of the task."""
    generator = torch.Generator().manual_seed(1)
    state = model.start(200)
    for _ in range(40):
        token = torch.randint(0, model.tokens.size, (200,), generator=generator)
        state = model.advance(token, state)
        entries = model.arithmetic.decode_float64(state)
        if not bool(((entries == 0) | (entries == 1)).all()):
            return False
    return True


def keeps_at_padding(model: RecurrentModel, task: TokenTask) -> bool:
    """Whether padding leaves every state as it is."""
    padding = task.vocabulary.pad
    if padding is None:
        return True
    inputs = task.sample(16, seed=8).inputs
    state = model.start(16)
    for position in range(task.length):
        state = model.advance(inputs[:, position], state)
        after = model.advance(torch.full((16,), padding), state)
        if not bool((model.arithmetic.compare(after, state) == 0).all()):
            return False
    return True


@pytest.mark.parametrize("case", FORMS)
def test_states_are_bits_and_padding_keeps_them(case: tuple[str, dict[str, Any]]) -> None:
    task = built(case)
    model = stored_input_model(task)
    assert always_bits(model)
    assert keeps_at_padding(model, task)


@pytest.mark.parametrize("case", FORMS)
def test_steps_files_and_whole_inputs_agree(case: tuple[str, dict[str, Any]]) -> None:
    task = built(case)
    model = stored_input_model(task)
    again = RecurrentModel.from_parts(json.loads(json.dumps(model.spec())), model.tensors())
    inputs = task.sample(32, seed=9).inputs
    forward = model.forward(inputs)
    assert torch.equal(again.forward(inputs), forward)
    state = again.start(32)
    for position in range(task.length):
        scores, state = again.step(inputs[:, position], state)
        assert torch.equal(scores, forward[:, position])


@pytest.mark.slow
@pytest.mark.parametrize("case", FORMS)
def test_every_matrix_matters(case: tuple[str, dict[str, Any]]) -> None:
    """Each block set to 0 in turn changes scores after some tokens, and most make an answer wrong."""
    task = built(case)
    model = stored_input_model(task)
    inputs = torch.cat(list(task.enumerate()))
    anything = torch.randint(0, model.tokens.size, (100, 10), generator=torch.Generator().manual_seed(2))
    scores = model.forward(anything)
    mistaken = []
    for name, tensor in model.tensors().items():
        if bool(tensor.any()):
            changed = {**model.tensors(), name: torch.zeros_like(tensor)}
            mutant = RecurrentModel.from_parts(model.spec(), changed)
            assert not torch.equal(mutant.forward(anything), scores), name
            mistaken.append(wrong(mutant, task, inputs) > 0)
    assert sum(mistaken) > 0.6 * len(mistaken)


def test_other_tasks_are_refused() -> None:
    for case in (
        ("dyck", {"n": 4}),
        ("equality", {"n": 4, "form": "ncp"}),
        ("equality", {"n": 4, "alice": (0, 3)}),
    ):
        for build in (stored_input_model, state_bits):
            with pytest.raises(InvalidInput, match="is built for index-lookup"):
                build(built(case))


@pytest.mark.slow
def test_all_numbers_give_one_answer() -> None:
    """Scores of whole numbers are the same in every system that holds them."""
    task = built(("index-lookup", {"n": 20, "alphabet": 10}))
    model = stored_input_model(task)
    inputs = task.sample(8, seed=10).inputs
    for system in (Float64(), *SYSTEMS):
        assert torch.equal(model.with_arithmetic(system).forward(inputs), model.forward(inputs))
