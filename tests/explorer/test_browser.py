"""The explorer as a reader meets it, in a real browser."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from separatrix.explorer.views import VIEWS
from tests.atlas.browser import Browser, chromium
from tests.atlas.test_browser import contrast
from tests.explorer.serving import Served
from tests.explorer.visiting import (
    answered,
    complaints,
    press,
    stayed_here,
    tab_to,
    type_text,
    visit,
    wait,
)

pytestmark = pytest.mark.browser

INK = ("ink", "soft", "accent", "good", "bad")
COLOURS = """(() => {
  const probe = document.body.appendChild(document.createElement("span"));
  const read = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color.match(/[0-9.]+/g).map(Number);
  };
  const names = ["ink", "soft", "accent", "good", "bad", "paper", "panel", "on-accent", "stroke"];
  const found = Object.fromEntries(names.map((name) => [name, read(name)]));
  probe.remove();
  return found;
})()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def text(browser: Browser, selector: str) -> str:
    return str(browser.evaluate(f"document.querySelector({selector!r})?.innerText ?? ''"))


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
@pytest.mark.parametrize("name", VIEWS)
def test_every_view_shows_something_at_once(
    browser: Browser, explored: Served, name: str, width: int, dark: bool
) -> None:
    visit(browser, f"{explored.address}/#{name}", width=width, dark=dark)
    answered(browser)
    assert browser.evaluate("document.querySelector('nav [aria-current=page]').hash") == f"#{name}"
    assert len(text(browser, ".result")) > 40
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    stayed_here(browser, explored.address)


def test_the_address_changes_the_view_and_an_unknown_one_shows_the_first(
    browser: Browser, explored: Served
) -> None:
    visit(browser, f"{explored.address}/#nothing")
    answered(browser)
    assert text(browser, "h1") == "Attention"
    browser.evaluate("location.hash = '#state'")
    wait(browser, "document.querySelector('h1').innerText === 'State in bits'")
    answered(browser)
    assert browser.evaluate("document.activeElement.id") == "view"
    assert browser.evaluate("document.title").startswith("State in bits")
    stayed_here(browser, explored.address)


def test_attention_by_keyboard_alone(browser: Browser, explored: Served) -> None:
    visit(browser, f"{explored.address}/#attention")
    answered(browser)
    tab_to(browser, "here.classList.contains('typed')")
    type_text(browser, "s1 s2 s3 s4 @3")
    press(browser, "Enter")
    wait(browser, "document.querySelector('.result').innerText.includes('answers s3')")
    answered(browser)
    tab_to(browser, "here.classList.contains('heat-row')")
    assert browser.evaluate("document.querySelectorAll('.heat-row').length") == 5
    press(browser, "End")
    assert browser.evaluate("document.activeElement.getAttribute('aria-label')").startswith(
        "@3 at 5 reads s3 at 3"
    )
    assert browser.evaluate("document.querySelector('.token.read').innerText") == "s3"
    press(browser, "ArrowUp")
    assert browser.evaluate("document.querySelector('.token.here').innerText") == "s4"
    stayed_here(browser, explored.address)


def test_what_is_wrong_is_said_in_words_and_can_be_put_right(browser: Browser, explored: Served) -> None:
    visit(browser, f"{explored.address}/#attention")
    answered(browser)
    tab_to(browser, "here.classList.contains('typed')")
    type_text(browser, "what is this")
    press(browser, "Enter")
    wait(browser, "document.querySelector('.status.wrong')")
    assert "An example: s" in text(browser, ".status.wrong")
    browser.events.clear()  # the browser itself logs the refusal
    type_text(browser, "s1 s2 @1")
    press(browser, "Enter")
    answered(browser)
    assert "answers s1" in text(browser, ".result")
    assert complaints(browser) == []


def test_state_steps_by_keyboard_and_opens_what_lies_in_the_folder(
    browser: Browser, explored: Served
) -> None:
    visit(browser, f"{explored.address}/#state")
    answered(browser)
    where = "document.querySelector('.stepper-where').innerText"
    assert browser.evaluate(where) == "token 12 of 12"
    tab_to(browser, "here.getAttribute('aria-label') === 'Back'")
    press(browser, "Enter")
    assert browser.evaluate(where) == "token 11 of 12"
    press(browser, "Home")
    assert browser.evaluate(where) == "token 1 of 12"
    press(browser, "ArrowRight", times=2)
    assert browser.evaluate(where) == "token 3 of 12"
    tab_to(browser, "here.getAttribute('aria-label') === 'Play'")
    press(browser, "Enter")
    wait(browser, f"{where} === 'token 12 of 12'")
    wait(browser, "[...document.querySelectorAll('option')].some((each) => each.value === 'path:kept/dyck')")
    browser.evaluate("""(() => { const menu = document.querySelector('select'); menu.value = 'path:kept/dyck';
      menu.dispatchEvent(new Event('change')); })()""")
    wait(browser, f"{where} === 'token 6 of 6'")
    stayed_here(browser, explored.address)


