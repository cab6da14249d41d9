"""The views that go step by step, in a real browser: by mouse, by keys alone, on a phone, in the dark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.atlas.browser import Browser, chromium
from tests.explorer.serving import Served
from tests.explorer.visiting import answered, complaints, press, stayed_here, tab_to, type_text, visit, wait

pytestmark = pytest.mark.browser

WATCHED = ("thinking", "searching", "turing", "protocol")
WHERE = "document.querySelector('.stepper-where').innerText"
UNNAMED = """[...document.querySelectorAll('.view :is(button, input, select, [tabindex="0"])')]
  .filter((each) => each.checkVisibility() && !each.labels?.length && !each.getAttribute('aria-label')
    && !each.innerText?.trim()).map((each) => each.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def text(browser: Browser, selector: str) -> str:
    return str(browser.evaluate(f"document.querySelector({selector!r})?.innerText ?? ''"))


def graph_in_words(browser: Browser) -> str:
    return str(browser.evaluate("document.querySelector('.board-tools input').value"))


def on_board(browser: Browser, x: float, y: float) -> tuple[float, float]:
    """A place of the drawing, in its own 400 by 250, on the screen."""
    left, top, wide, high = browser.evaluate(
        "(() => { const board = document.querySelector('.board'); board.scrollIntoView({ block: 'center' });"
        " const box = board.getBoundingClientRect(); return [box.x, box.y, box.width, box.height]; })()"
    )
    return left + x * wide / 400, top + y * high / 250


def mouse(browser: Browser, kind: str, place: tuple[float, float]) -> None:
    button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
    held = 1 if kind == "mousePressed" else 0
    browser.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], buttons=held, **button)


def click(browser: Browser, x: float, y: float) -> None:
    place = on_board(browser, x, y)
    mouse(browser, "mousePressed", place)
    mouse(browser, "mouseReleased", place)


def drag(browser: Browser, start: tuple[float, float], end: tuple[float, float]) -> None:
    first, last = on_board(browser, *start), on_board(browser, *end)
    mouse(browser, "mousePressed", first)
    middle = ((first[0] + last[0]) / 2, (first[1] + last[1]) / 2)
    for place in (middle, last):
        browser.call(
            "Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1], buttons=1, button="left"
        )
    mouse(browser, "mouseReleased", last)


def press_delete(browser: Browser) -> None:
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="Delete", windowsVirtualKeyCode=46)


def choose(browser: Browser, label: str, value: str) -> None:
    browser.evaluate(
        f"""(() => {{ const menu = [...document.querySelectorAll('select')]
          .find((each) => each.labels[0].innerText.includes({label!r}));
          menu.value = {value!r}; menu.dispatchEvent(new Event('change')); }})()"""
    )


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", WATCHED)
def test_every_view_fits_a_phone_and_every_control_has_a_name(
    browser: Browser, explored: Served, name: str, dark: bool
) -> None:
    visit(browser, f"{explored.address}/#{name}", width=360, dark=dark)
    answered(browser)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360
    assert browser.evaluate(UNNAMED) == []
    assert text(browser, ".saying")
    assert browser.evaluate("document.querySelector('.saying').getAttribute('aria-live')") == "polite"
    stayed_here(browser, explored.address)


def test_a_graph_drawn_with_the_mouse(browser: Browser, explored: Served) -> None:
    visit(browser, f"{explored.address}/#thinking")
    answered(browser)
    browser.evaluate(
        "[...document.querySelectorAll('button')].find((each) => each.innerText === 'Clear').click()"
    )
    wait(browser, f"{WHERE} === 'word 2 of 2'")  # one vertex is a tree: 1 YES
    click(browser, 60, 60)
    click(browser, 330, 60)
    assert graph_in_words(browser) == "1  2  3"
    drag(browser, (60, 60), (330, 60))
    assert graph_in_words(browser) == "2 ~ 3  1"
    click(browser, 200, 125)  # vertex 1 stands in the middle
    click(browser, 330, 60)
    assert graph_in_words(browser) == "2 ~ 3  1 ~ 3"
    wait(browser, f"{WHERE} === 'word 6 of 6'")
    answered(browser)
    assert "It answers YES, the oracle YES" in text(browser, ".result")
    assert browser.evaluate("document.querySelectorAll('.board-vertex.met').length") == 3
    click(browser, 60, 60)  # joined already: parted again
    click(browser, 330, 60)
    wait(browser, "document.querySelector('.result').innerText.includes('so it is none')")
    stayed_here(browser, explored.address)


