"""What floats do to a model is within what is said of it: stage by stage, and against many digits."""

from __future__ import annotations

import math
from typing import Any, final

import pytest
import torch
from flint import arb, ctx
from torch import Tensor

from separatrix.certificates.one_layer.bounds import Bounds
from separatrix.certificates.one_layer.contexts import Contexts
from separatrix.certificates.one_layer.float_errors import ROUNDING, FloatErrors, Reach
from separatrix.certificates.one_layer.form import Map, Norm, OneLayer, activated, form_of
from separatrix.certificates.one_layer.relaxations import Interval
from separatrix.certificates.one_layer.tables import tables_of
from separatrix.certificates.questions import Question, Region, Requirements, questions_of
from separatrix.models.attention import rotated
from separatrix.models.stack import Stack
from separatrix.tasks import Task, task
from tests.certificates.draws import seeds
from tests.certificates.one_layer.drawn import drawn, every, leads, outputs, spelled, weights_of
from tests.certificates.one_layer.rounding import BadMachine

UNIT = ROUNDING["float32"] + ROUNDING["float64"]
TASKS: list[tuple[str, dict[str, Any], bool]] = [
    ("index-lookup", {"n": 9, "alphabet": 3, "lengths": "full"}, True),
    ("match2", {"n": 7, "modulus": 5}, False),
    ("q-sparse-averaging", {"n": 5, "q": 2}, False),
]


def alone(question: Question, options: Tensor) -> Question:
    """The question with one input only."""
    allowed = torch.nn.functional.one_hot(options, question.options.shape[1]).bool()
    only = Region(target="one", allowed=allowed, requirements=question.regions[0].requirements)
    return Question(query="one", asked=question.asked, options=question.options, regions=(only,))


def random_input(question: Question, seed: int) -> Tensor:
    dice = torch.Generator().manual_seed(seed)
    allowed = question.regions[0].allowed
    return torch.multinomial(allowed.double(), 1, generator=dice).squeeze(1)


def scores_of(population: Stack, x: Tensor, asked: int) -> list[Tensor]:
    """The scores of every head, as either path of the model forms them: (pos, head)."""
    mixer = population.blocks[0].mixer
    heads, part, width = mixer.heads, mixer.head_width, mixer.width
    query, key, _ = mixer.inward(x).chunk(3, dim=-1)
    query, key = mixer.headed(query), mixer.headed(key)
    if mixer.rotary:
        place = torch.arange(x.shape[2])
        query, key = rotated(query, place), rotated(key, place)
    found = [(query[0, :, asked : asked + 1] @ key[0].mT / math.sqrt(part)).squeeze(1).T]
    if not mixer.rotary:
        to_key = mixer.inward.weight[0, :, width : 2 * width].reshape(width, heads, part)
        whole = mixer.inward(x)[0, 0, asked, :width].reshape(heads, part)
        wanted = torch.einsum("whp,hp->wh", to_key, whole)
        found.append(x[0, 0] @ wanted / math.sqrt(part))
    return found


def stages_hold(population: Stack, asked: Task, question: Question, options: Tensor) -> None:
    """Run one input in float32 and follow it: each stage against the same in float64."""
    form = form_of(population)
    stages = Stages(form, alone(question, options), options)
    seen, block = stages.tables.positions, population.blocks[0]
    row = spelled(asked, question, question.regions[0], options.unsqueeze(0))[:, :seen]
    with torch.no_grad():
        x = population.reading(row.unsqueeze(0))
        normed = block.norm(x)
        for scores in scores_of(population, normed, question.asked):
            stages.check_scores(scores)
        for at in (torch.tensor([[[question.asked]]]), None):
            mixed = block.mixer(normed, at)[0, 0, 0 if at is not None else question.asked]
            stream = x[0, 0, question.asked] + mixed
            hidden = block.feed_forward.up(block.second(stream.view(1, 1, 1, -1)))
            if form.feed_forward.value is None:
                units = torch.nn.functional.gelu(hidden, approximate="tanh")
            else:
                first, second = hidden.chunk(2, dim=-1)
                units = torch.nn.functional.silu(first) * second
            z = stream.view(1, 1, 1, -1) + block.feed_forward.down(units)
            said = population.answers(z)
            stages.check_stream(stream)
            stages.check_tail(*(each.double().flatten() for each in (stream, units, z, said)))


