"""Series that no training made: measured once, kept in a store and in results, and read back as they were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from separatrix.errors import InvalidFile, InvalidInput, NewerFile
from separatrix.experiments.cells import Cell, Measured, Panel, Series, Study
from separatrix.experiments.figures import figures_of
from separatrix.experiments.measurements import (
    KEPT,
    Measurement,
    keep_series,
    measured_now,
    read_series,
    series_in,
    write_series,
)
from separatrix.experiments.outcomes import PanelOutcome, StudyOutcome, outcome_of
from separatrix.experiments.reproducing import known_of, reproduce
from separatrix.experiments.tables import (
    csv_text,
    headings_of,
    lines_below,
    markdown,
    rows_of,
    whole_per_cent,
)
from separatrix.store import Store

NOTE = "all right from 5 bits on"


@dataclass
class Counter:
    """Measures, and counts how often."""

    calls: list[str] = field(default_factory=list)

    def series(self, name: str, *, examples: int = 8) -> Series:
        def measure() -> Mapping[int, Measured]:
            self.calls.append(name)
            return {
                3: Measured(right=2, examples=examples, seconds=0.25, note=NOTE),
                5: Measured(right=examples, examples=examples, note=NOTE),
                7: Measured(right=0, examples=0, note=""),
            }

        return Series(question={"experiment": "mine", "row": name, "examples": examples}, measure=measure)


def study_with(*series: Series, wide: bool = True, labels: tuple[str, ...] = ()) -> Study:
    cells = [
        Cell(row=str(each.question["row"]), column=column, series=each)
        for each in series
        for column in (3, 5, 7)
    ]
    panel = Panel(
        name="p", title="P", column_name="bits", cells=tuple(cells), wide=wide, column_labels=labels
    )
    return Study(
        name="mine", title="Mine", work=None, where="ours", claim="C", budget="smoke", panels=(panel,)
    )


def panel_of(outcome: StudyOutcome) -> PanelOutcome:
    (panel,) = outcome.panels
    return panel


def test_a_series_is_measured_once_and_read_the_second_time(tmp_path: Path) -> None:
    counter, store, told = Counter(), Store(tmp_path), list[str]()
    study = study_with(counter.series("a"), counter.series("b"))
    first = reproduce(study, store, device="cpu", tell=told.append).outcome
    assert counter.calls == ["a", "b"]
    assert told == ["Measures a, 1 of 2.", "Measures b, 2 of 2."]
    assert [(one.accuracy, one.state, one.seconds) for one in first.cells[:3]] == [
        (0.25, "done", 0.25),
        (1.0, "done", 0.0),
        (None, "not run", None),
    ]
    again = reproduce(study, Store(tmp_path), device="cpu").outcome
    assert counter.calls == ["a", "b"]
    assert again.to_fields() == first.to_fields()
    # Another question, and nothing else, is measured anew.
    reproduce(study_with(counter.series("a"), counter.series("b", examples=9)), store, device="cpu")
    assert counter.calls == ["a", "b", "b"]


def test_what_was_cut_off_goes_on_with_the_next_series(tmp_path: Path) -> None:
    counter, store = Counter(), Store(tmp_path)

    def torn() -> Mapping[int, Measured]:
        raise KeyboardInterrupt

    stops = Series(question={"experiment": "mine", "row": "b", "examples": 8}, measure=torn)
    with pytest.raises(KeyboardInterrupt):
        reproduce(study_with(counter.series("a"), stops), store, device="cpu")
    reproduce(study_with(counter.series("a"), counter.series("b")), store, device="cpu")
    assert counter.calls == ["a", "b"]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]\n", b'{"schema": "separatrix.answer", "version": 1}\n'])
def test_a_damaged_series_in_a_store_is_measured_again(tmp_path: Path, damage: bytes) -> None:
    counter, store = Counter(), Store(tmp_path)
    study = study_with(counter.series("a"))
    reproduce(study, store, device="cpu")
    (file,) = (tmp_path / "measured").iterdir()
    file.write_bytes(damage)
    assert series_in(store) == {}
    reproduce(study, store, device="cpu")
    assert counter.calls == ["a", "a"]


def test_a_series_under_another_s_name_is_none(tmp_path: Path) -> None:
    counter, store = Counter(), Store(tmp_path)
    reproduce(study_with(counter.series("a")), store, device="cpu")
    (file,) = (tmp_path / "measured").iterdir()
    file.rename(file.with_name(f"{'0' * 64}.json"))
    assert series_in(store) == {}


def test_kept_series_are_the_same_bytes_and_adding_takes_nothing_away(tmp_path: Path) -> None:
    counter = Counter()
    one, two = (measured_now(counter.series(name)) for name in "ab")
    keep_series(tmp_path / "x", [one])
    keep_series(tmp_path / "x", [two])
    keep_series(tmp_path / "y", [two, one])
    assert (tmp_path / "x" / KEPT).read_bytes() == (tmp_path / "y" / KEPT).read_bytes()
    assert read_series(tmp_path / "x") == {one.key: one, two.key: two}
    assert read_series(tmp_path / "none") == {}
    assert one.by_column[3] == Measured(right=2, examples=8, seconds=0.25, note=NOTE)
    assert {"commit", "torch", "device"} <= set(one.provenance)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"right": [9, 8, 0]}, "from none to all"),
        ({"columns": [3, 3, 7]}, "one number in a column"),
        ({"right": [2, 8]}, "one of 'right' for each column"),
        ({"examples": [8, 8.5, 0]}, "whole numbers"),
        ({"columns": [3, 5, 1e12]}, "Field 'columns' .* numbers from 0 to 10\\^9"),
        ({"right": [True, 8, 0]}, "Field 'right' .* numbers from 0"),
        ({"noted": [0, 0, 5]}, "a note that is not there"),
        ({"question": []}, "Field 'question' .* must be an object"),
        ({"more": 1}, "fields that its schema does not know: 'more'"),
    ],
)
def test_kept_series_are_read_strictly(tmp_path: Path, change: dict[str, object], said: str) -> None:
    data = measured_now(Counter().series("a")).to_json() | change
    (tmp_path / KEPT).write_text(json.dumps(data))
    with pytest.raises(InvalidFile, match=rf"Line 1 of .* is of no use: .*{said}"):
        read_series(tmp_path)


def test_a_series_stands_once_in_a_file_and_newer_files_are_refused(tmp_path: Path) -> None:
    data = measured_now(Counter().series("a")).to_json()
    (tmp_path / KEPT).write_text(2 * f"{json.dumps(data)}\n")
    with pytest.raises(InvalidFile, match="has a series twice"):
        read_series(tmp_path)
    (tmp_path / KEPT).write_text(json.dumps(data | {"version": 2}))
    with pytest.raises(NewerFile, match="newer separatrix"):
        read_series(tmp_path)
    store = Store(tmp_path)
    write_series(store, Measurement.from_json(data))
    (file,) = (tmp_path / "measured").iterdir()
    file.write_text(json.dumps(data | {"version": 2}))
    with pytest.raises(NewerFile):
        series_in(store)


def test_a_cell_is_had_in_one_way() -> None:
    series = Counter().series("a")
    with pytest.raises(InvalidInput, match="jobs or a measure, and not both"):
        Cell(row="a", column=1, series=series, measure=lambda store: Measured(right=1, examples=1))


def test_a_wide_table_has_a_line_for_each_row_and_no_paper(tmp_path: Path) -> None:
    counter, store = Counter(), Store(tmp_path)
    study = study_with(counter.series("a"), counter.series("b"))
    unknown = outcome_of(study, known_of(store), measured={})
    assert rows_of(panel_of(unknown)) == [("a", "–", "–", "–"), ("b", "–", "–", "–")]
    outcome = reproduce(study, store, device="cpu").outcome
    panel = panel_of(outcome)
    assert headings_of(panel) == ("model", "3", "5", "7")
    assert rows_of(panel) == [("a", "25", "100", "–"), ("b", "25", "100", "–")]
    assert lines_below(panel) == [f"a and b at bits = 3, 5: {NOTE}"]
    assert "ours; budget smoke. C" in markdown(outcome).casefold().replace("c", "C")
    assert "paper" not in markdown(outcome)
    assert csv_text(outcome).splitlines()[1].startswith("mine,smoke,p,a,bits,3,done,25.00,,")
    assert outcome.to_fields()["source"] == "ours"
    assert set(figures_of(outcome)) == {"mine-p"}


def test_without_a_paper_there_is_no_column_for_it(tmp_path: Path) -> None:
    study = study_with(Counter().series("a"), wide=False)
    panel = panel_of(reproduce(study, Store(tmp_path), device="cpu").outcome)
    assert headings_of(panel) == ("model", "bits", "ours", "interval", "steps", "learning rate")
    assert [len(row) for row in rows_of(panel)] == [6, 6, 6]


def test_columns_can_have_names(tmp_path: Path) -> None:
    labels = ("", "", "", "softmax", "", "hard", "", "linear")
    outcome = reproduce(
        study_with(Counter().series("a"), labels=labels), Store(tmp_path), device="cpu"
    ).outcome
    panel = panel_of(outcome)
    assert headings_of(panel) == ("model", "softmax", "hard", "linear")
    assert panel.panel.place("a", 5) == "a at bits = hard"
    assert ",bits,hard,done," in csv_text(outcome)


@pytest.mark.parametrize(
    ("share", "said"), [(0.0, "0"), (0.001, "1"), (0.5, "50"), (0.999, "99"), (1.0, "100")]
)
def test_whole_per_cents_never_round_to_all_or_nothing(share: float, said: str) -> None:
    assert whole_per_cent(share) == said
