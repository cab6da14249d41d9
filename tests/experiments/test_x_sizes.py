"""Lengths and widths beyond the papers': where they end, and what a quick look takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from separatrix.experiments import study_of
from separatrix.experiments.outcomes import Known, outcome_of
from separatrix.experiments.projecting import projection_of
from separatrix.experiments.protocols import Settings
from separatrix.experiments.tables import headings_of, lines_below, markdown

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


@pytest.mark.parametrize(("name", "most"), [("x-lengths", 25), ("x-widths", 10)])
def test_a_quick_look_takes_minutes(name: str, most: int) -> None:
    projection = projection_of(study_of(name, QUICK))
    assert projection.basis["not measured"] == 0
    assert 3 < projection.minutes < most


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x-lengths", "x-widths", "x-precision", "x-attention"])
def test_nothing_is_said_of_a_paper_that_there_is_not(name: str) -> None:
    study = study_of(name, PAPER)
    assert (study.work, study.source) == (None, "beyond the papers")
    outcome = outcome_of(study, Known(runs=(), curves={}, decoded={}), measured={})
    assert "published" not in markdown(outcome)
    for panel in outcome.panels:
        assert not {"paper", "difference"} & set(headings_of(panel))
        assert not any("paper" in line.casefold() for line in lines_below(panel))
        assert not panel.separations()
