"""The section of the papers' figures: its numbers are those of the bundles, and what was not run says so."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from separatrix.atlas import make_atlas
from separatrix.atlas.collect import Content, collect_content
from separatrix.atlas.experiments import Asked, Kept, asked, kept_in, paper_studies
from separatrix.atlas.experiments_drawings import MOST_POINTS, draw_curves, draw_matrix, shade
from separatrix.atlas.experiments_section import collect_experiments
from separatrix.atlas.render import render_page
from separatrix.cli.output import printable_line
from separatrix.errors import InvalidFile, InvalidInput
from separatrix.experiments import EXPERIMENTS
from separatrix.experiments.cells import Cell, Measured, Panel, Study
from separatrix.experiments.outcomes import PanelOutcome
from separatrix.store import Point
from separatrix.store.bundles import write_bundle
from tests.atlas.kept_results import (
    kept_run,
    only_panel,
    paper,
    pictures,
    put_decoded,
    put_pictures,
    put_runs,
)
from tests.atlas.markup import Element, read
from tests.cli.running import refused, run
from tests.evidence.examples import make_decoded
from tests.experiments.fakes import cell_of, climb, outcome_with

LOOKUP = ("s-fig2", "index-lookup")
HOSTILE = "<script>alert('1')</script>\" onload=x &amp; {{ 7 * 7 }}"


@pytest.fixture(scope="module")
def content() -> Content:
    return dataclasses.replace(collect_content(seed=0, holders=()), tasks=(), rows=(), partners=())


def shown(content: Content, kept: Kept, *studies: Asked) -> Element:
    page = render_page(
        dataclasses.replace(content, experiments=collect_experiments(kept, studies=studies)), {}
    )
    assert len(read(page).find("script")) == 1
    return section_of(page)


def section_of(page: str) -> Element:
    [found] = [s for s in read(page).find("section") if s.attributes.get("aria-labelledby") == "experiments"]
    return found


def said(element: Element) -> str:
    return " ".join(element.all_text.split())


def table_of(element: Element, number: int = 0) -> dict[tuple[str, str], list[str]]:
    """The lines of a table by model and column."""
    rows = [[said(cell) for cell in row.children] for row in element.find("table")[number].find("tr")[1:]]
    return {(row[0], row[1]): row[2:] for row in rows}


def cells_of(drawing: str) -> dict[tuple[int, int], tuple[str, list[str]]]:
    """A heat map's cells by row and column: the class of the box, and the words in it from top to bottom."""
    root = ElementTree.fromstring(drawing)
    boxes = [e for e in root.iter("rect") if (e.get("class") or "").startswith(("cell", "unrun"))]
    lefts, tops = (sorted({float(e.get(axis, "")) for e in boxes}) for axis in "xy")
    found = {}
    for box in boxes:
        x, y, width, height = (float(box.get(name, "")) for name in ("x", "y", "width", "height"))
        inside = [
            (float(text.get("y", "")), text.text or "")
            for text in root.iter("text")
            if x <= float(text.get("x", "")) <= x + width and y <= float(text.get("y", "")) <= y + height
        ]
        words = [word for _, word in sorted(inside)]
        found[tops.index(y), lefts.index(x)] = (box.get("class") or "", words)
    return found


