"""Models that carry fewer bits than a task needs are proved wrong by two inputs and one state."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.certificates import replay
from separatrix.communication.pigeonhole import Collision, collide
from separatrix.communication.reductions import reduction_for
from separatrix.errors import InvalidInput
from separatrix.models import MODELS, model
from separatrix.models.explicit.base import ExplicitModel
from separatrix.models.explicit.recurrent import RecurrentModel
from separatrix.models.interface import CausalModel
from separatrix.models.population import CausalPopulation, signature_of
from separatrix.models.quantised import Quantised
from separatrix.precision import Numbers
from separatrix.tasks import Task, task
from separatrix.training import Member, Training, train
from separatrix.witnesses import witness_for

LOOKUP = task("index-lookup", n=24, alphabet=2)


def forgetful(whole: ExplicitModel, *, lost: int) -> RecurrentModel:
    """A witness whose last cells never take in a symbol: the units that write into them are biased off."""
    assert isinstance(whole, RecurrentModel)
    tensors = {name: values.clone() for name, values in whole.tensors().items()}
    for name in ("store", "touch", "both"):
        if name in {field.name for field in whole.update.units.fields}:
            units = whole.update.units.place(name)
            tensors["update.bias"][units.stop - lost : units.stop] = -100.0
    return RecurrentModel.from_parts(whole.spec(), tensors)


def states(tried: CausalModel[Any], tokens: Tensor) -> list[list[Any]]:
    """What the model carries behind each row, number by number."""
    with torch.no_grad():
        _, state = tried.read(tokens, tried.start(len(tokens)))
    if isinstance(state, Numbers):
        return [[part[row].tolist() for part in state.parts] for row in range(len(tokens))]
    return [_numbers(state, row) for row in range(len(tokens))]


def _numbers(state: Any, row: int) -> list[Any]:
    if isinstance(state, Tensor):
        return list(state[0, row].flatten().tolist())
    if isinstance(state, int):  # the place in the text
        return [state]
    return [found for part in state for found in _numbers(part, row)]


def check(found: Collision | None, tried: CausalModel[Any]) -> None:
    """Everything that a collision claims, by running the model on both inputs from the beginning."""
    assert found is not None
    rows = torch.stack([found.first, found.second])
    asked: Task = found.task
    for row in rows:
        asked.check(row)
    assert not torch.equal(rows[0, : found.cut], rows[1, : found.cut])
    assert torch.equal(rows[0, found.cut : found.place + 1], rows[1, found.cut : found.place + 1])
    labels = asked.solve(rows)
    assert labels.mask[:, found.place].all()
    assert labels.targets[0, found.place] != labels.targets[1, found.place]
    first, second = states(tried, rows[:, : found.cut])
    assert first == second
    with torch.no_grad():
        outputs, _ = tried.read(rows[:, : found.place + 1], tried.start(2))
    answers = outputs.argmax(-1)
    assert answers[0] == answers[1] == found.answered
    shown = found.counterexample
    wrong = rows.tolist().index(list(shown.input))  # type: ignore[arg-type]
    assert shown.expected == labels.targets[wrong, found.place]
    assert shown.answered == answers[wrong] != shown.expected


@pytest.mark.parametrize("lost", [1, 3])
@pytest.mark.parametrize("name", ["index-lookup", "equality"])
def test_a_witness_that_forgets_a_number_is_wrong(name: str, lost: int) -> None:
    asked = task("index-lookup", n=8, alphabet=2) if name == "index-lookup" else task("equality", n=16)
    witness = witness_for(asked, family="rnn")
    assert isinstance(witness.model, RecurrentModel)
    assert collide(witness.model, asked, most=1 << 11) is None
    cut_short = forgetful(witness.model, lost=lost)
    found = collide(cut_short, asked)
    check(found, cut_short)
    assert found is not None
    changed = dataclasses.replace(witness, model=cut_short)
    assert replay(changed, found.counterexample)


def lstm(asked: Task, *, width: int, seed: int) -> CausalModel[Any]:
    population = MODELS.get("lstm")(
        model("lstm", layers=1, width=width), signature_of(asked), members=1
    ).initialise([seed])
    assert isinstance(population, CausalPopulation)
    alone = population.member(0)
    assert isinstance(alone, CausalModel)
    return alone


@pytest.mark.slow
def test_random_small_networks_100_of_100() -> None:
    reduction = reduction_for(LOOKUP)
    for seed in range(100):
        small = Quantised(lstm(LOOKUP, width=4, seed=seed), bits=2)
        assert small.size(LOOKUP.length, 32).state_bits(24) == 16 < reduction.one_way_bits
        check(collide(small, LOOKUP, seed=seed), small)


@pytest.mark.parametrize("bits", [2, 4])
def test_a_trained_network_rounded_to_few_bits(bits: int) -> None:
    asked = task("index-lookup", n=40, alphabet=2)
    (one,) = train(
        asked,
        model("lstm", layers=1, width=8),
        members=[Member(lr=1e-2)],
        training=Training(steps=40, batch=16, eval_every=40, eval_examples=64, test_examples=64),
    )
    alone = one.population.member(0)
    assert isinstance(alone, CausalModel)
    rounded = Quantised(alone, bits=bits)
    found = collide(rounded, asked)
    check(found, rounded)
    assert found is not None
    assert f"{bits} bits a number" in found.counterexample.arithmetic
    assert "both inputs have led to the same state" in str(found)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("associative-recall", {"n": 12}),
        ("c-gram", {"n": 24}),
        ("counting", {"n": 24}),
        ("mqar", {"n": 12}),
        ("is-tree", {"n": 24}),
        ("equality", {"n": 48}),
    ],
)
def test_every_task_with_a_prefix_has_its_collisions(name: str, params: dict[str, Any]) -> None:
    asked = task(name, **params)
    small = Quantised(lstm(asked, width=3, seed=1), bits=1)
    found = collide(small, asked)
    check(found, small)


def test_what_cannot_be_is_refused() -> None:
    small = Quantised(lstm(LOOKUP, width=2, seed=0), bits=1)
    with pytest.raises(InvalidInput, match="Two prefixes at least"):
        collide(small, LOOKUP, most=1)
    mixed = task("equality", n=8, alice=(0, 2, 4, 6))
    with pytest.raises(InvalidInput, match="Alice holds no prefix"):
        collide(small, mixed)
    with pytest.raises(InvalidInput, match="The reduction is to"):
        collide(small, LOOKUP, reduction=reduction_for(task("index-lookup", n=4)))
    with pytest.raises(InvalidInput, match="1 to 16 bits a number; got bits=0"):
        Quantised(lstm(LOOKUP, width=2, seed=0), bits=0)
