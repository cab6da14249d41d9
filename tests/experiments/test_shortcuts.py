"""Shortcuts for equality: against slow oracles on every small input, and where they must fail."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any, Literal

import pytest
import torch

from separatrix.errors import InvalidInput, UnknownName
from separatrix.experiments.shortcuts import (
    SHORTCUTS,
    exact_state_bits,
    hard_negatives,
    shortcut_answers,
    shortcut_score,
)
from separatrix.models import model
from separatrix.store import wilson
from separatrix.tasks.equality import Equality
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.training.evaluation import TEST_EXAMPLES_FROM, TEST_SEED, evaluate
from separatrix.training.jobs import job_for
from separatrix.training.recipes import Member, Training


def slowly(name: str, text: str, *, alphabet: int, prefix: int) -> int:
    """The verdict of a shortcut from the text of an input."""
    first, second = ([int(word) for word in half.split()] for half in text.split("[SEP]"))
    match name:
        case "prefix":
            return int(first[:prefix] == second[:prefix])
        case "counts":
            return int(Counter(first) == Counter(second))
        case _:
            return int(sum(first) % alphabet == sum(second) % alphabet)


@pytest.mark.parametrize("name", SHORTCUTS)
@pytest.mark.parametrize(("n", "alphabet", "prefix"), [(6, 2, 2), (4, 3, 1), (6, 2, 0), (4, 3, 5)])
def test_every_input_is_answered_as_by_hand(name: str, n: int, alphabet: int, prefix: int) -> None:
    task = Equality(n=n, alphabet=alphabet)
    for inputs in task.enumerate():
        said = shortcut_answers(name, task, inputs, prefix=prefix).tolist()
        assert said == [slowly(name, task.render(row), alphabet=alphabet, prefix=prefix) for row in inputs]


@pytest.mark.parametrize("name", SHORTCUTS)
def test_strings_may_stand_elsewhere(name: str) -> None:
    together, apart = Equality(n=6), Equality(n=6, alice=(0, 3, 5))
    rows = Equality(n=6, lengths="full").sample(64, seed=1).inputs
    spread = torch.full_like(rows, 2)
    for string, other in zip(together.places, apart.places, strict=True):
        spread[:, list(other)] = rows[:, list(string)]
    assert torch.equal(apart.solve(spread).answer, together.solve(rows).answer)
    said = shortcut_answers(name, apart, spread, prefix=1)
    assert torch.equal(said, shortcut_answers(name, together, rows, prefix=1))
    assert 0 < said.sum() < 64


@pytest.mark.parametrize("form", ["random", "one"])
@pytest.mark.parametrize("name", SHORTCUTS)
def test_scores_are_counted_on_the_test_examples(name: str, form: Literal["random", "one"]) -> None:
    task = Equality(n=20, form=form, alphabet=4)
    tested = Equality(n=20, form=form, alphabet=4, lengths="full").sample(
        300, seed=TEST_SEED, start=TEST_EXAMPLES_FROM
    )
    right = sum(
        slowly(name, task.render(row), alphabet=4, prefix=3) == answer
        for row, answer in zip(tested.inputs, tested.labels.answer.tolist(), strict=True)
    )
    score = shortcut_score(name, task, examples=300, prefix=3)
    assert (score.right, score.examples) == (right, 300)
    assert score.accuracy == right / 300
    assert score.interval == wilson(right, 300)


def test_test_examples_are_those_of_trained_models() -> None:
    """A model that always says equal is right as often as a shortcut that remembers nothing."""
    task = Equality(n=12)
    config = model("transformer", layers=1, width=8, heads=1)
    job = job_for(task, config, members=[Member(lr=1e-3)], training=Training(steps=1))
    constant: Any = job.population(1).initialise([0])
    with torch.no_grad():
        for values in constant.parameters():
            values.zero_()
        constant.norm.bias.fill_(1.0)
        constant.readout.weight[..., 1] = 1.0
    (counted,) = evaluate(constant, task, examples=200, precision="float32", first=TEST_EXAMPLES_FROM)
    assert counted.right == shortcut_score("prefix", task, examples=200, prefix=0).right


def test_many_examples_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Equality(n=20)
    whole = [shortcut_score(name, task, examples=100) for name in SHORTCUTS]
    monkeypatch.setattr("separatrix.experiments.shortcuts._TOKENS_AT_ONCE", 21 * 7)
    assert [shortcut_score(name, task, examples=100) for name in SHORTCUTS] == whole


def near(accuracy: float, expected: float, *, examples: int) -> bool:
    """Within five deviations of the expected share."""
    return abs(accuracy - expected) <= 5 * math.sqrt(max(expected * (1 - expected), 1e-4) / examples)


@pytest.mark.parametrize("n", [40, 100, 200])
def test_the_paper_s_forms_fall_to_them(n: int) -> None:
    """What S says, and how far each shortcut fails on the other's form, from the distributions."""
    half, examples = n // 2, 2000
    random, one = Equality(n=n), Equality(n=n, form="one")

    def accuracy(name: str, task: Equality) -> float:
        return shortcut_score(name, task, examples=examples).accuracy

    # Unequal random bits agree on ten places with probability 2^-10, in their counts with C(2h, h)/4^h.
    assert near(accuracy("prefix", random), 1 - 2**-11, examples=examples)
    assert near(accuracy("counts", random), 1 - math.comb(n, half) / 2 ** (n + 1), examples=examples)
    assert near(accuracy("sum", random), 3 / 4, examples=examples)
    # A changed symbol changes the counts and the sum; the prefix sees it if it stands among the first ten.
    assert accuracy("counts", one) == accuracy("sum", one) == 1.0
    assert near(accuracy("prefix", one), 1 / 2 + 5 / half, examples=examples)


