"""How fast populations are on an H200: what was measured, and what follows from it for other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from benchmarks import bands, step_rates
from hypothesis import given
from hypothesis import strategies as st

from separatrix.experiments.rates import (
    Rate,
    Rates,
    Size,
    rates_from,
    rates_measured,
    seconds_per_step,
)
from separatrix.models import model
from separatrix.store.bundles import bundles_in, read_bundle, results_folder
from separatrix.tasks import task
from separatrix.training.jobs import Job, job_for
from separatrix.training.recipes import Member, Training

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
    rows, on_cpu, learning = (
        step_rates.rows_in(step_rates.BANDS, part) for part in ("rows", "on_cpu", "learning")
    )
    assert bands.page(rows, on_cpu, learning, rates_measured().measured) == bands.PAGE.read_text()


def test_two_inputs_a_row_are_learned_by_as_many_seeds_as_one() -> None:
    solved: dict[str, dict[str, int]] = {}
    for row in step_rates.rows_in(step_rates.BANDS, "learning"):
        count = sum(one is not None for one in row["solved"])
        solved.setdefault(row["population"], {})[bands.way_of(row)] = count
    compared = [ways for ways in solved.values() if "pairs" in ways]
    assert len(compared) == 5
    assert all(ways["pairs"] >= ways["1"] for ways in compared)


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


def test_a_slower_measurement_keeps_what_is_known_of_the_start() -> None:
    size = replace(SIZE, n=123, length=124, positions=124)
    row: dict[str, Any] = {"size": vars(size), "device": "NVIDIA H200", "torch": "2.11.0"}
    rows = [
        {**row, "steps_per_second": 20.0, "start_seconds": 25.0},
        {**row, "steps_per_second": 10.0, "start_seconds": None},
        {**row, "steps_per_second": 15.0, "start_seconds": 30.0},
    ]
    (found,) = (one for one in step_rates.gathered([], [], measured=rows) if one.size == size)
    assert (found.steps_per_second, found.start_seconds) == (10.0, 25.0)


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
        ({"members": 1}, 0.93323),  # 1.5 of 1.647 million numbers stay in flight, and a quarter of the rest
        ({"layers": 6}, 5.4 / 1.4),  # the last of them counts less where it answers once
        ({"layers": 6, "labels": 201}, 6),  # a label at many positions is another factor of two
        ({"layers": 1}, 2 / 3),
        ({"width": 256}, 16),
        ({"width": 32}, 0.93323),
        ({"labels": 201, "task": "equality", "form": "ncp"}, 2),
        ({"task": "dyck", "form": "recognise"}, 1),
        ({"length": 402, "positions": 402}, 2),
        ({"members": 4, "layers": 4, "width": 128}, 2 * 4 * 3.4 / 1.4),
    ],
)
def test_one_measurement_is_scaled(changes: dict[str, Any], factor: float) -> None:
    found = Rates([rate(0.01)]).estimate(replace(SIZE, **changes))
    assert found is not None
    assert found.basis == "scaled"
    assert found.seconds == pytest.approx(0.01 * factor, rel=1e-4)
    assert found.how.startswith("from 2 members of (2, 64) on index-lookup at 200")
    for name in changes:
        assert factor == 1 or name in {"task", "form", "positions"} or f"for {name}" in found.how


@pytest.mark.parametrize("changes", [{"model": "lstm"}, {"labels": 201}])
def test_layers_are_in_proportion_where_the_last_is_like_the_others(changes: dict[str, Any]) -> None:
    known = rate(0.01, **changes)
    for labels in {1, known.size.labels}:
        found = Rates([known]).estimate(replace(known.size, layers=6, labels=labels))
        assert found is not None
        assert found.seconds == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({}, 7 / 16),  # a quarter of the members, and a quarter of the rest
        ({"model": "lstm"}, 0.85),
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
        ({}, 51 / 201 + 0.45 * 150 / 201),
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
    expected = _shorter(known.size, 101 / 201) * _in_bands(shorter) * 201 / 128
    assert found.seconds == pytest.approx(0.01 * expected)
    same = Rates([replace(known, size=banded), known]).estimate(banded)
    assert same is not None
    assert same.basis == "measured"
    assert same.seconds == pytest.approx(0.01)


def _shorter(size: Size, share: float) -> float:
    if size.model == "lstm":
        return 1.0  # as it was measured for one member, and here nothing was
    least = 1_500_000 / (size.members * 64 * 128 * size.width)
    left = max(share, min(1.0, least))
    return left + 0.45 * (1 - left)


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
    """Each benchmark beside what all others say of it: hardly one is slower. Runs have looks in theirs."""
    measured = rates_measured().measured
    ratios = []
    for one in measured:
        others = Rates(other for other in measured if other.size != one.size)
        found = others.estimate(one.size) if one.compiled and one.how == "benchmark" else None
        ratios += [] if found is None else [found.seconds / one.seconds]
    assert len(ratios) > 200
    assert min(ratios) > 0.75
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
