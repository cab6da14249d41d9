"""Bands of lengths: every length as often as without them, nothing but padding left out, the same steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models import model
from separatrix.randomness import Band, Draws
from separatrix.tasks import TASKS, Task, task
from separatrix.tasks.index_lookup import IndexLookup
from separatrix.tasks.interface import Tokens
from separatrix.tasks.machine_runs import MachineRuns
from separatrix.tasks.machines import library_machine
from separatrix.tasks.shaping import uniform_between
from separatrix.training import Halving, Job, Member, Training, train
from separatrix.training.costs import cost_of
from separatrix.training.course import Course
from separatrix.training.jobs import job_for
from separatrix.training.labelled import labels_on_average, padded_lengths
from separatrix.training.running import placing_for
from tests.tasks import test_index_lookup
from tests.training.test_populations import same

LOOKUP = task("index-lookup", n=40, alphabet=8)
NEXT = task("equality", n=40, form="ncp", alphabet=8)
VARIED: dict[str, Task] = {
    "index-lookup": LOOKUP,
    "equality random": task("equality", n=40, form="random"),
    "equality ncp": NEXT,
    "recall": task("associative-recall", n=24),
    "recall of a sequence": task("associative-recall", n=24, form="sequence"),
    "nearest-neighbour": task("nearest-neighbour", n=9),
    "runs of a machine": MachineRuns(n=12, program=library_machine("binary-increment"), steps=40),
}
MODELS: dict[str, dict[str, Any]] = {
    "transformer": {"layers": 2, "width": 16},
    "mamba": {"layers": 1, "width": 16},
    "lstm": {"layers": 1, "width": 16},
    "retnet": {"layers": 1, "width": 16},
}
IN_BANDS = Training(
    steps=24, batch=8, eval_every=8, eval_examples=40, test_examples=40, stop="never", bands=4
)


def job_of(asked: Task, name: str = "transformer", *, members: int = 2, **training: Any) -> Job:
    return job_for(
        asked,
        model(name, **MODELS[name]),
        members=[Member(lr=3e-3, seed=seed) for seed in range(members)],
        training=replace(IN_BANDS, **training),
    )


# What a band holds.


@pytest.mark.parametrize("of", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("bound", [1, 2, 4, 5, 12])
def test_over_all_bands_every_number_is_equally_often(
    of: int, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every draw once in every band: the whole domain, so that nothing is left to chance."""
    every = torch.arange(bound)
    monkeypatch.setattr(Draws, "integers", lambda *_: every)
    found: Counter[int] = Counter()
    highest = 0
    for number in range(of):
        band = Band(number=number, of=of)
        drawn = Draws(seed=0, stream="bands", batch=bound, band=band).banded("length", bound)
        assert drawn.min() >= highest, "bands lie behind each other and share their ends at the most"
        assert int(drawn.max()) == band.last(bound)
        highest = band.last(bound)
        found.update(drawn.tolist())
    assert found == dict.fromkeys(range(bound), of)