@final
class Stages:
    """What is said of one input alone, to be held against what a machine made of it."""

    def __init__(self, form: OneLayer, question: Question, options: Tensor) -> None:
        self.form, self.tables = form, tables_of(form, question)
        self.errors = FloatErrors(form, question, self.tables, unit=UNIT)
        self.contexts = Contexts(self.tables, question, scores=self.errors.scores, stream=self.errors.stream)
        place = torch.arange(self.tables.positions)
        self.scores = self.tables.weights[:, place, options[: len(place)]].log().T

    def check_scores(self, found: Tensor) -> None:
        """But for what is added to all scores of a head."""
        off = found.double() - self.scores
        assert bool(((off.amax(0) - off.amin(0)) / 2 <= self.errors.scores).all())

    def check_stream(self, found: Tensor) -> None:
        """Inside what scores and streams that are off by so much can be, in many directions."""
        assert bool(self.errors.scores.isfinite().all()), "without a bound there is nothing to check"
        width = len(found)
        random = torch.randn(20, width, generator=torch.Generator().manual_seed(0))
        directions = torch.cat([torch.eye(width), random]).double()
        readout = directions @ found.double()
        assert bool((self.contexts.least(0, directions) <= readout).all())
        assert bool((-self.contexts.least(0, -directions) >= readout).all())

    def check_tail(self, stream: Tensor, units: Tensor, z: Tensor, said: Tensor) -> None:
        """Units, the stream behind the map and outputs, each given what came before it."""
        form, forward = self.form, self.form.feed_forward
        normed = form.second(stream)
        gate = forward.up(normed)
        value = None if forward.value is None else forward.value(normed)
        true = activated(forward.activation, gate) * (1 if value is None else value)
        behind = stream + forward.down(units)
        reach = Reach(
            largest=stream.abs(),
            shortest=form.second.length(stream),
            largest_behind=torch.maximum(behind.abs(), z.abs()),
            shortest_behind=form.last.length(z),
            gate=Interval(gate, gate),
            value=None if value is None else Interval(value, value),
        )
        assert bool(((units - true).abs() <= self.errors.units(reach)).all())
        assert bool(((z - behind).abs() <= self.errors.behind(reach)).all())
        eye = torch.eye(len(said), dtype=torch.float64)
        every_output = Requirements(eye, torch.zeros(len(said), dtype=torch.float64))
        off = (said - form.readout(form.last(z))).abs()
        assert bool((off <= self.errors.outputs(every_output, reach)).all())


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, 60))
@pytest.mark.parametrize("kind", ["transformer", "llama"])
def test_the_worst_rounding_is_within_the_bounds_at_every_stage(kind: str, seed: int) -> None:
    for number, (name, sizes, causal) in enumerate(TASKS):
        asked = task(name, **sizes)
        scale = (1.0, 5.0, 20.0, 60.0)[(seed + number) % 4]
        population = drawn(
            asked, kind, seed=seed, scale=scale, causal=causal, width=16, heads=(1, 4)[seed % 2]
        )
        form, questions = form_of(population), questions_of(asked)
        question = questions[(31 * seed + 5) % len(questions)]
        options = random_input(question, seed)
        stages = Stages(form, alone(question, options), options)
        row = question.inputs(options.unsqueeze(0))[0, : stages.tables.positions]
        for draw in range(8):
            machine = BadMachine(form, 2.0**-24, torch.Generator().manual_seed(draw))
            scores, stream = machine.attended(machine.read(row), question.asked)
            stages.check_scores(scores)
            stages.check_stream(stream)
            units = machine.units(stream)
            z = machine.behind(stream, units)
            stages.check_tail(stream, units, z, machine.answers(z))


