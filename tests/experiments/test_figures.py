"""Figures of a study: the same bytes on every run in all three formats, and no number that was not had."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from separatrix.errors import InvalidFile
from separatrix.experiments import study_of
from separatrix.experiments.cells import Measured, chosen
from separatrix.experiments.figures import FORMATS, figures_of, write_drawing, write_figures
from separatrix.experiments.outcomes import StudyOutcome, outcome_of
from separatrix.experiments.protocols import Settings
from separatrix.store import Point
from tests.experiments.fakes import cell_of, climb, fake_run, known, only, outcome_with

PAPER = Settings(budget="paper")
LOOKUP = only(study_of("s-fig2", PAPER), "index-lookup")
TF, MAMBA, LSTM = "TF-(1,64)", "Mamba-(6,256)", "LSTM-(3,256)"
NAMES = ("s-fig2-index-lookup", "s-fig2-index-lookup-curves")
STARTS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def small() -> StudyOutcome:
    """Two models at two lengths, one cell without a run."""
    study = chosen(LOOKUP, rows=(TF, LSTM), columns=(100, 200))
    return outcome_with(study, {(TF, 200): 1000, (LSTM, 200): 90, (LSTM, 100): 180}, curves=True)


def texts(outcome: StudyOutcome, name: str) -> list[str]:
    (axes,) = figures_of(outcome)[name].axes
    return [text.get_text() for text in axes.texts]


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_figures(small(), tmp_path_factory.mktemp("figures") / "new" / "here")


@pytest.mark.slow
def test_every_figure_is_written_in_all_formats(written: list[Path]) -> None:
    assert [path.name for path in written] == [f"{name}.{kind}" for name in NAMES for kind in FORMATS]
    assert {path.parent for path in written} == {written[0].parent}
    assert written[0].parent.parts[-2:] == ("new", "here")
    for path in written:
        assert path.read_bytes().startswith(STARTS[path.suffix[1:]])


@pytest.mark.slow
def test_the_same_bytes_again(written: list[Path], tmp_path: Path) -> None:
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 20.0, "pdf.fonttype": 3}):
        write_figures(small(), tmp_path)
    assert hashes(tmp_path) == hashes(written[0].parent)


@pytest.mark.slow
def test_the_same_bytes_in_another_process(written: list[Path], tmp_path: Path) -> None:
    """With other hashes of strings, other settings of matplotlib, in another zone of time."""
    (tmp_path / "matplotlibrc").write_text("axes.facecolor: red\nfont.size: 20\npdf.fonttype: 3\n")
    code = (
        "from pathlib import Path\n"
        "from separatrix.experiments.figures import write_figures\n"
        "from tests.experiments.test_figures import small\n"
        f"write_figures(small(), Path({str(tmp_path / 'other')!r}))\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "MATPLOTLIBRC": str(tmp_path), "TZ": "Asia/Tokyo"}
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root, env=environment)
    assert hashes(tmp_path / "other") == hashes(written[0].parent)


@pytest.mark.slow
def test_no_file_tells_its_time_or_the_version_that_made_it(written: list[Path]) -> None:
    for path in written:
        content = path.read_bytes().lower()
        for word in (b"creationdate", b"moddate", b"dc:date", b"software", mpl.__version__.encode()):
            assert word not in content, (path.name, word)


@pytest.mark.slow
def test_letters_of_a_pdf_are_of_a_kind_that_journals_take(written: list[Path]) -> None:
    for path in written:
        if path.suffix == ".pdf":
            content = path.read_bytes()
            assert b"/CIDFontType2" in content
            assert b"/Type3" not in content


def test_settings_of_matplotlib_are_left_as_they_were() -> None:
    with mpl.rc_context({"font.size": 20.0}):
        before = dict(mpl.rcParams)
        figures_of(small())
        assert dict(mpl.rcParams) == before


def test_what_has_steps_left_is_not_bold_and_that_is_said() -> None:
    whole = small()
    (panel,) = whole.panels
    begun = tuple(replace(one, full_budget=one.cell.column == 100) for one in panel.cells)
    for outcome, bold in ((whole, True), (replace(whole, panels=(replace(panel, cells=begun),)), False)):
        figure = figures_of(outcome)["s-fig2-index-lookup"]
        (axes,) = figure.axes
        weights = {text.get_text(): text.get_fontweight() for text in axes.texts}
        assert (weights["18.0"], weights["9.0"]) == ("bold", "bold" if bold else "normal")
        said = any("Not bold: has steps left." in text.get_text() for text in figure.findobj(mpl.text.Text))
        assert said != bold


def test_ours_is_large_and_the_papers_small() -> None:
    (axes,) = figures_of(small())["s-fig2-index-lookup"].axes
    sizes = {text.get_text(): float(text.get_fontsize()) for text in axes.texts}
    assert sizes["9.0"] > sizes["9.4"]
    assert texts(small(), "s-fig2-index-lookup") == [
        *("18.0", "18.2", "9.0", "9.4"),
        *("not run", "100.0", "100.0", "100.0"),
    ]
    assert [label.get_text() for label in axes.get_yticklabels()] == [LSTM, TF]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["100", "200"]


def test_what_was_not_run_is_hatched_and_says_so() -> None:
    job = cell_of(LOOKUP, "index-lookup", TF, 200).jobs[0]
    study = chosen(LOOKUP, rows=(TF,), columns=(100, 200))
    outcome = outcome_of(study, known([fake_run(job, status="running", steps=5)]), measured={})
    assert texts(outcome, "s-fig2-index-lookup") == ["not run", "100.0", "under way", "100.0"]
    (axes,) = figures_of(outcome)["s-fig2-index-lookup"].axes
    assert sum(bool(patch.get_hatch()) for patch in axes.patches) == 2
    (axes,) = figures_of(small())["s-fig2-index-lookup"].axes
    assert sum(bool(patch.get_hatch()) for patch in axes.patches) == 1


def test_a_place_without_a_cell_stays_empty() -> None:
    outcome = small()
    (panel,) = outcome.panels
    kept = [one for one in panel.cells if (one.cell.row, one.cell.column) != (TF, 100)]
    without = replace(
        panel, panel=replace(panel.panel, cells=tuple(one.cell for one in kept)), cells=tuple(kept)
    )
    assert "not run" not in texts(replace(outcome, panels=(without,)), "s-fig2-index-lookup")


def test_words_where_the_paper_has_no_number() -> None:
    study = chosen(study_of("s-fig2", PAPER), panels=("dyck",), rows=("TF-(1,256)",), columns=(200,))
    assert texts(outcome_with(study, {}), "s-fig2-dyck") == ["not run", "struggles"]


def test_curves_are_of_the_column_that_the_paper_shows() -> None:
    figure = figures_of(small())["s-fig2-index-lookup-curves"]
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "Index lookup, N = 200"
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert set(lines) == {LSTM, TF}
    # Of five points one was not looked at.
    looks = [[50_000, 20], [100_000, 40], [200_000, 80], [250_000, 100]]
    assert np.asarray(lines[TF].get_xydata()).tolist() == looks
    assert lines[TF].get_color() != lines[LSTM].get_color()


def test_models_without_a_curve_are_named() -> None:
    study = chosen(LOOKUP, rows=(TF, LSTM, MAMBA))
    figure = figures_of(outcome_with(study, {(TF, 200): 1000}, curves=True))["s-fig2-index-lookup-curves"]
    assert f"Without a curve: {LSTM}, {MAMBA}." in " ".join(figure.get_supxlabel().split())


def test_where_nothing_was_looked_at_there_are_no_curves() -> None:
    assert list(figures_of(outcome_with(LOOKUP, {(TF, 200): 1000}))) == ["s-fig2-index-lookup"]
    assert list(figures_of(outcome_with(LOOKUP, {(TF, 100): 1000}, curves=True))) == ["s-fig2-index-lookup"]


@pytest.mark.parametrize(("solved_at", "scale"), [(5_000, "log"), (100_000, "linear")])
def test_a_run_that_was_done_soon_is_no_dot(solved_at: int, scale: str) -> None:
    jobs = [cell_of(LOOKUP, "index-lookup", row, 200).jobs[0] for row in (TF, LSTM)]
    runs = [
        fake_run(jobs[0], correct=1000, steps=solved_at, solved_at=solved_at),
        fake_run(jobs[1], correct=90),
    ]
    curves = {run.key: climb(run) for run in runs}
    outcome = outcome_of(LOOKUP, known(runs, curves=curves), measured={})
    (axes,) = figures_of(outcome)["s-fig2-index-lookup-curves"].axes
    assert axes.get_xscale() == scale
    marked = {line.get_label(): line.get_markevery() for line in axes.get_lines()}
    assert marked == {LSTM: [], TF: [3]}


@pytest.mark.slow
def test_a_curve_of_one_look_is_drawn(tmp_path: Path) -> None:
    run = fake_run(cell_of(LOOKUP, "index-lookup", TF, 200).jobs[0], correct=500)
    curves = {run.key: (Point(step=0, correct=3, examples=10),)}
    study = chosen(LOOKUP, rows=(TF,), columns=(200,))
    outcome = outcome_of(study, known([run], curves=curves), measured={})
    (axes,) = figures_of(outcome)["s-fig2-index-lookup-curves"].axes
    assert axes.get_lines()[0].get_markevery() == [0]
    assert len(write_figures(outcome, tmp_path)) == 6


@pytest.mark.slow
def test_shortcuts_stand_apart_from_models() -> None:
    study, row = chosen(study_of("s-fig4", PAPER), panels=("eq-random",)), "shortcut: symbol counts"
    outcome = outcome_with(study, {}, measured={("eq-random", row, 20): Measured(right=1, examples=2)})
    (axes,) = figures_of(outcome)["s-fig4-eq-random"].axes
    heights = [float(y) for y in axes.get_yticks()]
    assert heights[5] - heights[4] == 1
    assert heights[6] - heights[5] > 1
    assert "50.0" in texts(outcome, "s-fig4-eq-random")


def test_signs_of_formulas_are_letters() -> None:
    outcome = small()
    (panel,) = outcome.panels
    cells = tuple(replace(one, cell=replace(one.cell, row="_a$x_$")) for one in panel.cells[:1])
    named = replace(panel, panel=replace(panel.panel, cells=(cells[0].cell,)), cells=cells)
    (axes,) = figures_of(replace(outcome, panels=(named,)))["s-fig2-index-lookup"].axes
    assert axes.get_yticklabels()[0].get_text() == r"a\$x_\$"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(InvalidFile, match="Figures need a folder"):
        write_figures(small(), tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"


def test_any_drawing_is_written_alike(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    paths = write_drawing(Figure, tmp_path, name="empty")
    assert [path.name for path in paths] == ["empty.png", "empty.svg", "empty.pdf"]
