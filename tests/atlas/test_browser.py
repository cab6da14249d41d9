"""The page as a reader meets it, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.atlas.browser import Browser, chromium

pytestmark = pytest.mark.browser

COMPLAINTS = {
    "Log.entryAdded",
    "Runtime.exceptionThrown",
    "Runtime.consoleAPICalled",
    "Network.loadingFailed",
}

READABLE = [  # words on ground
    *[(words, ground) for words in ("ink", "soft", "accent") for ground in ("paper", "panel", "tint")],
    ("on-accent", "accent"),
]

COLOURS = """(() => {
  const probe = document.body.appendChild(document.createElement("span"));
  const read = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color.match(/[0-9.]+/g).map(Number);
  };
  const names = ["ink", "soft", "accent", "paper", "panel", "tint", "on-accent", "stroke"];
  const found = Object.fromEntries(names.map((name) => [name, read(name)]));
  probe.remove();
  return found;
})()"""

SPILLED = """[...document.querySelectorAll("svg.drawing")].flatMap((svg) => {
  const frame = svg.viewBox.baseVal;
  return [...svg.querySelectorAll("text")].flatMap((text) => {
    const box = text.getBBox();
    const tile = text.previousElementSibling;
    const inTile = /\\bin-/.test(text.getAttribute("class") || "") && tile && tile.tagName === "rect";
    const right = box.x + box.width, below = box.y + box.height;
    const out = box.x < -1 || right > frame.width + 1 || box.y < -1 || below > frame.height + 1;
    const wide = inTile && box.width > tile.getBBox().width - 1;
    return out || wide ? [`${svg.querySelector("title").textContent}: ${text.textContent}`] : [];
  });
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_loads_alone_and_without_complaint(
    browser: Browser, page_path: Path, width: int, dark: bool, tmp_path: Path
) -> None:
    browser.open(page_path, width=width, dark=dark)
    requests = [
        event["request"]["url"] for method, event in browser.events if method == "Network.requestWillBeSent"
    ]
    assert requests == [page_path.resolve().as_uri()]
    assert [event for event in browser.events if event[0] in COMPLAINTS] == []
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    assert browser.evaluate(SPILLED) == []
    seen = browser.screenshot(whole=False)
    empty = tmp_path / "empty.html"
    empty.write_text("<!doctype html><title>empty</title>")
    browser.open(empty, width=width, dark=dark)
    assert len(seen) > 5 * len(browser.screenshot(whole=False))


def test_the_table_scrolls_in_its_own_frame(browser: Browser, page_path: Path) -> None:
    browser.open(page_path, width=390)
    frame = "document.querySelector('.scroll')"
    assert browser.evaluate(f"{frame}.scrollWidth > {frame}.clientWidth")


@pytest.mark.parametrize("dark", [False, True])
def test_contrast_is_enough(browser: Browser, page_path: Path, dark: bool) -> None:
    browser.open(page_path, width=1280, dark=dark)
    colours = browser.evaluate(COLOURS)
    ratios = {(words, ground): contrast(colours[words], colours[ground]) for words, ground in READABLE}
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5} == {}
    assert contrast(colours["stroke"], colours["panel"]) >= 3
    assert contrast(colours["stroke"], colours["paper"]) >= 3
    assert (_luminance(colours["paper"]) < 0.2) == dark


def test_the_filters_narrow_the_table(browser: Browser, page_path: Path) -> None:
    browser.open(page_path, width=1280)
    total = _shown(browser)
    assert total > 30
    _choose(browser, "task", "match3")
    shown = browser.evaluate(
        "[...document.querySelectorAll('tr[data-work]')].filter((r) => !r.hidden).map((r) => r.id)"
    )
    assert "result-R-M3" in shown
    assert "result-S-T2" in shown  # speaks of every task
    assert "result-S-T1" not in shown
    assert browser.evaluate("document.querySelector('output').value") == f"{len(shown)} of {total} results"
    assert not browser.evaluate("document.querySelector('.zoo tbody').hidden")  # the models are no results
    browser.evaluate("location.hash = '#result-S-T1'")
    browser.evaluate("new Promise((done) => setTimeout(done, 100))")
    assert _shown(browser) == total  # a link to a hidden result brings it back
    _choose(browser, "family", "linear-rnn")
    hidden = "document.getElementById('result-{}').hidden"
    assert not browser.evaluate(hidden.format("S-T3"))  # bounds every recurrent model
    assert browser.evaluate(hidden.format("W-5.6"))  # the hybrid's witness serves no smaller family
    browser.evaluate("document.querySelector('.filters').reset()")
    _choose(browser, "work", "W")
    browser.evaluate("document.querySelector('.filters [type=reset]').click()")
    browser.evaluate("new Promise((done) => setTimeout(done, 50))")
    assert _shown(browser) == total


def test_every_control_is_reached_by_keyboard_and_the_theme_turns(browser: Browser, page_path: Path) -> None:
    browser.open(page_path, width=1280, dark=True)
    reached = set()
    for _ in range(400):
        browser.press("Tab")
        here = browser.evaluate("document.activeElement.className || document.activeElement.name")
        reached.add(here)
        if here == "theme":
            browser.press("Enter")
        if here == "scroll":
            break
    assert {"skip", "theme", "work", "task", "family", "scroll"} <= reached
    assert browser.evaluate("document.documentElement.dataset.theme") == "light"
    assert _luminance(browser.evaluate(COLOURS)["paper"]) > 0.8


def test_without_script_everything_but_the_controls_is_there(browser: Browser, page_path: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page_path, width=1280)
        assert _shown(browser) > 30
        assert browser.evaluate("getComputedStyle(document.querySelector('.filters')).display") == "none"
        assert browser.evaluate("getComputedStyle(document.querySelector('.theme')).display") == "none"
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def _shown(browser: Browser) -> int:
    return int(
        browser.evaluate("[...document.querySelectorAll('tr[data-work]')].filter((r) => !r.hidden).length")
    )


def _choose(browser: Browser, name: str, value: str) -> None:
    browser.evaluate(
        f"(() => {{ const s = document.querySelector('select[name={name}]'); s.value = '{value}';"
        " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


def _luminance(colour: list[float]) -> float:
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in colour[:3])
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: list[Any], second: list[float]) -> float:
    light, dark = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