def test_numbers_are_those_of_the_bundle(content: Content, tmp_path: Path) -> None:
    study = paper("s-fig2")
    put_runs(tmp_path, study, "index-lookup", {("TF-(1,64)", 200): 997, ("Mamba-(6,256)", 100): 304})
    section = shown(content, kept_in(tmp_path), asked(study))
    table = table_of(section)
    assert table["TF-(1,64)", "200"] == ["99.7", "100.0", "−0.3", "99.1–99.9", "250,000 of 250,000", "0.01"]
    assert table["Mamba-(6,256)", "100"][:4] == ["30.4", "90.2", "−59.8", "27.6–33.3"]
    assert table["TF-(1,64)", "400"] == ["not run", "99.9", "–", "–", "–", "–"]
    drawn = cells_of(collect_experiments(kept_in(tmp_path), studies=[asked(study)]).studies[0].panels[0].plot)
    assert len(drawn) == 30
    assert drawn[5, 3] == ("cell h10", ["99.7", "100.0"])
    assert drawn[4, 2] == ("cell h3", ["30.4", "90.2"])
    assert drawn[5, 4] == ("unrun", ["not run", "99.9"])
    assert "2 runs, 4 s on NVIDIA H200; torch 2.99.0+cu140; commit 0123456." in said(section)
    assert "Of 50 cells 2 have a number so far" in said(section)
    assert "S, figure 2: printed, to a tenth of a per cent." in said(section.find("figcaption")[0])
    assert "Not run: Dyck-(2,2), 20 cells" in [said(summary) for summary in section.find("summary")]


@pytest.mark.slow
def test_another_number_makes_another_page(content: Content, tmp_path: Path) -> None:
    study = only_panel(*LOOKUP)
    numbers = []
    for correct in (997, 996):
        folder = tmp_path / str(correct)
        put_runs(folder, study.study, "index-lookup", {("TF-(1,64)", 200): correct})
        numbers.append(table_of(shown(content, kept_in(folder), study))["TF-(1,64)", "200"][:3])
    assert numbers == [["99.7", "100.0", "−0.3"], ["99.6", "100.0", "−0.4"]]


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda folder: None, lambda folder: folder], ids=["missing", "empty"])
def test_without_results_every_trained_cell_is_not_run(
    content: Content, tmp_path: Path, make: Callable[[Path], Path | None]
) -> None:
    kept = kept_in(make(tmp_path))
    studies = [only_panel(*LOOKUP), only_panel("w-istree", "cot")]
    section = shown(content, kept, *studies)
    for number, study in enumerate(studies):
        table = table_of(section, number)
        assert len(table) == len(study.study.cells)
        assert {row[0] for row in table.values()} == {"not run"}
    drawn = [cells_of(p.plot) for c in collect_experiments(kept, studies=studies).studies for p in c.panels]
    assert {(box, words[0]) for cells in drawn for box, words in cells.values()} == {("unrun", "not run")}
    assert said(section).count("No run of this is kept.") == 2
    assert "Of 66 cells 0 have a number so far" in said(section)


@pytest.mark.slow
def test_what_needs_no_training_is_counted_when_the_page_is_made(content: Content) -> None:
    def counted(store: object) -> Measured:
        return Measured(right=3, examples=4, note="three bits of state")

    panel = Panel(name="p", title="P", cells=(Cell(row="shortcut: a prefix", column=2000, measure=counted),))
    study = Study(
        name="mine", title="Mine", work="S", where="nowhere", claim="C", budget="paper", panels=(panel,)
    )
    section = shown(content, Kept(), asked(study))
    assert table_of(section)["shortcut: a prefix", "2,000"][:4] == ["75.0", "–", "–", "30.1–95.4"]
    assert [said(note) for note in section.find("li")[1:]] == [
        "shortcut: a prefix at N = 2,000: three bits of state"
    ]
    assert "three bits" not in said(section.find("figcaption")[0])
    # One that cannot be run as it is must not be asked to.
    closed = asked(dataclasses.replace(study, refusal="Give it a model."))
    section = shown(content, Kept(), closed)
    assert table_of(section)["shortcut: a prefix", "2,000"][0] == "not run"
    assert "No run of this is kept. Give it a model." in said(section)
    assert "separatrix reproduce" not in said(section)


