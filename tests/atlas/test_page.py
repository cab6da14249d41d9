"""The whole page: well formed, complete in itself, true to the registries, the same every time."""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from separatrix.atlas import make_atlas
from separatrix.atlas.render import typeset
from separatrix.tasks import TASKS
from separatrix.theorems import FAMILIES, THEOREMS, WORKS
from separatrix.version import __version__
from tests.atlas.markup import Element, read


@pytest.fixture(scope="module")
def document(page: str) -> Element:
    return read(page)


@pytest.mark.slow
def test_ids_are_unique_and_every_link_leads_somewhere(document: Element) -> None:
    everything = _all(document)
    ids = [element.attributes["id"] for element in everything if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    links = [link.attributes["href"] for link in document.find("a")]
    assert len(links) > 50
    assert {link for link in links if link[1:] not in ids or link[0] != "#"} == set()
    named = [element.attributes.get("aria-labelledby", "").split() for element in everything]
    assert {name for names in named for name in names} <= set(ids)


def test_headings_descend_one_level_at_a_time(document: Element) -> None:
    levels = [int(element.tag[1]) for element in _all(document) if re.fullmatch("h[1-6]", element.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_nothing_is_fetched(page: str, document: Element) -> None:
    assert not [
        e for e in _all(document) if {"src", "srcset", "data", "poster", "action"} & set(e.attributes)
    ]
    assert not document.find("link")
    assert not document.find("iframe")
    style = document.find("style")[0].text
    assert "url(" not in style
    assert "@import" not in style
    assert "http://" not in page
    assert "https://" not in page


def test_the_policy_allows_this_style_and_this_script_only(document: Element) -> None:
    metas = [meta.attributes for meta in document.find("meta")]
    policy = next(m["content"] for m in metas if m.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        [element] = document.find(tag)
        digest = base64.b64encode(hashlib.sha256(element.text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not [
        e for e in _all(document) if any(name.startswith("on") or name == "style" for name in e.attributes)
    ]


def test_language_viewport_title_and_version(document: Element) -> None:
    assert document.find("html")[0].attributes["lang"] == "en"
    assert [m for m in document.find("meta") if m.attributes.get("name") == "viewport"]
    assert document.find("title")[0].text == "Separatrix: the atlas"
    assert f"version {__version__}" in document.find("header")[0].all_text


def test_every_task_has_a_plate_with_a_drawing(document: Element) -> None:
    plates = {plate.attributes["id"]: plate for plate in document.find("article")}
    assert list(plates) == [f"task-{name}" for name in TASKS.names()]
    for name, kind in TASKS.items():
        plate = plates[f"task-{name}"]
        assert plate.find("h3")[0].text == kind.title
        assert plate.find("code")[0].text == name
        assert [letter.text for letter in plate.find("abbr")] == re.findall("[A-Z]+", kind.source)
        [drawing] = plate.find("svg")
        assert drawing.find("title")[0].text
        assert drawing.find("desc")[0].text == plate.find("figcaption")[0].text
        assert len(_all(drawing)) > 10


def test_drawings_are_well_formed_xml(page: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    assert len(drawings) > len(TASKS.names())
    for drawing in drawings:
        ElementTree.fromstring(drawing)


@pytest.mark.slow
def test_every_result_stands_in_the_page_with_what_it_owes(document: Element) -> None:
    for theorem in THEOREMS.values():
        [place] = [e for e in _all(document) if e.attributes.get("id") == f"result-{_plain(theorem.id)}"]
        text = " ".join(place.all_text.split())
        assert theorem.id in text
        assert _said(theorem.statement) in text
        assert theorem.source.place in text
        for owed in theorem.owes:
            assert owed.formula in text
            assert owed.condition in text
        for name in theorem.families:
            assert name in text


def test_the_family_filter_goes_by_what_binds_and_what_serves(document: Element) -> None:
    rows = {row.attributes["id"]: row.attributes for row in document.find("tr") if "id" in row.attributes}
    named = {name: set(row["data-family"].split()) for name, row in rows.items()}
    assert named["result-S-T3"] == {"rnn", "linear-rnn"}
    assert named["result-S-T1"] == {"transformer-1", "transformer-2", "transformer-3", "transformer"}
    assert named["result-W-5.6"] == {"hybrid", "hybrid-cot"}
    assert named["result-S-T10"] == named["result-S-T5"] == {"transformer-1"}
    assert named["result-S-L1"] == {"*"}


def test_open_formulas_ask_once(document: Element) -> None:
    questions = next(e for e in document.find("ul") if e.attributes.get("class") == "questions")
    formulas = [e.text for e in questions.find("span") if e.attributes.get("class") == "formula"]
    assert formulas == ["m = ω(log N)?", "L·H·m = N^Ω(1)?"]
    assert "??" not in document.all_text


def test_open_questions_are_shown_as_open_and_conditions_as_conditions(page: str, document: Element) -> None:
    open_states = [e for e in document.find("span") if e.attributes.get("class") == "state open"]
    assert len(open_states) == sum(theorem.status == "open" for theorem in THEOREMS.values())
    conditional = [theorem for theorem in THEOREMS.values() if theorem.status == "conditional"]
    assert conditional
    for theorem in conditional:
        for condition in theorem.conditions:
            assert f"only if {condition}" in page


def test_slips_families_and_works_are_listed(document: Element) -> None:
    text = " ".join(document.all_text.split())
    slips = {slip for theorem in THEOREMS.values() for slip in theorem.slips}
    for slip in slips:
        assert f"Printed {_said(slip.printed)}" in text
        assert f"Right {_said(slip.right)}" in text
    for family in FAMILIES.values():
        assert _said(family.description) in text
    for work in WORKS.values():
        assert work.arxiv is None or f"arXiv {work.arxiv}" in text


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("x_i and x_{k−1}", "x<sub>i</sub> and x<sub>k−1</sub>"),
        ("2^(N−1), N^-K, N^Ω(1).", "2<sup>N−1</sup>, N<sup>−K</sup>, N<sup>Ω(1)</sup>."),
        ("2^16. n^0.8", "2<sup>16</sup>. n<sup>0.8</sup>"),
        ("`function_seed` of vocabulary_size", "<code>function_seed</code> of vocabulary_size"),
        ("<b> & `<i>` x_{<}", "&lt;b&gt; &amp; <code>&lt;i&gt;</code> x<sub>&lt;</sub>"),
    ],
)
def test_mathematics_is_typeset_and_everything_else_escaped(text: str, html: str) -> None:
    assert str(typeset(text)) == html


def test_the_page_is_small(page_path: Path) -> None:
    assert page_path.stat().st_size < 5_000_000


@pytest.mark.slow
def test_same_seed_same_bytes_in_another_process(page_path: Path, tmp_path: Path) -> None:
    code = "import sys; from separatrix.atlas import make_atlas; print(make_atlas(sys.argv[1]))"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    made = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "again")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    again = Path(made.stdout.strip())
    assert again == tmp_path / "again" / "index.html"
    assert again.read_bytes() == page_path.read_bytes()


@pytest.mark.slow
def test_another_seed_draws_other_examples(page: str, tmp_path: Path) -> None:
    other = make_atlas(tmp_path, seed=1).read_text(encoding="utf-8")
    assert other != page
    assert "seed 1" in other


def _all(element: Element) -> list[Element]:
    return [inner for child in element.children for inner in (child, *_all(child))]


def _said(text: str) -> str:
    """Text as a reader sees it, indices and exponents in their places."""
    return " ".join(read(f"<p>{typeset(text)}</p>").all_text.split())


def _plain(name: str) -> str:
    return name.replace("′", "_2032")
