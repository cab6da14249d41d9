"""Ours beside the paper's, as text."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from itertools import permutations

import pytest

from separatrix.experiments import study_of
from separatrix.experiments.cells import Measured, Study
from separatrix.experiments.outcomes import PanelOutcome, StudyOutcome, outcome_of
from separatrix.experiments.protocols import Settings
from separatrix.experiments.tables import (
    CSV_COLUMNS,
    csv_text,
    headings_of,
    lines_below,
    markdown,
    rows_of,
    separations_text,
)
from separatrix.training.recipes import Schedule
from tests.experiments.fakes import cell_of, fake_run, known, only, outcome_with

PAPER, QUICK = Settings(budget="paper"), Settings(budget="quick")
LOOKUP = only(study_of("s-fig2", PAPER), "index-lookup")
TF, MAMBA, LSTM, DSS = "TF-(1,64)", "Mamba-(6,256)", "LSTM-(3,256)", "DSS-(6,256)"
LINTF = "LinTF-(6,256)"
NONE = "0 keep their order here with disjoint intervals"


def row_at(panel: PanelOutcome, model: str, column: int) -> tuple[str, ...]:
    (found,) = (row for row in rows_of(panel) if row[:2] == (model, f"{column:,}"))
    return found


def narrowed(study: Study, rows: tuple[str, ...], columns: tuple[int, ...]) -> Study:
    (panel,) = study.panels
    cells = tuple(cell for cell in panel.cells if cell.row in rows and cell.column in columns)
    return replace(study, panels=(replace(panel, cells=cells),))


def test_a_cell_with_all_its_steps() -> None:
    (panel,) = outcome_with(LOOKUP, {(MAMBA, 100): 905, (LSTM, 100): 170}).panels
    headings = ("model", "N", "ours", "paper", "difference", "interval", "steps", "learning rate")
    assert headings_of(panel) == headings
    assert row_at(panel, MAMBA, 100) == (
        MAMBA,
        "100",
        "90.5",
        "90.2",
        "+0.3",
        "88.5–92.2",
        "250,000 of 250,000",
        "0.01",
    )
    assert row_at(panel, LSTM, 100)[4] == "−1.2"


def test_a_cell_that_was_not_run_or_is_on_its_way() -> None:
    begun = fake_run(cell_of(LOOKUP, "index-lookup", TF, 400).jobs[0], status="running", steps=100)
    (panel,) = outcome_of(LOOKUP, known([begun]), measured={}).panels
    assert row_at(panel, LSTM, 50) == (LSTM, "50", "not run", "49.8", "–", "–", "–", "–")
    assert row_at(panel, TF, 400) == (TF, "400", "under way", "99.9", "–", "–", "–", "–")


def test_a_solved_cell_says_when() -> None:
    job = cell_of(LOOKUP, "index-lookup", TF, 100).jobs[0]
    run = fake_run(job, 3, correct=1000, steps=4500, solved_at=4500)
    (panel,) = outcome_of(LOOKUP, known([run]), measured={}).panels
    assert row_at(panel, TF, 100)[2:] == (
        "100.0",
        "100.0",
        "0.0",
        "99.6–100.0",
        "solved at 4,500",
        "0.0005",
    )


def test_steps_are_of_those_that_the_cell_asks_for() -> None:
    """A short run in the paper's table is of the paper's steps; a long one in a quick table is of its own."""
    (short,) = cell_of(study_of("s-fig2", QUICK), "index-lookup", MAMBA, 50).jobs
    (long,) = cell_of(LOOKUP, "index-lookup", MAMBA, 50).jobs
    (papers,) = outcome_of(LOOKUP, known([fake_run(short, correct=700)]), measured={}).panels
    assert row_at(papers, MAMBA, 50)[6] == f"{short.training.steps:,} of 250,000"
    quick = only(study_of("s-fig2", QUICK), "index-lookup")
    dropped = fake_run(long, correct=700, status="dropped", steps=125_000)
    (quicks,) = outcome_of(quick, known([dropped]), measured={}).panels
    assert row_at(quicks, MAMBA, 50)[6] == "125,000 of 250,000"


def test_words_stand_where_the_paper_has_no_number() -> None:
    dyck = only(study_of("s-fig2", PAPER), "dyck")
    (panel,) = outcome_with(dyck, {("TF-(1,256)", 200): 700}).panels
    assert row_at(panel, "TF-(1,256)", 200)[2:5] == ("70.0", "struggles", "–")
    depth = study_of("s-eq-depth", PAPER)
    unsaid = outcome_with(depth, {("1 layer", 64): 700}).panels[0]
    assert headings_of(unsaid)[1] == "width"
    assert row_at(unsaid, "1 layer", 64)[2:5] == ("70.0", "–", "–")


def test_what_is_measured_has_neither_steps_nor_rate() -> None:
    study, row = only(study_of("s-fig4", PAPER), "eq-random"), "shortcut: symbol counts"
    measured = {("eq-random", row, 20): Measured(right=450, examples=500)}
    (panel,) = outcome_with(study, {}, measured=measured).panels
    assert row_at(panel, row, 20) == (row, "20", "90.0", "–", "–", "87.1–92.3", "–", "–")


def test_rows_come_model_by_model_with_growing_columns() -> None:
    (panel,) = outcome_with(LOOKUP, {}).panels
    shuffled = replace(panel, cells=panel.cells[::-1])
    assert rows_of(shuffled) == rows_of(panel)
    assert [row[1] for row in rows_of(panel)[:6]] == ["20", "50", "100", "200", "400", "20"]


@pytest.mark.parametrize(
    ("right", "rest"),
    [
        ({}, "0 keep their order here with disjoint intervals, and 2 wait for runs."),
        ({MAMBA: 900, DSS: 400}, "1 keeps its order here with disjoint intervals, and 1 waits for runs."),
        ({MAMBA: 900, DSS: 400, TF: 900}, "2 keep their order here with disjoint intervals."),
        (
            {MAMBA: 410, DSS: 400},
            f"{NONE}, 1 does not ({MAMBA} over {DSS} at N = 100), and 1 waits for runs.",
        ),
        (
            {MAMBA: 300, DSS: 400, TF: 390},
            f"{NONE}, 2 do not ({MAMBA} over {DSS} at N = 100; {TF} over {DSS} at N = 100).",
        ),
    ],
)
def test_which_pairs_keep_their_order(right: dict[str, int], rest: str) -> None:
    study = narrowed(LOOKUP, (MAMBA, DSS, TF), (20, 100))
    (panel,) = outcome_with(study, {(row, 100): count for row, count in right.items()}).panels
    text = f"Of the 2 pairs of models that the paper holds more than 10 points apart, {rest}"
    assert separations_text(panel) == text
    assert text in lines_below(panel)


def test_pairs_whose_better_one_has_steps_left_are_told_apart() -> None:
    study = narrowed(LOOKUP, (MAMBA, DSS, TF), (20, 100))
    (panel,) = outcome_with(study, {(MAMBA, 100): 300, (DSS, 100): 400, (TF, 100): 390}).panels
    begun = replace(
        panel, cells=tuple(replace(one, full_budget=one.cell.row != MAMBA) for one in panel.cells)
    )
    assert separations_text(begun).endswith(
        f"{NONE}, 1 does not ({TF} over {DSS} at N = 100), 1 does not yet, the better one having steps left."
    )


def test_one_pair_and_none() -> None:
    (one,) = outcome_with(narrowed(LOOKUP, (MAMBA, DSS), (100,)), {}).panels
    assert separations_text(one).startswith("Of the 1 pair of models")
    (none,) = outcome_with(narrowed(LOOKUP, (MAMBA, DSS), (20,)), {}).panels
    assert separations_text(none) == "The paper gives no two models more than 10 points apart here."
    assert lines_below(none) == ["Paper: S, figure 2: printed, to a tenth of a per cent."]


def test_cells_far_from_the_paper_and_notes_are_named() -> None:
    (panel,) = outcome_with(LOOKUP, {(MAMBA, 100): 800, (LSTM, 50): 600, (TF, 20): 1000}).panels
    cells = tuple(replace(one, note="odd") if one.cell.row == TF else one for one in panel.cells)
    lines = lines_below(replace(panel, cells=cells))
    far = f"{LSTM} at N = 50; {MAMBA} at N = 100"
    assert f"More than 5 points from the paper with all steps taken: {far}." in lines
    assert lines[-1] == f"{TF}: odd"
    some = tuple(replace(one, note="odd" if one.cell.column in (20, 400) else "") for one in panel.cells)
    *others, last = panel.panel.rows
    assert f"{', '.join(others)} and {last} at N = 20, 400: odd" in lines_below(replace(panel, cells=some))
    two = tuple(
        replace(
            one, note="odd" if (one.cell.row, one.cell.column) in {(TF, 20), (DSS, 20), (LSTM, 50)} else ""
        )
        for one in panel.cells
    )
    assert f"{LSTM} at N = 50; {DSS} and {TF} at N = 20: odd" in lines_below(replace(panel, cells=two))


def test_how_the_best_began_is_named_where_it_was_chosen() -> None:
    found = {(TF, 20): 1000, (TF, 50): 990, (MAMBA, 20): 990}
    (panel,) = outcome_with(narrowed(LOOKUP, (TF, MAMBA), (20, 50, 100)), found).panels
    assert lines_below(panel)[-1] == f"{TF} at N = 20, 50: the best run's weights began by fan-in"


def test_a_best_run_without_positions_is_named() -> None:
    (panel,) = outcome_with(narrowed(LOOKUP, (TF, LINTF), (20, 50)), {(TF, 20): 1, (LINTF, 50): 990}).panels
    assert f"{LINTF} at N = 50: the best run has no table of positions" in lines_below(panel)


@pytest.mark.parametrize(
    ("row", "schedule", "clip", "notes"),
    [
        (MAMBA, "wsd", 0.0, []),
        (MAMBA, "constant", 0.0, ["rate is constant"]),
        (MAMBA, "wsd", 0.5, ["gradients are cut to 0.5"]),
        (MAMBA, "cosine", 1.0, ["rate falls along a cosine and its gradients are cut to 1"]),
        (TF, "cosine", 1.0, []),
        (TF, "wsd", 0.0, ["rate stays until the last fifth of the steps and its gradients are not cut"]),
    ],
)
def test_a_best_run_that_was_trained_otherwise_is_named(
    row: str, schedule: Schedule, clip: float, notes: list[str]
) -> None:
    study = narrowed(LOOKUP, (row,), (20,))
    (job,) = cell_of(study, "index-lookup", row, 20).jobs
    trained = replace(
        job,
        training=replace(job.training, clip=clip),
        members=tuple(replace(member, schedule=schedule) for member in job.members),
    )
    found = outcome_of(study, known([fake_run(trained, correct=900)]), measured={})
    below = [line for line in lines_below(found.panels[0]) if "rate" in line or "gradients" in line]
    assert below == [f"{row} at N = 20: the best run's {note}" for note in notes]


def test_markdown() -> None:
    study = narrowed(LOOKUP, (MAMBA, DSS), (100,))
    study = replace(study, panels=(replace(study.panels[0], said="As a figure, too."),))
    assert markdown(outcome_with(study, {(MAMBA, 100): 905})) == (
        "## s-fig2: Index lookup and bounded Dyck across lengths\n\n"
        f"S, figure 2; budget paper. {study.claim}\n\n"
        "### Index lookup\n\n"
        "| model | N | ours | paper | difference | interval | steps | learning rate |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        "| DSS-(6,256) | 100 | not run | 39.6 | – | – | – | – |\n"
        "| Mamba-(6,256) | 100 | 90.5 | 90.2 | +0.3 | 88.5–92.2 | 250,000 of 250,000 | 0.01 |\n\n"
        "Paper: S, figure 2: printed, to a tenth of a per cent.\n\n"
        "As a figure, too.\n\n"
        "Of the 1 pair of models that the paper holds more than 10 points apart, "
        f"{NONE}, and 1 waits for runs.\n"
    )


def test_a_bar_in_a_name_does_not_end_a_column_of_markdown() -> None:
    (panel,) = narrowed(LOOKUP, (TF,), (100,)).panels
    study = replace(LOOKUP, panels=(replace(panel, cells=(replace(panel.cells[0], row="a|b"),)),))
    assert "| a\\|b | 100 |" in markdown(outcome_with(study, {}))


def read(outcome: StudyOutcome) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(outcome)), strict=True))


def test_csv() -> None:
    run = fake_run(
        cell_of(LOOKUP, "index-lookup", TF, 100).jobs[0],
        3,
        correct=1999,
        examples=2000,
        steps=4500,
        solved_at=4500,
    )
    outcome = outcome_of(narrowed(LOOKUP, (TF, LSTM), (100,)), known([run]), measured={})
    empty, done = read(outcome)
    assert tuple(done) == CSV_COLUMNS
    assert done == {
        "experiment": "s-fig2",
        "budget": "paper",
        "panel": "index-lookup",
        "model": TF,
        "column": "N",
        "at": "100",
        "state": "done",
        "ours_percent": "99.95",
        "paper_percent": "100.00",
        "paper_said": "",
        "difference_points": "-0.05",
        "low_percent": "99.72",
        "high_percent": "99.99",
        "steps": "4500",
        "steps_asked": "250000",
        "solved_at": "4500",
        "learning_rate": "0.0005",
        "runs": "1",
        "run": run.key,
        "note": "",
    }
    said = {"experiment", "budget", "panel", "model", "column", "at", "state", "paper_percent", "runs"}
    assert {name for name, value in empty.items() if value} == said
    assert (empty["state"], empty["paper_percent"], empty["runs"]) == ("not run", "18.20", "0")


def test_csv_has_no_minus_nought() -> None:
    cell = cell_of(LOOKUP, "index-lookup", TF, 100)
    run = fake_run(cell.jobs[0], correct=99_999, examples=100_000)
    (found,) = read(outcome_of(narrowed(LOOKUP, (TF,), (100,)), known([run]), measured={}))
    assert found["difference_points"] == "0.00"


def test_the_order_of_the_runs_does_not_show() -> None:
    job = cell_of(LOOKUP, "index-lookup", TF, 100).jobs[0]
    runs = [fake_run(job, number, correct=950) for number in range(3)]
    outcomes = [outcome_of(LOOKUP, known(order), measured={}) for order in permutations(runs)]
    assert len({markdown(outcome) for outcome in outcomes}) == 1
    assert len({csv_text(outcome) for outcome in outcomes}) == 1


def test_a_note_stands_once_however_many_cells_have_it() -> None:
    (panel,) = outcome_with(narrowed(LOOKUP, (TF, LSTM), (100,)), {}).panels
    first, second = panel.cells
    assert lines_below(replace(panel, cells=(replace(first, note="odd"), second)))[-1].endswith(
        "N = 100: odd"
    )
    both = replace(panel, cells=tuple(replace(one, note="odd") for one in panel.cells))
    assert [line for line in lines_below(both) if "odd" in line] == ["Every cell: odd"]