@pytest.mark.parametrize("seed", seeds(2, 60))
@pytest.mark.parametrize("kind", ["transformer", "llama"])
def test_float32_is_within_its_bounds_at_every_stage(kind: str, seed: int) -> None:
    for number, (name, sizes, causal) in enumerate(TASKS):
        asked = task(name, **sizes)
        scale = (1.0, 5.0, 20.0, 60.0)[(seed + number) % 4]
        heads = (1, 2, 4)[(seed + number) % 3]
        population = drawn(
            asked, kind, seed=seed, scale=scale, dtype=torch.float32, causal=causal, width=16, heads=heads
        )
        questions = questions_of(asked)
        for draw in range(3):
            question = questions[(31 * seed + 17 * draw) % len(questions)]
            stages_hold(population, asked, question, random_input(question, seed + 100 * draw))


def test_keys_and_queries_of_other_numbers_of_a_pair() -> None:
    """Turned by their positions, a key's first number meets a query's second: their roundings count."""
    asked = task("index-lookup", n=9, alphabet=3, lengths="full")
    population = drawn(asked, "llama", seed=1, scale=20, dtype=torch.float32, width=8, heads=1)
    weight = weights_of(population)["blocks.0.mixer.inward.weight"]
    weight[0, :, :16] *= 16  # scores of some 100
    weight[0, :, 4:8] = 0  # queries have first numbers only, keys second ones
    weight[0, :, 8:12] = 0
    for number in range(8):
        question = questions_of(asked)[number]
        stages_hold(population, asked, question, random_input(question, number))


def test_angles_of_far_positions() -> None:
    """An angle is a product with the position: far out it is off by more, and so are scores."""
    asked = task("index-lookup", n=1000, alphabet=2, lengths="full")
    population = drawn(asked, "llama", seed=3, scale=20, width=8, heads=1)
    weight = weights_of(population)["blocks.0.mixer.inward.weight"]
    weight[0, 1:, :16] = 0  # nothing cancels before the turn, and one pair of numbers is turned
    weight[0, 0, [0, 2, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15]] = 0
    weight[0, 0, :16] *= 30
    form, question = form_of(population), questions_of(asked)[17]
    options = random_input(question, 0)
    stages = Stages(form, alone(question, options), options)
    row = question.inputs(options.unsqueeze(0))[0]
    for draw in range(12):
        machine = BadMachine(form, 2.0**-24, torch.Generator().manual_seed(draw))
        scores, stream = machine.attended(machine.read(row), question.asked)
        stages.check_scores(scores)
        stages.check_stream(stream)


def test_reals_that_cancel() -> None:
    """An input's numbers, large when multiplied, that add up to little: roundings are those of the large."""
    asked = task("q-sparse-averaging", n=5, q=2)
    for seed in range(4):
        population = drawn(asked, seed=seed, scale=3, dtype=torch.float32, causal=False)
        weights = weights_of(population)
        weight, bias = weights["reading.reals.weight"][0], weights["reading.reals.bias"][0]
        weights["reading.places"] *= 30  # what is left of a row
        weight[1:] = 300 * torch.randn(2, 8, generator=torch.Generator().manual_seed(seed))
        questions = questions_of(asked)
        for draw in range(6):
            question = questions[(31 * seed + 17 * draw) % len(questions)]
            options = random_input(question, draw)
            row = question.inputs(options.unsqueeze(0))[0, question.asked]
            bias.copy_(-(row[1:] @ weight[1:]))
            stages_hold(population, asked, question, options)


def test_a_bias_against_the_row_itself() -> None:
    """What attention adds nearly cancels the row it is added to: both were rounded when they were large."""
    asked = task("index-lookup", n=5, alphabet=3, lengths="full")
    for seed in range(4):
        population = drawn(asked, seed=seed, scale=3, dtype=torch.float32)
        shift = 1e3 * torch.randn(8, generator=torch.Generator().manual_seed(seed))
        weights_of(population)["reading.places"] += shift
        weights_of(population)["blocks.0.mixer.outward.bias"] -= shift
        for number in range(5):
            question = questions_of(asked)[number]
            stages_hold(population, asked, question, random_input(question, number))


