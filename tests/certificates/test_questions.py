"""Questions: every input of small tasks is in one region for each answer, and the region says what is right.

The tasks list their inputs and solve them; which region an input is in is found out here, bracket by bracket
and option by option, without the code that minimises over regions.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.certificates.questions import Question, Region, cells_of, questions_of
from separatrix.certificates.questions.listing import pair
from separatrix.errors import InvalidInput
from separatrix.tasks import Classes, Task, Tokens, Vectors, task

SMALL: list[tuple[str, dict[str, Any]]] = [
    ("index-lookup", {"n": 4, "alphabet": 3}),
    ("index-lookup", {"n": 3, "alphabet": 3, "lengths": "full"}),
    ("index-lookup", {"n": 3, "alphabet": 1}),
    ("index-lookup", {"n": 11, "alphabet": 2}),
    ("associative-recall", {"n": 4, "keys": 5, "values": 3, "order": "fixed"}),
    ("associative-recall", {"n": 3, "keys": 3, "values": 2, "order": "fixed", "lengths": "full"}),
    ("associative-recall", {"n": 2, "keys": 2, "values": 1, "order": "fixed"}),
    ("associative-recall", {"n": 11, "values": 2, "order": "fixed"}),
    ("associative-recall", {"n": 4, "form": "sequence", "alphabet": 3}),
    ("associative-recall", {"n": 5, "form": "sequence", "alphabet": 2, "lengths": "full"}),
    ("associative-recall", {"n": 4, "form": "sequence", "alphabet": 1}),
    ("associative-recall", {"n": 2, "form": "sequence"}),
    *(
        ("match2", {"n": n, "modulus": modulus, "distinct": distinct})
        for n, modulus in ((2, 2), (4, 4), (4, 5), (5, 3))
        for distinct in (False, True)
    ),
    ("q-sparse-averaging", {"n": 3, "q": 2, "sizes": "up-to"}),
    ("q-sparse-averaging", {"n": 3, "q": 2}),
    ("q-sparse-averaging", {"n": 3, "q": 1, "sizes": "up-to"}),
    ("q-sparse-averaging", {"n": 2, "q": 2, "grid": 2, "sizes": "up-to"}),
    ("q-sparse-averaging", {"n": 2, "q": 1, "d": 2}),
    *(
        ("dyck", {"n": n, "types": types, "depth": depth})
        for n in (2, 4, 6)
        for types, depth in ((1, 1), (1, 2), (1, 9), (2, 1), (2, 2), (2, 3), (3, 2))
        if (2 * types) ** n < 5000
    ),
    ("dyck", {"n": 8, "types": 1, "depth": 3}),
    *(
        ("dyck", {"n": n, "types": types, "depth": depth, "form": "next"})
        for n, types, depth in ((2, 2, 2), (4, 2, 1), (6, 2, 2), (6, 1, 9), (8, 2, 3), (8, 1, 3), (6, 3, 2))
    ),
]


def named(name: str, parameters: dict[str, Any]) -> Task:
    return task(name, **parameters)


def likely(about: Task) -> tuple[Tensor, Tensor]:
    """Every input that a sample can be, and how long each is; longer and shorter ones are left out."""
    inputs = torch.cat(list(about.enumerate()))
    lengths = torch.full((len(inputs),), about.length)
    space = about.input_space
    if isinstance(space, Tokens) and space.pad is not None:
        lengths = (inputs != space.pad).sum(1)
        pairs = about.name == "associative-recall" and getattr(about, "form", "") == "pairs"
        least = about.n if getattr(about, "lengths", "") == "full" else min(10, about.n)
        kept = lengths >= (2 * least if pairs else least) + 1
    elif about.name == "q-sparse-averaging" and getattr(about, "sizes", "") == "exact":
        kept = (inputs[..., getattr(about, "d", 1) :] > 0).all((1, 2))
    else:
        kept = torch.ones(len(inputs), dtype=torch.bool)
    return inputs[kept], lengths[kept]


def held(question: Question, region: Region, inputs: Tensor, lengths: Tensor) -> Tensor:
    """Which inputs a region has: an allowed option fits at each position, and the automaton takes them."""
    given = inputs[:, : question.length].unsqueeze(2)
    fits = given == question.options
    fits = (fits.flatten(3).all(3) if fits.dim() > 3 else fits) & region.allowed
    assert int(fits.sum(2).max()) <= 1, "an option is there twice"
    inside = fits.any(2).all(1) & (lengths == question.length)
    if region.order is None:
        return inside
    state = torch.zeros(len(inputs), dtype=torch.int64)
    for chosen in fits.int().argmax(2).unbind(1):
        after = region.order.after[state, chosen]
        inside &= after >= 0
        state = after.clamp_min(0)
    return inside & region.order.accepts[state]


def accepted(region: Region, outputs: Tensor) -> Tensor:
    """Whether all that is required of each output holds."""
    required = region.requirements
    return (outputs.double() @ required.directions.T + required.offsets > 0).all(1)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), SMALL)
def test_every_input_is_in_one_region_for_each_answer(name: str, parameters: dict[str, Any]) -> None:
    about = named(name, parameters)
    inputs, lengths = likely(about)
    labels = about.solve(inputs)
    found = torch.zeros_like(labels.mask, dtype=torch.int64)
    asked_about: Counter[tuple[int, int, str]] = Counter()
    for question in questions_of(about):
        assert question.regions
        for region in question.regions:
            inside = held(question, region, inputs, lengths)
            assert bool(inside.any()), f"{question.query}: {region.target} is empty"
            assert bool(labels.mask[inside, question.asked].all())
            found[inside, question.asked] += 1
            assert_right(about, region, labels.targets[inside, question.asked])
        stands = question.options[question.asked, question.regions[0].allowed[question.asked].int().argmax()]
        asked_about[question.asked, question.length, str(stands.tolist())] += 1
    assert torch.equal(found, labels.mask.long())
    assert max(asked_about.values()) == 1


def assert_right(about: Task, region: Region, targets: Tensor) -> None:
    """All inputs of the region have one answer; it is accepted, and a wrong one beside it is not."""
    answer, space = targets[0], about.target_space
    assert bool((targets == answer).all())
    text = about.render_target(answer)
    assert region.target == text or region.target.startswith(f"{text},")
    if isinstance(space, Classes):
        scores = torch.eye(space.size)
        assert accepted(region, scores).tolist() == [number == int(answer) for number in range(space.size)]
        if space.size > 1:
            assert not bool(accepted(region, torch.ones(1, space.size))), "a tie is no answer"
        return
    assert isinstance(space, Vectors)
    side = space.tolerance / space.width**0.5
    for sign, axis in itertools.product((-1, 1), range(space.width)):
        shift = torch.zeros(space.width, dtype=torch.float64)
        shift[axis] = sign * side
        near, far = (answer.double() + factor * shift for factor in (0.999, 1.001))
        assert accepted(region, torch.stack([near, far])).tolist() == [True, False]
    corner = answer.double() + 0.999 * side
    assert float((corner - answer).norm()) < space.tolerance
    assert bool(accepted(region, corner.unsqueeze(0)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("index-lookup", {"n": 12, "alphabet": 7}),
        ("associative-recall", {"n": 11, "values": 5, "order": "fixed"}),
        ("associative-recall", {"n": 12, "form": "sequence", "alphabet": 4}),
        ("match2", {"n": 9}),
        ("q-sparse-averaging", {"n": 5, "q": 2}),
        ("dyck", {"n": 20}),
        ("dyck", {"n": 14, "types": 3, "depth": 4}),
        ("dyck", {"n": 20, "form": "next"}),
    ],
)
def test_samples_are_in_one_region_for_each_answer(name: str, parameters: dict[str, Any]) -> None:
    about = named(name, parameters)
    batch = about.sample(60, seed=3)
    found = torch.zeros_like(batch.mask, dtype=torch.int64)
    for question in questions_of(about):
        for region in question.regions:
            inside = held(question, region, batch.inputs, batch.lengths)
            found[inside, question.asked] += 1
            if bool(inside.any()):
                assert_right(about, region, batch.targets[inside, question.asked])
    assert torch.equal(found, batch.mask.long())


@pytest.mark.parametrize(("name", "parameters"), SMALL)
def test_cells_are_counted_without_making_them(name: str, parameters: dict[str, Any]) -> None:
    about = named(name, parameters)
    questions = questions_of(about)
    made = list(questions)
    assert len(made) == len(questions)
    assert cells_of(about) == sum(len(question.regions) for question in made)


@pytest.mark.parametrize(
    ("name", "parameters", "cells"),
    [
        ("index-lookup", {"n": 50, "lengths": "full"}, 3200),
        ("index-lookup", {"n": 400}, 64 * (400 * 401 - 9 * 10) // 2),
        ("index-lookup", {"n": 1 << 16, "lengths": "full"}, 64 << 16),
        ("associative-recall", {"n": 20, "order": "fixed", "lengths": "full"}, 20 * 64),
        ("match2", {"n": 20, "modulus": 28}, 20 * (26 * 20 + 2)),
        ("match2", {"n": 20, "modulus": 28, "distinct": True}, 20 * 28 * 20),
        ("q-sparse-averaging", {"n": 8, "q": 2}, 8 * (7 * 9 + 21 * 27)),
        ("dyck", {"n": 2, "types": 2, "depth": 2}, 2 + 4 + 2 + 2),
    ],
)
def test_known_numbers_of_cells(name: str, parameters: dict[str, Any], cells: int) -> None:
    assert cells_of(named(name, parameters)) == cells


def test_one_question_of_a_long_input_is_made_by_itself() -> None:
    questions = questions_of(task("index-lookup", n=300, lengths="full"))
    question = questions[-1]
    assert (question.query, question.asked, question.length) == ("@300 behind 300 symbols", 300, 301)
    assert [region.target for region in question.regions][:2] == ["s0", "s1"]
    assert len(questions[:3]) == 3
    assert questions[1:3].cells == 128
    assert questions[1:3][1].query == "@3 behind 300 symbols"
    with pytest.raises(IndexError):
        questions[300]


def test_pairs_of_length_and_place_are_numbered() -> None:
    for lengths in (range(1, 6), range(3, 8), range(4, 5)):
        expected = [(length, place) for length in lengths for place in range(length)]
        assert [pair(lengths, number) for number in range(sum(lengths))] == expected


def test_a_question_spells_inputs_of_its_task() -> None:
    about = task("dyck", n=6, types=2, depth=2)
    for question in questions_of(about):
        for region in question.regions:
            found = region.least(torch.rand(3, 6, 8, dtype=torch.float64))
            for row in question.inputs(found.options):
                about.check(row)
                assert about.render(row)[-1] == question.query[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters", "target"),
    [
        ("dyck", {"n": 20}, "0, closes the wrong type at position 7"),
        ("dyck", {"n": 20}, "0, closes nothing at position 9"),
        ("dyck", {"n": 20}, "0, opens too many at position 3"),
        ("dyck", {"n": 20}, "0, ends with brackets open"),
        ("match2", {"n": 20}, "1, first with position 7"),
        ("match2", {"n": 20}, "1, with itself"),
        ("q-sparse-averaging", {"n": 4, "q": 2}, "(-0.5), v2=(-1), v3=(0)"),
    ],
)
def test_a_region_says_what_fixes_its_answer(name: str, parameters: dict[str, Any], target: str) -> None:
    targets = {
        region.target for question in questions_of(named(name, parameters)) for region in question.regions
    }
    assert target in targets


COVERED = (
    "Whole models are certified on index-lookup, associative-recall with order=fixed or form=sequence, "
    "match2, q-sparse-averaging and dyck; got {}. Use separatrix break, which works for any task."
)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("mqar", {"n": 4}, COVERED.format("mqar")),
        ("match3", {"n": 4}, COVERED.format("match3")),
        (
            "nearest-neighbour",
            {"n": 4},
            (
                "Inputs of nearest-neighbour are rows of real numbers, so there is no finite alphabet to try "
                "at each position; whole models are certified on index-lookup, associative-recall with "
                "order=fixed or form=sequence, match2, q-sparse-averaging and dyck. Use separatrix break, "
                "which works for any task."
            ),
        ),
        (
            "associative-recall",
            {"n": 4},
            (
                "associative-recall is certified with keys in a fixed order, where what stands at one "
                "position leaves the others free, or in sequence form; got pairs with order=any. Try "
                "order=fixed, or use separatrix break, which works for any task."
            ),
        ),
        (
            "q-sparse-averaging",
            {"n": 20, "q": 3},
            (
                "q-sparse-averaging is certified where at most 4,096 values with their sets can stand at a "
                "position and at most 200,000 regions come of it; here are 3,420 and 1,662,120. Try n=12, "
                "q=3, d=1, grid=1, or use separatrix break, which works for any task."
            ),
        ),
        (
            "dyck",
            {"n": 40, "depth": 12},
            (
                "dyck is certified where brackets can be open in at most 4,096 ways; with types=2 and "
                "depth=12 there are more. Try depth=11, or use separatrix break, which works for any task."
            ),
        ),
        (
            "match2",
            {"n": 5000},
            (
                "A question of match2 would have 5,000 regions of 5,000 positions with 7,213 options each; "
                "at most 536,870,912 options in all are held. Choose a smaller n or fewer symbols, or use "
                "separatrix break, which works for any task."
            ),
        ),
    ],
)
def test_refusals(name: str, parameters: dict[str, Any], message: str) -> None:
    for ask in (questions_of, cells_of):
        with pytest.raises(InvalidInput) as caught:
            ask(named(name, parameters))
        assert str(caught.value) == message


@pytest.mark.parametrize(
    "parameters",
    [
        {"n": 20, "q": 3},
        {"n": 40, "q": 8, "sizes": "up-to"},
        {"n": 1 << 16, "q": 1},
        {"n": 3, "q": 2, "d": 8},
        {"n": 1000, "q": 64, "d": 64, "grid": 1024},
        {"n": 4, "q": 4, "grid": 40},
    ],
)
def test_the_size_that_is_proposed_fits(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        cells_of(task("q-sparse-averaging", **parameters))
    proposal = str(caught.value).split("Try ")[1].split(", or use")[0]
    told = {word.split("=")[0]: int(word.split("=")[1]) for word in proposal.split(", ")}
    fitting = task("q-sparse-averaging", **{**parameters, **told})
    assert 0 < cells_of(fitting) <= 200_000
    if told["n"] < parameters["n"]:
        longer = {**parameters, **told, "n": told["n"] + 1}
        with pytest.raises(InvalidInput):
            cells_of(task("q-sparse-averaging", **longer))


def test_the_depth_that_is_proposed_fits() -> None:
    for types, depth in ((1, 4095), (2, 11), (8, 3)):
        with pytest.raises(InvalidInput, match=f"Try depth={depth},"):
            questions_of(task("dyck", n=1 << 20, types=types, depth=1 << 20))
    assert cells_of(task("dyck", n=24, depth=11)) > 0
