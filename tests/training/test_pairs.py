"""Two inputs a row: no padding, and the same step as with a row for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.experiments.rates import Rate, Rates, size_of
from separatrix.models import model
from separatrix.randomness import Band, Draws
from separatrix.tasks import Task, task
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.training import Curriculum, Job, Member, Training, train
from separatrix.training.costs import cost_of
from separatrix.training.course import Course
from separatrix.training.engine import Engine
from separatrix.training.jobs import job_for
from separatrix.training.labelled import Questions, length_of_two, questions, side_by_side
from separatrix.training.memory import step_bytes
from separatrix.training.recipes import Against
from separatrix.training.running import placing_for
from tests.tasks import test_index_lookup
from tests.training.test_bands import LOOKUP, NEXT, VARIED, draw_any_length

MODELS: dict[str, dict[str, Any]] = {
    "lstm": {"layers": 2, "width": 16},
    "mamba": {"layers": 2, "width": 16},
    "retnet": {"layers": 2, "width": 16, "heads": 2},
    "linear-transformer": {"layers": 2, "width": 16, "heads": 2},
}
SEAMS = {"lstm": 1, "mamba": 3, "retnet": 0, "linear-transformer": 0}
PAIRED = Training(
    steps=24, batch=8, eval_every=8, eval_examples=40, test_examples=40, stop="never", paired=True
)


MEASURED: dict[str, Any] = {
    "compiled": True,
    "start_seconds": None,
    "how": "benchmark",
    "device": "NVIDIA H200",
    "torch": "2.11.0",
}
UNTABLED = MODELS | {"linear-transformer": {**MODELS["linear-transformer"], "positions": "none"}}


def job_of(
    asked: Task, name: str = "mamba", *, members: int = 2, models: Any = MODELS, **training: Any
) -> Job:
    return job_for(
        asked,
        model(name, **models[name]),
        members=[Member(lr=3e-3, seed=seed) for seed in range(members)],
        training=replace(PAIRED, **training),
    )


# Mirrored numbers.


def test_mirrored_numbers_are_opposite_and_each_as_likely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw once for the first of a pair: the whole domain, so that nothing is left to chance."""
    bound = 12
    monkeypatch.setattr(Draws, "integers", lambda *_: torch.arange(bound).repeat_interleave(2))
    drawn = Draws(seed=0, stream="mirrored", batch=2 * bound, mirrored=True).banded("length", bound)
    pairs = drawn.view(-1, 2)
    assert pairs[:, 0].tolist() == list(range(bound))
    assert (pairs.sum(1) == bound - 1).all()
    assert Counter(pairs[:, 1].tolist()) == dict.fromkeys(range(bound), 1)


@pytest.mark.parametrize("asked", VARIED.values(), ids=VARIED)
def test_mirrored_samples_do_not_depend_on_the_split(asked: Task) -> None:
    """A batch that begins with the second of a pair has it as it is beside the first."""
    whole = asked.sample(12, seed=3, mirrored=True)
    for start, count in ((1, 4), (5, 7), (6, 1), (7, 1)):
        rows = slice(start, start + count)
        part = asked.sample(count, seed=3, start=start, mirrored=True)
        numbered = asked.sample(
            count, seed=torch.full((count,), 3), start=torch.arange(start, start + count), mirrored=True
        )
        for one in (part, numbered):
            assert torch.equal(one.inputs, whole.inputs[rows])
            assert torch.equal(one.targets, whole.targets[rows])
            assert torch.equal(one.lengths, whole.lengths[rows])


def test_a_task_that_knows_nothing_of_mirroring_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = test_index_lookup.TestIndexLookup()
    checks.test_mirrored_samples_have_opposite_lengths()
    draw_any_length(monkeypatch)
    with pytest.raises(AssertionError, match="mirrored samples are not of opposite sizes"):
        checks.test_mirrored_samples_have_opposite_lengths()


def test_no_band_is_mirrored() -> None:
    with pytest.raises(InvalidInput, match="drawn from a band or mirrored; choose one"):
        LOOKUP.sample(4, seed=0, band=Band(number=0, of=2), mirrored=True)


# Rows.


def row_by_hand(
    inputs: list[list[int]], lengths: list[int], labels: list[dict[int, int]], seam: int
) -> tuple[list[int], list[int | None], dict[int, int], dict[int, int]]:
    """One row, what is to stand at each of its positions, and the labels of both inputs."""
    first, second = (row[:length] for row, length in zip(inputs, lengths, strict=True))
    begin = lengths[0] + seam
    wanted: list[int | None] = [*first, *[None] * seam, *second]
    return [begin], wanted, labels[0], {begin + place: label for place, label in labels[1].items()}