@pytest.mark.slow
def test_the_page_has_every_study_of_the_papers(page: str) -> None:
    section = section_of(page)
    headings = [heading.attributes["id"] for heading in section.find("h3")]
    assert headings == [f"study-{name}" for name in EXPERIMENTS.names()]
    assert len(section.find("table")) == sum(len(each.study.panels) for each in paper_studies())
    lines = sum(len(table.find("tr")) - 1 for table in section.find("table"))
    panels = [panel for each in paper_studies() for panel in each.study.panels]
    assert lines == sum(len(panel.rows if panel.wide else panel.cells) for panel in panels)
    shortcuts = [each for each in paper_studies() if each.study.name == "s-eq-one"]
    assert {found.accuracy for found in shortcuts[0].measured.values()} >= {1.0}
    for each in paper_studies():
        assert each.study.claim in section.all_text
        assert f"{each.study.where}" in said(section)


@pytest.mark.slow
def test_pairs_that_the_papers_hold_apart_are_counted(content: Content, tmp_path: Path) -> None:
    study = only_panel(*LOOKUP)
    numbers = {("TF-(1,64)", 100): 1000, ("Mamba-(6,256)", 100): 400, ("LSTM-(3,256)", 100): 600}
    put_runs(tmp_path, study.study, "index-lookup", numbers)
    section = collect_experiments(kept_in(tmp_path), studies=[study])
    # Of TF > LSTM and Mamba > LSTM the first comes out; TF is not 10 points above Mamba in the paper.
    assert (section.pairs, section.kept, section.lost, section.waiting) == (36, 1, 1, 34)
    text = said(shown(content, kept_in(tmp_path), study))
    assert "Of the 36 pairs of models that the papers hold more than 10 points apart, 1 come out" in text
    assert "1 does not (Mamba-(6,256) over LSTM-(3,256) at N = 100)" in text
    assert "More than 5 points from the paper with all steps taken: LSTM-(3,256) at N = 100" in text


@pytest.mark.slow
def test_pairs_whose_better_one_has_steps_left_are_counted_apart(content: Content, tmp_path: Path) -> None:
    study = only_panel(*LOOKUP)
    put_runs(tmp_path, study.study, "index-lookup", {("LSTM-(3,256)", 100): 180, ("TF-(1,64)", 100): 1000})
    put_runs(tmp_path, study.study, "index-lookup", {("Mamba-(6,256)", 100): 20}, steps=1000)
    section = collect_experiments(kept_in(tmp_path), studies=[study])
    assert (section.kept, section.lost, section.later, section.waiting) == (1, 0, 1, 34)
    text = said(shown(content, kept_in(tmp_path), study))
    assert "0 do not, 1 do not yet, the better one having steps left, and 34 wait for runs" in text


def test_cells_show_how_much_of_the_steps_they_had(tmp_path: Path) -> None:
    study = only_panel(*LOOKUP)
    runs = [
        kept_run(cell_of(study.study, "index-lookup", "TF-(1,64)", 20), 999, steps=1000, solved_at=1000),
        kept_run(cell_of(study.study, "index-lookup", "TF-(1,64)", 50), 500, steps=25_000),
        kept_run(cell_of(study.study, "index-lookup", "TF-(1,64)", 100), 500),
    ]
    write_bundle(tmp_path / "s-fig2", runs, {}, name="s-fig2")
    [card] = collect_experiments(kept_in(tmp_path), studies=[study]).studies
    root = ElementTree.fromstring(card.panels[0].plot)
    bars = [e for e in root.iter("line") if "budget" in (e.get("class") or "")]
    lengths = [float(bar.get("x2", "")) - float(bar.get("x1", "")) for bar in bars]
    assert lengths[1] / lengths[0] == pytest.approx(0.1, abs=0.01)  # the second cell, and no other
    assert len([e for e in root.iter("polygon") if e.get("class") == "far"]) == 1  # the third
    assert (
        "3 of 30 cells have a number; 2 with all of the paper’s steps or until solved." in card.panels[0].says
    )


