"""The papers' numbers: each stands where its paper has it, and no cell of an experiment goes without."""

from __future__ import annotations

import csv
from collections import Counter
from functools import cache
from importlib.resources import files

import pytest

from separatrix.experiments import study_of
from separatrix.experiments.cells import Study
from separatrix.experiments.protocols import Settings
from separatrix.experiments.published import Published, published

DATA = files("separatrix.experiments") / "data"
TABLES = [line["table"] for line in csv.DictReader((DATA / "tables.csv").read_text("utf-8").splitlines())]
STUDIES = ("s-fig2", "s-fig3", "s-fig4", "s-eq-one", "s-eq-depth", "s-lstm-width", "s-dss-wide", "w-istree")
UNSAID = {
    "s-fig4": "shortcut",  # the paper names the two solvers and gives no numbers
    "s-eq-one": "shortcut",
    "s-lstm-width": "LSTM",  # up to length 100 the paper says nothing
}


@cache
def paper(name: str) -> Study:
    return study_of(name, Settings(budget="paper"))


def table(name: str) -> Published:
    found = published(name)
    assert found is not None
    return found


def test_no_name_has_no_table() -> None:
    assert published(None) is None


def test_a_name_without_a_table_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="no table s_fig9"):
        published("s_fig9")


@pytest.mark.parametrize(
    ("name", "row", "column", "number"),
    [
        ("s_fig2_index_lookup", "LSTM-(3,256)", 50, 0.498),
        ("s_fig2_index_lookup", "TF-(1,64)", 400, 0.999),
        ("s_fig3_mamba_width", "Mamba-(2,1024)", 75, 0.978),
        ("s_fig4_eq_random", "RetNet-(2,256)", 200, 0.509),
        ("s_fig4_eq_ncp", "DSS-(2,64)", 600, 0.001),
        ("s_dss_wide", "DSS-(2,64)", 400, 0.925),
        ("w_istree_cot", "Hybrid 0.5M", 128, 0.770),
        ("w_hotpot", "RNN, gold-last", 8, 0.791),
        ("w_hotpot", "RNN, random", 8, 0.531),
    ],
)
def test_numbers_are_shares_to_the_last_bit(name: str, row: str, column: int, number: float) -> None:
    assert table(name).number(row, column) == number


@pytest.mark.parametrize(
    ("name", "row", "column", "words"),
    [
        ("s_fig2_dyck", "TF-(1,256)", 100, "near-perfect"),
        ("s_fig2_dyck", "TF-(1,256)", 200, "struggles"),
        ("s_fig2_dyck", "Mamba-(1,64)", 400, "near-perfect"),
        ("s_eq_one", "LinTF-(2,256)", 400, "near-perfect"),
        ("s_eq_one", "shortcut: symbol counts", 400, ""),
        ("s_lstm_width", "LSTM-(2,1024)", 200, "chance"),
        ("s_lstm_width", "LSTM-(2,1024)", 100, ""),
        ("s_dss_wide", "DSS-(2,256)", 800, "solved"),
        ("s_dss_wide", "DSS-(2,64)", 800, ""),
        ("w_istree_direct", "Mamba 2M", 64, "48–52 %"),
        ("w_istree_retrieval", "Transformer 0.5M", 16, "≥ 99.5 %"),
        ("s_fig2_index_lookup", "TF-(1,64)", 400, ""),
    ],
)
def test_words_are_about_rows_and_a_range_of_columns(name: str, row: str, column: int, words: str) -> None:
    assert table(name).words(row, column) == words


@pytest.mark.parametrize("name", TABLES)
def test_a_table_says_where_it_stands_and_how_it_was_had(name: str) -> None:
    found = table(name)
    assert found.source.startswith(f"{name[0].upper()}, ")
    assert found.source.endswith(".")
    assert all(0 <= number <= 1 for number in found.numbers.values())
    had = ("printed", "words") if name.startswith("s_") else ("±0.5 points", "all models together")
    assert any(word in found.source for word in had)
    assert found.numbers or found.said
    assert ("words" in found.source or "together" in found.source) == bool(found.said)


def test_every_file_of_numbers_belongs_to_a_table() -> None:
    names = {file.name.removesuffix(".csv") for file in DATA.iterdir() if file.name.endswith(".csv")}
    assert names - {"tables", "said", "rates", "gains"} <= set(TABLES)
    said = csv.DictReader((DATA / "said.csv").read_text("utf-8").splitlines())
    assert {line["table"] for line in said} <= set(TABLES)


@pytest.mark.slow
def test_each_number_of_a_paper_stands_in_exactly_one_cell() -> None:
    used: Counter[tuple[str, str, int]] = Counter()
    for study in map(paper, STUDIES):
        for panel in study.panels:
            if panel.published is not None and panel.published != "s_dss_wide":
                numbers = table(panel.published).numbers
                used.update(
                    (panel.published, cell.row, cell.column)
                    for cell in panel.cells
                    if (cell.row, cell.column) in numbers
                )
    printed = {
        (name, *place)
        for name in TABLES
        if name not in {"s_dss_wide", "w_hotpot"}
        for place in table(name).numbers
    }
    assert len(printed) == 4 * 30 + 36
    assert used == Counter(printed)


OURS = ("hard-negatives", "phone-book")
"""Panels of which the papers show nothing."""


def test_hotpot_has_a_number_for_each_order_model_and_count() -> None:
    places = {
        (f"{model}, {order}", n)
        for order in ("random", "gold-last")
        for model in ("Transformer", "Hybrid", "RNN")
        for n in (2, 4, 6, 8)
    }
    assert set(table("w_hotpot").numbers) == places


@pytest.mark.parametrize("name", [name for name in STUDIES if name != "s-eq-depth"])
def test_every_cell_has_the_papers_number_or_words(name: str) -> None:
    for panel in paper(name).panels:
        if panel.name in OURS:
            continue
        assert panel.published is not None
        found = table(panel.published)
        for cell in panel.cells:
            number, words = found.number(cell.row, cell.column), found.words(cell.row, cell.column)
            assert number is None or not words
            if number is None and not words:
                assert cell.row.startswith(UNSAID[name])
                assert name != "s-lstm-width" or cell.column <= 100


def test_what_is_said_fits_some_cell() -> None:
    cells = {
        (panel.published, cell.row, cell.column)
        for study in map(paper, STUDIES)
        for panel in study.panels
        for cell in panel.cells
    }
    for name in TABLES:
        for said in table(name).said:
            assert any(of == name and said.is_about(row, column) for of, row, column in cells), said


@pytest.mark.parametrize("name", STUDIES)
def test_at_the_smallest_sizes_the_papers_have_nothing_to_say(name: str) -> None:
    for panel in study_of(name).panels:
        found = published(panel.published)
        for cell in panel.cells if found is not None else ():
            assert found is not None
            assert found.number(cell.row, cell.column) is None
            assert found.words(cell.row, cell.column) == ""
