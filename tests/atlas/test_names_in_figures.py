"""Names of rows, columns and curves in the papers' figures: whole wherever there is any room for them."""

from __future__ import annotations

import dataclasses
import itertools
from xml.etree import ElementTree

import pytest

from separatrix.atlas.experiments_drawings import draw_curves, draw_heat_map
from separatrix.atlas.svg import WIDTH, text_width
from separatrix.experiments.outcomes import PanelOutcome
from separatrix.store import Point
from tests.atlas.kept_results import paper
from tests.atlas.markup import read
from tests.experiments.fakes import outcome_with


def renamed(outcome: PanelOutcome, *rows: str) -> PanelOutcome:
    """The panel with its first cells alone, as rows of these names."""
    cells = tuple(
        dataclasses.replace(one, cell=dataclasses.replace(one.cell, row=row))
        for one, row in zip(outcome.cells, rows, strict=False)
    )
    panel = dataclasses.replace(outcome.panel, cells=tuple(one.cell for one in cells))
    return dataclasses.replace(outcome, panel=panel, cells=cells)


def names_drawn(drawing: str) -> dict[str, list[ElementTree.Element]]:
    """The lines of every name of a row or a curve, by the whole name."""
    groups = ElementTree.fromstring(drawing).iter("g")
    return {group.findtext("title", ""): group.findall("text") for group in groups}


@pytest.mark.parametrize(
    ("row", "lines"),
    [
        ("TF-(1,64)", ["TF-(1,64)"]),
        ("shortcut: a prefix of 10", ["shortcut:", "a prefix of 10"]),
        ("the theorem's unit", ["the theorem's", "unit"]),
        ("R-qSA: q-sparse-averaging", ["R-qSA:", "q-sparse-averaging"]),
        ("UP-TF1: dyck, linear size", ["UP-TF1:", "dyck, linear size"]),
        ("S-L5: equality, any balanced partition", ["S-L5: equality, any", "balanced partition"]),
        ("S-E: dyck, sigmoid-type activations", ["S-E: dyck, sigmoid-type", "activations"]),
        ("x" * 17, ["x" * 17]),
        ("x" * 40, ["x" * 28, "x" * 12]),
        ("x" * 80, ["x" * 28, "x" * 27 + "…"]),
    ],
)
def test_long_names_of_rows_take_two_lines_and_the_room_they_need(row: str, lines: list[str]) -> None:
    outcome = outcome_with(paper("s-fig2"), {}).panels[0]
    drawing, _ = draw_heat_map(renamed(outcome, row), "map")
    [(name, texts)] = names_drawn(drawing).items()
    assert name == row
    assert [text.text for text in texts] == lines
    ends = {float(text.get("x", "")) for text in texts}
    assert max(text_width(line, small=True) for line in lines) <= min(ends) + 0.1
    first = next(e for e in ElementTree.fromstring(drawing).iter("rect"))
    assert max(ends) < float(first.get("x", "")) < WIDTH / 2


def test_a_name_that_fits_beside_a_longer_line_stays_in_one() -> None:
    outcome = outcome_with(paper("s-fig2"), {}).panels[0]
    rows = ("S-T7: associative-recall", "UP-TF1: disjointness, linear size")
    found = names_drawn(draw_heat_map(renamed(outcome, *rows), "map")[0])
    assert [text.text for text in found[rows[0]]] == [rows[0]]
    assert [text.text for text in found[rows[1]]] == ["UP-TF1:", "disjointness, linear size"]


def heads(panel: PanelOutcome) -> list[ElementTree.Element]:
    drawing, _ = draw_heat_map(panel, "map")
    return [
        text for text in ElementTree.fromstring(drawing).iter("text") if text.get("class") == "note strong"
    ]


def test_columns_that_are_words_are_all_named_and_do_not_touch() -> None:
    panel = outcome_with(paper("x-attention"), {}).panels[0]
    found = heads(panel)
    assert [head.text for head in found] == [panel.panel.label(column) for column in panel.panel.columns]
    assert "sparsemax" in [head.text for head in found]
    for height in {head.get("y") for head in found}:
        for one, other in itertools.pairwise(head for head in found if head.get("y") == height):
            apart = float(other.get("x", "")) - float(one.get("x", ""))
            assert apart >= text_width(f"{one.text}{other.text}", small=True) / 2


def test_of_columns_that_are_numbers_some_are_named() -> None:
    panel = outcome_with(paper("x-precision"), {}).panels[0]
    found = heads(panel)
    assert 1 < len(found) < len(panel.panel.columns)
    assert len({head.get("y") for head in found}) == 1


@pytest.mark.parametrize(
    ("row", "shown"),
    [("TF-(1,64): average-hard", "TF-(1,64): average-hard"), ("y" * 50, "y" * 27 + "…")],
)
def test_the_legend_of_curves_takes_the_room_that_its_names_need(row: str, shown: str) -> None:
    outcome = outcome_with(paper("s-fig2"), {("TF-(1,64)", 200): 500}).panels[0]
    [one] = [one for one in outcome.cells if (one.cell.row, one.cell.column) == ("TF-(1,64)", 200)]
    curve = tuple(Point(step=step, correct=step, examples=100) for step in (50, 100))
    panel = renamed(dataclasses.replace(outcome, cells=(dataclasses.replace(one, curve=curve),)), row)
    drawing, _ = draw_curves(panel, "curves")
    [(whole, [text])] = names_drawn(drawing).items()
    assert (whole, text.text) == (row, shown)
    start = float(text.get("x", ""))
    assert start + text_width(shown, small=True) <= WIDTH + 0.1
    [line] = ElementTree.fromstring(drawing).iter("polyline")
    end = float(line.get("points", "").split()[-1].split(",")[0])
    assert 0.45 * WIDTH < end < start - 30


@pytest.mark.slow
def test_no_name_on_the_page_is_cut(page: str) -> None:
    words = [text.all_text for text in read(page).find("text")]
    assert len(words) > 2000
    assert [word for word in words if word.endswith("…") and word != "…"] == []