@pytest.mark.slow
def test_a_decoded_cell_has_the_score_of_what_was_written(content: Content, tmp_path: Path) -> None:
    study = only_panel("w-istree", "cot")
    place = ("Transformer 0.5M", 16)
    put_decoded(tmp_path, study.study, "cot", place, make_decoded(right=900, unanswered=60, examples=1000))
    section = shown(content, kept_in(tmp_path), study)
    assert table_of(section)["Transformer 0.5M", "16"][0] == "93.0"
    # The same run, of which nobody knows yet what it writes.
    run_only = kept_run(cell_of(study.study, "cot", *place), 400)
    write_bundle(tmp_path / "again" / "w-istree", [run_only], {}, name="w-istree")
    section = shown(content, kept_in(tmp_path / "again"), study)
    assert table_of(section)["Transformer 0.5M", "16"][0] == "under way"
    assert "No number yet: IsTree by a chain of thought, 36 cells" in said(section)


def test_seconds_of_a_shared_card_are_not_added_up(content: Content, tmp_path: Path) -> None:
    study = only_panel(*LOOKUP)
    alone = kept_run(cell_of(study.study, "index-lookup", "TF-(1,64)", 200), 950)
    beside = kept_run(cell_of(study.study, "index-lookup", "TF-(1,64)", 400), 940)
    beside = dataclasses.replace(beside, provenance={**beside.provenance, "abreast": True})
    write_bundle(tmp_path / "a", [alone, beside], {}, name="a")
    section = shown(content, kept_in(tmp_path), study)
    assert "1 run, 2 s on NVIDIA H200; 1 run side by side on NVIDIA H200; torch" in said(section)


@pytest.mark.slow
def test_all_bundles_are_read_and_a_run_counts_once(content: Content, tmp_path: Path) -> None:
    study = only_panel(*LOOKUP)
    run = kept_run(cell_of(study.study, "index-lookup", "TF-(1,64)", 200), 950)
    other = kept_run(cell_of(study.study, "index-lookup", "TF-(1,64)", 400), 940)
    strangers = [
        kept_run(cell_of(paper("s-fig3"), "index-lookup", "Mamba-(2,32)", 75), 100),
        kept_run(cell_of(paper("s-fig2"), "dyck", "TF-(2,64)", 400), 100),
    ]
    for name, runs in {"a": [run], "b": [run, other, *strangers]}.items():
        write_bundle(tmp_path / name, runs, {run.key: climb(run)}, name=name)
    (tmp_path / "README.md").write_text("not a bundle")
    (tmp_path / "empty").mkdir()
    section = shown(content, kept_in(tmp_path), study)
    assert "2 runs, 4 s on NVIDIA H200" in said(section)
    assert table_of(section)["TF-(1,64)", "200"][0] == "95.0"
    # A folder that is a bundle itself will do.
    alone = shown(content, kept_in(tmp_path / "a"), study)
    assert table_of(alone)["TF-(1,64)", "400"][0] == "not run"
    assert table_of(alone)["TF-(1,64)", "200"][0] == "95.0"


def panel_with(curves: Mapping[str, list[Point]]) -> PanelOutcome:
    """Index lookup at 200 with a curve for each of these models."""
    study = only_panel(*LOOKUP).study
    outcome = outcome_with(study, {(row, 200): 500 for row in curves}).panels[0]
    cells = tuple(
        dataclasses.replace(one, curve=tuple(curves.get(one.cell.row, ())) if one.cell.column == 200 else ())
        for one in outcome.cells
    )
    return dataclasses.replace(outcome, cells=cells)


