"""What the documents say about sizes and times of witnesses is what was measured, and keeps its bars."""

from __future__ import annotations

import math

import pytest
from benchmarks.witness_tables import page, read_data, read_peers
from benchmarks.witnesses import DATA, fitted_power

DATA_ROWS = read_data()


@pytest.mark.parametrize("power", [1.0, 2.5, 3.0])
def test_the_fit_finds_the_power_of_the_logarithm(power: float) -> None:
    points = [(1 << k, round(1000 * k**power)) for k in range(4, 21, 2)]
    assert fitted_power(points) == pytest.approx(power, abs=0.01)


def test_bits_grow_no_faster_than_the_theorems_say() -> None:
    assert {row["theorem"] for row in DATA_ROWS["bits"]} >= {"S-T1", "S-T6", "S-T7"}
    for row in DATA_ROWS["bits"]:
        assert row["power"] <= 3
        points = [(point["n"], point["parameter_bits"]) for point in row["points"]]
        assert row["power"] == pytest.approx(fitted_power(points), abs=0.01)
        for point in row["points"]:
            assert point["parameter_bits"] == point["parameters"] * point["precision_bits"]


def test_index_lookup_keeps_its_bars() -> None:
    assert [row["n"] for row in DATA_ROWS["lookup"]] == [1 << 10, 1 << 16, 1 << 20]
    for row in DATA_ROWS["lookup"]:
        assert row["verdict"] == "proved"
        assert row["width"] <= row["width_bar"] == 6 + 2 * math.log2(row["n"]) + 4
        assert row["build_seconds"] < 1
        assert row["certify_seconds"] < 10
        assert row["query_seconds"] < 5
        assert row["query_seconds_fixed"] < 15
        assert row["query_peak_mib"] < 2048


def test_the_others_are_certified_within_a_minute() -> None:
    for row in DATA_ROWS["certified"]:
        assert row["verdict"] == "proved"
        assert row["certify_seconds"] < 60


def test_the_report_is_that_of_the_figures() -> None:
    assert DATA.with_suffix(".md").read_text() == page(DATA_ROWS)


def test_the_peers_figures_are_complete() -> None:
    rows = read_peers()
    assert {row["task"] for row in rows} == {"index-lookup", "associative-recall"}
    for row in rows:
        assert row["width"] > row["n"]
