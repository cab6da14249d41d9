"""Witnesses in fewer and fewer bits: the inputs they are tried on, and where they break off."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from separatrix.certificates.exhaustive import wrong_rows
from separatrix.experiments import study_of
from separatrix.experiments.cells import Measured, chosen
from separatrix.experiments.measurements import measured_now, read_series
from separatrix.experiments.plain_witnesses import Plain, count_right, plain_witnesses, tried
from separatrix.experiments.protocols import Settings
from separatrix.experiments.reproducing import reproduce
from separatrix.experiments.x_precision import _SWEEPS, _system, cliff_of
from separatrix.precision import FixedDown, FixedNearest
from separatrix.store import Store
from separatrix.store.bundles import results_folder
from separatrix.witnesses import CATALOGUE

PAPER = Settings(budget="paper")
SMALL = {plain.row: plain for plain in plain_witnesses(6)}


def counts(*pairs: tuple[int, int, int]) -> dict[int, Measured]:
    return {column: Measured(right=right, examples=examples) for column, right, examples in pairs}


@pytest.mark.parametrize(
    ("series", "cliff"),
    [
        (counts((3, 1, 4), (5, 4, 4), (7, 4, 4)), 5),
        (counts((3, 4, 4), (5, 3, 4), (7, 4, 4)), 7),  # right by chance below the cliff
        (counts((3, 4, 4), (5, 4, 4)), 3),
        (counts((3, 4, 4), (5, 3, 4)), None),
        (counts((3, 0, 0), (5, 4, 4)), 5),  # no weights for 3 bits
    ],
)
def test_a_cliff_is_where_nothing_is_wrong_from_there_on(
    series: dict[int, Measured], cliff: int | None
) -> None:
    assert cliff_of(series) == cliff


@pytest.mark.parametrize("settings", [Settings(), PAPER], ids=lambda settings: settings.budget)
def test_a_column_is_the_number_of_bits(settings: Settings) -> None:
    for sweep, panel in zip(_SWEEPS, study_of("x-precision", settings).panels, strict=True):
        assert [_system(sweep.numbers, p).bits for p in panel.columns] == list(panel.columns)


def test_every_construction_that_writes_nothing_is_there() -> None:
    at_once = {
        (entry.theorem, entry.task, entry.variant)
        for entry in CATALOGUE
        if not entry.family.endswith(("-cot", "+retrieval"))
    }
    rows = study_of("x-precision", PAPER).panels[1].rows
    assert len(rows) == len(at_once) == len(SMALL)
    assert all(plain.witness.script is None for plain in SMALL.values())
    longer = next(panel for panel in study_of("x-precision", PAPER).panels if panel.name == "longer")
    assert 20 <= len(longer.rows) < len(rows)


@pytest.mark.parametrize(
    "row", ["S-T1: index-lookup", "S-T6: equality", "R-M2: match2", "R-G: cycle5, graph unit of order 5"]
)
def test_inputs_are_inputs_the_same_each_time_and_not_all_alike(row: str) -> None:
    plain = SMALL[row]
    for kind in ("random", "worst"):
        rows = tried(plain.task, kind, 12)
        assert 2 <= len(torch.unique(rows, dim=0)) <= len(rows) == 12
        assert torch.equal(rows, tried(plain.task, kind, 12))
        for each in rows:
            plain.task.check(each)


def all_right(plain: Plain, count: int) -> bool:
    return all(
        count_right(plain.witness.model, plain.task, rows) == len(rows)
        for rows in (tried(plain.task, "random", count), tried(plain.task, "worst", count))
    )


@pytest.mark.parametrize("row", list(SMALL)[::4])
def test_in_float64_nothing_that_is_tried_is_wrong(row: str) -> None:
    assert all_right(SMALL[row], 8)


@pytest.mark.slow
@pytest.mark.parametrize("plain", plain_witnesses(16), ids=lambda plain: plain.row)
def test_in_float64_nothing_of_the_full_study_is_wrong(plain: Plain) -> None:
    assert all_right(plain, 128)


@pytest.mark.slow
def test_a_study_counts_what_the_weights_answer_in_so_many_bits(tmp_path: Path) -> None:
    study = chosen(study_of("x-precision"), panels=["worst", "down"], rows=["W-4.6"])
    outcome = reproduce(study, Store(tmp_path), device="cpu").outcome
    plain = SMALL["W-4.6: counting"]
    rows = tried(plain.task, "worst", 8)
    for panel in outcome.panels:
        down = panel.panel.name == "down"
        for one in panel.cells:
            p = one.cell.column
            system = FixedDown(n=2, k=(p - 2) // 2) if down else FixedNearest(p=p)
            assert system.bits == p
            wrong = wrong_rows(plain.witness.model.with_arithmetic(system), plain.task, rows)
            assert one.accuracy == 1 - int(wrong.sum()) / 8
    assert {one.note for one in outcome.cells} == {
        "something wrong even at 33 bits",
        "something wrong even at 34 bits",
    }


@pytest.mark.slow
def test_weights_for_so_many_bits_are_proven_where_there_is_a_proof(tmp_path: Path) -> None:
    study = chosen(study_of("x-precision"), panels=["rebuilt"], rows=["S-T1", "W-4.6"])
    lookup, counting = (
        [one for one in reproduce(study, Store(tmp_path), device="cpu").outcome.cells if one.cell.row == row]
        for row in ("S-T1: index-lookup", "W-4.6: counting")
    )
    assert [one.state for one in lookup] == ["not run", "done", "done"]  # no weights for 5 bits
    assert lookup[1].note == (
        "all right from 13 bits on, the fewest that give weights; proven for every input at 7"
    )
    assert counting[0].note.endswith("; without a proof that could say more")


def kept_cliffs() -> dict[str, dict[str, str]]:
    """Of every row the cliff in every panel, and the bits for which it is proven, as the docs write them."""
    results = results_folder()
    assert results is not None
    kept = read_series(results / "x-precision")
    study = study_of("x-precision", PAPER)
    assert {series.key for series in study.series} == set(kept)
    found: dict[str, dict[str, str]] = {}
    for panel in study.panels:
        for cell in panel.cells:
            assert cell.series is not None
            measured = kept[cell.series.key]
            assert {count.column for count in measured.counts} == set(panel.columns)
            row = found.setdefault(cell.row, {})
            row[panel.name] = str(cliff_of(measured.by_column) or "none")
            if panel.name == "rebuilt":
                said = re.search(r"proven for every input at (\d+)", measured.counts[0].note)
                row["proven"] = said[1] if said else "–"
    return found


def test_the_docs_have_the_cliffs_that_are_kept() -> None:
    text = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text("utf-8")
    lines = text[text.index("| witness |") :].partition("\n\n")[0].splitlines()[2:]
    written = {
        row: cells for row, *cells in ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    }
    panels = ("random", "worst", "down", "longer", "rebuilt", "proven")
    kept = kept_cliffs()
    assert written == {row: [cliffs.get(name, "–") for name in panels] for row, cliffs in kept.items()}
    assert {cliffs["floats"] for cliffs in kept.values()} == {"32"}


@pytest.mark.slow
@pytest.mark.parametrize("row", ["S-T1: index-lookup", "W-4.6: index-lookup", "R-M2: match2"])
def test_what_is_kept_comes_out_again(row: str) -> None:
    results = results_folder()
    assert results is not None
    kept = read_series(results / "x-precision")
    for series in chosen(study_of("x-precision", PAPER), panels=["worst"], rows=[row]).series:
        again, before = measured_now(series), kept[series.key]
        assert [(one.right, one.note) for one in again.counts] == [
            (one.right, one.note) for one in before.counts
        ]