@pytest.mark.parametrize("seam", [0, 1, 3])
@pytest.mark.parametrize("asked", [LOOKUP, NEXT], ids=["one label", "many labels"])
def test_a_row_has_both_inputs_and_their_labels(asked: Task, seam: int) -> None:
    members, batch = 2, 10
    drawn = asked.sample(members * batch, seed=5, mirrored=True)
    apart = questions(drawn, members, most=asked.asking.most)
    rows = side_by_side(apart, drawn.lengths, length=length_of_two(asked, seam), seam=seam)
    assert rows.begins is not None
    assert rows.second is not None
    for member in range(members):
        for row in range(batch // 2):
            numbers = [member * batch + 2 * row, member * batch + 2 * row + 1]
            labels = [
                {int(place): int(drawn.targets[number, place]) for place in drawn.mask[number].nonzero()}
                for number in numbers
            ]
            begin, wanted, first, second = row_by_hand(
                [drawn.inputs[number].tolist() for number in numbers],
                [int(drawn.lengths[number]) for number in numbers],
                labels,
                seam,
            )
            assert [int(rows.begins[member, row])] == begin
            got = rows.inputs[member, row].tolist()
            assert len(got) == len(wanted), "two inputs and the seam fill the row"
            assert all(own in (None, token) for own, token in zip(wanted, got, strict=True))
            found: tuple[dict[int, int], dict[int, int]] = {}, {}
            for label in rows.due[member, row].nonzero().flatten().tolist():
                place = label if rows.at is None else int(rows.at[member, row, label])
                its = found[int(rows.second[member, row, label])]
                its[place] = int(rows.targets[member, row, label])
            assert found == (first, second)


@pytest.mark.parametrize("name", ["runs of a machine", "recall", "index-lookup", "equality ncp"])
def test_rows_are_as_long_as_any_two_that_share_one(name: str) -> None:
    asked = VARIED[name]
    drawn = asked.sample(200, seed=1, mirrored=True)
    assert set(drawn.lengths.view(-1, 2).sum(1).tolist()) == {length_of_two(asked, 0)}
    assert length_of_two(asked, 3) == length_of_two(asked, 0) + 3


# Steps.


def in_rows_of_their_own(engine: Engine) -> Callable[..., Questions]:
    """The same examples, none beside another."""

    def ask(seeds: Tensor, steps: Tensor, _: Tensor) -> Questions:
        drawn = engine._source.draw(seeds, steps, batch=engine.training.batch, mirrored=True)
        return questions(drawn, engine.population.members, most=engine.task.asking.most)

    return ask


def both_ways(job: Job, monkeypatch: pytest.MonkeyPatch) -> tuple[Course, Course]:
    """Eight steps with two inputs a row, and with one."""
    shared, alone = (Course(job, placing_for(job, device="cpu")) for _ in range(2))
    monkeypatch.setattr(alone.engine, "_asked", in_rows_of_their_own(alone.engine))
    for course in (shared, alone):
        course.engine.run(8)
    return shared, alone


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("asked", [LOOKUP, NEXT], ids=["one label", "many labels"])
def test_a_step_is_what_it_is_with_a_row_for_each(
    asked: Task, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Float64, so that only the order of sums can differ."""
    shared, alone = both_ways(job_of(asked, name, precision="float64"), monkeypatch)
    assert torch.allclose(shared.packed.values, alone.packed.values, rtol=0, atol=1e-12)
    assert torch.allclose(shared.meters.loss, alone.meters.loss, rtol=1e-12)
    for mine, its in zip(shared.meters.tensors()[2:], alone.meters.tensors()[2:], strict=True):
        assert torch.equal(mine, its)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_mixes_the_two_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above rests on: without being told where the second begins, a step is another."""

    def untold(population: Any) -> Any:
        passed = population._passed
        return lambda inputs, at, *_: passed(inputs, at)

    job = job_of(NEXT, name, precision="float64", models=UNTABLED)
    shared, alone = (Course(job, placing_for(job, device="cpu")) for _ in range(2))
    monkeypatch.setattr(alone.engine, "_asked", in_rows_of_their_own(alone.engine))
    monkeypatch.setattr(shared.population, "_passed", untold(shared.population))
    for course in (shared, alone):
        course.engine.run(1)
    assert not torch.allclose(shared.meters.loss, alone.meters.loss, rtol=1e-6)


def test_right_examples_are_counted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short task that is half learned, so that rows have one right input, both and none."""
    asked = task("equality", n=16, form="ncp", alphabet=2)
    job = job_of(asked, "lstm", precision="float64", steps=208, batch=32)
    shared, alone = (Course(job, placing_for(job, device="cpu")) for _ in range(2))
    shared.engine.run(200)
    with torch.no_grad():
        alone.packed.values.copy_(shared.packed.values)
    monkeypatch.setattr(alone.engine, "_asked", in_rows_of_their_own(alone.engine))
    for course in (shared, alone):
        for slot in range(2):
            course.meters.clear(slot)
        course.engine.state.step.fill_(200)
        course.rates.lr.zero_()
        course.engine.run(4)
    counts = shared.meters.examples_right.tolist()
    assert counts == alone.meters.examples_right.tolist()
    assert all(0 < count < 4 * 32 for count in counts)


def test_rows_have_no_more_positions_than_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    for name in MODELS:
        course = Course(job_of(LOOKUP, name), placing_for(job_of(LOOKUP, name), device="cpu"))
        forward = course.population.forward

        def watched(
            inputs: Tensor, *more: Tensor, forward: Callable[..., Tensor] = forward, name: str = name
        ) -> Tensor:
            shapes.append((name, tuple(inputs.shape)))
            return forward(inputs, *more)

        monkeypatch.setattr(course.population, "forward", watched)
        course.engine.run(1)
    assert shapes == [(name, (2, 4, 11 + 41 + seam)) for name, seam in SEAMS.items()]


def test_cut_off_it_goes_on_as_if_nothing_were() -> None:
    job = job_of(LOOKUP, "retnet", steps=48, eval_every=24)
    placing = placing_for(job, device="cpu")
    whole, cut = Course(job, placing), Course(job, placing)
    cut.advance(halt=lambda: True)
    assert 0 < cut.taken < 24
    tensors, meta = cut.saved()
    again = Course(job, placing)
    again.restore(tensors, meta, what="the checkpoint")
    ends: list[list[Any]] = [[], []]
    for course, found in zip((whole, again), ends, strict=True):
        while not course.done:
            course.advance()
            found += [(one.member, one.status, one.points, one.tensors) for one in course.outcomes]
    for mine, its in zip(*ends, strict=True):
        assert mine[:3] == its[:3]
        assert all(torch.equal(mine[3][name], its[3][name]) for name in its[3])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mamba", "lstm"])
def test_it_learns(name: str) -> None:
    training = replace(
        PAIRED, steps=800, batch=32, eval_every=200, eval_examples=500, test_examples=500, stop="each"
    )
    asked = task("equality", n=8, form="ncp", alphabet=2)
    found = train(asked, model(name, **MODELS[name]), members=[Member(lr=3e-3)], training=training)
    assert found[0].accuracy > 0.9


# What it costs, and its config.


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_pairs_save_operations(name: str) -> None:
    plain, paired = (
        cost_of(job_of(NEXT, name, paired=paired), device="cpu").flops for paired in (False, True)
    )
    assert paired / plain == pytest.approx((5 + 41 + SEAMS[name]) / (2 * 41), rel=0.12)


def test_pairs_need_less_memory() -> None:
    long = task("index-lookup", n=400)
    plain, paired = (
        step_bytes(job, placing_for(job, device="cpu"))
        for job in (job_of(long, batch=64, paired=paired) for paired in (False, True))
    )
    assert paired < 0.7 * plain


def test_a_plan_takes_half_of_the_positions() -> None:
    size = size_of(job_of(task("index-lookup", n=400)))
    assert size is not None
    assert (size.bands, size.positions, size.length) == (1, (11 + 401) // 2, 401)
    assert size.is_paired


def test_a_plan_takes_a_row_of_two_for_a_longer_chain_of_an_lstm() -> None:
    plain, paired = (
        size_of(job_of(task("index-lookup", n=400), "lstm", paired=way)) for way in (False, True)
    )
    assert plain is not None
    assert paired is not None
    assert (plain.is_paired, paired.is_paired) == (False, True)
    assert (plain.positions, paired.positions) == (401, 11 + 401)
    known = Rates([Rate(size=plain, steps_per_second=50, **MEASURED)])
    found = known.estimate(paired)
    assert found is not None
    assert found.seconds == pytest.approx(1 / 50, rel=0.03)


def test_configs_without_pairs_are_what_they_were() -> None:
    assert "paired" not in replace(PAIRED, paired=False).to_fields()
    assert PAIRED.to_fields()["paired"] is True
    for training in (PAIRED, replace(PAIRED, paired=False)):
        assert Training.from_json(training.to_json()) == training


# What has no pairs.


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch": 7}, "Two inputs share a row, so a batch has an even number; got batch=7. Try 8."),
        ({"bands": 4}, "have lengths of their own, and so have bands, a curriculum and worst inputs"),
        ({"curriculum": Curriculum(start=10, steps=16, stages=2)}, "choose one of them"),
        ({"against": Against(every=8)}, "choose one of them"),
    ],
)
def test_settings_that_do_not_go_together(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        replace(PAIRED, **given)
    assert message in str(refusal.value)


@pytest.mark.parametrize("asked", [task("dyck", n=8), task("index-lookup", n=8)], ids=["dyck", "lookup"])
def test_one_length_has_no_pairs(asked: Task) -> None:
    with pytest.raises(InvalidInput, match=f"Samples of {asked.name} are not drawn by length with these"):
        job_of(asked).population(1)


def test_a_model_without_a_seam_has_no_pairs() -> None:
    job = job_for(LOOKUP, model("transformer", width=16), members=[Member()], training=PAIRED)
    with pytest.raises(InvalidInput, match="transformer cannot keep two inputs of a row apart"):
        job.population(1)


def test_a_task_that_does_not_heed_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_any_length(monkeypatch)
    with pytest.raises(InvalidInput, match="Samples of index-lookup do not heed `mirrored`"):
        job_of(LOOKUP).population(1)


def test_sizes_that_do_not_fill_a_row_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IndexLookup, "positions_of", lambda self, size: size * size)
    with pytest.raises(InvalidInput, match="Positions of index-lookup do not grow evenly with its size"):
        length_of_two(LOOKUP, 0)