def looks(*steps: int, right: int = 1000) -> list[Point]:
    return [Point(step=step, correct=right * step // steps[-1], examples=1000) for step in steps]


def lines_of(drawing: str) -> dict[str, list[tuple[float, float]]]:
    """Curves by their colour, as places from 0 to 1."""
    found = {}
    for line in ElementTree.fromstring(drawing).iter("polyline"):
        places = [tuple(map(float, each.split(","))) for each in line.get("points", "").split()]
        found[line.get("class", "").removeprefix("curve ")] = [
            ((x - 38) / (296 - 38), (196 - y) / (196 - 12)) for x, y in places
        ]
    return found


def test_curves_lie_where_the_points_say() -> None:
    curves = {"LSTM-(3,256)": looks(50_000, 100_000), "TF-(1,64)": looks(25_000, 50_000, 75_000, right=400)}
    drawing, says = draw_curves(panel_with(curves), "curves")
    lines = lines_of(drawing)
    assert sorted(lines) == ["c0", "c5"]
    assert lines["c0"] == [pytest.approx((0.5, 0.5), abs=1e-3), pytest.approx((1, 1), abs=1e-3)]
    assert lines["c5"][-1] == pytest.approx((0.75, 0.4), abs=1e-3)
    words = [text.text for text in ElementTree.fromstring(drawing).iter("text")]
    assert words[5:10] == ["0", "50,000", "100,000", "training step", "LSTM-(3,256)"]
    assert "Without a curve: LinTF-(6,256), RetNet-(6,256), DSS-(6,256), Mamba-(6,256)." in says


def test_a_curve_that_ends_soon_makes_the_axis_logarithmic() -> None:
    curves = {"LSTM-(3,256)": looks(100, 1000, 100_000), "TF-(1,64)": looks(100, 1000)}
    lines = lines_of(draw_curves(panel_with(curves), "curves")[0])
    assert [x for x, _ in lines["c0"]] == pytest.approx([0, 1 / 3, 1], abs=1e-3)
    assert [x for x, _ in lines["c5"]] == pytest.approx([0, 1 / 3], abs=1e-3)


def test_long_curves_are_thinned_and_short_ones_drawn() -> None:
    long = [Point(step=step, correct=step % 7, examples=7) for step in range(1, 2000)]
    unseen = [Point(step=1, loss=1.0)]
    single = [Point(step=2000, correct=1, examples=2)]
    curves = {"LSTM-(3,256)": long, "TF-(1,64)": unseen, "Mamba-(6,256)": single}
    drawing, _ = draw_curves(panel_with(curves), "curves")
    lines = lines_of(drawing)
    assert list(lines) == ["c0"]
    assert len(lines["c0"]) == MOST_POINTS
    assert lines["c0"][-1] == pytest.approx((0.9995, 1999 % 7 / 7), abs=1e-3)
    marks = [mark.get("class") for mark in ElementTree.fromstring(drawing).iter("circle")]
    assert marks == ["mark c4"]
    assert draw_curves(panel_with({"TF-(1,64)": unseen}), "curves") == ("", "")


@pytest.mark.slow
def test_curves_stand_in_the_page(content: Content, tmp_path: Path) -> None:
    study = only_panel(*LOOKUP)
    put_runs(tmp_path, study.study, "index-lookup", {("TF-(1,64)", 200): 997, ("TF-(1,64)", 100): 997})
    section = shown(content, kept_in(tmp_path), study)
    assert [len(line.attributes["points"].split()) for line in section.find("polyline")] == [4]
    assert "Index lookup: learning" in said(section)


@pytest.mark.parametrize(
    ("share", "step"), [(0, 0), (0.04, 0), (0.06, 1), (0.5, 5), (0.999, 10), (1, 10), (7, 10)]
)
def test_shades_are_even(share: float, step: int) -> None:
    assert shade(share) == step


def shades_of(drawing: str, size: int) -> list[list[int]]:
    found = [[0] * size for _ in range(size)]
    for path in ElementTree.fromstring(drawing).iter("path"):
        strokes = re.findall(r"M(\d+) (\d+)h(\d+)(?!v)", path.get("d", ""))
        if path.get("class") == "rings":
            continue
        for start, row, length in (map(int, stroke) for stroke in strokes):
            for column in range(start, start + length):
                assert found[row][column] == 0
                found[row][column] = int((path.get("class") or "").removeprefix("cases h"))
    return found


def test_matrices_have_a_shade_for_every_weight() -> None:
    weights = [[0.0, 0.1, 0.1], [0.5, 0.5, 0.0], [0.04, 1.0, 0.26]]
    drawing = draw_matrix(weights, "m", most=0.5, sets=[(1,), (), (2, 3)], title="T", desc="D")
    assert shades_of(drawing, 3) == [[0, 2, 2], [10, 10, 0], [1, 10, 5]]
    [rings] = [e for e in ElementTree.fromstring(drawing).iter("path") if e.get("class") == "rings"]
    assert rings.get("d") == "M0 0h1v1h-1zM1 2h1v1h-1zM2 2h1v1h-1z"


@pytest.mark.slow
def test_attention_stands_beside_its_study(content: Content, tmp_path: Path) -> None:
    put_pictures(tmp_path, pictures())
    study = Asked(study=paper("r-qsa"), measured={})
    section = shown(content, kept_in(tmp_path), study)
    [figure] = [f for f in section.find("figure") if f.attributes.get("class") == "attention"]
    names = [said(each) for each in figure.find("p") if each.attributes.get("class") == "which"]
    assert names == ["0 steps", "60 steps", "target", "the theorem's unit"]
    assert "50.0 % of the weight astray; 50.0 % of answers right" in said(figure)
    assert "N = 4 places with sets of at most q = 2" in said(figure)
    assert figure.find("pre")[0].text == "v=(1) S={1,2}"
    [card] = collect_experiments(kept_in(tmp_path), studies=[study]).studies
    assert [shades_of(each.plot, 4)[0] for each in card.matrices] == [[3] * 4, *[[7, 7, 0, 0]] * 3]
    assert ["rings" in each.plot for each in card.matrices] == [True, True, False, False]


@pytest.mark.slow
def test_texts_of_a_stranger_are_escaped(content: Content, tmp_path: Path) -> None:
    study = only_panel(*LOOKUP)
    row = f"TF {HOSTILE}"
    cell = dataclasses.replace(cell_of(study.study, "index-lookup", "TF-(1,64)", 200), row=row)
    panel = dataclasses.replace(study.study.panels[0], cells=(cell,), title=HOSTILE, published=None)
    strange = dataclasses.replace(study.study, panels=(panel,), title=HOSTILE, claim=HOSTILE)
    told = {"device": HOSTILE, "torch": HOSTILE, "commit": HOSTILE}
    made = dataclasses.replace(kept_run(cell, 500), provenance=told)
    write_bundle(tmp_path / "s-fig2", [made], {made.key: climb(made)}, name="s-fig2", notes=HOSTILE)
    put_pictures(tmp_path, dataclasses.replace(pictures(name=HOSTILE), text=HOSTILE), study="s-fig2")
    section = shown(content, kept_in(tmp_path), Asked(study=strange, measured={}))
    text = said(section)
    assert text.count(HOSTILE) >= 8
    assert f"on {HOSTILE[:60]}" in text
    assert f"commit {HOSTILE[:7]}." in text
    assert not [e for e in section.find("h3") + section.find("p") if "onload" in e.attributes]


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("how", ["runs", "curves", "no runs", "no curves"])
def test_a_damaged_bundle_is_refused_in_a_sentence(tmp_path: Path, how: str) -> None:
    study = paper("s-fig2")
    put_runs(tmp_path / "results", study, "index-lookup", {("TF-(1,64)", 200): 997})
    missing, _, name = how.rpartition(" ")
    path = tmp_path / "results" / "s-fig2" / f"{name}.parquet"
    path.unlink() if missing else damaged(path)
    with pytest.raises(InvalidFile) as caught:
        kept_in(tmp_path / "results")
    message = refused("atlas", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "page"))
    assert message.endswith(printable_line(str(caught.value)))  # a reader may quote the byte it fell over
    assert "s-fig2" in message
    assert not (tmp_path / "page").exists()


DAMAGES: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("no JSON", lambda fields: "{", "is not JSON"),
    ("a list", lambda fields: "[]", "is a JSON object"),
    ("another schema", lambda fields: fields.update(schema="x"), "'x'"),
    ("a weight", lambda fields: fields["witness"]["weights"][0].__setitem__(0, 2), "between 0 and 1"),
    ("a row", lambda fields: fields["witness"]["weights"].pop(), "is none"),
    ("a target", lambda fields: fields["target"][0].__setitem__(0, 0.25), "target"),
    ("steps", lambda fields: fields["steps"].pop(), "a picture for each number of steps"),
]