def test_the_worst_input_changes_with_the_strength(browser: Browser, explored: Served) -> None:
    visit(browser, f"{explored.address}/#worst")
    answered(browser)
    assert text(browser, ".badge") == "refuted"
    assert "run once more" in text(browser, ".result")
    tab_to(browser, "here.type === 'range'")
    press(browser, "End")
    wait(browser, "document.querySelector('.badge').innerText === 'proved'")
    assert "leads by least" in text(browser, ".result")
    stayed_here(browser, explored.address)


@pytest.mark.parametrize("dark", [False, True])
def test_contrast_is_enough_and_the_theme_turns(browser: Browser, explored: Served, dark: bool) -> None:
    visit(browser, f"{explored.address}/", dark=dark)
    answered(browser)
    colours = browser.evaluate(COLOURS)
    pairs = [(ink, ground) for ink in INK for ground in ("paper", "panel")] + [("on-accent", "accent")]
    assert {pair for pair in pairs if contrast(colours[pair[0]], colours[pair[1]]) < 4.5} == set()
    assert contrast(colours["stroke"], colours["panel"]) >= 3
    tab_to(browser, "here.id === 'theme'")
    press(browser, "Enter")
    assert browser.evaluate("document.documentElement.dataset.theme") == ("light" if dark else "dark")


def test_the_skip_link_leads_to_the_view_and_keeps_it(browser: Browser, explored: Served) -> None:
    visit(browser, f"{explored.address}/#state")
    answered(browser)
    tab_to(browser, "here.className === 'skip'")
    press(browser, "Enter")
    assert browser.evaluate("document.activeElement.id") == "view"
    assert text(browser, "h1") == "State in bits"


def test_when_the_server_is_gone_the_page_says_so(browser: Browser, explored: Served) -> None:
    visit(browser, f"{explored.address}/#attention")
    answered(browser)
    browser.call(
        "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0
    )
    try:
        tab_to(browser, "here.classList.contains('primary')")
        press(browser, "Enter")
        wait(browser, "document.querySelector('.status.wrong')")
        assert "does not answer" in text(browser, ".status.wrong")
    finally:
        browser.call(
            "Network.emulateNetworkConditions",
            offline=False,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )


def test_an_address_with_a_stray_percent_sign_shows_a_view(browser: Browser, explored: Served) -> None:
    visit(browser, f"{explored.address}/#%")
    answered(browser)
    assert text(browser, "h1") == "Attention"
    stayed_here(browser, explored.address)


def test_without_a_list_of_files_the_views_still_work(browser: Browser, explored: Served) -> None:
    browser.call("Network.setBlockedURLs", urls=["*/api/files"])
    try:
        visit(browser, f"{explored.address}/#attention")
        answered(browser)
        wait(browser, "document.querySelector('.heat-row')")
        time.sleep(0.3)
        assert browser.evaluate("document.querySelectorAll('.heat-row').length") > 0
    finally:
        browser.call("Network.setBlockedURLs", urls=[])


TRESPASS = """(() => {
  window.ran = [];
  const script = document.createElement("script");
  script.textContent = "window.ran.push('inline script')";
  const style = document.createElement("style");
  style.textContent = "body { --ran: 1 }";
  const base = document.createElement("base");
  base.href = "http://127.0.0.1:9/";
  document.body.append(script, style, base);
  try { setTimeout("window.ran.push('text as code')", 0); } catch { /* refused at once */ }
  fetch("http://127.0.0.1:9/").then(() => window.ran.push("fetch"), () => {});
  new Image().src = "http://127.0.0.1:9/image.png";
})()"""
REFUSED = ("script-src", "style-src", "base-uri", "connect-src|default-src", "img-src")


@pytest.mark.parametrize("path", ["/", "/atlas"])
def test_the_browser_keeps_to_the_policy(browser: Browser, explored: Served, path: str) -> None:
    while explored.get(path).status == 202:
        time.sleep(0.5)
    visit(browser, f"{explored.address}{path}")
    wait(browser, "document.querySelector('h1')")
    time.sleep(0.5)
    stayed_here(browser, explored.address)
    browser.evaluate(TRESPASS)
    time.sleep(0.5)
    assert browser.evaluate("window.ran") == []
    assert browser.evaluate("getComputedStyle(document.body).getPropertyValue('--ran')") == ""
    assert browser.evaluate("document.baseURI") == f"{explored.address}{path}"
    said = [event["entry"]["text"] for method, event in browser.events if method == "Log.entryAdded"]
    for directive in REFUSED:
        assert any(re.search(f"Content Security Policy.*(?:{directive})", each) for each in said), directive
