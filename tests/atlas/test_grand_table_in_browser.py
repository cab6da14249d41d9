"""The grand table in a real browser: the script computes what Python does, and every control works."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from separatrix.atlas.certified import certified
from separatrix.atlas.experiments import kept_in
from separatrix.atlas.grand_table import GrandTable, View, collect_grand_table, short
from separatrix.atlas.grand_table_trained import trained_cells
from separatrix.store.bundles import results_folder
from tests.atlas.browser import Browser, chromium
from tests.atlas.test_browser import COMPLAINTS, contrast

pytestmark = pytest.mark.browser

SQUARES = """Object.fromEntries([...document.querySelectorAll("td[data-cell]")].map((square) => [
  square.dataset.cell,
  [square.dataset.needs, square.dataset.suffices, square.dataset.standing,
   square.querySelector(".bound").textContent, square.querySelector(".enough").textContent],
]))"""
COLOURS = """[...document.querySelectorAll("td[data-cell]")]
  .map((square) => getComputedStyle(square).backgroundColor)"""
FRAME = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
TALLY = """Object.fromEntries([...document.querySelectorAll("[data-tally]")]
  .map((each) => [each.dataset.tally, Number(each.textContent)]))"""
STANDINGS = ("can", "cannot", "gap", "open", "condition")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def table() -> GrandTable:
    return collect_grand_table(certified(), trained=trained_cells(kept_in(results_folder())))


def _at(browser: Browser, view: View) -> dict[str, list[str]]:
    """The squares at a view, reached by the address."""
    browser.evaluate(f"location.hash = '#n={view.n}&bits={view.budget}&p={view.precision}'")
    browser.evaluate(FRAME)
    found: dict[str, list[str]] = browser.evaluate(SQUARES)
    return found


def _expected(table: GrandTable, view: View) -> dict[str, list[str]]:
    said = {}
    for cell in table.cells:
        values = cell.at(view.n, view.precision)
        said[cell.anchor.replace("+", "_2b")] = [
            "" if values.needs is None else str(values.needs),
            "" if values.suffices is None else str(values.suffices),
            cell.standing(view),
            "" if values.needs is None else f"≥ {short(values.needs, up=False)}",
            "" if values.suffices is None else f"≤ {short(values.suffices, up=True)}",
        ]
    return said


def test_the_script_computes_what_python_does(browser: Browser, page_path: Path, table: GrandTable) -> None:
    browser.open(page_path, width=1280)
    lengths = [*(1 << power for power in range(4, 31)), 17, 99, 1000, 4097, 123_457, (1 << 30) - 1]
    precisions = (8, 16, 32, 64)
    for number, n in enumerate(lengths):
        view = View(n=n, precision=precisions[number % 4], budget=1 << (4 + number))
        assert _at(browser, view) == _expected(table, view), n
    for n, precision in [(1 << power, p) for power in (4, 10, 30) for p in precisions]:
        view = View(n=n, precision=precision, budget=n)
        assert _at(browser, view) == _expected(table, view), (n, precision)
    assert [event for event in browser.events if event[0] in COMPLAINTS] == []


def test_the_page_opens_as_python_wrote_it(browser: Browser, page_path: Path, table: GrandTable) -> None:
    browser.open(page_path, width=1280)
    assert browser.evaluate(SQUARES) == _expected(table, View())
    assert browser.evaluate(TALLY) == table.tally
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page_path, width=1280)
        assert browser.evaluate(SQUARES) == _expected(table, View())
        assert browser.evaluate("getComputedStyle(document.querySelector('.dials')).display") == "none"
        browser.evaluate("location.hash = '#cell-index-lookup-rnn'")
        shown = (
            "[...document.querySelectorAll('.opened')].filter((e) => getComputedStyle(e).display !== 'none')"
        )
        assert browser.evaluate(f"{shown}.map((e) => e.id)") == ["cell-index-lookup-rnn"]
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_the_legend_counts_what_python_does(browser: Browser, page_path: Path, table: GrandTable) -> None:
    browser.open(page_path, width=1280)
    for n in (16, 99, 1000, 1 << 16, 1 << 18, 1 << 30):
        view = View(n=n, budget=1 << 20)
        _at(browser, view)
        found = browser.evaluate(TALLY)
        assert found == dataclasses.replace(table, view=view).tally, n
        assert sum(found.values()) == sum(table.tally.values())


def _move(browser: Browser, name: str, value: Any) -> None:
    browser.evaluate(
        f"(() => {{ const dial = document.querySelector('#dial-{name}'); dial.value = {json.dumps(value)};"
        " dial.dispatchEvent(new Event('input', {bubbles: true}));"
        " dial.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    browser.evaluate(FRAME)


def test_moving_a_slider_changes_colours_and_the_address(
    browser: Browser, page_path: Path, table: GrandTable
) -> None:
    browser.open(page_path, width=1280)
    before = browser.evaluate(COLOURS)
    assert len(set(before)) >= 4
    _move(browser, "bits", 40)
    after = browser.evaluate(COLOURS)
    assert sum(first != second for first, second in zip(before, after, strict=True)) > 10
    assert browser.evaluate("location.hash") == f"#n=65536&bits={1 << 40}&p=32"
    _move(browser, "n", 30)
    _move(browser, "p", "8")
    view = View(n=1 << 30, precision=8, budget=1 << 40)
    assert browser.evaluate("location.hash") == f"#n={view.n}&bits={view.budget}&p=8"
    assert browser.evaluate(SQUARES) == _expected(table, view)
    assert browser.evaluate("document.querySelector('#dial-n-is').textContent") == "2³⁰ = 1,073,741,824"
    assert "1,073,741,824" in browser.evaluate("document.querySelector('.said-of').textContent")
    browser.evaluate("document.querySelector('.dials [type=reset]').click()")
    browser.evaluate(FRAME)
    assert browser.evaluate(COLOURS) == before


def test_an_address_out_of_range_changes_nothing(
    browser: Browser, page_path: Path, table: GrandTable
) -> None:
    browser.open(page_path, width=1280)
    browser.evaluate("location.hash = '#n=3&bits=1e9&p=7'")
    browser.evaluate(FRAME)
    assert browser.evaluate(SQUARES) == _expected(table, View())


def test_a_cell_opens_by_keyboard_and_closes(browser: Browser, page_path: Path) -> None:
    browser.open(page_path, width=1280)
    browser.evaluate("document.querySelector('[data-cell=\"cell-index-lookup-rnn\"] a').focus()")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.closest('td').dataset.cell") == (
        "cell-index-lookup-linear-rnn"
    )
    assert browser.evaluate(outline) != "none"
    browser.press("Enter")
    browser.evaluate(FRAME)
    assert browser.evaluate("document.querySelector('.sheet').open")
    assert browser.evaluate("document.querySelector('.sheet h3').textContent") == "index-lookup by linear-rnn"
    assert browser.evaluate("document.querySelector('.sheet').contains(document.activeElement)")
    browser.press("Enter")  # the button that closes it has the focus
    browser.evaluate("new Promise((done) => setTimeout(done, 50))")
    assert not browser.evaluate("document.querySelector('.sheet').open")
    assert browser.evaluate("document.activeElement.closest('td').dataset.cell") == (
        "cell-index-lookup-linear-rnn"
    )
    assert browser.evaluate("document.querySelectorAll('.opened-cells > .opened').length") == (
        browser.evaluate("document.querySelectorAll('td[data-cell]').length")
    )


def test_every_control_has_a_name(browser: Browser, page_path: Path) -> None:
    browser.open(page_path, width=1280)
    nameless = """[...document.querySelectorAll(".whole input, .whole select, .whole button, .whole td a")]
      .filter((each) => !(each.labels && each.labels.length) && !each.textContent.trim()
        && !each.getAttribute("aria-label")).length"""
    assert browser.evaluate(nameless) == 0
    assert browser.evaluate("document.querySelector('#dial-n').getAttribute('aria-valuetext')") == "65,536"


@pytest.mark.parametrize("dark", [False, True])
def test_words_are_readable_on_every_colour(browser: Browser, page_path: Path, dark: bool) -> None:
    browser.open(page_path, width=1280, dark=dark)
    for standing in STANDINGS:
        pair = browser.evaluate(
            f"""(() => {{
              const square = document.querySelector('td[data-standing="{standing}"][data-cell]');
              const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
              return [getComputedStyle(square).backgroundColor,
                getComputedStyle(square.querySelector(".standing")).color,
                getComputedStyle(square.querySelector("a")).color].map(rgb);
            }})()"""
        )
        ground, word, number = pair
        assert contrast(word, ground) >= 4.5, standing
        assert contrast(number, ground) >= 4.5, standing


@pytest.mark.parametrize("width", [360, 390])
def test_on_a_phone_the_table_scrolls_in_its_own_box(browser: Browser, page_path: Path, width: int) -> None:
    browser.open(page_path, width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    box = "document.querySelector('.board')"
    assert browser.evaluate(f"{box}.scrollWidth > 2 * {box}.clientWidth")
    first = "document.querySelector('.grand tbody th').getBoundingClientRect().left"
    before = browser.evaluate(first)
    browser.evaluate(f"{box}.scrollLeft = 400")
    assert browser.evaluate(first) == before
    assert browser.evaluate(
        "[...document.querySelectorAll('.grand td a span:not(.unseen)')].every((each) =>"
        " each.getBoundingClientRect().right <= each.closest('td').getBoundingClientRect().right + 1)"
    )