def test_equal_strings_are_never_called_different() -> None:
    task = Equality(n=30, alphabet=5, lengths="varied", form="one")
    drawn = task.sample(400, seed=3)
    equal = drawn.labels.answer == 1
    for name in SHORTCUTS:
        assert shortcut_answers(name, task, drawn.inputs[equal]).all()


@pytest.mark.parametrize("form", ["random", "one"])
def test_hard_negatives_defeat_every_shortcut(form: Literal["random", "one"]) -> None:
    task = Equality(n=28, form=form, alphabet=2 if form == "random" else 7)
    hard = hard_negatives(task, examples=200, prefix=10)
    full = Equality(n=28, form=form, alphabet=task.symbols, lengths="full")
    for row in hard.inputs:
        full.check(row)
        first, second = ([int(word) for word in half.split()] for half in task.render(row).split("[SEP]"))
        changed = [place for place in range(14) if first[place] != second[place]]
        assert len(changed) == 2
        assert min(changed) >= 10
        assert Counter(first) == Counter(second)
    assert not task.solve(hard.inputs).answer.any()
    assert not hard.labels.answer.any()
    for name in SHORTCUTS:
        assert shortcut_answers(name, task, hard.inputs, prefix=10).all()
    assert len({tuple(row) for row in hard.inputs.tolist()}) > 190


def test_hard_negatives_have_all_places_and_symbols() -> None:
    task = Equality(n=10, alphabet=3, alice=(0, 2, 4, 6, 8))
    hard = hard_negatives(task, examples=400, prefix=2)
    first, second = (hard.inputs[:, list(places)] for places in task.places)
    swapped = {
        (tuple((a != b).nonzero().flatten().tolist()), *a[a != b].tolist())
        for a, b in zip(first, second, strict=True)
    }
    pairs = itertools.permutations(range(3), 2)
    assert swapped == {(places, *pair) for pair in pairs for places in itertools.combinations(range(2, 5), 2)}
    assert torch.equal(hard_negatives(task, examples=3, prefix=2, first=5).inputs, hard.inputs[5:8])


def test_bits_are_counted_from_what_can_be_kept() -> None:
    """Beside a list of all the different things that each shortcut can know of w."""
    task = Equality(n=8, alphabet=3)
    strings = list(itertools.product(range(3), repeat=4))
    known: dict[str, set[Any]] = {
        "prefix": {string[:3] for string in strings},
        "counts": {tuple(sorted(string)) for string in strings},
        "sum": {sum(string) % 3 for string in strings},
    }
    for name, states in known.items():
        score = shortcut_score(name, task, examples=1, prefix=3)
        assert score.state_bits == math.ceil(math.log2(len(states)))
        assert score.exact_bits == exact_state_bits(task) == math.ceil(math.log2(len(strings)))
    paper = shortcut_score("counts", Equality(n=200, form="one"), examples=1)
    assert (paper.state_bits, paper.exact_bits) == (482, 1000)
    assert shortcut_score("prefix", Equality(n=200), examples=1).state_bits == 10
    whole = shortcut_score("prefix", Equality(n=14), examples=1)  # there is no more than w to remember
    assert whole.state_bits == whole.exact_bits == 7


def test_what_they_do_not_answer_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the form ncp asks which symbol follows"):
        shortcut_score("counts", Equality(n=20, form="ncp"), examples=10)
    with pytest.raises(InvalidInput, match="The shortcuts are for equality; got index-lookup"):
        shortcut_score("counts", IndexLookup(n=20), examples=10)
    with pytest.raises(UnknownName, match="Did you mean counts"):
        shortcut_score("count", Equality(n=20), examples=10)
    with pytest.raises(InvalidInput, match="got a prefix of 10 in strings of 11"):
        hard_negatives(Equality(n=22), examples=10)
    with pytest.raises(InvalidInput, match="got prefix=-1"):
        shortcut_score("prefix", Equality(n=20), examples=10, prefix=-1)
    with pytest.raises(InvalidInput, match="an alphabet of one"):
        hard_negatives(Equality(n=40, alphabet=1), examples=10)