def test_a_vertex_is_moved_by_a_drag_to_the_ground_and_an_edge_is_deleted(
    browser: Browser, explored: Served
) -> None:
    visit(browser, f"{explored.address}/#thinking")
    answered(browser)
    tab_to(browser, "here.closest('.board-tools') && here.classList.contains('typed')")
    type_text(browser, "1 ~ 2")
    wait(browser, f"{WHERE} === 'word 4 of 4'")
    x, y = browser.evaluate(
        "(() => { const dot = document.querySelector('[data-vertex=\"2\"] .board-dot');"
        " return ['cx', 'cy'].map((name) => Number(dot.getAttribute(name))); })()"
    )
    drag(browser, (x, y), (60, 200))
    moved = "Number(document.querySelector('[data-vertex=\"2\"] .board-dot').getAttribute('cx'))"
    assert abs(browser.evaluate(moved) - 60) < 2
    assert graph_in_words(browser) == "1 ~ 2"
    browser.evaluate(
        "document.querySelector('.board-edge').dispatchEvent(new MouseEvent('click', { bubbles: true }))"
    )
    browser.evaluate(
        "[...document.querySelectorAll('button')].find((each) => each.innerText === 'Delete').click()"
    )
    assert graph_in_words(browser) == "1  2"
    stayed_here(browser, explored.address)


def test_a_graph_drawn_by_keys_alone(browser: Browser, explored: Served) -> None:
    visit(browser, f"{explored.address}/#thinking")
    answered(browser)
    tab_to(browser, "here.closest('.board-tools') && here.classList.contains('typed')")
    type_text(browser, "1 ~ 2  3")
    wait(browser, "document.querySelector('.result').innerText.includes('so it is none')")
    tab_back = "here.dataset?.vertex === '3'"
    for _ in range(200):
        press(browser, "-Tab")
        if browser.evaluate(f"((here) => {tab_back})(document.activeElement)"):
            break
    press(browser, "Enter")
    assert browser.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    press(browser, "ArrowRight")
    assert browser.evaluate("document.activeElement.dataset.vertex") == "1"
    press(browser, "Enter")
    assert graph_in_words(browser) == "1 ~ 2  1 ~ 3"
    wait(browser, f"{WHERE} === 'word 6 of 6'")
    tab_to(browser, "here.dataset?.vertex === '2'")
    press_delete(browser)
    assert graph_in_words(browser) == "1 ~ 2"
    wait(browser, f"{WHERE} === 'word 4 of 4'")
    tab_to(browser, "here.classList.contains('board-edge')")
    press(browser, "Enter")
    assert browser.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    press_delete(browser)
    assert graph_in_words(browser) == "1  2"
    stayed_here(browser, explored.address)


def test_words_that_are_no_graph_are_refused_beside_the_drawing(browser: Browser, explored: Served) -> None:
    visit(browser, f"{explored.address}/#thinking")
    answered(browser)
    tab_to(browser, "here.closest('.board-tools') && here.classList.contains('typed')")
    for words, said in (("1 ~ 1", "two different"), ("1 ~ 99", "1 to 12; got 99"), ("a", "such as 1 ~ 3")):
        type_text(browser, words)
        assert said in text(browser, ".board-tools .status.wrong")
    assert complaints(browser) == []


def test_the_thought_is_written_step_by_step(browser: Browser, explored: Served) -> None:
    visit(browser, f"{explored.address}/#thinking")
    answered(browser)
    words = "document.querySelectorAll('.tokens.written .token:not(.given):not(.later)')"
    shown = f"[...{words}].map((each) => each.innerText)"
    tab_to(browser, "here.getAttribute('aria-label') === 'Back'")
    press(browser, "Home")
    assert browser.evaluate(shown) == ["1"]
    assert text(browser, ".saying") == "The walk begins at 1."
    assert browser.evaluate("document.querySelector('.board-vertex.at').dataset.vertex") == "1"
    press(browser, "ArrowRight")
    assert browser.evaluate(shown) == ["1", "2"]
    assert browser.evaluate("document.querySelector('.board-vertex.at').dataset.vertex") == "2"
    assert browser.evaluate("document.querySelectorAll('.board-edge.used').length") == 1
    assert not browser.evaluate(
        "document.querySelector('.verdict').checkVisibility({ visibilityProperty: true })"
    )
    choose(browser, "Model", "hybrid-cot")
    wait(
        browser,
        f"{WHERE}.startsWith('word ') && document.querySelector('.result').innerText.includes('W-5.7')",
    )
    press_play(browser)
    tab_to(browser, "here.dataset?.vertex === '5'")
    wait(browser, f"Number({WHERE}.split(' ')[1]) >= 6")
    assert browser.evaluate("document.activeElement.dataset.vertex") == "5"  # it is drawn anew all the time
    stayed_here(browser, explored.address)


