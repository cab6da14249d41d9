"""The section of bounds: every one with its formula, asked anew, and the plot of what is needed."""

from __future__ import annotations

import html
import math
import re
from xml.etree import ElementTree

import pytest

from separatrix.atlas.bounds import BOUND_N, BOUND_PRECISION, Needs, collect_bounds, draw_needs
from separatrix.atlas.certified import certified
from separatrix.atlas.collect import Content, collect_content
from separatrix.atlas.drawings import draw_examples
from separatrix.atlas.render import render_page, typeset
from separatrix.communication.bounds import RULES, artefacts, bound
from separatrix.tasks import task
from separatrix.theorems import THEOREMS
from tests.atlas.markup import Element, read

OWED = tuple(
    (entry.id, name or "any task", owed)
    for entry in THEOREMS.values()
    for owed in entry.owes
    if owed.kind == "bound"
    for name in owed.tasks or (None,)
)


@pytest.fixture(scope="module")
def content() -> Content:
    return collect_content(seed=0, holders=("separatrix.witnesses", "separatrix.communication.bounds"))


@pytest.fixture(scope="module")
def section(content: Content) -> Element:
    document = read(render_page(content, draw_examples(content.tasks)))
    found = [each for each in document.find("section") if each.attributes["aria-labelledby"] == "bounds"]
    assert len(found) == 1
    return found[0]


@pytest.fixture(scope="module")
def needs(content: Content) -> Needs:
    return content.needs


@pytest.mark.slow
def test_every_bound_that_is_owed_stands_with_its_formula(section: Element) -> None:
    rows = {
        (row.find("a")[0].all_text, " ".join(row.find("th")[0].all_text.split())): _said(row)
        for row in section.find("tr")[1:]
    }
    for theorem, name, owed in OWED:
        lines = [
            text
            for (shown, head), text in rows.items()
            if shown == theorem and name in head and all(family in head for family in owed.families)
        ]
        assert any(_formula(owed.formula) in line for line in lines), (theorem, name, owed.formula)
        assert not owed.condition or any(f"only if {owed.condition}" in line for line in lines)


def test_every_rule_is_explained(section: Element, needs: Needs) -> None:
    text = _said(section)
    for rule in {id(each): each for each in RULES.values()}.values():
        for paragraph in rule.why.split("\n\n"):
            assert _formula(" ".join(paragraph.split())) in text
    assert all(card.why and card.lines for card in needs.cards)


def test_the_numbers_are_those_of_the_registry(needs: Needs) -> None:
    cards = {(card.theorem, card.task): card for card in needs.cards}
    lookup = cards["S-T3", "index-lookup"]
    assert [line.needs for line in lookup.lines] == ["state bits ≥ 1,024", "state bits ≥ 6,144"]
    dyck = bound(task("dyck", n=BOUND_N), "transformer-1", precision=BOUND_PRECISION)
    needed = f"width × heads {dyck.requirement}".removesuffix(" numbers")
    assert needed in [line.needs for line in cards["S-T5", "dyck"].lines]
    assert [line.needs for line in cards["S-AR1", "associative-recall"].lines] == ["open"]
    assert cards["W-4.6", "counting"].families == ("rnn", "linear-rnn-cot")
    assert cards["W-4.6", "counting"].claims == ("state bits = Ω(n)",)
    assert {(key.theorem, key.task or "any task") for key in artefacts()} == {*cards}


def test_the_plot_is_well_formed_and_to_scale(needs: Needs) -> None:
    drawing = ElementTree.fromstring(needs.plot)
    curves = [
        each.get("points", "").split()
        for each in drawing.iter("polyline")
        if "ridge" in (each.get("class") or "")
    ]
    names = {each.text for each in drawing.iter("text")}
    assert {"index-lookup", "is-tree", "dyck", "counting"} <= names
    heights = [float(points[-1].split(",")[1]) for points in curves]
    lookup, trees = 600_000, 1_195_910
    assert f"{lookup:,}" in needs.says
    assert f"{trees:,}" in needs.says
    # Seven decades of bits over 296 units: index lookup and is-tree are log(2)/7 of that apart.
    assert min(heights) == pytest.approx(322 - 296 * math.log10(trees) / 7, abs=0.1)
    assert any(height == pytest.approx(322 - 296 * math.log10(lookup) / 7, abs=0.1) for height in heights)


def test_witnesses_lie_on_or_above_their_curves(needs: Needs) -> None:
    dots = list(ElementTree.fromstring(needs.plot).iter("circle"))
    assert len(dots) == 4
    assert "4 dots" in needs.says
    heights = sorted(float(dot.get("cy", "0")) for dot in dots)
    least = [322 - 296 * math.log10(bits) / 7 for bits in (396, 202, 37, 5)]  # of two for dyck the smaller
    assert heights == pytest.approx(least, abs=0.1)
    assert "dots" not in draw_needs()[1]
    assert ElementTree.fromstring(draw_needs()[0]).find("circle") is None
    for each in certified().values():
        if each.family == "rnn":
            needed = bound(each.task, "rnn")
            assert needed.met_by(each.state_bits)


def test_the_same_twice() -> None:
    assert collect_bounds() == collect_bounds()


def _said(element: Element) -> str:
    return " ".join(element.all_text.split())


def _formula(text: str) -> str:
    """As a reader sees it, exponents raised."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", str(typeset(text)))).split())