@pytest.mark.parametrize(("damage", "message"), [pytest.param(*rest, id=name) for name, *rest in DAMAGES])
def test_damaged_pictures_are_refused(
    tmp_path: Path, damage: Callable[[dict[str, Any]], object], message: str
) -> None:
    path = put_pictures(tmp_path, pictures())
    fields = json.loads(path.read_text())
    text = damage(fields)
    path.write_text(text if isinstance(text, str) and text in "{[]" else json.dumps(fields))
    with pytest.raises(InvalidFile, match=re.escape(message)) as caught:
        kept_in(tmp_path)
    assert f"'{path}' is of no use" in str(caught.value)


def test_pictures_too_large_to_be_seen_are_refused(tmp_path: Path) -> None:
    record = pictures()
    sets, weights = ((1, 2),) * 65, ((0.0,) * 65,) * 65
    [first, _], last = record.trained, record.witness
    large = dataclasses.replace(
        record,
        sets=sets,
        steps=(0,),
        trained=(dataclasses.replace(first, weights=weights),),
        witness=dataclasses.replace(last, weights=weights),
    )
    put_pictures(tmp_path, large)
    with pytest.raises(InvalidFile, match="it shows 65 places, and the page draws 64"):
        kept_in(tmp_path)


def test_results_are_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(InvalidInput, match="Results are a folder with a folder for each bundle"):
            kept_in(folder)
        assert str(folder) in refused("atlas", "--results", str(folder), "--out", str(tmp_path / "page"))
    with pytest.raises(InvalidInput, match=r"cannot be read|is none"):
        kept_in(Path("nothing\0here"))


