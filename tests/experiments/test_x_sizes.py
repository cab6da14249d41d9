"""Lengths, widths, positions and symbols beyond the papers': what there is, and what a quick look takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from separatrix.cli.experimenting import everything_known
from separatrix.experiments import study_of
from separatrix.experiments.cells import chosen
from separatrix.experiments.outcomes import Known, outcome_of
from separatrix.experiments.projecting import projection_of
from separatrix.experiments.protocols import Settings
from separatrix.experiments.tables import headings_of, lines_below, markdown
from separatrix.tasks.equality import Equality
from tests.markdown_tables import section_of, tables_in

QUICK, PAPER = Settings(budget="quick"), Settings(budget="paper")


def test_lengths_go_to_3200_and_begin_where_the_paper_ends() -> None:
    (panel,) = study_of("x-lengths", PAPER).panels
    assert panel.columns == (400, 800, 1600, 3200)
    assert panel.rows == ("TF-(1,64)", "TF-(2,64)", "Mamba-(2,64)", "LSTM-(1,64)")
    for cell in panel.cells:
        (job,) = cell.jobs
        assert (job.task.params["n"], job.task.params["alphabet"]) == (cell.column, 64)
    theirs = next(
        job for job in study_of("s-fig2", PAPER).jobs
        if job.model.name == "transformer" and job.built_task.n == 400
    )  # fmt: skip
    ours = panel.cells[0].jobs[0]
    assert (ours.members, ours.model) == (theirs.members, theirs.model)
    assert ours.training == replace(theirs.training, batch=512, steps=100_000)
    batches = {cell.row: cell.jobs[0].training.batch for cell in panel.cells}
    assert batches == {"TF-(1,64)": 512, "TF-(2,64)": 512, "Mamba-(2,64)": 64, "LSTM-(1,64)": 64}


def test_widths_go_to_2048() -> None:
    mamba, lstm = study_of("x-widths", PAPER).panels
    assert [panel.rows for panel in (mamba, lstm)] == [
        ("Mamba-(2,1024)", "Mamba-(2,2048)"),
        ("LSTM-(2,1024)", "LSTM-(2,2048)"),
    ]
    assert {cell.jobs[0].model.params["width"] for cell in mamba.cells} == {1024, 2048}


@pytest.mark.parametrize("budget", [QUICK, PAPER])
def test_of_each_linear_transformer_there_is_one_without_positions(budget: Settings) -> None:
    for panel, sizes in zip(study_of("x-positions", budget).panels, ("(6,256)", "(2,256)"), strict=True):
        names = [f"LinTF-{size}" for size in ("(2,64)", sizes)]
        assert panel.rows == tuple(row for name in names for row in (name, f"{name}, no positions"))
        jobs = {(cell.row, cell.column): cell.jobs for cell in panel.cells}
        assert len(jobs) == 4 * len(panel.columns)
        for name in names:
            for column in panel.columns:
                (placed,), (free,) = jobs[name, column], jobs[f"{name}, no positions", column]
                assert "positions" not in placed.model.params  # a table, as always
                assert free.model.params == {**placed.model.params, "positions": "none"}
                assert replace(free, model=placed.model) == placed


def test_runs_of_the_figures_count_where_the_model_is_theirs() -> None:
    ours, theirs = (study_of(name, PAPER).panels[0].cells for name in ("x-positions", "s-fig2"))
    asked = {(str(cell.jobs[0].task), str(cell.jobs[0].model)): cell for cell in theirs}
    found = {
        (cell.row, cell.column) for cell in ours if (str(cell.jobs[0].task), str(cell.jobs[0].model)) in asked
    }
    assert found == {("LinTF-(6,256), no positions", n) for n in (20, 50, 100, 200)}


def test_of_each_model_there_is_one_for_every_number_of_symbols() -> None:
    for panel in study_of("x-symbols", PAPER).panels:
        assert panel.columns == (2, 16, 128, 1024)
        assert len(panel.rows) == 6
        for cell in panel.cells:
            (job,) = cell.jobs
            asked = job.built_task
            assert isinstance(asked, Equality)
            assert (f"n-{asked.n}", asked.form, asked.symbols) == (panel.name, "ncp", cell.column)
    small = study_of("x-symbols", Settings(budget="smoke"))
    assert [panel.columns for panel in small.panels] == [(2, 8)]


def test_with_the_papers_symbols_they_are_what_the_figure_trains() -> None:
    theirs = {(cell.row, cell.column): cell.jobs for cell in study_of("s-fig4", PAPER).panels[1].cells}
    for n in (100, 200, 400):
        ours = chosen(study_of("x-symbols", PAPER), panels=[f"n-{n}"], columns=[1024]).cells
        assert {cell.row: cell.jobs for cell in ours} == {
            row: jobs for (row, column), jobs in theirs.items() if column == n
        }


@pytest.mark.parametrize(
    ("name", "most"), [("x-lengths", 25), ("x-widths", 10), ("x-positions", 15), ("x-symbols", 15)]
)
def test_a_quick_look_takes_minutes(name: str, most: int) -> None:
    projection = projection_of(study_of(name, QUICK))
    assert projection.basis["not measured"] == 0
    assert 3 < projection.minutes < most


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["x-lengths", "x-widths", "x-positions", "x-symbols", "x-precision", "x-attention"]
)
def test_nothing_is_said_of_a_paper_that_there_is_not(name: str) -> None:
    study = study_of(name, PAPER)
    assert (study.work, study.source) == (None, "beyond the papers")
    outcome = outcome_of(study, Known(runs=(), curves={}, decoded={}), measured={})
    assert "published" not in markdown(outcome)
    for panel in outcome.panels:
        assert not {"paper", "difference"} & set(headings_of(panel))
        assert not any("paper" in line.casefold() for line in lines_below(panel))
        assert not panel.separations()


def test_what_the_page_says_of_symbols_is_what_the_runs_have() -> None:
    (rows,) = tables_in(section_of("docs/experiments.md", "### Symbols (`x-symbols`)"))
    study = chosen(study_of("x-symbols", PAPER), panels=["n-20"])
    known = {
        (one.cell.row, one.cell.column): one
        for one in outcome_of(study, everything_known(None), measured={}).cells
    }
    labels = {"Transformer": "TF", "linear Transformer": "LinTF"}
    said = {
        (f"{labels.get(row[head], row[head])}-(2,64)", int(column.split()[0].replace(",", ""))): words
        for row in rows
        for head, *columns in [list(row)]
        for column in columns
        for words in [row[column]]
    }
    assert said.keys() == known.keys()
    for place, words in said.items():
        best = known[place].best
        if best is None:
            assert words == "not run", place
        elif best.solved_at is not None:
            assert words == f"{best.solved_at:,}", place
        else:
            assert best.steps == 20_000
            assert best.correct is not None
            assert words == f"{100 * best.correct / 5000:.1f} %", place
