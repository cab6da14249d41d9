"""How long a study takes on an H200: what was measured, what follows from it, and what jobs add up to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks import bands, reproduction, step_rates
from hypothesis import given
from hypothesis import strategies as st

from separatrix.errors import InvalidInput
from separatrix.experiments import study_of
from separatrix.experiments.cells import Study
from separatrix.experiments.projecting import projection_of
from separatrix.experiments.protocols import Settings
from separatrix.experiments.rates import (
    Rate,
    Rates,
    Size,
    rates_from,
    rates_measured,
    seconds_per_step,
    size_of,
)
from separatrix.models import model
from separatrix.store import Result, Store
from separatrix.store.bundles import bundles_in, read_bundle, results_folder
from separatrix.tasks import task
from separatrix.training.jobs import Job, job_for
from separatrix.training.recipes import Halving, Member, Training
from separatrix.training.stretches import Stretch, stretches_of
from tests.experiments.fakes import fake_run, only

PAPER = Settings(budget="paper")
SIZE = Size(
    model="mamba", layers=2, width=64, task="index-lookup", form="", n=200, length=201, labels=1, members=2,
    bands=1, positions=201, precision="bfloat16",
)  # fmt: skip


def rate(seconds: float, *, compiled: bool = True, start: float | None = None, **changes: Any) -> Rate:
    return Rate(
        size=replace(SIZE, **{"positions": changes.get("length", SIZE.length), **changes}),
        compiled=compiled,
        steps_per_second=1 / seconds,
        start_seconds=start,
        how="benchmark",
        device="NVIDIA H200",
        torch="2.11.0",
    )


def seconds_of(rates: Sequence[Rate], **changes: Any) -> float:
    found = Rates(rates).estimate(
        replace(SIZE, **{"positions": changes.get("length", SIZE.length), **changes})
    )
    assert found is not None
    return found.seconds


def job_of(*, members: int = 7, training: Training | None = None, n: int = 20) -> Job:
    return job_for(
        task("index-lookup", n=n, alphabet=64),
        model("mamba", layers=2, width=64),
        members=[Member(lr=10.0**-place) for place in range(1, members + 1)],
        training=training or Training(precision="bfloat16", steps=1000, eval_every=250),
    )


# What was measured, and what follows for other sizes.


def test_the_table_is_what_the_benchmarks_and_its_own_runs_give() -> None:
    known = rates_from(step_rates.TABLE.read_text().splitlines())
    runs = step_rates.known_runs([])
    assert step_rates.table_of(step_rates.gathered(runs, [], measured=step_rates.measured_rows())) == (
        step_rates.TABLE.read_text()
    )
    assert {one.device for one in known} == {"NVIDIA H200"}
    assert {one.how for one in known} == {"benchmark", "run"}
    assert all(one.steps_per_second > 0 for one in known)


def test_the_page_on_bands_is_what_its_data_gives() -> None:
    learning = step_rates.rows_in(step_rates.BANDS, "learning")
    assert bands.page(step_rates.rows_in(step_rates.BANDS), learning) == bands.PAGE.read_text()
    for row in learning:
        assert row["bands"] == 1 or None not in row["solved"]


def test_each_rate_of_a_run_stands_in_the_provenance_of_one_that_was_kept() -> None:
    """Beside the way in which the table is made: the runs themselves, by what their configs say."""
    kept: dict[tuple[object, ...], set[str]] = {}
    for folder in bundles_in(results_folder()):
        for run in read_bundle(folder).runs:
            config: Any = run.config
            asked, shape = config["task"], config["model"]["params"]
            place = (
                config["model"]["name"],
                shape.get("layers"),
                shape.get("width"),
                asked["name"],
                asked["params"].get("form", ""),
                asked["params"]["n"],
                config["training"]["precision"],
                run.provenance["device"],
                run.provenance["torch"],
            )
            rate = run.provenance.get("steps_per_second")
            if rate is not None:
                kept.setdefault(place, set()).add(f"{rate:.5g}")
    not_kept = 0
    for one in rates_from(step_rates.TABLE.read_text().splitlines()):
        if one.how != "run":
            continue
        size = one.size
        place = (
            size.model, size.layers, size.width, size.task, size.form, size.n, size.precision,
            one.device, one.torch,
        )  # fmt: skip
        if place in kept:
            assert f"{one.steps_per_second:.5g}" in kept[place], size
        else:
            not_kept += 1
    assert not_kept == 0


def test_a_size_that_was_measured_has_that_time_and_of_two_the_slower() -> None:
    found = Rates([rate(0.002), rate(0.003), rate(0.009, compiled=False)]).estimate(SIZE)
    assert found is not None
    assert found.seconds == pytest.approx(0.003)
    assert (found.basis, found.how) == ("measured", "in a benchmark")


def test_heads_and_symbols_are_not_told_apart() -> None:
    job = job_for(
        task("index-lookup", n=200), model("transformer", layers=6, width=256, heads=4), members=[Member()],
        training=Training(precision="bfloat16"),
    )  # fmt: skip
    found = seconds_per_step(job, members=7)
    assert found is not None
    assert found.basis == "measured"
    assert found.seconds == pytest.approx(1 / 69.028)


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({"members": 7}, 3.5),
        ({"members": 1}, 0.93323),  # 1.5 of 1.646 million numbers stay in flight, and a quarter of the rest
        ({"layers": 6}, 3),
        ({"layers": 1}, 2 / 3),
        ({"width": 256}, 16),
        ({"width": 32}, 0.93323),
        ({"labels": 201, "task": "equality", "form": "ncp"}, 2),
        ({"task": "dyck", "form": "recognise"}, 1),
        ({"length": 402}, 2),
        ({"members": 4, "layers": 4, "width": 128}, 16),
    ],
)
def test_one_measurement_is_scaled(changes: dict[str, Any], factor: float) -> None:
    found = Rates([rate(0.01)]).estimate(replace(SIZE, **changes))
    assert found is not None
    assert found.basis == "scaled"
    assert found.seconds == pytest.approx(0.01 * factor, rel=1e-4)
    assert found.how.startswith("from 2 members of (2, 64) on index-lookup at 200")
    for name in changes:
        assert factor == 1 or name in {"task", "form"} or f"for {name}" in found.how


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({}, 7 / 16),  # a quarter of the members, and a quarter of the rest
        ({"model": "lstm"}, 0.7),
        ({"layers": 1}, 0.7),  # answers once
        ({"layers": 1, "labels": 201}, 7 / 16),
        ({"width": 32}, 0.59161),  # 1.5 of 3.29 million numbers in flight: with fewer the card is idle
        ({"width": 8}, 1),  # idle
    ],
)
def test_fewer_members_are_faster_where_the_card_is_busy(changes: dict[str, Any], factor: float) -> None:
    known = rate(0.01, members=8, **{"width": 256, **changes})
    found = Rates([known]).estimate(replace(known.size, members=2))
    assert found is not None
    assert found.basis == "scaled"
    assert found.seconds == pytest.approx(0.01 * factor, rel=1e-4)
    assert ("for members" in found.how) == (factor != 1)


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({}, 51 / 201 + 150 / 201 / 4),
        ({"layers": 1}, 51 / 201 + 0.6 * 150 / 201),  # answers once
        ({"model": "lstm"}, 1),  # as it was measured for one member, and here nothing was
        ({"width": 8}, 1),  # idle
    ],
)
def test_shorter_ones_are_faster_where_the_card_is_busy(changes: dict[str, Any], factor: float) -> None:
    known = rate(0.01, members=8, **{"width": 256, **changes})
    found = Rates([known]).estimate(replace(known.size, length=51, positions=51))
    assert found is not None
    assert found.seconds == pytest.approx(0.01 * factor)


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({}, 128 / 201 + 0.3 * 73 / 201),
        ({"width": 8}, 1),  # idle
        ({"width": 8, "model": "lstm"}, 128 / 201 + 0.3 * 73 / 201),  # waits for each position
    ],
)
def test_bands_save_most_of_the_positions_that_they_leave_out(changes: dict[str, Any], factor: float) -> None:
    known = rate(0.01, members=8, **{"width": 256, **changes})
    banded = replace(known.size, bands=4, positions=128)
    found = Rates([known]).estimate(banded)
    assert found is not None
    assert found.seconds == pytest.approx(0.01 * factor)
    back = Rates([replace(known, size=banded)]).estimate(known.size)
    assert back is not None
    assert back.seconds == pytest.approx(0.01 * 201 / 128)
    shorter = replace(banded, length=101, positions=80)  # of which more is computed
    found = Rates([replace(known, size=banded)]).estimate(shorter)
    assert found is not None
    expected = _with_less(known.size, 101 / 201) * _in_bands(shorter) * 201 / 128
    assert found.seconds == pytest.approx(0.01 * expected)
    same = Rates([replace(known, size=banded), known]).estimate(banded)
    assert same is not None
    assert same.basis == "measured"
    assert same.seconds == pytest.approx(0.01)


def _with_less(size: Size, share: float) -> float:
    if size.model == "lstm":
        return 1.0  # as it was measured for one member, and here nothing was
    least = 1_500_000 / (size.members * 64 * 128 * size.width)
    left = max(share, min(1.0, least))
    return left + (1 - left) / 4


def _in_bands(size: Size) -> float:
    idle = size.members * 64 * size.positions * size.width < 1_500_000 and size.model != "lstm"
    share = size.positions / size.length
    return 1.0 if idle else share + 0.3 * (1 - share)


def test_the_table_has_bands() -> None:
    """Mamba of six layers at 400, measured in one band and in four."""
    job = job_for(
        task("index-lookup", n=400), model("mamba", layers=6, width=256),
        members=[Member(seed=seed) for seed in range(7)], training=Training(precision="bfloat16"),
    )  # fmt: skip
    plain = seconds_per_step(job)
    banded = seconds_per_step(replace(job, training=replace(job.training, bands=4)))
    assert plain is not None
    assert banded is not None
    assert (plain.basis, banded.basis) == ("measured", "measured")
    assert 1.4 < plain.seconds / banded.seconds < 1.6


def test_time_follows_the_length_as_it_was_measured_and_longer_inputs_at_least_in_proportion() -> None:
    lengths = [rate(time, length=length, members=1, layers=6, compiled=False)
               for length, time in ((100, 0.4), (200, 0.5), (400, 1.5))]  # fmt: skip
    known = [rate(0.01, length=200), *lengths]
    assert seconds_of(known, length=100) == pytest.approx(0.008)
    assert seconds_of(known, length=150) == pytest.approx(0.009)
    assert seconds_of(known, length=20) == pytest.approx(0.008)  # no faster than the shortest of the law
    assert seconds_of(known, length=400) == pytest.approx(0.03)  # thrice, where the length is twice
    assert seconds_of(known, length=800) == pytest.approx(0.09)  # and so on behind the last
    assert seconds_of([rate(0.01, length=100), *lengths], length=200) == pytest.approx(0.02)  # the law: 1.25


def test_the_least_of_what_follows_counts_and_nothing_is_faster_than_what_is_smaller() -> None:
    assert seconds_of([rate(0.01), rate(0.012, members=6)], members=7) == pytest.approx(0.014)
    assert seconds_of([rate(0.03, members=1), rate(0.02, width=256)]) == pytest.approx(0.03)
    found = Rates([rate(0.03, members=1), rate(0.02, width=256)]).estimate(SIZE)
    assert found is not None
    assert found.how == "no faster than 1 member of (2, 64) on index-lookup at 200, which is smaller"


def test_one_layer_that_answers_once_says_nothing_of_others() -> None:
    bare = rate(0.001, layers=1)
    assert Rates([bare]).estimate(SIZE) is None
    assert Rates([bare]).estimate(replace(SIZE, layers=1, labels=50)) is None
    assert seconds_of([bare], layers=1, members=4) == pytest.approx(0.002)
    assert seconds_of([rate(0.001, layers=1, labels=50)], labels=50) == pytest.approx(0.002)


def test_what_was_never_measured_has_no_time() -> None:
    assert Rates([rate(0.01)]).estimate(replace(SIZE, model="lstm")) is None
    assert Rates([rate(0.01)]).estimate(replace(SIZE, precision="float32")) is None
    job = job_for(task("q-sparse-averaging", n=6), model("fnn"), members=[Member()])
    assert seconds_per_step(job) is None


def test_larger_batches_take_longer_and_smaller_ones_as_long() -> None:
    known = Rates([rate(0.01, n=20, length=21)])
    for batch, seconds, basis in ((64, 0.01, "measured"), (16, 0.01, "measured"), (256, 0.04, "scaled")):
        found = seconds_per_step(
            job_of(members=2, training=Training(precision="bfloat16", batch=batch)), rates=known
        )
        assert found is not None
        assert found.seconds == pytest.approx(seconds)
        assert found.basis == basis


@given(
    layers=st.integers(1, 12),
    width=st.sampled_from([16, 64, 200, 256, 512]),
    length=st.integers(4, 4000),
    members=st.integers(1, 30),
    labels=st.sampled_from([1, 100]),
    name=st.sampled_from(["lstm", "transformer"]),
)
def test_no_estimate_is_faster_than_a_smaller_population_that_was_measured(
    layers: int, width: int, length: int, members: int, labels: int, name: str
) -> None:
    size = replace(
        SIZE, model=name, layers=layers, width=width, length=length, members=members, labels=labels
    )
    found = rates_measured().estimate(size)
    assert found is not None
    held = [one.seconds for one in rates_measured().measured if one.compiled and size.holds(one.size)]
    assert found.seconds >= max(held, default=0.0)


def test_the_law_foresees_what_was_measured() -> None:
    """Each measurement beside what all others say of it: hardly one is slower."""
    measured = rates_measured().measured
    ratios = []
    for one in measured:
        others = Rates(other for other in measured if other.size != one.size)
        found = others.estimate(one.size) if one.compiled else None
        ratios += [] if found is None else [found.seconds / one.seconds]
    assert len(ratios) > 30
    assert min(ratios) > 0.6
    assert sum(ratio > 0.85 for ratio in ratios) > 0.95 * len(ratios)


def test_the_time_to_start_is_a_median_and_not_too_little() -> None:
    known = Rates([rate(0.01, start=30.0), rate(0.01, start=90.0, n=3), rate(0.01, start=40.0, n=4)])
    assert known.seconds_to_start("mamba") == 40.0
    assert known.seconds_to_start("lstm") == 20.0
    assert Rates([rate(0.01, start=3.0)]).seconds_to_start("mamba") == 20.0
    banded = Rates(
        [rate(0.01, start=30.0), rate(0.01, start=70.0, bands=4), rate(0.01, model="lstm", start=50.0)]
    )
    assert banded.seconds_to_start("mamba") == 30.0
    assert banded.seconds_to_start("mamba", bands=4) == 70.0
    assert banded.seconds_to_start("lstm", bands=4) == 70.0, "for want of its own, those of others"
    assert banded.seconds_to_start("dss") == 20.0


# How jobs go on, and what that takes.


def test_all_members_take_all_steps_where_nobody_is_dropped() -> None:
    training = Training(steps=1000, eval_every=300, eval_examples=10, test_examples=50)
    assert stretches_of(job_of(training=training)) == (
        Stretch(rows=7, steps=1000, looked_at=4 * 10 + 50, compiled=True),
    )
    assert stretches_of(job_of(training=training), until=600) == (
        Stretch(rows=7, steps=600, looked_at=2 * 10 + 50, compiled=True),
    )


def test_under_halving_rows_are_given_up_when_at_most_half_are_in_use() -> None:
    training = Training(
        steps=50_000, eval_every=1000, eval_examples=10, test_examples=50, halving=Halving(first=5000)
    )
    assert stretches_of(job_of(training=training)) == (
        Stretch(rows=7, steps=5000, looked_at=100, compiled=True),  # 7 members, of which 4 stay
        Stretch(rows=7, steps=5000, looked_at=100, compiled=False),  # 4 on 7 rows
        Stretch(rows=2, steps=10_000, looked_at=150, compiled=True),
        Stretch(rows=1, steps=20_000, looked_at=200, compiled=True),
        Stretch(rows=1, steps=10_000, looked_at=150, compiled=False),
    )


def test_a_population_is_not_made_anew_for_its_last_steps() -> None:
    training = Training(
        steps=9000, eval_every=2500, eval_examples=10, test_examples=50, halving=Halving(first=4500, factor=7)
    )
    assert stretches_of(job_of(training=training)) == (
        Stretch(rows=7, steps=4500, looked_at=2 * 10 + 50, compiled=True),
        Stretch(rows=7, steps=4500, looked_at=3 * 10 + 50, compiled=False),
    )


def test_members_beyond_the_seats_come_later() -> None:
    training = Training(steps=1000, eval_every=1000, eval_examples=10, test_examples=50)
    assert [one.rows for one in stretches_of(job_of(members=130, training=training))] == [64, 64, 2]


def study_with(training: Training) -> Study:
    study = only(study_of("s-fig3", Settings()), "index-lookup")
    (panel,) = study.panels
    cells = tuple(
        replace(cell, column=n, jobs=(job_of(training=training, n=n),))
        for cell, n in zip(panel.cells, (20, 40), strict=False)
    )
    return replace(study, panels=(replace(panel, cells=cells),))


TRAINING = Training(
    steps=50_000, eval_every=1000, eval_examples=64, test_examples=640, precision="bfloat16", stop="first",
    solved=0.999, halving=Halving(first=10_000, factor=7),
)  # fmt: skip
KNOWN = Rates(
    [rate(0.004, n=n, length=n + 1, members=members, start=30.0) for n in (20, 40) for members in (7,)]
    + [rate(0.001, n=20, length=21, members=1)]
)


def test_a_projection_adds_up_steps_looks_tests_and_compiling() -> None:
    study = study_with(TRAINING)
    found = projection_of(study, rates=KNOWN)
    # 10,000 steps of seven, 10 looks and a test of ten batches, then 40,000 of one with as much again. The
    # longest goes first; its first population is compiled, all others have been by then.
    first = 10 + 0.004 * (10_000 + 10 + 10) + 10 + 0.001 * (40_000 + 40 + 10)
    second = 30 + 0.004 * (10_000 + 10 + 10) + 10 + 0.001 * 41 / 21 * (40_000 + 40 + 10)
    assert [one.seconds for one in found.jobs] == [pytest.approx(first), pytest.approx(second)]
    assert found.seconds == pytest.approx(first + second)
    assert found.minutes == pytest.approx(found.seconds / 60)
    assert found.hours == found.ended_hours == pytest.approx(found.seconds / 3600)
    assert found.basis == {"measured": pytest.approx(0.6), "scaled": pytest.approx(0.4), "not measured": 0}
    assert found.halving
    words = "2 populations take at most about 4.3 minutes on one H200 with halving."
    assert found.lines() == [
        f"{words} Rates of their steps: 60 % measured, 40 % scaled.",
        f"The longest is mamba-(2,64) on index-lookup at 40: {second / 60:.1f} minutes.",
    ]
    json.dumps(found.to_fields(), allow_nan=False)


def test_a_second_process_that_compiles_too_slowly_is_waited_for() -> None:
    """Compiling takes 300 s, so that the populations behind the first are ready after 300, 600 and 900."""
    slow = Rates(replace(one, start_seconds=300.0) for one in KNOWN.measured)
    found = projection_of(study_with(TRAINING), rates=slow)
    seven, alone = 0.004 * 10_020, 0.001 * 40_050
    one_of_40 = 41 / 21 * alone
    second = 300 + seven + 10 + one_of_40
    waited = 600 - second + 10
    first = waited + seven
    assert 10 < waited < 300
    waited = 900 - (second + first) + 10
    assert 10 < waited < 300
    first += waited + alone
    assert [one.seconds for one in found.jobs] == [pytest.approx(first), pytest.approx(second)]


def test_rows_that_are_not_given_up_cost_on_and_nothing_is_compiled_anew() -> None:
    four_of_seven = replace(TRAINING, halving=Halving(first=30_000))
    found = projection_of(study_with(four_of_seven), rates=KNOWN)
    assert found.jobs[0].seconds == pytest.approx(10 + 0.004 * (50_000 + 50 + 2 * 10))


def test_without_halving_all_members_go_to_the_end() -> None:
    found = projection_of(study_with(TRAINING), halving=False, rates=KNOWN)
    steps = 0.004 * (50_000 + 50 + 10)
    assert [one.seconds for one in found.jobs] == [pytest.approx(10 + steps), pytest.approx(30 + steps)]
    assert not found.halving
    assert found == projection_of(study_with(replace(TRAINING, halving=None)), rates=KNOWN)
    with pytest.raises(InvalidInput, match=r"s-fig3 at --budget smoke drops nobody"):
        projection_of(study_with(replace(TRAINING, halving=None)), halving=True)


def test_a_job_ends_where_a_run_with_one_of_its_rates_has_solved_the_task() -> None:
    study = study_with(TRAINING)
    solved, other = study.jobs
    runs = [
        fake_run(solved, 2, solved_at=20_500, steps=20_500),
        fake_run(solved, 3, solved_at=30_000, steps=30_000),
        fake_run(replace(solved, members=(Member(lr=0.7),)), solved_at=5000, steps=5000),  # another rate
        fake_run(other),
    ]
    found = projection_of(study, solved=runs, rates=KNOWN)
    assert [one.solved_at for one in found.jobs] == [21_000, None]  # at the next look
    ended = 10 + 0.004 * (10_000 + 10 + 10) + 10 + 0.001 * (11_000 + 11 + 10)
    assert [one.ended for one in found.jobs] == [pytest.approx(ended), found.jobs[1].seconds]
    assert found.ended_hours < found.hours
    assert found.lines()[1] == (
        "Runs have solved the tasks of 1 of them; if these end where they did, it is about "
        f"{60 * found.ended_hours:.1f} minutes."
    )


def test_what_was_not_measured_is_said() -> None:
    study = study_with(replace(TRAINING, precision="float32"))
    found = projection_of(study, rates=KNOWN)
    assert [one.seconds for one in found.jobs] == [None, None]
    assert (found.seconds, found.basis["not measured"]) == (0, 1)
    assert found.lines() == ["How fast its populations are on an H200 was not measured."]
    assert projection_of(replace(study, panels=())).lines() == ["Nothing is trained."]
    first, _ = study_with(TRAINING).jobs
    cells = study.panels[0].cells
    mixed = (replace(cells[0], jobs=(first,)), replace(cells[1], jobs=study.jobs[1:]))
    half = projection_of(replace(study, panels=(replace(study.panels[0], cells=mixed),)), rates=KNOWN)
    assert half.seconds == half.jobs[0].seconds
    assert "Rates of 1 were not measured; their time is not in it." in half.lines()


@pytest.mark.slow
def test_s_studies_cost_less_with_halving_and_every_job_has_a_time() -> None:
    for name in ("s-fig2", "s-fig3", "s-fig4"):
        study = study_of(name, PAPER)
        thinned, whole = projection_of(study), projection_of(study, halving=False)
        assert 0 < thinned.hours < whole.hours
        assert thinned.basis["not measured"] == whole.basis["not measured"] == 0
        assert projection_of(study_of(name, Settings(budget="quick"))).hours < thinned.hours


# The benchmark that measures, and the one that reports.


def test_rates_come_out_of_a_store_of_runs(tmp_path: Path) -> None:
    store = Store(tmp_path)
    training = Training(precision="bfloat16", steps=3000, eval_every=1000, stop="first")
    on_card = {"device": "NVIDIA H200", "torch": "2.11.0", "steps_per_second": 50.0}
    plans = [
        (job_of(members=3, training=training), 3000, on_card),
        (job_of(members=3, training=training, n=30), 1000, on_card),  # mostly compiling
        (job_of(members=3, training=training, n=40), 3000, {**on_card, "device": "x86_64"}),
        (job_of(members=3, training=training, n=50), 3000, {**on_card, "steps_per_second": None}),
        (job_of(members=3, training=replace(training, halving=Halving(first=2000)), n=60), 3000, on_card),
        (job_of(members=3, training=replace(training, halving=Halving(first=2000)), n=70), 2000, on_card),
        (job_of(members=2, training=replace(training, stop="each"), n=80), 3000, on_card),
    ]
    for job, steps, provenance in plans:
        for run in store.begin_all([job.config_of(member) for member in job.members], population=job.key):
            store.finish(run.key, Result(status="done", steps=steps, provenance=provenance))
    found = [one for one in step_rates.gathered(store.runs(), (), measured=()) if one.how == "run"]
    assert [one.size for one in found] == [size_of(plans[place][0]) for place in (0, 5, 6)]
    assert all(one.steps_per_second == 50 for one in found)


@pytest.mark.slow
def test_what_most_hours_rest_on_is_measured_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, asked = tmp_path / "rates.json", []
    monkeypatch.setattr(step_rates, "FIGURES", ("s-fig3",))
    monkeypatch.setattr(step_rates, "MEASURED", tmp_path / "none.json")

    def time_one(job: Job) -> dict[str, Any]:
        size = size_of(job)
        assert size is not None
        asked.append(size)
        if len(asked) == 3:
            raise KeyboardInterrupt
        if len(asked) == 2:
            raise RuntimeError("out of memory")
        row = {"size": vars(size), "steps_per_second": 20.0, "start_seconds": 30.0}
        return {**row, "device": "NVIDIA H200", "torch": "2.11.0"}

    with pytest.raises(KeyboardInterrupt):
        step_rates.measure(5, out, time_one=time_one)
    assert len(set(asked)) == 3
    assert (asked[0].width, asked[0].n) == (1024, 400)
    assert [row["size"] for row in json.loads(out.read_text())["rows"]] == [vars(asked[0])]


def test_the_report_is_that_of_the_figures() -> None:
    data = json.loads(reproduction.DATA.read_text())
    assert reproduction.DATA.with_suffix(".md").read_text() == reproduction.written(data)
    assert set(data["experiments"]["s-fig2"]) == set(reproduction.CASES)


@pytest.mark.slow
def test_a_report_is_made_of_any_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduction, "EXPERIMENTS", _Only(("s-fig2", "s-fig3", "s-fig4", "r-qsa")))
    monkeypatch.setattr(reproduction, "CASES", {**reproduction.CASES, "grid": PAPER, "grid, halving": PAPER})
    job = study_of("s-fig2", PAPER).jobs[0]
    data = reproduction.data_of(reproduction.projected([fake_run(job, 0, solved_at=2500, steps=2500)]))
    page = reproduction.written(json.loads(json.dumps(data, allow_nan=False)))
    assert data["experiments"]["s-fig2"]["final"]["solved"] == 1
    assert "| 1 of 50 |" in page
    assert "| ≤ 12 h |" in page
    assert "| ≤ 40 h |" in page


class _Only:
    """A few experiments of those there are."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def names(self) -> tuple[str, ...]:
        return self._names
