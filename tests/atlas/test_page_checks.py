"""What Lighthouse would ask of the page, asked by script in a real browser: light, dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.atlas.browser import Browser, chromium

pytestmark = [pytest.mark.browser]

CHECKS = (Path(__file__).parent / "page_checks.js").read_text(encoding="utf-8")
COMPLAINTS = {
    "Log.entryAdded",
    "Runtime.exceptionThrown",
    "Runtime.consoleAPICalled",
    "Network.loadingFailed",
    "Security.securityStateChanged",
}
NAMED = {
    "button",
    "link",
    "combobox",
    "listbox",
    "slider",
    "spinbutton",
    "textbox",
    "checkbox",
    "radio",
    "image",
    "img",
}
"""Roles that are nothing without a name."""

UNFOLDED = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"

FOCUSABLE = """(() => {
  const all = [...document.querySelectorAll(
    "a[href], button, input, select, textarea, summary, [tabindex]:not([tabindex='-1'])")];
  const shown = all.filter((one) => !one.disabled && one.checkVisibility({ visibilityProperty: true }));
  shown.forEach((one, place) => { one.dataset.place = place; });
  return shown.length;
})()"""

HERE = """(() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  let opacity = 1;
  for (let each = one; each; each = each.parentElement) opacity *= Number(getComputedStyle(each).opacity);
  const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  return [Number(one.dataset.place ?? -1), ring && opacity > 0.9, one.outerHTML.slice(0, 120)];
})()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def check(browser: Browser, name: str) -> int:
    """Run one of the page's checks on itself: no complaint, and how much was seen."""
    found: dict[str, Any] = browser.evaluate(f"({CHECKS}).{name}()")
    assert found["complaints"] == []
    seen: int = found["seen"]
    return seen


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_is_fetched_and_nothing_is_said_on_the_console(
    browser: Browser, page_path: Path, width: int, dark: bool
) -> None:
    browser.open(page_path, width=width, dark=dark)
    browser.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 200)))")
    fetched = [
        event["request"]["url"] for method, event in browser.events if method == "Network.requestWillBeSent"
    ]
    assert fetched == [page_path.resolve().as_uri()]
    assert [event for event in browser.events if event[0] in COMPLAINTS] == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 360])
def test_every_word_has_contrast_enough(browser: Browser, page_path: Path, width: int, dark: bool) -> None:
    browser.open(page_path, width=width, dark=dark)
    browser.evaluate(UNFOLDED)
    assert check(browser, "contrast") > 5000


def test_headings_stand_in_order(browser: Browser, page_path: Path) -> None:
    browser.open(page_path, width=1280)
    assert check(browser, "headings") > 40


def test_pictures_have_names(browser: Browser, page_path: Path) -> None:
    browser.open(page_path, width=1280)
    assert check(browser, "pictures") > 40


def test_every_link_within_the_page_leads_somewhere(browser: Browser, page_path: Path) -> None:
    browser.open(page_path, width=1280)
    assert check(browser, "references") > 100


@pytest.mark.parametrize("width", [320, 360, 545, 768])
def test_nothing_is_wider_than_the_screen(browser: Browser, page_path: Path, width: int) -> None:
    browser.open(page_path, width=width)
    check(browser, "widths")
    browser.evaluate(UNFOLDED)
    check(browser, "widths")


@pytest.mark.parametrize("width", [360, 704])
def test_prose_is_read_without_scrolling_sideways(browser: Browser, page_path: Path, width: int) -> None:
    browser.open(page_path, width=width)
    browser.evaluate(UNFOLDED)
    assert check(browser, "prose") > 500


@pytest.mark.parametrize("width", [360, 704, 768, 1280])
def test_an_exponent_stays_in_one_line(browser: Browser, page_path: Path, width: int) -> None:
    browser.open(page_path, width=width)
    browser.evaluate(UNFOLDED)
    assert check(browser, "exponents") > 50


def test_every_control_has_a_name(browser: Browser, page_path: Path) -> None:
    browser.open(page_path, width=1280)
    browser.call("Accessibility.enable")
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    browser.call("Accessibility.disable")
    of_interest = [node for node in nodes if not node["ignored"] and node["role"]["value"] in NAMED]
    assert len(of_interest) > 100
    assert [node for node in of_interest if not node.get("name", {}).get("value", "").strip()] == []


def test_every_control_is_reached_by_tab_and_shows_that_it_is(browser: Browser, page_path: Path) -> None:
    browser.open(page_path, width=1280)
    count = browser.evaluate(FOCUSABLE)
    assert count > 200
    reached: set[int] = set()
    unmarked = []
    for _ in range(count + 5):
        browser.press("Tab")
        place, marked, what = browser.evaluate(HERE)
        if place in reached:
            break
        if place >= 0:
            reached.add(place)
            if not marked:
                unmarked.append(what)
    missed = sorted(set(range(count)) - reached)
    names = browser.evaluate(
        f"{missed[:10]}.map((place) => document.querySelector(`[data-place='${{place}}']`))"
        ".map((one) => one.outerHTML.slice(0, 120))"
    )
    assert names == []
    assert unmarked == []