@pytest.mark.slow
def test_the_command_takes_a_folder_of_results(tmp_path: Path) -> None:
    put_runs(tmp_path / "results", paper("s-fig2"), "index-lookup", {("TF-(1,64)", 400): 123}, notes="Mine.")
    ran = run("atlas", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "page"), "--json")
    page = Path(ran.answer["path"]).read_text(encoding="utf-8")
    assert table_of(section_of(page))["TF-(1,64)", "400"][:3] == ["12.3", "99.9", "−87.6"]
    assert "Mine." in said(section_of(page))
    assert make_atlas(tmp_path / "same", results=str(tmp_path / "results")).read_text("utf-8") == page


@pytest.mark.slow
def test_with_every_cell_run_the_section_stays_small(content: Content, tmp_path: Path) -> None:
    for each in paper_studies():
        runs = {run.key: run for cell in each.study.cells if cell.jobs for run in [kept_run(cell, 777)]}
        long = [Point(step=2500 * step, correct=step % 98, examples=97) for step in range(1, 98)]
        if runs:
            write_bundle(
                tmp_path / each.study.name, runs.values(), dict.fromkeys(runs, long), name=each.study.name
            )
    section = collect_experiments(kept_in(tmp_path))
    page = render_page(dataclasses.replace(content, experiments=section), {})
    start = page.index('<section aria-labelledby="experiments"')
    written = page[start : page.index('<section aria-labelledby="coverage"')]
    assert len(written.encode()) < 40_000 * len(EXPERIMENTS.names())
    assert section.ran >= 300
