"""Margins are below the least lead of every input of a region, for models with weights of every size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.certificates.one_layer.bounds import Bounds, Bracket
from separatrix.certificates.one_layer.contexts import Contexts
from separatrix.certificates.one_layer.float_errors import ROUNDING, FloatErrors
from separatrix.certificates.one_layer.form import OneLayer, activated
from separatrix.certificates.one_layer.relaxations import Interval
from separatrix.certificates.questions import Question, Region, questions_of
from separatrix.models.population import Population
from separatrix.tasks import Task, task
from separatrix.tasks.index_lookup import IndexLookup
from tests.certificates.draws import seeds
from tests.certificates.one_layer.drawn import (
    drawn,
    every,
    leads,
    outputs,
    seen_by,
    spelled,
    streams,
    weights_of,
)
from tests.certificates.one_layer.planted import looking_up

TASKS: list[tuple[str, dict[str, Any], bool]] = [
    ("index-lookup", {"n": 4, "alphabet": 3}, True),
    ("index-lookup", {"n": 3, "alphabet": 4}, False),
    ("associative-recall", {"n": 3, "keys": 3, "values": 3, "order": "fixed"}, True),
    ("match2", {"n": 4, "modulus": 3}, False),
    ("dyck", {"n": 6, "types": 1, "depth": 2}, True),
    ("dyck", {"n": 4, "types": 2, "depth": 2, "form": "next"}, False),
    ("q-sparse-averaging", {"n": 3, "q": 1}, False),
]


def bounds_of(
    population: Population, question: Question, *, floats: bool
) -> tuple[OneLayer, Contexts, Bounds]:
    """As they are used for a model; without floats, of the model in real numbers."""
    form, tables = seen_by(population, question)
    if not floats:
        contexts = Contexts(tables, question)
        return form, contexts, Bounds(form, contexts)
    unit = ROUNDING[form.precision] + ROUNDING["float64"]
    errors = FloatErrors(form, question, tables, unit=unit)
    contexts = Contexts(tables, question, scores=errors.scores, stream=errors.stream)
    return form, contexts, Bounds(form, contexts, errors)


def least_leads(
    population: Population, asked: Task, question: Question, number: int, options: Tensor
) -> Tensor:
    """The least lead over each rival, by either path of the model."""
    region = question.regions[number]
    rows = spelled(asked, question, region, options)
    found = [outputs(population, question, rows, at=at) for at in (True, False)]
    return torch.minimum(*(leads(each, region.requirements).amin(0) for each in found))


def check_bracket(form: OneLayer, known: Bracket, stream: Tensor) -> None:
    """Lengths and arguments of units are inside for these streams."""
    lengths = form.second.length(stream)
    assert bool((known.shortest <= lengths).all())
    assert bool((lengths <= known.longest).all())
    tangent = known.length.here + (stream - known.centre) @ known.length.slope
    room = 1e-12 * (1 + lengths)
    assert bool((tangent <= lengths + room).all())
    assert bool((lengths <= tangent + known.length.bend + room).all())
    away = form.second.centre(stream - known.centre).norm(dim=1)
    assert bool((away <= known.farthest).all())
    assert bool(((stream - known.centre).norm(dim=1) <= known.spread).all())
    normed = form.second(stream)
    arguments = form.feed_forward.up(normed)
    _check_inside(known.gate, arguments)
    if form.feed_forward.value is not None:
        assert known.value is not None
        _check_inside(known.value, form.feed_forward.value(normed))


def _check_inside(between: Interval, found: Tensor) -> None:
    room = 1e-12 * (1 + found.abs())
    assert bool((between.low <= found + room).all())
    assert bool((found - room <= between.high).all())


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, 40))
@pytest.mark.parametrize("kind", ["transformer", "llama"])
def test_margins_are_below_every_input(kind: str, seed: int) -> None:
    positive = 0
    for number, (name, sizes, causal) in enumerate(TASKS):
        asked = task(name, **sizes)
        scale = (1.0, 4.0, 12.0, 30.0)[(seed + number) % 4]
        width, heads = ((8, 1), (8, 2), (16, 2))[(seed + number) % 3]
        floats = bool((seed + number) % 5)
        dtype = torch.float32 if floats and (seed + number) % 2 else torch.float64
        population = drawn(
            asked, kind, seed=seed, scale=scale, dtype=dtype, causal=causal, width=width, heads=heads
        )
        questions = questions_of(asked)
        question = questions[(7 * seed + 3) % len(questions)]
        form, contexts, bounds = bounds_of(population, question, floats=floats)
        for place, region in list(enumerate(question.regions))[:3]:
            options = every(region, contexts.tables.positions)
            true = least_leads(population, asked, question, place, options)
            stream = streams(contexts, options)
            known = bounds.bracket(place)
            check_bracket(form, known, stream)
            sharp = bounds.sharpened(known)
            check_bracket(form, sharp, stream)
            assert bool((sharp.gate.high - sharp.gate.low <= known.gate.high - known.gate.low).all())
            for found in (
                bounds.margins(known, region.requirements),
                bounds.margins(sharp, region.requirements),
                bounds.margins(sharp, region.requirements, closer=True),
            ):
                proven = found > 0
                assert bool((found <= true + (1e-13 if not floats else 0))[proven].all())
                # A lead that is not above 0 in truth is never proven to be.
                assert not bool((proven & (true <= 0)).any())
            positive += int(proven.sum())
    assert positive > 0


@pytest.mark.parametrize("kind", ["transformer", "llama"])
def test_what_is_below_the_output_is_below_everywhere(kind: str) -> None:
    """Linear functions of the stream behind the map are bounded from below, whatever their sign."""
    asked = task("match2", n=4, modulus=4)
    for seed in range(6):
        population = drawn(asked, kind, seed=seed, scale=(2.0, 8.0, 25.0)[seed % 3], causal=False)
        question = questions_of(asked)[seed]
        form, contexts, bounds = bounds_of(population, question, floats=False)
        dice = torch.Generator().manual_seed(seed)
        directions = torch.randn(8, form.last.width, generator=dice, dtype=torch.float64)
        for place, region in enumerate(question.regions):
            stream = streams(contexts, every(region, contexts.tables.positions))
            normed = form.second(stream)
            behind = stream + form.feed_forward(normed)
            known = bounds.sharpened(bounds.bracket(place))
            z, far = bounds._behind_map(known)
            reach = bounds._reach(known, z)
            assert bool((form.last.centre(behind - z).norm(dim=1) <= far).all())
            box = bounds._box(known, z, reach)
            assert bool((form.last.centre(behind - z).norm(dim=1) <= box).all())
            assert bool((behind.abs() <= reach.largest_behind).all())
            assert bool((stream.abs() <= reach.largest).all())
            least = (behind @ directions.T).amin(0)
            for jointly in (False, True):
                found = bounds._least(known, directions, reach, jointly=jointly)
                assert bool((found <= least + 1e-12).all())
            units = activated(form.feed_forward.activation, form.feed_forward.up(normed))
            if form.feed_forward.value is not None:
                units = units * form.feed_forward.value(normed)
            at_centre = form.feed_forward.up(form.second(known.centre))
            assert units.shape[1] == len(at_centre)


def test_bounds_are_near_where_a_model_is_sharp() -> None:
    """A model that reads one position alone: its margin is a good part of its least lead."""
    asked = IndexLookup(n=5, alphabet=3, lengths="full")
    population = looking_up(asked, trap=False)
    for question in questions_of(asked):
        _, contexts, bounds = bounds_of(population, question, floats=True)
        for place, region in enumerate(question.regions):
            options = every(region, contexts.tables.positions)
            true = least_leads(population, asked, question, place, options)
            margin = bounds.margins(bounds.bracket(place), region.requirements)
            assert bool((margin > 0.4 * true).all())
            assert bool((margin <= true).all())


@pytest.mark.parametrize("kind", ["transformer", "llama"])
def test_bounds_are_near_for_one_input(kind: str) -> None:
    """Where nothing is open, nothing is lost but roundings: margins are the leads themselves."""
    asked = task("index-lookup", n=4, alphabet=2, lengths="full")
    population = drawn(asked, kind, seed=5, scale=10)
    question = questions_of(asked)[1]
    seen = question.regions[0].allowed.clone()
    seen[:, 1] = False
    alone = Question(
        query=question.query,
        asked=question.asked,
        options=question.options,
        regions=tuple(
            type(region)(target="one", allowed=seen, requirements=region.requirements)
            for region in question.regions
        ),
    )
    for floats, room in ((False, 1e-8), (True, 1e-6)):
        _, contexts, bounds = bounds_of(population, alone, floats=floats)
        options = torch.zeros(1, contexts.tables.positions, dtype=torch.long)
        for place, region in enumerate(alone.regions):
            true = leads(
                outputs(population, alone, spelled(asked, alone, region, options)), region.requirements
            )[0]
            known = bounds.sharpened(bounds.bracket(place))
            margin = bounds.margins(known, region.requirements, closer=True)
            positive = true > 0
            torch.testing.assert_close(margin[positive], true[positive], rtol=room, atol=room)
            assert bool((margin <= true)[positive].all())


@pytest.mark.slow
def test_a_stream_far_from_its_mean() -> None:
    """All numbers of a row shifted by 10^5: norms take the shift off, and what that costs is allowed for."""
    asked = task("index-lookup", n=3, alphabet=3, lengths="full")
    for seed in range(4):
        population = drawn(asked, seed=seed, scale=8, dtype=torch.float64)
        weights_of(population)["reading.places"] += 1e5
        for question in list(questions_of(asked))[:2]:
            form, contexts, bounds = bounds_of(population, question, floats=True)
            for place, region in enumerate(question.regions):
                options = every(region, contexts.tables.positions)
                true = least_leads(population, asked, question, place, options)
                margin = bounds.margins(bounds.sharpened(bounds.bracket(place)), region.requirements)
                assert bool((margin <= true)[margin > 0].all())
            errors = FloatErrors(form, question, contexts.tables, unit=ROUNDING["float32"])
            assert not bool(errors.scores.isfinite().all())  # float32 has no digits left for the rest


def alone(question: Question, options: Tensor) -> Question:
    """The question with one input only, whatever is right there."""
    allowed = torch.nn.functional.one_hot(options, question.options.shape[1]).bool()
    return Question(
        query="one",
        asked=question.asked,
        options=question.options,
        regions=tuple(
            Region(target="one", allowed=allowed, requirements=region.requirements)
            for region in question.regions
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("where", ["readout", "up", "down"])
def test_roundings_behind_attention_count(where: str) -> None:
    """Large numbers that cancel in one of the last maps: float32 moves the leads, and margins stay below."""
    asked = task("index-lookup", n=3, alphabet=4, lengths="full")
    positive = 0
    for seed in range(10):
        population = drawn(asked, seed=seed, scale=10, dtype=torch.float32)
        question = alone(questions_of(asked)[seed % 3], torch.zeros(4, dtype=torch.long))
        weights, dice = weights_of(population), torch.Generator().manual_seed(seed)
        if where == "readout":  # the same for all classes
            weights["readout.weight"] += 300 * torch.randn(1, 8, 1, generator=dice)
        else:
            form, tables = seen_by(population, question)
            stream = tables.stream(*tables.sums(torch.zeros(1, 4, dtype=torch.long)))
            came = form.second(stream) if where == "up" else _units(form, stream)
            name = f"blocks.0.feed_forward.{where}"
            large = 100 * torch.randn(weights[f"{name}.weight"].shape, generator=dice)
            weights[f"{name}.weight"] += large
            weights[f"{name}.bias"] -= (came @ large[0].double()).float()
        _, _, bounds = bounds_of(population, question, floats=True)
        options = torch.zeros(1, 4, dtype=torch.long)
        for place, region in enumerate(question.regions):
            true = least_leads(population, asked, question, place, options)
            margin = bounds.margins(bounds.sharpened(bounds.bracket(place)), region.requirements)
            assert bool((margin <= true)[margin > 0].all())
            positive += int((margin > 0).sum())
    assert positive > 0


def _units(form: OneLayer, stream: Tensor) -> Tensor:
    return activated(form.feed_forward.activation, form.feed_forward.up(form.second(stream)))


@pytest.mark.slow
def test_a_length_that_bends_counts() -> None:
    """Units far out on their straight side: what is left of the map is the norm, whose length is convex."""
    asked = task("match2", n=4, modulus=4)
    for seed in range(12):
        population = drawn(asked, seed=seed, scale=(4.0, 10.0, 30.0)[seed % 3], causal=False, heads=1)
        weights = weights_of(population)
        weights["blocks.0.feed_forward.up.bias"].fill_(60.0)
        weights["blocks.0.feed_forward.down.weight"].mul_(10)
        question = questions_of(asked)[seed]
        form, contexts, bounds = bounds_of(population, question, floats=False)
        dice = torch.Generator().manual_seed(seed)
        directions = torch.randn(40, form.last.width, generator=dice, dtype=torch.float64)
        for place, region in enumerate(question.regions):
            stream = streams(contexts, every(region, contexts.tables.positions))
            behind = stream + form.feed_forward(form.second(stream))
            known = bounds.sharpened(bounds.bracket(place))
            reach = bounds._reach(known, bounds._behind_map(known)[0])
            found = bounds._least(known, directions, reach)
            least = (behind @ directions.T).amin(0)
            assert bool((found <= least + 1e-9 * (1 + least.abs())).all())
