"""The grand table: what its cells say, how they stand, and that it opens where it is asked to."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import separatrix
from separatrix.atlas.certified import certified
from separatrix.atlas.grand_table import (
    MEANINGS,
    MOST_N,
    PRECISIONS,
    GrandTable,
    TableCell,
    Values,
    View,
    collect_grand_table,
    short,
    standing_of,
)
from separatrix.atlas.grand_table_rows import COLUMNS, Domain
from separatrix.atlas.grand_table_trained import TrainedLine, family_of
from separatrix.atlas.render import _environment
from separatrix.errors import InvalidInput
from separatrix.evidence import TaskSpec
from separatrix.models.specs import ModelSpec
from separatrix.tasks import TASKS
from separatrix.theorems import FAMILIES, THEOREMS, families_around, families_within
from tests.atlas.markup import Element, read
from tests.cli.running import refused, run

LENGTHS = [1 << power for power in range(4, 31)]


@pytest.fixture(scope="module")
def table() -> GrandTable:
    return collect_grand_table(certified())


@pytest.fixture(scope="module")
def document(page: str) -> Element:
    return read(page)


def cell(table: GrandTable, task: str, family: str) -> TableCell:
    [found] = [
        each for row in table.rows for each in row.cells if (each.task, each.column.family) == (task, family)
    ]
    return found


def test_it_has_every_task_and_every_family(table: GrandTable) -> None:
    assert [row.task for row in table.rows] == list(TASKS.names())
    assert len(table.rows) == 19
    for row in table.rows:
        assert [each.column for each in row.cells] == list(COLUMNS)
    assert {column.family for column in COLUMNS} == set(FAMILIES)
    assert sum(count for _, _, count in table.groups) == len(COLUMNS)


def test_needed_is_never_more_than_what_suffices(table: GrandTable) -> None:
    both = 0
    for each, n, precision in itertools.product(table.cells, LENGTHS, PRECISIONS):
        values = each.at(n, precision)
        if values.needs is not None and values.suffices is not None:
            assert values.needs <= values.suffices, (each.anchor, n, precision)
            both += 1
    assert both > 500


def test_bounds_reach_inwards_and_witnesses_outwards(table: GrandTable) -> None:
    for row in table.rows:
        by_family = {each.column.family: each for each in row.cells}
        for family, each in by_family.items():
            values = each.at(1024, 32)
            for inner in families_within(family):
                if by_family[inner].column.quantity == each.column.quantity and values.needs is not None:
                    assert (by_family[inner].at(1024, 32).needs or 0) >= values.needs
            for outer in families_around(family):
                if by_family[outer].column.quantity == each.column.quantity and values.suffices is not None:
                    enough = by_family[outer].at(1024, 32).suffices
                    assert enough is not None
                    assert enough <= values.suffices


def test_known_cells(table: GrandTable) -> None:
    lookup = cell(table, "index-lookup", "rnn")
    assert lookup.at(1024, 32) == Values(needs=6144, suffices=6164, built=True)
    assert lookup.needs[0].artefact.theorem == "S-T3"
    assert lookup.needs[0].code == "src/separatrix/communication/bounds/s.py"
    assert lookup.suffices[0].code == "src/separatrix/witnesses/recurrent.py"
    assert cell(table, "index-lookup", "transformer-1").at(1024, 32).suffices == 26 * 64
    # ⌈1023/(7·32 + 20)⌉ = 5 numbers of 32 bits
    assert cell(table, "dyck", "transformer-1").at(1024, 32).needs == 160
    assert cell(table, "dyck", "transformer-1").at(1024, 64).needs == 3 * 64
    assert cell(table, "q-sparse-averaging", "fnn").at(1024, 16).needs == 1024 * 16
    assert cell(table, "cycle3", "graph-transformer").at(3000, 8).needs == 8 * -(-1000 // 32)
    assert cell(table, "match3", "third-order").at(1 << 20, 32) == Values(
        needs=None, suffices=320, built=False
    )


def test_open_questions_stand_where_the_literature_leaves_them(table: GrandTable) -> None:
    asked = {(each.task, each.column.family): each.question.id for each in table.cells if each.question}
    assert asked == {
        ("associative-recall", "transformer-1"): "S-AR1",
        ("match3", "transformer-2"): "R-CONJ",
        ("match3", "transformer-3"): "R-CONJ",
        ("match3", "transformer"): "R-CONJ",
    }


def test_a_bound_on_a_condition_is_no_silence(table: GrandTable) -> None:
    resting = [each for each in table.cells if each.standing(table.view) == "condition"]
    assert [(each.task, each.column.family) for each in resting] == [
        ("turing", "rnn"),
        ("turing", "linear-rnn"),
    ]
    assert all(bound.condition and bound.theorem == "W-4.1" for one in resting for bound in one.numberless)
    assert table.tally["condition"] == 2


def test_the_legend_explains_every_standing_and_counts_every_cell(
    table: GrandTable, document: Element
) -> None:
    assert {standing for standing, _ in MEANINGS} == set(table.tally)
    counted = {
        each.attributes["data-tally"]: int(each.text)
        for each in document.find("span")
        if "data-tally" in each.attributes
    }
    assert counted == table.tally
    assert sum(counted.values()) == len(table.rows) * len(COLUMNS)
    squares = [each for each in document.find("td") if "data-standing" in each.attributes]
    assert len(squares) == sum(counted.values())
    for standing, count in counted.items():
        assert sum(each.attributes["data-standing"] == standing for each in squares) == count
    [legend] = [each for each in document.find("p") if each.attributes.get("class") == "legend standings"]
    words = {each.text for each in legend.find("b")}
    said = {
        each.text
        for square in squares
        if square.attributes["data-standing"] != "nothing"
        for each in square.find("span")
        if each.attributes.get("class") == "word"
    }
    assert "on a condition" in said
    assert said <= words


def test_what_is_certified_stands_with_its_construction(table: GrandTable) -> None:
    shown = [each for one in table.cells for each in one.suffices if each.certified]
    assert len(shown) > 40
    for each in shown:
        assert each.certified is not None
        assert (each.certified.theorem, each.certified.family) == (each.entry.theorem, each.entry.family)
        assert each.certified.verdict == "proved"


@pytest.mark.parametrize(
    ("needs", "suffices", "built", "asked", "budget", "standing"),
    [
        (10, 20, True, False, 9, "cannot"),
        (10, 20, True, False, 10, "gap"),
        (10, 20, True, False, 19, "gap"),
        (10, 20, True, False, 20, "can"),
        (10, 20, False, False, 20, "law"),
        (None, 20, True, False, 1, "gap"),
        (None, 20, True, True, 1, "open"),
        (None, 20, True, True, 20, "can"),
        (10, None, False, False, 1 << 50, "gap"),
        (None, None, False, True, 1, "open"),
        (None, None, False, False, 1, "nothing"),
    ],
)
def test_standings(
    needs: int | None, suffices: int | None, built: bool, asked: bool, budget: int, standing: str
) -> None:
    values = Values(needs=needs, suffices=suffices, built=built)
    assert standing_of(values, budget, asked=asked, conditional=False) == standing
    resting = "condition" if standing == "nothing" else standing
    assert standing_of(values, budget, asked=asked, conditional=True) == resting
    nowhere = Values(needs=None, suffices=None, built=False, present=False)
    for conditional in (False, True):
        assert standing_of(nowhere, budget, asked=asked, conditional=conditional) == "absent"


def test_outside_a_tasks_lengths_a_cell_says_so(table: GrandTable) -> None:
    each = cell(table, "mqar", "rnn")
    assert not each.at(1 << 18, 32).present
    assert each.standing(View(n=1 << 18)) == "absent"
    assert not cell(table, "dyck", "rnn").at(1001, 32).present
    assert str(Domain(even=True, most=131_072)) == "even n, n ≤ 131,072"
    ended = cell(table, "q-sparse-averaging", "transformer-2")
    assert ended.at(1 << 17, 32).suffices is None
    assert ended.silence == "only to n = 65,536"


@given(st.integers(1, 1 << 80))
def test_short_numbers_keep_the_claim_true(number: int) -> None:
    down, up = _read(short(number, up=False)), _read(short(number, up=True))
    assert down <= number <= up
    assert 100 * (up - down) <= number
    assert len(short(number, up=True)) <= 6


@pytest.mark.parametrize(
    ("number", "down", "up"),
    [
        (99_999, "99,999", "99,999"),
        (100_000, "100k", "100k"),
        (999_999, "999k", "1.00M"),
        (1_572_900, "1.57M", "1.58M"),
        (12_000_001, "12.0M", "12.1M"),
        (274_953_404_416, "274G", "275G"),
    ],
)
def test_short_numbers(number: int, down: str, up: str) -> None:
    assert (short(number, up=False), short(number, up=True)) == (down, up)


def _read(text: str) -> int:
    if text[-1].isdigit():
        return int(text.replace(",", ""))
    whole, _, after = text[:-1].partition(".")
    thousands: int = 1000 ** ("kMGTPEZY".index(text[-1]) + 1)
    return int(whole + after) * thousands // int(10 ** len(after))


def test_the_page_has_every_cell_with_its_values_before_any_script(
    table: GrandTable, document: Element
) -> None:
    squares = {
        each.attributes["data-cell"]: each for each in document.find("td") if "data-cell" in each.attributes
    }
    opened = {
        each.attributes["id"]: each
        for each in document.find("section")
        if each.attributes.get("class") == "opened"
    }
    assert set(squares) == set(opened)
    for each in table.cells:
        name = each.anchor.replace("+", "_2b")
        values = each.at(table.view.n, table.view.precision)
        square = squares[name].attributes
        assert square["data-needs"] == ("" if values.needs is None else str(values.needs))
        assert square["data-suffices"] == ("" if values.suffices is None else str(values.suffices))
        assert square["data-standing"] == each.standing(table.view)
        text = " ".join(opened[name].all_text.split())
        for need in each.needs:
            assert need.bound.theorem in text
            assert need.code in text
            assert all(_plain(assumption) in text for assumption in need.bound.assumptions)
        for enough in each.suffices:
            assert enough.entry.theorem in text
            assert enough.code in text
            assert enough.certified is None or enough.certified.weights_sha256[:16] in text
        if each.question:
            assert each.question.id in text


def _plain(text: str) -> str:
    """The beginning, before any mathematics is set."""
    return text.partition("_")[0].partition("^")[0].replace("`", "").strip()


def test_laws_for_the_script_are_json_with_known_names(table: GrandTable) -> None:
    laws = json.loads(table.laws())
    assert len(laws["rows"]) == len(table.rows)
    assert len(laws["cells"]) == len(table.cells)
    assert len(table.laws()) < 20_000
    for row, law in laws["formulas"]:
        bound = {"n", "p", "k", "M", "v"} | set(laws["rows"][row]["names"])
        assert _names(law) <= bound


def _names(law: object) -> set[str]:
    if isinstance(law, str):
        return {law}
    if not isinstance(law, list) or not law or not isinstance(law[0], str):
        return set()
    return {name for part in law[1:] for name in _names(part)}


def test_code_that_cells_name_is_there(table: GrandTable) -> None:
    root = Path(__file__).parents[2]
    bounds = {(need.code, need.function) for one in table.cells for need in one.needs}
    named = bounds | {(each.code, each.function) for one in table.cells for each in one.suffices}
    for code, function in named:
        assert f"def {function}(" in (root / code).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("model", "layers", "form", "family"),
    [
        ("transformer", 1, "recognise", "transformer-1"),
        ("transformer", 4, "recognise", "transformer"),
        ("llama", 8, "cot", "transformer-cot"),
        ("lstm", 2, "random", "rnn"),
        ("mamba", 16, "cot", "linear-rnn-cot"),
        ("mamba", 16, "retrieval", "linear-rnn+retrieval"),
        ("hybrid", 7, "direct", "hybrid"),
        ("hybrid", 7, "cot", "hybrid-cot"),
        ("sparse-set-unit", 1, None, "transformer-1"),
        ("fnn", 2, None, "fnn"),
    ],
)
def test_trained_models_have_their_family(model: str, layers: int, form: str | None, family: str) -> None:
    task = TaskSpec(name="dyck", params={"n": 4} if form is None else {"n": 4, "form": form})
    assert family_of(ModelSpec(name=model, params={"layers": layers}), task) == family


def test_trained_numbers_stand_beside_the_papers(page: str, document: Element) -> None:
    line = TrainedLine(
        study="s-fig2", where="S", panel="", model="LSTM", column="N = 20", ours="81.2 %", paper="80.0 %"
    )
    found = collect_grand_table({}, trained={("phone-book", "rnn"): [line]})
    assert cell(found, "phone-book", "rnn").trained == (line,)
    assert cell(found, "phone-book", "rnn").silence == "trained"
    tables = [each for each in document.find("table") if each.attributes.get("class") == "ran"]
    assert len(tables) >= 3  # the runs that come with the package
    assert "LSTM" in " ".join(each.all_text for each in tables)


def test_views_have_their_limits() -> None:
    View(n=16, precision=8, budget=16)
    View(n=MOST_N, precision=64, budget=1 << 50)
    with pytest.raises(InvalidInput, match=r"^The atlas shows a length n from 2\^4 to 2\^30; got n=15\. Try"):
        View(n=15)
    with pytest.raises(InvalidInput, match=r"a budget from 2\^4 to 2\^50; got budget=1125899906842625\."):
        View(budget=(1 << 50) + 1)
    with pytest.raises(InvalidInput, match=r"numbers of 8, 16, 32, 64 bits; got precision=12\. Try 32\.$"):
        View(precision=12)


def test_the_command_refuses_what_the_table_cannot_show(tmp_path: Path) -> None:
    refused("atlas", "--out", str(tmp_path), "--n", "2")
    refused("atlas", "--out", str(tmp_path), "--precision", "33")
    refused("atlas", "--out", str(tmp_path), "--budget", "0")
    assert list(tmp_path.iterdir()) == []


def test_theorems_of_laws_exist(table: GrandTable) -> None:
    for each in table.cells:
        assert {need.bound.theorem for need in each.needs} <= set(THEOREMS)
        assert {enough.entry.theorem for enough in each.suffices} <= set(THEOREMS)


def test_the_command_hands_the_view_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def make_atlas(out: Path, *, results: None, n: int, precision: int, budget: int) -> Path:
        asked.append(View(n=n, precision=precision, budget=budget))
        return out / "index.html"

    monkeypatch.setattr(separatrix, "make_atlas", make_atlas, raising=False)
    run("atlas", "--out", str(tmp_path))
    run("atlas", "--out", str(tmp_path), "--n", "1000", "--precision", "8", "--budget", "5000")
    assert asked == [View(), View(n=1000, precision=8, budget=5000)]


def test_the_page_opens_at_the_view_it_is_made_for() -> None:
    view = View(n=1000, precision=8, budget=5000)
    table = collect_grand_table({}, view=view)
    macro = _environment().get_template("grand_table.html").make_module().grand  # type: ignore[attr-defined]
    document = read(str(macro(table, {}, set())))
    squares = {each.attributes.get("data-cell"): each for each in document.find("td")}
    assert squares["cell-dyck-rnn"].attributes["data-standing"] == "can"
    dyck = squares["cell-dyck-transformer-1"]
    # ⌈999/(7·8 + 20)⌉ = 14 numbers of 8 bits; the linear witness has 64·2,001
    assert (dyck.attributes["data-needs"], dyck.attributes["data-suffices"]) == ("112", "128064")
    assert dyck.attributes["data-standing"] == "gap"
    dials = {each.attributes.get("id"): each.attributes for each in document.find("input")}
    assert (dials["dial-n"]["value"], dials["dial-bits"]["value"]) == ("9", "12")
    [said] = [each for each in document.find("p") if each.attributes.get("class") == "said-of"]
    assert (said.attributes["data-n"], said.attributes["data-bits"], said.attributes["data-p"]) == (
        "1000",
        "5000",
        "8",
    )
