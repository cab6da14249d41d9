"""What a readout is at least, against every input of small regions."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch import Tensor

from separatrix.certificates.one_layer.contexts import Contexts
from separatrix.certificates.one_layer.tables import Tables
from separatrix.certificates.questions import Automaton, Question, Region, Requirements
from tests.certificates.one_layer.drawn import every, random_tables, streams

NOTHING = Requirements(torch.zeros(0, 1, dtype=torch.float64), torch.zeros(0, dtype=torch.float64))
SHARP = (0.0, 0.3, 2.0, 12.0, 90.0)


def random_question(
    dice: torch.Generator, *, positions: int, options: int, ordered: bool, regions: int = 3
) -> Question:
    """Regions with some options missing; where ordered, of sequences that a random automaton takes."""
    made: list[Region] = []
    while len(made) < regions:
        allowed = torch.rand(positions, options, generator=dice) < 0.7
        allowed |= torch.nn.functional.one_hot(
            torch.randint(options, (positions,), generator=dice), options
        ).bool()
        allowed[-1] = torch.arange(options) == 1
        order = None
        if ordered:
            after = torch.randint(-1, 3, (3, options), generator=dice)
            order = Automaton(after, torch.rand(3, generator=dice) < 0.6)
        region = Region(target="any", allowed=allowed, requirements=NOTHING, order=order)
        if len(every(region, positions)):
            made.append(region)
    return Question(
        query="any",
        asked=positions - 1,
        options=torch.arange(options).expand(positions, -1),
        regions=tuple(made),
    )


def random_case(seed: int, *, heads: int, ordered: bool) -> tuple[Tables, Question, Tensor]:
    dice = torch.Generator().manual_seed(seed)
    positions, options = 2 + seed % 4, 2 + seed % 3
    tables = random_tables(
        dice, heads=heads, positions=positions, options=options, sharp=SHARP[seed % len(SHARP)]
    )
    question = random_question(dice, positions=positions, options=options, ordered=ordered)
    return tables, question, torch.randn(6, len(tables.own), generator=dice, dtype=torch.float64)


def perturbed(tables: Tables, dice: torch.Generator, scores: Tensor) -> Tables:
    """Every weight off by a factor as far as it may be, some of them up and some down."""
    signs = torch.randint(0, 2, tables.weights.shape, generator=dice).double() * 2 - 1
    return Tables(
        tables.weights * (signs * scores[:, None, None]).exp(), tables.values, tables.own, tables.outward
    )


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_bounds_are_below_every_input_and_near(heads: int, ordered: bool) -> None:
    for seed in range(25 if heads == 1 else 6):
        tables, question, directions = random_case(seed, heads=heads, ordered=ordered)
        contexts = Contexts(tables, question)
        ranges = contexts.ranges(directions)
        centres = contexts.centres()
        for number, region in enumerate(question.regions):
            options = every(region, tables.positions)
            stream = streams(contexts, options)
            readouts = stream @ directions.T
            least, most = readouts.amin(0), readouts.amax(0)
            found, jointly = (
                contexts.least(number, directions, jointly=together) for together in (False, True)
            )
            assert bool((found <= least + 1e-12).all())
            assert bool((jointly <= least + 1e-12).all())
            assert bool((ranges.low[number] <= least + 1e-12).all())
            assert bool((ranges.high[number] >= most - 1e-12).all())
            if heads == 1:
                torch.testing.assert_close(found, least, rtol=1e-9, atol=1e-9)
                values = contexts.projected(directions, 0)[:, contexts.allowed.any(0)]
                knot = (values.amax(1) - values.amin(1)) / 16
                if not ordered:
                    assert bool((ranges.low[number] >= least - knot - 1e-9).all())
                    assert bool((ranges.high[number] <= most + knot + 1e-9).all())
            _, below = tables.sums(options)
            torch.testing.assert_close(contexts.least_below[number], below.amin(0), rtol=1e-12, atol=0)
            torch.testing.assert_close(contexts.most_below[number], below.amax(0), rtol=1e-12, atol=0)
            onto = torch.eye(len(tables.own), dtype=torch.float64) - 0.2
            for centre in (centres[number], stream[0], centres[number] + 3 * directions[0]):
                far = ((stream - centre) @ onto).norm(dim=1).max()
                assert far - 1e-12 <= contexts.farthest(number, centre, onto)


def test_joint_heads_are_nearer() -> None:
    """Heads that look alike everywhere cannot all be at their worst at once, and the joint bound sees it."""
    apart, together, gaps = [], [], []
    for seed in range(0, 40, 5):  # flat attention
        tables, question, directions = random_case(seed, heads=3, ordered=bool(seed % 2))
        contexts = Contexts(tables, question)
        for number, region in enumerate(question.regions):
            least = (streams(contexts, every(region, tables.positions)) @ directions.T).amin(0)
            apart.append(least - contexts.least(number, directions))
            together.append(least - contexts.least(number, directions, jointly=True))
            gaps.append(least.abs())
    assert float(torch.cat(together).max()) < 1e-9  # with equal weights the sum itself is what is minimised
    assert float(torch.cat(apart).mean()) > 0.01


def test_farthest_is_not_far() -> None:
    """Of one head, at most what the farthest value is, and never more than three times the farthest input."""
    for seed in range(20):
        tables, question, _ = random_case(seed, heads=1, ordered=False)
        contexts = Contexts(tables, question)
        eye = torch.eye(len(tables.own), dtype=torch.float64)
        for number, region in enumerate(question.regions):
            stream = streams(contexts, every(region, tables.positions))
            centre = contexts.centres()[number]
            far = (stream - centre).norm(dim=1).max()
            spread = torch.cdist(stream, stream).max()
            assert contexts.farthest(number, centre, eye) <= 3 * torch.maximum(far, spread) + 1.5 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
def test_whatever_floats_do_is_inside(heads: int, ordered: bool) -> None:
    """Weights and streams that are off by as much as is said stay within the bounds."""
    for seed in range(14):
        tables, question, directions = random_case(seed, heads=heads, ordered=ordered)
        dice = torch.Generator().manual_seed(seed)
        scores = torch.rand(heads, generator=dice, dtype=torch.float64) * (0.001, 0.05, 0.4)[seed % 3]
        off = torch.rand(len(tables.own), generator=dice, dtype=torch.float64) * 0.01
        contexts = Contexts(tables, question, scores=scores, stream=off)
        ranges, centres = contexts.ranges(directions), contexts.centres()
        for number, region in enumerate(question.regions):
            options = every(region, tables.positions)
            bounds = [contexts.least(number, directions, jointly=each) for each in (False, True)]
            eye = torch.eye(len(tables.own), dtype=torch.float64)
            farthest = contexts.farthest(number, centres[number], eye)
            for _ in range(6):
                moved = perturbed(tables, dice, scores)
                above, below = moved.sums(options)
                assert bool((below >= contexts.least_below[number] - 1e-300).all())
                assert bool((below <= contexts.most_below[number]).all())
                stream = moved.stream(above, below)
                # The worst for each direction is a corner of what the stream may be off by.
                for direction, *each in zip(
                    directions, *bounds, ranges.low[number], ranges.high[number], strict=True
                ):
                    shifted = (stream @ direction) - (off * direction.abs()).sum()
                    assert all(bool(one <= shifted.min() + 1e-12) for one in each[:3])
                    high = (stream @ direction).max() + (off * direction.abs()).sum()
                    assert each[3] >= high - 1e-12
                signs = torch.randint(0, 2, stream.shape, generator=dice).double() * 2 - 1
                assert bool(((stream + signs * off - centres[number]).norm(dim=1) <= farthest).all())


def exact_least(tables: Tables, options: Tensor, direction: Tensor) -> Fraction:
    """The least direction · stream in fractions: the tables' numbers are taken as they are."""
    rational = [Fraction(each) for each in direction.tolist()]
    own = sum((a * Fraction(b) for a, b in zip(rational, tables.own.tolist(), strict=True)), Fraction(0))
    best = None
    for row in options.tolist():
        total = own
        for head in range(len(tables.outward)):
            above = [Fraction(0)] * tables.values.shape[3]
            below = Fraction(0)
            for place, option in enumerate(row):
                weight = Fraction(float(tables.weights[head, place, option]))
                below += weight
                for part, value in enumerate(tables.values[head, place, option].tolist()):
                    above[part] += weight * Fraction(value)
            for part, number in enumerate(above):
                outward = [Fraction(each) for each in tables.outward[head, part].tolist()]
                total += (
                    number / below * sum((a * b for a, b in zip(rational, outward, strict=True)), Fraction(0))
                )
        best = total if best is None else min(best, total)
    assert best is not None
    return best