@pytest.mark.parametrize("kind", ["transformer", "llama"])
def test_no_bound_where_float32_overflows(kind: str) -> None:
    asked = task("index-lookup", n=3, alphabet=2, lengths="full")
    population = drawn(asked, kind, dtype=torch.float32)
    weights_of(population)["reading.table"] *= 1e25
    form = form_of(population)
    question = questions_of(asked)[0]
    errors = FloatErrors(form, question, tables_of(form, question), unit=UNIT)
    assert not bool(errors.scores.isfinite().any())


def balls(values: Tensor) -> Any:
    return (
        values.tolist()
        if not values.ndim
        else [balls(each) if each.ndim else arb(float(each)) for each in values]
    )


class _Exact:
    """The model in balls of many digits."""

    def __init__(self, form: OneLayer) -> None:
        self.form = form

    def map(self, known: Map, x: list[arb]) -> list[arb]:
        weight, bias = balls(known.weight), balls(known.bias)
        return [
            sum((a * row[j] for a, row in zip(x, weight, strict=True)), bias[j]) for j in range(len(bias))
        ]

    def norm(self, norm: Norm, x: list[arb]) -> list[arb]:
        mean = sum(x, arb(0)) / len(x) if norm.centred else arb(0)
        centred = [each - mean for each in x]
        length = (sum((each * each for each in centred), arb(0)) / len(x) + arb(norm.epsilon)).sqrt()
        weight, bias = balls(norm.weight), balls(norm.bias)
        return [c / length * w + b for c, w, b in zip(centred, weight, bias, strict=True)]

    def turned(self, x: list[arb], place: int) -> list[arb]:
        if not self.form.rotary:
            return x
        half = len(x) // 2
        found = list(x)
        for i in range(half):
            angle = place * arb(10000) ** (-arb(i) / half)
            a, b = x[i], x[i + half]
            found[i], found[i + half] = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
        return found

    def outputs(self, x: list[list[arb]], asked: int) -> list[arb]:
        form = self.form
        rows = [self.norm(form.before, each) for each in x]
        attended = list(balls(form.outward_bias))
        for head in range(form.heads):

            def part(of: Tensor, bias: Tensor, row: list[arb], head: int = head) -> list[arb]:
                return self.map(Map(of[head], bias[head]), row)

            query = self.turned(part(form.query, form.query_bias, rows[asked]), asked)
            keys = [self.turned(part(form.key, form.key_bias, row), place) for place, row in enumerate(rows)]
            values = [part(form.value, form.value_bias, row) for row in rows]
            scores = [
                sum((a * b for a, b in zip(query, key, strict=True)), arb(0)) / arb(form.part).sqrt()
                for key in keys
            ]
            weights = [each.exp() for each in scores]
            total = sum(weights, arb(0))
            mixed = [
                sum((w * v[p] for w, v in zip(weights, values, strict=True)), arb(0)) / total
                for p in range(form.part)
            ]
            outward = balls(form.outward[head])
            attended = [
                a + sum((m * row[j] for m, row in zip(mixed, outward, strict=True)), arb(0))
                for j, a in enumerate(attended)
            ]
        y = [a + b for a, b in zip(x[asked], attended, strict=True)]
        forward, normed = form.feed_forward, self.norm(form.second, y)
        units = [self.activated(each) for each in self.map(forward.up, normed)]
        if forward.value is not None:
            units = [a * b for a, b in zip(units, self.map(forward.value, normed), strict=True)]
        z = [a + b for a, b in zip(y, self.map(forward.down, units), strict=True)]
        return self.map(form.readout, self.norm(form.last, z))

    def activated(self, x: arb) -> arb:
        if self.form.feed_forward.activation == "silu":
            return x / (1 + (-x).exp())
        inner = (2 / arb.pi()).sqrt() * (x + arb(0.044715) * x**3)
        return x / 2 * (1 + inner.tanh())


