"""The section of trained models: its numbers, its grids and its counterexample are those of the record."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import pytest

from separatrix.atlas.collect import Content, collect_content
from separatrix.atlas.coverage import CoverageRecord, CoverageRow, coverage_record, read_coverage
from separatrix.atlas.coverage_drawings import MOST_CELLS, MOST_TILES, RETRIEVAL, draw_attention, draw_grid
from separatrix.atlas.coverage_section import MOST_GRIDS, collect_coverage, share
from separatrix.atlas.render import render_page
from separatrix.errors import InvalidFile
from tests.atlas.markup import Element, read

AGAINST = {"every": 500, "share": 0.25, "cases": 256, "kept": 1024}
SHORT = {"@1": "pppp", "@2": "pbbu", "@3": "uppp"}
HOSTILE = "<script>alert('1')</script>\" onload=x &amp; {{ 7 * 7 }}"


def described(
    verdicts: Mapping[str, str],
    *,
    task: str = "index-lookup",
    params: Mapping[str, object] | None = None,
    broken: Mapping[str, object] | None = None,
    **changed: object,
) -> dict[str, Any]:
    """A row as the file has it, with counts that fit its letters."""
    letters = "".join(verdicts.values())
    fields: dict[str, Any] = {
        "task": {"name": task, "params": {"n": 3, "alphabet": 4, "lengths": "full", **(params or {})}},
        "model": "transformer",
        "layers": 1,
        "width": 64,
        "lr": 0.001,
        "seed": 0,
        "weight_decay": 0.0,
        "against": None,
        "steps": 5000,
        "right": 4999,
        "examples": 5000,
        "every": 1,
        "cases": len(letters),
        "proved": letters.count("p"),
        "refuted": letters.count("b"),
        "unknown": letters.count("u"),
        "least_margin": 0.125 if "p" in letters else None,
        "least_lead": None,
        "verdicts": dict(verdicts),
        "sampled": 10000,
        "sampled_right": 9998,
        "counterexample": broken,
        "weights_sha256": "0" * 64,
        "arithmetic": "float32",
        "seconds": 1.5,
        **changed,
    }
    return {"run": hashlib.sha256(json.dumps(fields).encode()).hexdigest(), **fields}


def failing(text: str, query: str, target: str, answered: object, **changed: object) -> dict[str, Any]:
    """A counterexample whose one head looks at the first token."""
    fields = {"query": query, "target": target, "text": text, "answered": answered, "lead": -0.5}
    count = len(text.split())
    return {**fields, "attention": [[1.0] + [0.0] * (count - 1)], **changed}


def looked(text: str = "s1 s2 s3 @2", **changed: object) -> dict[str, Any]:
    """One of index lookup."""
    return {**failing(text, "@2", "s2", 3), **changed}


def recorded(*rows: Mapping[str, object]) -> CoverageRecord:
    return read_coverage(json.dumps({"provenance": {"torch": "2.99"}, "rows": list(rows)}))


def one(**changed: Any) -> CoverageRow:
    return recorded(described(**changed)).rows[0]


@pytest.fixture(scope="module")
def content() -> Content:
    return dataclasses.replace(collect_content(seed=0, holders=()), tasks=())


def shown(content: Content, record: CoverageRecord) -> Element:
    page = render_page(dataclasses.replace(content, coverage=collect_coverage(record)), {})
    return section_of(page)


def section_of(page: str) -> Element:
    [found] = [s for s in read(page).find("section") if s.attributes.get("aria-labelledby") == "coverage"]
    return found


def said(element: Element) -> str:
    return " ".join(element.all_text.split())


def table_of(section: Element) -> list[Element]:
    [table] = section.find("table")
    return table.find("tr")[1:]


def require_numbers(line: Element, row: CoverageRow) -> None:
    text = said(line)
    assert said(line.find("th")[0]).startswith(f"{row.task.name} n = {row.n}")
    assert f"{row.model}-({row.layers},{row.width})" in text
    cells = [said(cell) for cell in line.find("td")]
    assert cells[1:3] == [f"{row.seed}", f"{row.steps:,}"]
    assert cells[3].startswith(
        f"{share(row.right, row.examples)} {row.right:,} of {row.examples:,}".replace("\xa0", " ")
    )
    assert not row.sampled or cells[3].endswith(f"{row.sampled_right:,} of {row.sampled:,}")
    assert cells[4].startswith(f"{row.proved:,} proved {row.refuted:,} broken {row.unknown:,} unknown")
    assert cells[5] == ("none" if row.least_margin is None else f"{row.least_margin:.3g}")
    assert ("against counterexamples" in text) == (row.against is not None)
    broken = row.counterexample
    assert [each.text for each in line.find("pre")] == ([] if broken is None else [broken.text])


@pytest.mark.slow
def test_the_page_has_every_recorded_model_with_its_numbers(page: str) -> None:
    rows = coverage_record().rows
    assert rows
    section = section_of(page)
    lines = table_of(section)
    assert len(lines) == len(rows)
    cards = collect_coverage(coverage_record()).cards
    assert {card.row for card in cards} == set(rows)
    for line, card in zip(lines, cards, strict=True):
        require_numbers(line, card.row)
        assert line.find("th")[0].find("a")[0].attributes["href"] == f"#task-{card.row.task.name}"


@pytest.mark.slow
def test_numbers_stand_as_recorded(content: Content) -> None:
    unsettled = described({"@1": "uu"}, right=5000, sampled=0, sampled_right=0)
    record = recorded(described(SHORT, broken=looked()), unsettled)
    section = shown(content, record)
    assert "Certified with torch 2.99." in said(section)
    lines = {len(line.find("pre")): line for line in table_of(section)}
    require_numbers(lines[1], record.rows[0])
    require_numbers(lines[0], record.rows[1])
    assert "99.98 % 4,999 of 5,000 9,998 of 10,000" in said(lines[1])
    assert "8 proved 2 broken 2 unknown" in said(lines[1])
    assert "Query @2 Right s2 Given s3" in said(lines[1])
    assert "0 proved 0 broken 2 unknown" in said(lines[0])


@pytest.mark.slow
def test_bars_are_to_scale_and_show_what_is_rare(content: Content) -> None:
    rare = described({"@2": "p" * 997 + "buu"}, params={"alphabet": 1000}, broken=looked())
    section = shown(content, recorded(described(SHORT, broken=looked()), rare))
    bars = [
        [
            (part.attributes["class"], *(float(part.attributes[name]) for name in ("x", "width")))
            for part in bar
        ]
        for bar in ([*line.find("svg")[0].find("rect")] for line in table_of(section))
    ]
    assert sorted(bars) == [
        [("proved", 0.0, 66.67), ("broken", 66.67, 16.67), ("unknown", 83.33, 16.67)],
        [("proved", 0.0, 98.0), ("broken", 98.0, 1.0), ("unknown", 99.0, 1.0)],
    ]


@pytest.mark.parametrize(
    ("part", "whole", "percent"),
    [
        (5000, 5000, "100"),
        (0, 5000, "0"),
        (4999, 5000, "99.98"),
        (10**6 - 1, 10**6, "99.99"),
        (1, 10**6, "0.01"),
    ],
)
def test_a_share_is_never_rounded_to_all_or_nothing(part: int, whole: int, percent: str) -> None:
    assert share(part, whole) == f"{percent}\N{NO-BREAK SPACE}%"


def test_models_trained_against_counterexamples_stand_behind_their_like(content: Content) -> None:
    plain = [
        described(SHORT, broken=looked(), seed=seed, params={"n": n}) for n in (3, 12) for seed in (0, 1)
    ]
    against = [{**row, "run": row["run"][::-1], "against": AGAINST} for row in plain]
    other = described(SHORT, broken=looked(), model="llama")
    recall = described({"k0": "pp"}, task="associative-recall", params={"order": "fixed", "alphabet": 0})
    record = recorded(recall, *against[::-1], other, *plain)
    rows = [card.row for card in collect_coverage(record).cards]
    assert [(row.task.name, row.model, row.n, row.seed, row.against is not None) for row in rows] == [
        ("index-lookup", "transformer", 3, 0, False),
        ("index-lookup", "transformer", 3, 0, True),
        ("index-lookup", "transformer", 3, 1, False),
        ("index-lookup", "transformer", 3, 1, True),
        ("index-lookup", "llama", 3, 0, False),
        ("index-lookup", "transformer", 12, 0, False),
        ("index-lookup", "transformer", 12, 0, True),
        ("index-lookup", "transformer", 12, 1, False),
        ("index-lookup", "transformer", 12, 1, True),
        ("associative-recall", "transformer", 3, 0, False),
    ]
    for line, row in zip(table_of(shown(content, record)), rows, strict=True):
        require_numbers(line, row)


def cells_of(svg: str, verdicts: Mapping[str, str]) -> list[str]:
    """The letters of each column as they are drawn; a cell that is drawn twice or not at all shows."""
    found = [[""] * len(letters) for letters in verdicts.values()]
    for path in ElementTree.fromstring(svg).iter("path"):
        letter = (path.get("class") or "").removeprefix("cases ")[0]
        strokes = re.findall(r"M(\d+) (\d+)v(\d+)", path.get("d", ""))
        assert "".join(f"M{x} {y}v{length}" for x, y, length in strokes) == path.get("d")
        for column, start, length in (map(int, stroke) for stroke in strokes):
            for cell in range(start, start + length):
                found[column][cell] += letter
    return ["|".join(column) for column in found]


@pytest.mark.parametrize(
    "verdicts",
    [SHORT, {"@1": "b"}, {"@1": "pbu", "@2": "u", "@3": "ppppppb"}, {"@1": "p" * 64, "@2": "u" * 64}],
)
def test_grids_have_a_cell_for_every_case(verdicts: dict[str, str]) -> None:
    broken = any("b" in letters for letters in verdicts.values())
    query = next((query for query, letters in verdicts.items() if "b" in letters), "")
    row = one(verdicts=verdicts, broken=looked(query=query) if broken else None)
    svg, says = draw_grid(row, "grid")
    assert cells_of(svg, verdicts) == ["|".join(letters) for letters in verdicts.values()]
    assert (
        f"{row.cases:,} cases: {row.proved:,} proved, {row.refuted:,} broken, {row.unknown:,} unknown" in says
    )
    drawing = ElementTree.fromstring(svg)
    assert [drawing.findtext(tag) for tag in ("title", "desc")] == [
        f"Every case of index-lookup at n = {row.n}",
        says,
    ]


@pytest.mark.slow
def test_the_grids_of_the_page_are_those_of_the_record(page: str) -> None:
    grids = collect_coverage(coverage_record()).grids
    rows = coverage_record().rows
    retrieval = {
        (row.task.name, row.n) for row in rows if row.task.name in RETRIEVAL and row.cases <= MOST_CELLS
    }
    assert {(grid.card.row.task.name, grid.card.row.n) for grid in grids} <= retrieval
    assert len(grids) == min(len(retrieval), MOST_GRIDS)
    for grid in grids:
        assert grid.plot in page
        verdicts = dict(grid.card.row.verdicts)
        assert cells_of(grid.plot, verdicts) == ["|".join(letters) for letters in verdicts.values()]


def test_a_grid_is_small_however_torn() -> None:
    torn = {f"@{place + 1}": ("pbu" * 22)[place % 3 :][:64] for place in range(100)}
    row = one(verdicts=torn, broken=looked(), params={"n": 100, "alphabet": 64})
    assert row.cases == 6400
    svg, _ = draw_grid(row, "grid")
    assert len(svg) < 60_000
    whole = dict.fromkeys(torn, "p" * 64)
    assert len(draw_grid(one(verdicts=whole), "grid")[0]) < 2_500


@pytest.mark.slow
def test_of_each_retrieval_task_and_length_the_most_broken_is_drawn(content: Content) -> None:
    worse = described({"@1": "pppp", "@2": "bbbb", "@3": "pppp"}, broken=looked(), seed=7)
    rows = [
        described(SHORT, broken=looked()),
        worse,
        described({"@1": "uuuu"}, seed=8),
        described({"@1": "pppp"}, params={"n": 4}, seed=9),
        described({"0 at position 1": "pp"}, task="match2", params={"n": 3}),
    ]
    rows[-1]["task"]["params"] = {"n": 3, "modulus": 0, "distinct": False}
    section = collect_coverage(recorded(*rows))
    assert [(grid.card.row.n, grid.card.row.seed) for grid in section.grids] == [(3, 7), (4, 9)]
    figures = shown(content, recorded(*rows)).find("figure")
    assert ["seed 7" in said(figure) for figure in figures] == [True, False, False]


def test_a_grid_of_too_many_cases_is_left_out() -> None:
    huge = described({f"@{place + 1}": "p" * 64 for place in range(200)}, params={"n": 200, "alphabet": 64})
    assert collect_coverage(recorded(huge)).grids == ()


def test_the_counterexample_is_shown_as_text_with_its_attention(content: Content) -> None:
    heads = [[0.25, 0.5, 0.0, 0.25], [0.0, 0.0, 1.0, 0.0]]
    section = shown(content, recorded(described(SHORT, broken=looked(attention=heads))))
    figure = section.find("figure")[-1]
    assert section.find("pre")[-1].text == "s1 s2 s3 @2"
    caption = said(figure.find("figcaption")[0])
    assert "To “@2” the right answer is “s2”; transformer gives “s3”, which leads by 0.5." in caption
    assert "On the target, token 2, they are 0.50, 0.00." in caption
    words = [text.text for text in figure.find("text")]
    labels = ["1", "s1", "target", "s2", "3", "s3", "query", "@2"]
    assert [word for word in words if word in labels][: len(labels)] == labels
    assert words[-4:] == ["right answer", "s2", "given", "s3"]
    bars = [bar for bar in figure.find("rect") if bar.attributes["class"].startswith("dot")]
    full = max(float(bar.attributes["height"]) for bar in bars)
    drawn = [(bar.attributes["class"], float(bar.attributes["height"]) / full) for bar in bars]
    assert drawn == [("dot", 0.25), ("dot on", 0.5), ("dot", 1.0), ("dot", 0.25)]
    feet = {float(bar.attributes["y"]) + float(bar.attributes["height"]) for bar in bars}
    assert len(feet) == 2  # one line for each head


def test_a_long_input_is_cut_to_what_counts() -> None:
    tokens = [f"s{place}" for place in range(400)] + ["@300"]
    head = [0.0] * 401
    head[7], head[299], head[150], head[100] = 0.6, 0.3, 0.099, 0.001
    broken = failing(" ".join(tokens), "@300", "s299", 1, attention=[head])
    row = one(verdicts={"@300": "b"}, params={"n": 400, "alphabet": 512}, broken=broken)
    svg, says = draw_attention(row, "s1", "broken")
    words = [
        text.text
        for text in ElementTree.fromstring(svg).iter("text")
        if "small" not in (text.get("class") or "")
    ]
    assert words[:9] == ["…", "s7", "…", "s150", "…", "s299", "…", "@300", "right answer"]
    assert "No head gives any of the 397 tokens left out more than 0.001." in says


def test_much_attention_on_many_tokens_fills_the_room_and_no_more() -> None:
    tokens = [f"s{place}" for place in range(60)] + ["@60"]
    heads = [[0.0] * 61 for _ in range(30)]
    for number, head in enumerate(heads):
        head[2 * number] = 1.0
    broken = failing(" ".join(tokens), "@60", "s59", 1, attention=heads)
    row = one(verdicts={"@60": "b"}, params={"n": 60, "alphabet": 64}, broken=broken)
    svg, _ = draw_attention(row, "s1", "broken")
    words = [
        text.text
        for text in ElementTree.fromstring(svg).iter("text")
        if "small" not in (text.get("class") or "")
    ]
    assert MOST_TILES - 2 <= len(words) - 4 <= MOST_TILES
    assert words[words.index("right answer") - 2 :][:2] == ["s59", "@60"]


@pytest.mark.parametrize(
    ("task", "text", "query", "target", "marks"),
    [
        ("index-lookup", "s1 s2 s3 @3", "@3 behind 3 symbols", "s3", {2: "target", 3: "query"}),
        ("associative-recall", "k0 v1 k1 v2 k1", "k1 behind 2 pairs", "v2", {3: "target", 4: "query"}),
        (
            "associative-recall",
            "3 1 4 1 3",
            "3 behind 4 tokens",
            "1, at position 2",
            {1: "target", 4: "query"},
        ),
        ("match2", "4 1 2 3", "1 at position 2", "1, first with position 4", {3: "target", 1: "query"}),
        ("match2", "4 1 2 3", "1 at position 2", "0", {1: "query"}),
        (
            "dyck",
            "())(",
            "strings that end in (",
            "0, closes nothing at position 3",
            {2: "target", 3: "query"},
        ),
        (
            "q-sparse-averaging",
            "v=(0) S={1,2}; v=(1) S={1,3}; v=(0) S={2,3}",
            "v=(0) S={1,2} at position 1",
            "(0.5), v2=(1)",
            {1: "target", 0: "query"},
        ),
    ],
)
def test_target_and_query_are_marked(
    task: str, text: str, query: str, target: str, marks: dict[int, str]
) -> None:
    count = len(text) if task == "dyck" else len(text.split("; ")) if ";" in text else len(text.split())
    broken = failing(text, query, target, 1, attention=[[1.0] + [0.0] * (count - 1)])
    row = one(verdicts={query: "b"}, task=task, broken=broken)
    svg, _ = draw_attention(row, "1", "broken")
    texts = list(ElementTree.fromstring(svg).iter("text"))
    labels = [
        each.text
        for each in texts
        if (each.get("class") or "").startswith("small") and "head" not in (each.text or "")
    ]
    assert labels == [marks.get(place, str(place + 1)) for place in range(count)]


def test_of_all_counterexamples_one_of_a_flawless_model_is_drawn() -> None:
    flawed = described(SHORT, broken=looked("s1 @2"))
    long = described(SHORT, broken=looked("s1 s2 s3 s3 s3 @2"), right=5000, sampled_right=10000, seed=1)
    short = described(SHORT, broken=looked("s1 s2 s3 @2"), right=5000, sampled_right=10000, seed=2)
    drawn = collect_coverage(recorded(flawed, long, short)).broken
    assert drawn is not None
    assert drawn.card.row.seed == 2
    assert collect_coverage(recorded(described({"@1": "pppp"}))).broken is None


def test_answers_are_words_of_the_task() -> None:
    params = {"n": 3, "q": 2, "d": 1, "grid": 1, "sizes": "exact"}
    text = "v=(0) S={1,2}; v=(1) S={1,3}; v=(0) S={2,3}"
    query = "v=(0) S={1,2} at position 1"
    broken = {**failing(text, query, "(0.5), v2=(1)", [0.25]), "attention": [[0.0, 1.0, 0.0]]}
    row = described({query: "b"}, task="q-sparse-averaging", broken=broken)
    row["task"]["params"] = params
    drawn = collect_coverage(recorded(row)).broken
    assert drawn is not None
    assert drawn.card.answered == "(0.25)"
    assert "leads" not in drawn.says
    for answered in (4, -1, "s3", [0.5], True):
        with pytest.raises(InvalidFile, match=r"an answer to index-lookup that it cannot have"):
            collect_coverage(recorded(described(SHORT, broken={**looked(), "answered": answered})))


def test_an_empty_record_leaves_the_section_out(content: Content) -> None:
    page = render_page(dataclasses.replace(content, coverage=collect_coverage(recorded())), {})
    assert not [s for s in read(page).find("section") if s.attributes.get("aria-labelledby") == "coverage"]
    assert "#coverage" not in page


@pytest.mark.slow
def test_texts_of_a_record_are_escaped(content: Content) -> None:
    text = f"{HOSTILE.replace(' ', '')} s2 s3 @2"
    section = collect_coverage(recorded(described(SHORT, broken=looked(text), model=HOSTILE)))
    page = render_page(dataclasses.replace(content, coverage=section), {})
    assert len(read(page).find("script")) == 1
    assert section_of(page).find("pre")[-1].text == text
    assert HOSTILE in said(section_of(page))