def test_rounding_counts_where_large_numbers_cancel() -> None:
    """Numbers of size 10^9 that leave one of size 1: what is lost on the way is allowed for."""
    for seed in range(12):
        dice = torch.Generator().manual_seed(seed)
        tables = random_tables(dice, heads=2, positions=3, options=2, sharp=1.0)
        direction = torch.randn(5, generator=dice, dtype=torch.float64)
        values, outward, own = tables.values.clone(), tables.outward.clone(), tables.own.clone()
        values[..., 1] = values[..., 0] + 1e9
        values[..., 0] += 1e9
        outward[:, 1] = -outward[:, 0]
        if seed % 2:  # in what stands there without attention too
            own += 1e9 * torch.tensor([1, 0, 0, 0, -direction[0] / direction[4]])
        tables = Tables(tables.weights, values, own, outward)
        question = random_question(dice, positions=3, options=2, ordered=False, regions=1)
        contexts = Contexts(tables, question)
        options = every(question.regions[0], 3)
        directions = direction.unsqueeze(0)
        least, most = exact_least(tables, options, direction), -exact_least(tables, options, -direction)
        low, high = contexts.ranges(directions)
        for found in (
            contexts.least(0, directions),
            contexts.least(0, directions, jointly=True),
            low[0],
        ):
            assert Fraction(float(found)) <= least
        assert Fraction(float(high[0])) >= most


def test_one_input_alone() -> None:
    """A region with one option everywhere: all bounds are at the one stream there is."""
    for seed in range(8):
        tables, question, directions = random_case(seed, heads=2, ordered=False)
        alone = torch.zeros_like(question.regions[0].allowed)
        alone[:, 1] = True
        only = Question(
            query="one",
            asked=question.asked,
            options=question.options,
            regions=(Region(target="one", allowed=alone, requirements=NOTHING),),
        )
        contexts = Contexts(tables, only)
        stream = streams(contexts, torch.ones(1, tables.positions, dtype=torch.long))[0]
        ranges = contexts.ranges(directions)
        for found in (contexts.least(0, directions), contexts.least(0, directions, jointly=True), *ranges):
            torch.testing.assert_close(found.flatten(), directions @ stream, rtol=1e-9, atol=1e-9)