@pytest.mark.parametrize("kind", ["transformer", "llama"])
def test_float64_is_within_its_bounds(kind: str) -> None:
    """Against 60 digits: the model's own float64, the tables', and the margin for one input alone."""
    asked = task("index-lookup", n=3, alphabet=3, lengths="full")
    old, ctx.dps = ctx.dps, 60
    try:
        for seed in range(4):
            population = drawn(asked, kind, seed=seed, scale=(2.0, 12.0)[seed % 2], width=4, heads=2, ffn=4)
            form = form_of(population)
            question = questions_of(asked)[seed % 3]
            options = random_input(question, seed)
            only = alone(question, options)
            tables = tables_of(form, only)
            assert form.table is not None
            x = [
                [
                    arb(float(a)) + (0 if form.places is None else arb(float(b)))
                    for a, b in zip(token, place, strict=True)
                ]
                for token, place in zip(
                    form.table[only.inputs(options.unsqueeze(0))[0]],
                    torch.zeros(4, 4) if form.places is None else form.places,
                    strict=True,
                )
            ]
            exact = _Exact(form).outputs(x, question.asked)
            row = spelled(asked, only, only.regions[0], options.unsqueeze(0))
            said = outputs(population, only, row)[0]
            assert max(float(abs(arb(float(a)) - b)) for a, b in zip(said, exact, strict=True)) < 1e-13
            errors = FloatErrors(form, only, tables, unit=2 * ROUNDING["float64"])
            contexts = Contexts(tables, only, scores=errors.scores, stream=errors.stream)
            bounds = Bounds(form, contexts, errors)
            required = only.regions[0].requirements
            margins = bounds.margins(bounds.sharpened(bounds.bracket(0)), required)
            for direction, margin, mine in zip(
                required.directions, margins.tolist(), leads(said, required).tolist(), strict=True
            ):
                lead = sum((arb(float(a)) * b for a, b in zip(direction, exact, strict=True)), arb(0))
                if margin > 0:
                    assert arb(margin) < lead
                    assert margin < mine
                    assert lead - arb(margin) < 1e-8
    finally:
        ctx.dps = old


@pytest.mark.parametrize("kind", ["transformer", "llama"])
def test_the_worst_rounding_of_the_map_is_below_its_bounds(kind: str) -> None:
    """One input with nothing open but the map's own roundings: what is said of the stream behind it holds."""
    asked = task("index-lookup", n=3, alphabet=3, lengths="full")
    for seed in range(6):
        form = form_of(drawn(asked, kind, seed=seed, scale=(5.0, 30.0)[seed % 2]))
        question = questions_of(asked)[seed % 3]
        options = random_input(question, seed)
        only = alone(question, options)
        tables = tables_of(form, only)
        contexts = Contexts(tables, only)
        bounds = Bounds(form, contexts, FloatErrors(form, only, tables, unit=UNIT))
        known = bounds.sharpened(bounds.bracket(0))
        stream = tables.stream(*tables.sums(options.unsqueeze(0)))[0]
        reach = bounds._reach(known, bounds._behind_map(known)[0])
        dice = torch.Generator().manual_seed(seed)
        directions = torch.randn(50, form.last.width, generator=dice, dtype=torch.float64)
        found = bounds._least(known, directions, reach)
        exact = directions @ (stream + form.feed_forward(form.second(stream)))
        torch.testing.assert_close(found, exact, rtol=0.02, atol=0.02)
        for draw in range(12):
            machine = BadMachine(form, 2.0**-24, torch.Generator().manual_seed(draw))
            z = machine.behind(stream, machine.units(stream))
            assert bool((found <= directions @ z).all())


def test_every_input_of_a_region_is_covered_by_both_paths() -> None:
    """The two paths of a model differ by roundings, and by no more than both are allowed."""
    asked = task("index-lookup", n=4, alphabet=3, lengths="full")
    population = drawn(asked, seed=2, scale=25, dtype=torch.float32)
    question = questions_of(asked)[1]
    region = question.regions[0]
    rows = spelled(asked, question, region, every(region, question.length))
    one, other = (outputs(population, question, rows, at=at).double() for at in (True, False))
    assert 0 < float((one - other).abs().max()) < 1e-4
