"""`separatrix reproduce` with series that no training makes: shown, kept, and wide tables cut to fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from separatrix.cli import experimenting
from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import Cell, Measured, Panel, Series, Study
from separatrix.experiments.measurements import KEPT, read_series
from separatrix.experiments.protocols import Settings
from tests.cli.running import run
from tests.cli.small_experiments import narrow, reproduce, settled

COLUMNS = tuple(range(3, 63, 2))
RIGHT = {column: 100 if column == COLUMNS[-1] else column for column in COLUMNS}


def counted(settings: Settings) -> Study:
    """One row of thirty columns, with a long name."""
    series = Series(
        question={"mine": settings.budget},
        measure=lambda: {column: Measured(right=right, examples=100) for column, right in RIGHT.items()},
    )
    cells = tuple(Cell(row="a name that is rather long for a row", column=c, series=series) for c in COLUMNS)
    panel = Panel(name="p", title="P", column_name="bits", cells=cells, wide=True)
    return Study(
        name="mine", title="M", work=None, where="ours", claim="C", budget=settings.budget, panels=(panel,)
    )


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store of a test."""
    store = settled(tmp_path, monkeypatch)
    monkeypatch.setitem(EXPERIMENTS._entries, "mine", counted)
    return store


def test_a_wide_table_is_cut_into_as_many_as_fit() -> None:
    text = reproduce("mine").out
    narrow(text)
    found = [word for line in text.splitlines() for word in line.split() if word.isdigit()]
    assert [found.count(str(column)) for column in COLUMNS[:-1]] == [2] * (
        len(COLUMNS) - 1
    )  # in the head and below
    assert text.count("model") == 3


def test_series_are_kept_and_shown_from_where_they_were_kept(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = reproduce("mine", "--keep", "results", "--json").answer["kept"]
    [one] = read_series(Path(kept)).values()
    assert one.by_column[5].right == 5
    assert not (Path(kept) / "runs.parquet").exists()
    shown = reproduce("mine", "--show", "--store", "elsewhere", "--json").answer
    assert {cell["state"] for cell in shown["panels"][0]["cells"]} == {"not run"}
    monkeypatch.setattr(experimenting, "results_folder", lambda: Path("results"))
    shown = reproduce("mine", "--show", "--store", "elsewhere", "--json").answer
    assert [cell["accuracy"] for cell in shown["panels"][0]["cells"]] == [r / 100 for r in RIGHT.values()]
    assert shown["source"] == "ours"
    (Path("results") / "mine" / KEPT).write_text("{")
    damaged = run("reproduce", "mine", "--show", "--store", "elsewhere")
    assert damaged.code == 0
    assert "is of no use" in damaged.err
    assert "left out" in damaged.err


def test_without_a_gpu_what_trains_nothing_is_not_refused() -> None:
    assert reproduce("mine", "--budget", "paper", "--json").answer["budget"] == "paper"
    plan = reproduce("mine", "--plan", "--json").answer
    assert (plan["cells"], plan["measured"], plan["jobs"]) == (30, 30, 0)
