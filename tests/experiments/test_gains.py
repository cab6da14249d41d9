"""What populations gain abreast: what was measured, what follows for others, and the benchmark behind it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from benchmarks import abreast
from hypothesis import given
from hypothesis import strategies as st

from separatrix.experiments import study_of
from separatrix.experiments.gains import Gain, Gains, gains_from, gains_measured
from separatrix.experiments.protocols import Lengths, Settings
from separatrix.experiments.rates import Size, size_of
from separatrix.training.jobs import Job
from separatrix.training.stretches import stretches_of
from tests.experiments.test_rates import SIZE


def gain(value: float, *, of: int, **changes: Any) -> Gain:
    return Gain(size=replace(SIZE, **changes), abreast=of, gain=value, device="NVIDIA H200", torch="2.11.0")


def test_what_was_measured_is_what_is_said() -> None:
    known = Gains([gain(1.5, of=2), gain(2.4, of=4)])
    assert [known.of(SIZE, together) for together in (1, 2, 4)] == [1.0, 1.5, 2.4]
    assert known.speed(SIZE, 4) == pytest.approx(0.6)


def test_fewer_go_no_slower_and_more_gain_no_less() -> None:
    known = Gains([gain(1.5, of=2), gain(2.4, of=4)])
    assert known.of(SIZE, 3) == pytest.approx(1.8)  # each as fast as one of four
    assert known.of(SIZE, 9) == 2.4
    assert Gains([gain(1.9, of=2), gain(2.4, of=4)]).of(SIZE, 3) == 1.9  # as two of them


def test_what_is_smaller_gains_no_less_and_of_what_is_larger_nothing_is_known() -> None:
    known = Gains([gain(2.0, of=4), gain(3.0, of=4, width=32)])
    assert known.of(replace(SIZE, width=48, layers=1), 4) == 2.0
    assert known.of(replace(SIZE, width=16), 4) == 3.0
    larger: tuple[dict[str, Any], ...] = (
        {"width": 65},
        {"members": 3},
        {"layers": 3},
        {"labels": 2},
        {"length": 999, "positions": 999},
        {"model": "lstm"},
        {"precision": "float32"},
    )
    for changes in larger:
        assert known.of(replace(SIZE, **changes), 4) == 1.0
    assert Gains().of(SIZE, 4) == 1.0
    nearly, more = round(1.1 * SIZE.positions), round(1.1 * SIZE.positions) + 1
    assert known.of(replace(SIZE, positions=nearly), 4) == 2.0
    assert known.of(replace(SIZE, positions=more), 4) == 1.0
    assert known.of(replace(SIZE, positions=nearly, bands=4), 4) == 1.0


@given(
    st.lists(st.tuples(st.floats(0.5, 8), st.integers(2, 8)), max_size=6),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_one_of_more_is_no_faster_and_more_do_no_less(
    told: list[tuple[float, int]], fewer: int, more: int
) -> None:
    fewer, more = sorted((fewer, more))
    known = Gains(gain(value, of=count) for value, count in told)
    assert 1 <= known.of(SIZE, fewer) <= known.of(SIZE, more)
    assert known.speed(SIZE, fewer) >= known.speed(SIZE, more) * (1 - 1e-12)


def test_the_page_and_the_table_are_what_the_data_gives() -> None:
    data = json.loads(abreast.DATA.read_text())
    assert abreast.page(data) == abreast.PAGE.read_text()
    assert abreast.table_of([*abreast.gains_in(data), *abreast.gains_beside()]) == abreast.TABLE.read_text()
    assert {name for row in data["sets"] for name in row["names"]} <= {row["name"] for row in data["same"]}
    kept = gains_from(abreast.TABLE.read_text().splitlines())
    assert gains_measured().measured == kept
    assert {one.device for one in kept} == {"NVIDIA H200"}


def test_a_size_is_that_of_the_population_with_this_name() -> None:
    sizes = {
        abreast.name_of(one, lengths=lengths): _size(abreast.job_of(one, lengths=lengths))
        for one in abreast.POPULATIONS
        for lengths in get_args(Lengths)
    }
    for row in json.loads(abreast.DATA.read_text())["same"]:
        assert Size(**row["size"]) == sizes[row["name"]]


def test_each_gain_is_hardly_less_than_what_the_others_say() -> None:
    whole = gains_measured().measured
    for one in whole:
        others = Gains(other for other in whole if other != one)
        assert one.gain > 0.9 * others.of(one.size, one.abreast)


def test_what_was_measured_of_a_size_comes_before_what_others_say() -> None:
    wider = replace(SIZE, width=2 * SIZE.width)
    known = Gains([gain(1.5, of=4), replace(gain(2.0, of=4), size=wider)])
    assert known.of(wider, 4) == 2.0
    assert known.of(SIZE, 4) == 1.5
    assert known.of(replace(SIZE, width=SIZE.width - 1), 4) == 2.0
    assert known.of(SIZE, 2) == 1.0, "half of 2.0, which the wider say"
    assert known.of(SIZE, 8) == 2.0, "of eight it was not measured itself"


def test_a_short_lstm_may_gain_less_than_a_long_one() -> None:
    known = Gains([gain(3.0, of=4, model="lstm")])
    lstm = replace(SIZE, model="lstm")
    half, less = ((lstm.length + 1) // 2, (lstm.length - 1) // 2)
    assert known.of(replace(lstm, length=half, positions=half), 4) == 3.0
    assert known.of(replace(lstm, length=less, positions=less), 4) == 1.0


def test_sets_of_one_kind_are_projected_to_gain_what_they_do() -> None:
    known = Gains([gain(1.5, of=2), gain(2.4, of=4), gain(3.0, of=4, model="lstm")])
    assert abreast.expected([(SIZE, 1.0)] * 4, known, lanes=4) == pytest.approx(2.4)
    lstm = replace(SIZE, model="lstm")
    mixed = abreast.expected([(one, 1.0) for one in (SIZE, SIZE, lstm, lstm)], known, lanes=4)
    # The two that are faster have ended after 4/3, when each of the others has 0.2 of its work left.
    assert mixed == pytest.approx(4 / (4 / 3 + 0.2 * 2 / 1.5))


class FakeReady:
    """A population that takes its steps in no time."""

    seconds = 0.01
    steps_per_second = 100.0

    def __init__(self, copies: int = 99) -> None:
        self._copies = copies

    def run(self, steps: int) -> None:
        assert steps > 0

    def again(self) -> FakeReady:
        if not self._copies:
            raise RuntimeError("CUDA out of memory")
        self._copies -= 1
        return FakeReady()


def test_the_benchmark_goes_on_and_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(abreast, "POPULATIONS", abreast.POPULATIONS[:6])
    copies = iter([99, 4, 99, 99, 99, 99])
    made: list[Job] = []

    def ready(job: Job) -> FakeReady:
        made.append(job)
        return FakeReady(next(copies))

    monkeypatch.setattr(abreast, "ready", ready)
    out = tmp_path / "abreast.json"
    abreast.measure(-1, out)
    assert (made, out.exists()) == ([], False)
    abreast.measure(5, out)
    data = json.loads(out.read_text())
    told = Counter(row["name"] for row in data["same"])
    names = [abreast.name_of(population, lengths="pairs") for population in abreast.POPULATIONS]
    assert [told[name] for name in names] == [2, 1, 2, 2, 2, 2]  # the second has no room for eight
    assert len(data["sets"]) == abreast.SETS
    assert all(len(set(row["names"])) == abreast.SET for row in data["sets"])
    assert "| projected |" in abreast.page(data)
    gains = gains_from(abreast.table_of(abreast.gains_in(data)).splitlines())
    assert [one.size for one in gains] == [Size(**row["size"]) for row in data["same"]]
    abreast.measure(5, out)
    assert len(made) == 6
    assert json.loads(out.read_text()) == data


@pytest.mark.slow
def test_the_benchmark_speaks_for_every_population_of_the_figures() -> None:
    """But for LSTMs of which none of nearly their length was measured."""
    told = [_size(abreast.job_of(population)) for population in abreast.POPULATIONS]
    told += [one.size for one in abreast.gains_beside()]
    for name in ("s-fig2", "s-fig3", "s-fig4"):
        for job in study_of(name, Settings(budget="paper")).jobs:
            for rows in {stretch.rows for stretch in stretches_of(job)}:
                size = size_of(job, members=rows)
                assert size is not None
                known = any(Gains([gain_of(one)]).of(size, 4) == 2.0 for one in told)
                assert known or (size.model == "lstm" and size.length <= 101), size


def gain_of(size: Size) -> Gain:
    return Gain(size=size, abreast=4, gain=2.0, device="NVIDIA H200", torch="2.11.0")


def _size(job: Job) -> Size:
    found = size_of(job)
    assert found is not None
    return found
