"""The least sum over a region against all its sequences, one by one; and the beginnings they have."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from torch import Tensor

from separatrix.certificates.questions import Automaton, Least, Question, Region, Requirements, questions_of
from separatrix.errors import InvalidInput
from separatrix.tasks import task

RIGHT = Requirements.of_class(0, 2)


def sequences(allowed: Tensor, order: Automaton | None) -> list[tuple[int, ...]]:
    """Every sequence of allowed options that the automaton takes."""
    places = [[option for option, fits in enumerate(row) if fits] for row in allowed.tolist()]
    return [chosen for chosen in itertools.product(*places) if order is None or taken(order, chosen)]


def taken(order: Automaton, chosen: tuple[int, ...]) -> bool:
    state = 0
    for option in chosen:
        state = int(order.after[state, option])
        if state < 0:
            return False
    return bool(order.accepts[state])


def assert_least(found: Least, costs: Tensor, among: list[tuple[int, ...]]) -> None:
    """The value is that of the cheapest sequence, and the options are a sequence of that value."""
    for row, value, options in zip(costs.tolist(), found.value.tolist(), found.options.tolist(), strict=True):
        totals = {
            chosen: sum(prices[option] for prices, option in zip(row, chosen, strict=True))
            for chosen in among
        }
        if not among:
            assert value == float("inf")
            continue
        assert value == pytest.approx(min(totals.values()), abs=1e-12)
        assert totals[tuple(options)] == pytest.approx(value, abs=1e-12)


def drawn(seed: int) -> tuple[Tensor, Automaton, Tensor]:
    """Which options may stand where, an automaton with dead ends, and prices, some of them equal."""
    dice = random.Random(seed)
    length, options, states, batch = (dice.randint(*ends) for ends in ((1, 5), (1, 4), (1, 4), (1, 3)))
    allowed = torch.tensor([[dice.random() < 0.8 for _ in range(options)] for _ in range(length)])
    allowed[torch.arange(length), torch.tensor([dice.randrange(options) for _ in range(length)])] = True
    after = torch.tensor([[dice.randint(-1, states - 1) for _ in range(options)] for _ in range(states)])
    accepts = torch.tensor([dice.random() < 0.6 for _ in range(states)])
    costs = [
        [[dice.choice([dice.gauss(0, 2), 0.5, -1.0]) for _ in range(options)] for _ in range(length)]
        for _ in range(batch)
    ]
    return allowed, Automaton(after, accepts), torch.tensor(costs, dtype=torch.float64)


@pytest.mark.parametrize("seed", range(60))
def test_least_is_that_of_all_sequences(seed: int) -> None:
    allowed, order, costs = drawn(seed)
    assert_least(order.least(costs), costs, sequences(torch.ones_like(allowed), order))
    for each in (None, order):
        region = Region(target="0", allowed=allowed, requirements=RIGHT, order=each)
        assert_least(region.least(costs), costs, sequences(allowed, each))


def test_random_automata_have_sequences_and_lack_them() -> None:
    counts = [len(sequences(allowed, order)) for allowed, order, _ in map(drawn, range(60))]
    assert sum(count == 0 for count in counts) > 3
    assert sum(count > 3 for count in counts) > 10


@pytest.mark.parametrize("parameters", [{}, {"form": "next"}, {"depth": 1}])
def test_least_over_regions_of_brackets(parameters: dict[str, object]) -> None:
    dyck = task("dyck", **{"n": 4, "types": 2, "depth": 2, **parameters})
    costs = torch.randn(2, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for question in questions_of(dyck):
        for region in question.regions:
            among = sequences(region.allowed, region.order)
            assert among
            assert_least(region.least(costs), costs, among)


@pytest.mark.parametrize("seed", range(30))
def test_beginnings_are_those_of_all_sequences(seed: int) -> None:
    allowed, order, _ = drawn(seed)
    for each in (None, order):
        region = Region(target="0", allowed=allowed, requirements=RIGHT, order=each)
        for count in range(1, len(allowed) + 1):
            begun = region.upto(count)
            expected = {chosen[:count] for chosen in sequences(allowed, each)}
            assert set(sequences(begun.allowed, begun.order)) == expected


def test_shapes_that_do_not_fit_are_refused() -> None:
    nowhere = torch.tensor([[True, True], [False, False]])
    with pytest.raises(InvalidInput, match="In a region every position has an option; one has none"):
        Region(target="0", allowed=nowhere, requirements=RIGHT)
    anything = Region(target="0", allowed=torch.ones(2, 2, dtype=torch.bool), requirements=RIGHT)
    with pytest.raises(InvalidInput, match="What stands at the position that is asked is one thing"):
        Question(query="", asked=1, options=torch.zeros(2, 2), regions=(anything,))
    with pytest.raises(InvalidInput, match="says of every option"):
        Question(query="", asked=1, options=torch.zeros(3, 2), regions=(anything,))


def test_requirements_are_strict() -> None:
    right = Requirements.of_class(1, 3)
    outputs = torch.tensor([[0.0, 1, 0], [1, 1, 0], [2, 1, 0], [-1, 0, -1e-9]], dtype=torch.float64)
    met = (outputs @ right.directions.T + right.offsets > 0).all(1)
    assert met.tolist() == [True, False, False, True]
    near = Requirements.near(torch.tensor([0.5, -0.5]), 0.25)
    distances = torch.tensor([[0.17, 0.17], [0.18, 0.0], [0.0, -0.18], [-0.17, 0.17]], dtype=torch.float64)
    outputs = torch.tensor([0.5, -0.5], dtype=torch.float64) + distances
    met = (outputs @ near.directions.T + near.offsets > 0).all(1)
    assert met.tolist() == [True, False, False, True]
