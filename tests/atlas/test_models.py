"""The section of models: counted from the registry, plotted to scale, safe with a user's own models."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

import separatrix
from separatrix.accounting import StatePart
from separatrix.atlas import collect as collecting
from separatrix.atlas import models as drawing
from separatrix.atlas.collect import collect_content
from separatrix.atlas.models import Zoo, collect_models, draw_states
from separatrix.atlas.render import render_page
from separatrix.errors import InvalidInput
from separatrix.models import MODELS
from separatrix.models.lstm import LSTM
from separatrix.models.population import Population
from separatrix.registry import Registry
from separatrix.tasks import Task
from tests.atlas.markup import Element, read

HOSTILE = "<script>alert('1')</script>\" onload=x &amp; {{ 7 * 7 }}"
CAUSAL = (
    "transformer",
    "llama",
    "lstm",
    "linear-transformer",
    "retnet",
    "dss",
    "mamba",
    "hybrid",
    "linear-rnn",
)


@pytest.fixture(scope="module")
def zoo() -> Zoo:
    return collect_models()


@pytest.fixture(scope="module")
def section(page: str) -> Element:
    return _section(page)


@pytest.fixture
def no_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    registry: Registry[type[Task]] = Registry("task", package="separatrix.tasks", names=())
    monkeypatch.setattr(collecting, "TASKS", registry)


def test_every_model_has_a_line_with_its_counts(section: Element) -> None:
    lines = {_name(row): " ".join(row.all_text.split()) for row in section.find("tr")[1:]}
    assert tuple(lines) == MODELS.names()
    lookup = separatrix.task("index-lookup", n=200)
    for name, kind in MODELS.items():
        line = lines[name]
        assert f"{kind.title}. {kind.source}." in line
        if name == "graph-transformer":
            continue
        size = separatrix.size_of(kind.Config(width=64), lookup)
        assert line.endswith(f" {size.parameters:,}")
        assert (f" {size.state_bits(200):,} " in line) == (name in CAUSAL)
        assert ("none: it reads the whole input" in line) == (name not in CAUSAL)


def test_states_are_what_one_counts_by_hand(zoo: Zoo) -> None:
    cards = {card.name: card for card in zoo.cards}
    assert (
        cards["transformer"].state == f"{2 * 64 * 32:,} · n"
    )  # a key and a value, 64 numbers of 32 bits each
    assert cards["lstm"].state == f"{2 * 64 * 32:,}"
    assert cards["linear-rnn"].state == f"{2 * 64 * 32:,}"  # two layers
    scan = 2 * (128 * 16 + 128 * 3) * 32
    assert cards["mamba"].state == f"{scan:,}"
    assert cards["hybrid"].state == f"{scan:,} + {2 * 64 * 32:,} · n"
    assert [card.name for card in zoo.cards if card.grows] == ["transformer", "llama", "hybrid"]
    assert cards["hybrid"].parts == "convolution window, scan state, key-value cache; 3 layers"


def test_a_window_is_part_of_the_formula(zoo: Zoo) -> None:
    size = zoo.cards[0].size
    assert size is not None
    parts = (
        StatePart(name="cache", bits_per_position=64, window=10),
        StatePart(name="rest", fixed_bits=5000),
    )
    card = dataclasses.replace(zoo.cards[0], size=dataclasses.replace(size, state=parts))
    assert card.state == "5,000 + 64 · min(n, 10)"
    assert not card.grows


def test_caches_rise_and_recurrent_states_are_flat(section: Element) -> None:
    [plot] = section.find("svg")
    curves = [line for line in plot.find("polyline") if line.attributes["class"] != "edge faint"]
    slopes: dict[str, list[tuple[float, float]]] = {}
    for curve in curves:
        points = [tuple(map(float, point.split(","))) for point in curve.attributes["points"].split()]
        ends = (points[0][1] - points[-1][1], points[-2][1] - points[-1][1])
        slopes.setdefault(curve.attributes["class"], []).append(ends)
    assert all(ends == (0, 0) for ends in slopes["edge ridge"])
    assert len(slopes["edge ridge"]) == 5  # two of the six carry the same
    [cache], [hybrid], [text] = slopes["edge on"], slopes["edge on dashed"], slopes["edge dashed"]
    assert cache[0] == pytest.approx(text[0], abs=0.2)  # both in proportion to n, over the same lengths
    assert cache[0] > hybrid[0] > 0
    assert cache[1] == pytest.approx(hybrid[1], abs=0.15)  # far out the cache is nearly all of it


def test_the_plot_names_every_causal_model_once(section: Element) -> None:
    [plot] = section.find("svg")
    words = [text.text for text in plot.find("text")]
    assert sorted(set(words) & set(MODELS.names())) == sorted(CAUSAL)
    assert len(words) == len(set(words))
    _require_legible(plot)
    assert plot.find("desc")[0].text == section.find("figcaption")[0].text
    assert "The state of transformer, llama and hybrid grows" in plot.find("desc")[0].text


@pytest.mark.parametrize("copies", [2, 8])
def test_labels_of_many_models_stay_apart_and_inside(zoo: Zoo, copies: int) -> None:
    many = [
        dataclasses.replace(card, name=f"{card.name}-of-mine-{number}")
        for card, number in itertools.product(zoo.cards, range(copies))
    ]
    svg, _ = draw_states(many)
    [plot] = read(svg).find("svg")
    _require_legible(plot)


def test_a_plot_of_nothing_still_stands() -> None:
    svg, says = draw_states([])
    assert says == "No state grows."
    assert len(read(svg).find("polyline")) == 2  # the input and its label


@pytest.mark.slow
@pytest.mark.usefixtures("no_tasks")
def test_a_users_model_is_counted_and_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    own: Registry[type[Population]] = Registry("model", package="separatrix.models", names=())
    words = {
        "name": "my <b>own</b> lstm",
        "title": HOSTILE,
        "source": HOSTILE,
        "__doc__": f"{HOSTILE}.\n\nMore.",
    }
    own.register(words["name"])(type("Hostile", (LSTM,), words))
    monkeypatch.setattr(drawing, "MODELS", own)
    page = render_page(collect_content(seed=0, holders=()), {})
    [line] = _section(page).find("tr")[1:]
    assert _name(line) == "my <b>own</b> lstm"
    assert HOSTILE in line.all_text
    assert "54,144" in line.all_text
    assert len(read(page).find("script")) == 1
    assert "<b>own" not in page


@pytest.mark.slow
@pytest.mark.usefixtures("no_tasks")
def test_a_model_that_cannot_be_counted_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise InvalidInput("This model reads <tea leaves>.")

    monkeypatch.setattr(drawing, "_built", refuse)
    cards = collect_models().cards
    assert [card.size for card in cards] == [None] * len(MODELS.names())
    page = render_page(collect_content(seed=0, holders=()), {})
    assert "Not counted: This model reads &lt;tea leaves&gt;." in page


def _require_legible(plot: Element) -> None:
    """No label on another, none outside."""
    _, _, width, height = map(float, plot.attributes["viewbox"].split())
    labels = [text for text in plot.find("text") if text.attributes.get("text-anchor") == "start"][1:]
    assert labels
    heights = sorted(float(label.attributes["y"]) for label in labels)
    assert heights[0] >= 6
    assert heights[-1] <= height - 6
    assert all(after - before >= 13 for before, after in itertools.pairwise(heights))
    for label in labels:
        assert float(label.attributes["x"]) + 6.7 * len(label.text) <= width + 1, label.text


def _section(page: str) -> Element:
    [found] = [s for s in read(page).find("section") if s.attributes.get("aria-labelledby") == "models"]
    return found


def _name(row: Element) -> str:
    return row.find("code")[0].text
