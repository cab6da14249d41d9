"""The classic problems against definitions written with Python's own integers and sets."""

from __future__ import annotations

import pytest
import torch

from separatrix.communication.problems import PROBLEMS, Problem, Strings, problem
from separatrix.errors import InvalidInput, UnknownName
from separatrix.randomness import Draws


def by_definition(name: str, x: list[int], y: list[int]) -> int:
    match name:
        case "index":
            return x[y[0]]
        case "eq":
            return int(x == y)
        case "disj":
            held = [{place for place, bit in enumerate(each) if bit} for each in (x, y)]
            return int(bool(held[0] & held[1]))
        case "gt":
            return int(int("".join(map(str, x)), 2) > int("".join(map(str, y)), 2))
        case _:
            return sum(a * b for a, b in zip(x, y, strict=True)) % 2


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_values_are_the_definition(name: str, n: int) -> None:
    asked = problem(name, n=n)
    x, y = asked.alice.all(), asked.bob.all()
    values = asked.value(x.unsqueeze(1), y.unsqueeze(0))
    assert values.shape == (asked.alice.count, asked.bob.count)
    assert values.tolist() == [[by_definition(name, a, b) for b in y.tolist()] for a in x.tolist()]


@pytest.mark.parametrize(
    "asked", [*(problem(name, n=3) for name in PROBLEMS), problem("index", n=3, alphabet=4)]
)
def test_different_strings_are_told_apart(asked: Problem) -> None:
    x = asked.alice.all()
    first, second = (x[numbers] for numbers in torch.combinations(torch.arange(len(x))).unbind(1))
    for one, other in ((first, second), (second, first)):
        y = asked.apart(one, other)
        assert (asked.value(one, y) != asked.value(other, y)).all()


def test_index_over_an_alphabet() -> None:
    asked = problem("index", n=2, alphabet=5)
    assert asked.values == 5
    assert asked.alice.count == 25
    assert asked.value(torch.tensor([[3, 4]]), torch.tensor([[1]])).tolist() == [4]


def test_strings_are_numbered_and_drawn() -> None:
    strings = Strings(length=2, symbols=3)
    assert strings.all().tolist() == [[a, b] for a in range(3) for b in range(3)]
    drawn = Strings(length=50, symbols=7).drawn(Draws(seed=1, stream="test", batch=20), "x")
    assert drawn.shape == (20, 50)
    assert set(drawn.flatten().tolist()) == set(range(7))
    with pytest.raises(InvalidInput, match=r"There are 2\^63 strings, and 2\^24 can be listed"):
        Strings(length=63).all()


def test_what_is_no_problem_is_refused() -> None:
    with pytest.raises(InvalidInput, match="eq needs n of at least 1; got n=0"):
        problem("eq", n=0)
    with pytest.raises(InvalidInput, match="alphabet of at least 2; got alphabet=1"):
        problem("index", n=3, alphabet=1)
    with pytest.raises(InvalidInput, match="Only index has an alphabet"):
        problem("disj", n=3, alphabet=3)
    with pytest.raises(UnknownName, match="Did you mean disj"):
        problem("dijs", n=3)
