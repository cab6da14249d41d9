"""Series that were kept stand in the page: their shades, their numbers, and where they were computed."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from xml.etree import ElementTree

from separatrix.atlas.experiments import Kept, asked, kept_in
from separatrix.atlas.experiments_section import StudyCard, collect_experiments
from separatrix.experiments.cells import Cell, Measured, Panel, Series, Study
from separatrix.experiments.measurements import keep_series, measured_now

COLUMNS = tuple(range(3, 45, 2))
RIGHT = {column: min(800, max(0, 100 * column - 500)) - (column == 15) for column in COLUMNS}


def series(row: str) -> Series:
    return Series(
        question={"row": row},
        measure=lambda: {c: Measured(right=r, examples=800, note="a cliff") for c, r in RIGHT.items()},
    )


def study(columns: tuple[int, ...] = COLUMNS) -> Study:
    cells = [Cell(row=row, column=c, series=series(row)) for row in ("S-T1: look", "b") for c in columns]
    panel = Panel(name="p", title="Bits", column_name="bits", cells=tuple(cells), wide=True)
    return Study(
        name="mine", title="Mine", work=None, where="beyond", claim="C.", budget="paper", panels=(panel,)
    )


def card_of(kept: Kept, shown: Study | None = None) -> StudyCard:
    [card] = collect_experiments(kept, studies=[asked(shown or study())]).studies
    return card


def boxes(card: StudyCard) -> dict[str, int]:
    root = ElementTree.fromstring(card.panels[0].plot)
    paths = [e for e in root.iter("path") if re.match(r"cell|unrun", e.get("class") or "")]
    return {path.get("class", ""): path.get("d", "").count("M") for path in paths}


def test_what_was_kept_is_shown_and_nothing_is_measured_for_the_page(tmp_path: Path) -> None:
    keep_series(tmp_path / "mine", [measured_now(series("b"))])
    card = card_of(kept_in(tmp_path))
    panel = card.panels[0]
    assert (card.cells, card.ran) == (2 * len(COLUMNS), len(COLUMNS))
    assert panel.headings == ("model", *map(str, COLUMNS))
    assert panel.rows[0] == ("S-T1: look", *["–"] * len(COLUMNS))
    assert panel.rows[1][1:9] == ("0", "0", "25", "50", "75", "100", "99", "100")
    assert panel.notes == ("b: a cliff",)
    assert not panel.lines
    assert [re.sub(r" \(.*", "", made) for made in card.made] == ["1 row measured without training on cpu"]
    assert boxes(card) == {
        "cell h0": 2,
        "cell h2": 1,
        "cell h5": 1,
        "cell h8": 1,
        "cell h9": 1,  # one of 800 is wrong
        "cell h10": len(COLUMNS) - 6,
        "unrun": len(COLUMNS),
    }


def test_a_number_stands_in_a_cell_where_there_is_room(tmp_path: Path) -> None:
    few = study((3, 7, 43))
    keep_series(tmp_path, [measured_now(series("b"))])  # the folder itself can be the study's
    for shown, words in ((few, {"0", "25", "100"}), (study(), set[str]())):
        root = ElementTree.fromstring(card_of(kept_in(tmp_path), shown).panels[0].plot)
        assert {e.text for e in root.iter("text") if "paper" in (e.get("class") or "")} == words


def test_studies_of_no_paper_are_told_apart_and_not_counted_among_theirs() -> None:
    theirs = dataclasses.replace(study(), name="theirs", work="S")
    section = collect_experiments(Kept(), studies=[asked(study()), asked(theirs)])
    assert section.cells == 2 * len(COLUMNS)
    assert [card.study.name for card in section.beyond] == ["mine"]