def test_a_band_on_the_device_draws_what_one_on_the_host_does() -> None:
    for number in range(4):
        host = LOOKUP.sample(50, seed=3, band=Band(number=number, of=4))
        device = LOOKUP.sample(50, seed=3, band=Band(number=torch.tensor(number), of=4))
        assert torch.equal(host.inputs, device.inputs)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"number": 0, "of": 0}, "A range has at least one band; got of=0."),
        ({"number": 4, "of": 4}, "4 bands are numbered from 0 on; got number=4."),
        ({"number": -1, "of": 4}, "4 bands are numbered from 0 on; got number=-1."),
        ({"number": torch.tensor(0.5), "of": 4}, "one int64 number without an axis"),
        ({"number": torch.tensor([1]), "of": 4}, "one int64 number without an axis"),
    ],
)
def test_bands_that_are_none(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Band(**given)


def test_what_lies_in_a_band_is_asked_on_the_host() -> None:
    with pytest.raises(InvalidInput, match="which is on the device"):
        Band(number=torch.tensor(1), of=4).last(10)


# Lengths of samples.


@pytest.mark.parametrize("name", TASKS.names())
def test_the_greatest_size_fills_the_task(name: str) -> None:
    asked = task(name, n=8)
    least, most = asked.sampled_sizes
    assert 0 <= least <= most
    assert asked.positions_of(most) == asked.length


@pytest.mark.parametrize("asked", VARIED.values(), ids=VARIED)
def test_samples_of_a_band_are_as_long_as_it_says(asked: Task) -> None:
    """The lengths are counted by the batch itself, which knows nothing of bands."""
    least, most = asked.sampled_sizes
    assert least < most
    seen: set[int] = set()
    for number in range(3):
        band = Band(number=number, of=3)
        drawn = asked.sample(2000, seed=number, band=band)
        lengths = set(drawn.lengths.tolist())
        assert max(lengths) == asked.longest_in(band)
        assert not seen or min(lengths) >= max(seen)
        seen |= lengths
        assert not drawn.mask[:, asked.longest_in(band) :].any()
        space = asked.input_space
        if isinstance(space, Tokens):
            assert space.pad is not None
            assert (drawn.inputs[:, asked.longest_in(band) :] == space.pad).all()
        labels = asked.solve(drawn.inputs)
        assert torch.equal(labels.mask, drawn.mask)
        assert torch.equal(labels.targets[labels.mask], drawn.targets[drawn.mask])
    assert seen == {asked.positions_of(size) for size in range(least, most + 1)}


def draw_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a task draw its sizes without asking for which."""
    monkeypatch.setattr(
        IndexLookup, "drawn_sizes", lambda self, draws: uniform_between(draws, "length", *self.sampled_sizes)
    )


def test_a_task_that_knows_nothing_of_bands_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = test_index_lookup.TestIndexLookup()
    checks.test_bands_hold_samples_of_their_lengths()
    draw_any_length(monkeypatch)
    with pytest.raises(AssertionError, match="a sample is longer than its band"):
        checks.test_bands_hold_samples_of_their_lengths()
    monkeypatch.setattr(IndexLookup, "positions_of", lambda self, size: size)
    with pytest.raises(AssertionError, match="the greatest size is not the length"):
        checks.test_bands_hold_samples_of_their_lengths()


def test_padding_is_left_out_in_sixteens() -> None:
    assert padded_lengths(LOOKUP, 1) == (41,)
    assert padded_lengths(LOOKUP, 4) == (32, 32, 41, 41)
    assert [LOOKUP.longest_in(Band(number=number, of=4)) for number in range(4)] == [18, 26, 34, 41]


def test_labels_on_average() -> None:
    assert labels_on_average(LOOKUP) == 1
    halves = range(2, 21)  # from the least even number that is at least a tenth of 40
    assert NEXT.sampled_sizes == (2, 20)
    exact = sum(2 * half + 1 for half in halves) / len(halves)
    assert labels_on_average(NEXT) == pytest.approx(exact, rel=0.03)


# Steps.


def losses_by_hand(job: Job) -> list[float]:
    """A member's losses through the first turn, each over the labels that a batch has on the average."""
    asked = job.built_task
    course = Course(job, placing_for(job, device="cpu"))
    found = []
    for number in range(job.training.bands):
        first = job.training.batch * number
        drawn = asked.sample(
            job.training.batch, seed=0, start=first, band=Band(number=number, of=job.training.bands)
        )
        with torch.no_grad():
            outputs = course.population.member(0).forward(drawn.inputs)
        whole = torch.nn.functional.cross_entropy(
            outputs[drawn.mask], drawn.targets[drawn.mask], reduction="sum"
        )
        found.append(float(whole) / (job.training.batch * labels_on_average(asked)))
        course.engine.run(1, first=number)
    return found


@pytest.mark.parametrize("asked", [LOOKUP, NEXT], ids=["one label", "many labels"])
def test_a_turn_has_the_losses_of_its_bands(asked: Task) -> None:
    job = job_of(asked, members=1, precision="float64")
    course = Course(job, placing_for(job, device="cpu"))
    course.engine.run(4)
    assert float(course.meters.loss[0]) == pytest.approx(
        sum(losses_by_hand(job)), rel=1e-8
    )  # the costs are float32


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("asked", [LOOKUP, NEXT], ids=["one label", "many labels"])
def test_what_is_left_out_changes_nothing(asked: Task, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same steps with all of the padding: float64, so that only the order of sums can differ."""
    job = job_of(asked, name, precision="float64")
    short = Course(job, placing_for(job, device="cpu"))
    widths: list[int] = []
    monkeypatch.setattr(short.population, "forward", _watched(short.population.forward, widths))
    short.engine.run(8)
    assert widths == [*padded_lengths(asked, 4)] * 2
    long = Course(job, placing_for(job, device="cpu"))
    long.engine._lengths = (asked.length,) * 4
    long.engine.run(8)
    assert torch.allclose(short.packed.values, long.packed.values, rtol=0, atol=1e-13)
    assert torch.allclose(short.meters.loss, long.meters.loss, rtol=1e-13)
    for mine, its in zip(short.meters.tensors()[2:], long.meters.tensors()[2:], strict=True):
        assert torch.equal(mine, its)


def _watched(forward: Callable[..., Tensor], widths: list[int]) -> Callable[..., Tensor]:
    def watched(inputs: Tensor, at: Tensor | None = None) -> Tensor:
        widths.append(inputs.shape[2])
        return forward(inputs, at)

    return watched


def _bands_taken(course: Course, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The band of every step that the course takes from now on."""
    taken: list[int] = []
    step = course.engine._step

    def watched(band: int) -> None:
        taken.append(band)
        step(band)

    monkeypatch.setattr(course.engine, "_step", watched)
    return taken


def test_bands_take_turns_whatever_the_portions_and_after_a_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU steps come in tens, which four does not divide."""
    job = job_of(LOOKUP, steps=48, eval_every=24)
    course = Course(job, placing_for(job, device="cpu"))
    taken = _bands_taken(course, monkeypatch)
    course.advance()
    assert taken == [0, 1, 2, 3] * 6
    cut = Course(job, placing_for(job, device="cpu"))
    cut.advance(halt=lambda: True)
    assert cut.taken == 10
    tensors, meta = cut.saved()
    again = Course(job, placing_for(job, device="cpu"))
    again.restore(tensors, meta, what="the checkpoint")
    taken = _bands_taken(again, monkeypatch)
    again.advance()
    assert taken == ([0, 1, 2, 3] * 6)[10:]


def test_the_compiler_may_make_code_for_every_band(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._dynamo

    config: Any = torch._dynamo.config
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    job = job_of(LOOKUP, batch=64, bands=8)
    with config.patch(recompile_limit=8, accumulated_recompile_limit=256):
        engine = Course(job, placing_for(job, device="cpu", compiled=True)).engine
        monkeypatch.setattr(engine, "_step", lambda band: None)
        engine.run(1)
        assert (config.recompile_limit, config.accumulated_recompile_limit) == (64, 2048)


@pytest.mark.slow
def test_it_learns() -> None:
    training = replace(
        IN_BANDS, steps=1200, batch=32, eval_every=100, eval_examples=500, stop="each", solved=0.99
    )
    members = [Member(lr=3e-3, seed=seed) for seed in range(2)]
    asked = task("index-lookup", n=16, alphabet=8)
    found = train(asked, model("transformer", layers=1, width=32), members=members, training=training)
    assert max(one.accuracy for one in found) >= 0.98


def test_who_comes_later_begins_with_the_shortest() -> None:
    """Three members on two seats, one of which is given up on the way: each ends as it does alone."""
    members = [Member(lr=1e30, seed=1), Member(lr=3e-3, seed=5), Member(lr=1e-3, seed=6)]
    together = train(LOOKUP, model("transformer", **MODELS["transformer"]), members=members,
                     training=IN_BANDS, seats=2, device="cpu")  # fmt: skip
    for member, one in zip(members, together, strict=True):
        (alone,) = train(LOOKUP, model("transformer", **MODELS["transformer"]), members=[member],
                         training=IN_BANDS, device="cpu")  # fmt: skip
        assert same(one, alone)


@pytest.mark.slow
@pytest.mark.parametrize("halving", [None, Halving(first=24)])
def test_cut_off_within_a_turn_it_goes_on_as_if_nothing_were(halving: Halving | None) -> None:
    job = job_of(LOOKUP, members=4, steps=48, eval_every=24, halving=halving)
    placing = placing_for(job, device="cpu", seats=3)
    whole, cut = Course(job, placing), Course(job, placing)
    cut.advance(halt=lambda: True)
    assert cut.taken % 4 == 2
    tensors, meta = cut.saved()
    again = Course(job, placing)
    again.restore(tensors, meta, what="the checkpoint")
    ends: list[list[Any]] = [[], []]
    for course, found in zip((whole, again), ends, strict=True):
        while not course.done:
            course.advance()
            found += [(one.member, one.status, one.points, one.tensors) for one in course.outcomes]
    assert len(ends[0]) == 4
    for mine, its in zip(*ends, strict=True):
        assert mine[:3] == its[:3]
        assert all(torch.equal(mine[3][name], its[3][name]) for name in its[3])


def test_who_is_added_within_a_turn_waits_for_its_end() -> None:
    job = job_of(LOOKUP, members=3, steps=48, eval_every=24)
    course = Course(job, placing_for(job, device="cpu", seats=2), members=(0, 1))
    course.advance(halt=lambda: True)
    assert course.taken % 4 == 2
    course.seats[1].member = None
    course.add([2])
    assert course.occupied == (True, False)
    course.advance()
    assert course.taken == 24
    assert course.occupied == (True, True)
    assert [seat.step for seat in course.seats] == [24, 0]


@pytest.mark.slow
def test_bands_save_operations() -> None:
    plain, banded = (cost_of(job_of(LOOKUP, bands=bands), device="cpu").flops for bands in (1, 4))
    positions = sum(padded_lengths(LOOKUP, 4)) / 4
    assert banded < plain
    assert banded / plain == pytest.approx(positions / 41, rel=0.1)


def test_configs_of_one_band_are_what_they_were() -> None:
    assert "bands" not in replace(IN_BANDS, bands=1).to_fields()
    assert IN_BANDS.to_fields()["bands"] == 4
    assert Training.from_json(IN_BANDS.to_json()) == IN_BANDS
    assert Training.from_json(replace(IN_BANDS, bands=1).to_json()).bands == 1


# What has no bands.


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bands": 0}, "Lengths fall into 1 to 64 bands; got bands=0. Try 4."),
        ({"bands": 65}, "got bands=65"),
        ({"steps": 30}, "come and go when all have had theirs; got steps 30 and bands=4. Try 32."),
        ({"eval_every": 6}, "got eval every 6 and bands=4. Try 8."),
        ({"halving": Halving(first=6)}, "got halving's first rung 6 and bands=4. Try 8."),
    ],
)
def test_settings_that_do_not_go_together(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        replace(IN_BANDS, **given)
    assert message in str(refusal.value)


def test_one_length_has_no_bands() -> None:
    with pytest.raises(InvalidInput, match="Samples of dyck are not drawn by length with these parameters"):
        job_of(task("dyck", n=8)).population(1)
    with pytest.raises(InvalidInput, match="Samples of index-lookup are not drawn by length"):
        job_of(task("index-lookup", n=8)).population(1)


def test_a_model_that_looks_ahead_has_no_bands() -> None:
    job = job_for(LOOKUP, model("transformer", width=16, causal=False), members=[Member()], training=IN_BANDS)
    with pytest.raises(InvalidInput, match="transformer is not known to be causal; got bands=4"):
        job.population(1)