def press_play(browser: Browser) -> None:
    tab_to(browser, "here.getAttribute('aria-label') === 'Play'")
    press(browser, "Enter")


def test_searches_show_what_they_match(browser: Browser, explored: Served) -> None:
    visit(browser, f"{explored.address}/#searching")
    answered(browser)
    assert text(browser, ".reading mark.group") == "v3"
    assert text(browser, ".search code") == r"\sk0\s(\S+)"
    tab_to(browser, "here.classList.contains('typed')")
    type_text(browser, "k5 v1 k0 v3 k7 v9 k7")
    press(browser, "Enter")
    wait(browser, "document.querySelector('.reading mark.group')?.innerText === 'v9'")
    choose(browser, "Task", "counting")
    wait(browser, "document.querySelector('.search code')?.innerText.includes('{3}')")
    choose(browser, "Task", "is-tree")
    wait(browser, f"{WHERE} === 'search 1 of 21'")
    assert browser.evaluate("document.querySelector('.board-vertex.at').dataset.vertex") == "1"
    tab_to(browser, "here.getAttribute('aria-label') === 'Forward'")
    press(browser, "Enter")
    assert "first edge of 1" in text(browser, ".search")
    assert browser.evaluate("document.querySelectorAll('.register .token').length") == 23
    press(browser, "End")
    assert "It answers YES, the oracle YES" in text(browser, ".result")
    stayed_here(browser, explored.address)


def test_a_tape_is_typed_and_clicked_and_stepped(browser: Browser, explored: Served) -> None:
    visit(browser, f"{explored.address}/#turing")
    answered(browser)
    assert text(browser, ".turing-tape .head") == "0"
    tab_to(browser, "here.getAttribute('aria-label')?.startsWith('Cell 0:')")
    press(browser, "Enter")  # 0 becomes 1
    wait(browser, "document.querySelector('.result').innerText.includes('answers no')")
    assert browser.evaluate("document.querySelector('form .typed').value") == "1110"
    answered(browser)
    assert browser.evaluate("document.activeElement.getAttribute('aria-label')").startswith("Cell 0: 1")
    tab_to(browser, "here.getAttribute('aria-label') === 'Forward'")
    press(browser, "Enter")
    assert (
        browser.evaluate(
            "[...document.querySelectorAll('.turing-tape .cell')].map((t) => t.innerText).join('')"
        )
        == "_110_"
    )
    assert "carry1" in text(browser, ".saying")
    assert text(browser, "tr.now th") == "carry1"
    press(browser, "End")
    assert text(browser, ".saying") == "It has halted in state no."
    choose(browser, "Machine", "parity")
    wait(browser, "document.querySelector('.result').innerText.includes('answers odd')")
    choose(browser, "Model", "linear-rnn-cot")
    wait(browser, "document.querySelector('.result').innerText.includes('W-4.1')")
    stayed_here(browser, explored.address)


def test_alice_and_bob_are_counted(browser: Browser, explored: Served) -> None:
    visit(browser, f"{explored.address}/#protocol")
    answered(browser)
    assert text(browser, ".counter output") == "245"
    tab_to(browser, "here.getAttribute('aria-label') === 'Back'")
    press(browser, "Home")
    assert text(browser, ".counter output") == "0"
    assert browser.evaluate("document.querySelectorAll('.message').length") == 0
    press(browser, "ArrowRight", times=2)
    assert text(browser, ".counter output") == "140"
    assert browser.evaluate("document.querySelectorAll('.message.from-Bob').length") == 2
    choose(browser, "Task", "index-lookup by rnn")
    wait(browser, "document.querySelector('.result').innerText.includes('They find s3')")
    answered(browser)
    for _ in range(200):
        press(browser, "-Tab")
        if browser.evaluate("document.activeElement.classList.contains('typed')"):
            break
    type_text(browser, "s1 s2 @9")
    press(browser, "Enter")
    wait(browser, "document.querySelector('.status.wrong')")
    browser.events.clear()  # the browser itself logs the refusal
    type_text(browser, "s1 s9 @2")
    press(browser, "Enter")
    wait(browser, "document.querySelector('.result').innerText.includes('They find s9')")
    assert complaints(browser) == []
