"""The papers' figures as a reader meets them, in a real browser: by day, by night, and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from separatrix.atlas import make_atlas
from tests.atlas.browser import Browser, chromium
from tests.atlas.kept_results import paper, pictures, put_pictures, put_runs
from tests.atlas.test_browser import COMPLAINTS, SPILLED, contrast

pytestmark = pytest.mark.browser

OPEN = (
    "document.querySelectorAll('section[aria-labelledby=experiments] details').forEach((d) => d.open = true)"
)

# Every word in a box of a heat map: its colour, that of the box, and whether it stays inside.
IN_CELLS = """(() => {
  const colour = (text) => text.match(/[0-9.]+/g).map(Number);
  const panel = getComputedStyle(document.querySelector(".panels figure")).backgroundColor;
  const ground = (rect) => rect.classList.contains("unrun") ? panel : getComputedStyle(rect).fill;
  return [...document.querySelectorAll(".panels svg.drawing")].flatMap((svg) => {
    const rects = [...svg.querySelectorAll("rect")].map((rect) => [rect, rect.getBBox()]);
    return [...svg.querySelectorAll(".ours, .paper, .waits")].map((text) => {
      const box = text.getBBox(), x = box.x + box.width / 2, y = box.y + box.height / 2;
      const within = (f) => f.x <= x && x <= f.x + f.width && f.y <= y && y <= f.y + f.height;
      const [rect, frame] = rects.find(([_, f]) => within(f));
      return {
        words: text.textContent,
        on: rect.getAttribute("class"),
        fill: colour(getComputedStyle(text).fill),
        ground: colour(ground(rect)),
        inside: box.x >= frame.x && box.x + box.width <= frame.x + frame.width,
      };
    });
  });
})()"""

LINES = """(() => {
  const colour = (text) => text.match(/[0-9.]+/g).map(Number);
  const panel = colour(getComputedStyle(document.querySelector(".panels figure")).backgroundColor);
  const curves = [...document.querySelectorAll("polyline.curve")];
  return [panel, curves.map((curve) => colour(getComputedStyle(curve).stroke))];
})()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page on which every shade of a heat map occurs, with curves and matrices."""
    folder = tmp_path_factory.mktemp("figures")
    study = paper("s-fig2")
    rows, columns = study.panels[0].rows, study.panels[0].columns
    places = [(row, column) for row in rows for column in columns]
    numbers = {place: min(1000, 50 * number) for number, place in enumerate(places)}
    put_runs(folder / "results", study, "index-lookup", numbers, steps=50_000)
    put_runs(folder / "results", study, "dyck", {("TF-(2,64)", 400): 1000, ("TF-(1,256)", 400): 510})
    put_pictures(folder / "results", pictures())
    return make_atlas(folder, results=folder / "results")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_figures_are_seen_whole_and_can_be_read(
    browser: Browser, figures: Path, width: int, dark: bool
) -> None:
    browser.open(figures, width=width, dark=dark)
    browser.evaluate(OPEN)
    assert [event for event in browser.events if event[0] in COMPLAINTS] == []
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    assert browser.evaluate(SPILLED) == []
    words: list[dict[str, Any]] = browser.evaluate(IN_CELLS)
    assert len(words) > 500
    assert {f"cell h{step}" for step in range(11)} | {"unrun"} == {word["on"] for word in words}
    assert [word["words"] for word in words if not word["inside"]] == []
    faint = {(word["on"], word["words"]) for word in words if contrast(word["fill"], word["ground"]) < 4.5}
    assert faint == set()


@pytest.mark.parametrize("dark", [False, True])
def test_curves_stand_out_from_the_ground(browser: Browser, figures: Path, dark: bool) -> None:
    browser.open(figures, width=1280, dark=dark)
    panel, strokes = browser.evaluate(LINES)
    assert len({tuple(stroke) for stroke in strokes}) >= 6
    assert [stroke for stroke in strokes if contrast(stroke, panel) < 3] == []


def test_not_run_cells_are_hatched(browser: Browser, figures: Path) -> None:
    browser.open(figures, width=1280)
    box = "document.querySelector('.panels rect.unrun')"
    browser.evaluate(f"{box}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    clip = browser.evaluate(
        f"(() => {{ const r = {box}.getBoundingClientRect();"
        " return {x: r.x + scrollX + 4, y: r.y + scrollY + 3, width: r.width - 8, height: 8}; })()"
    )
    hatched = browser.screenshot(clip=clip)
    browser.evaluate(f"{box}.setAttribute('fill', 'none')")
    assert len(browser.screenshot(clip=clip)) < len(hatched) / 2


def test_tables_open_and_scroll_by_keyboard(browser: Browser, figures: Path) -> None:
    browser.open(figures, width=390)
    first = "document.querySelector('section[aria-labelledby=experiments] .study summary')"
    browser.evaluate(f"{first}.focus()")
    browser.press("Enter")
    assert browser.evaluate(f"{first}.parentElement.open")
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.textContent") == "CSV"
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.className") == "scroll numbers"
    assert browser.evaluate("document.activeElement.scrollWidth > document.activeElement.clientWidth")
    assert browser.evaluate("document.documentElement.scrollWidth") == 390
