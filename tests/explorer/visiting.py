"""Visiting the explorer in Chromium: addresses, keys, and what must never happen on the way."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.atlas.browser import Browser

COMPLAINTS = {
    "Log.entryAdded",
    "Runtime.exceptionThrown",
    "Runtime.consoleAPICalled",
    "Network.loadingFailed",
}
CODES = {
    "Tab": 9,
    "Enter": 13,
    " ": 32,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}
LONGEST = 90.0


def visit(browser: Browser, address: str, *, width: int = 1280, dark: bool = False) -> None:
    """Open an address anew, at a width and in a theme; the events before it are forgotten."""
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
    )
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.call("Emulation.setEmulatedMedia", features=[scheme])
    browser.call("Page.navigate", url="about:blank")
    wait(browser, "location.href === 'about:blank'")
    browser.events.clear()
    browser.call("Page.navigate", url=address)
    wait(browser, f"location.href === {json.dumps(address)} && document.readyState === 'complete'")


def wait(browser: Browser, condition: str) -> None:
    """Until a JavaScript condition is true; what the page says is in the message if it never is."""
    end = time.monotonic() + LONGEST
    while True:
        try:
            if browser.evaluate(f"Boolean({condition})"):
                return
        except AssertionError:  # between two pages there is nothing to ask
            pass
        if time.monotonic() > end:
            said = browser.evaluate("document.body.innerText.slice(0, 1000)")
            raise AssertionError(f"never true: {condition}; the page says: {said}")
        time.sleep(0.05)


def answered(browser: Browser) -> None:
    """Until the view shows an answer and nothing is being computed; an error in words fails."""
    wait(browser, "document.querySelector('.view [aria-busy=\"false\"] .result *')")
    wait(browser, "!document.querySelector('[aria-busy=\"true\"]')")
    assert browser.evaluate("document.querySelector('.status.wrong')?.textContent ?? ''") == ""


def press(browser: Browser, key: str, *, times: int = 1) -> None:
    """A key, down and up; Tab with a minus sign goes backwards."""
    back = 8 if key == "-Tab" else 0
    name = key.lstrip("-") if back else key
    text = {"Enter": {"text": "\r"}, " ": {"text": " "}}.get(name, {})
    for _ in range(times):
        what: dict[str, Any] = {"key": name, "windowsVirtualKeyCode": CODES[name], "modifiers": back}
        browser.call("Input.dispatchKeyEvent", type="keyDown", **what, **text)
        browser.call("Input.dispatchKeyEvent", type="keyUp", **what)


def tab_to(browser: Browser, condition: str) -> None:
    """Press Tab until the element that has the focus, `here`, is as described."""
    for _ in range(200):
        press(browser, "Tab")
        if browser.evaluate(f"((here) => Boolean({condition}))(document.activeElement)"):
            return
    raise AssertionError(f"no Tab leads to {condition}")


def type_text(browser: Browser, text: str) -> None:
    """Replace what the focused field holds, as somebody who selects all and types."""
    browser.evaluate("document.activeElement.select()")
    browser.call("Input.insertText", text=text)


def complaints(browser: Browser) -> list[tuple[str, dict[str, Any]]]:
    """Everything that the console or the network had to say."""
    return [event for event in browser.events if event[0] in COMPLAINTS]


def requested(browser: Browser) -> list[str]:
    """Every address that was asked for."""
    return [
        event["request"]["url"] for method, event in browser.events if method == "Network.requestWillBeSent"
    ]


def stayed_here(browser: Browser, address: str) -> None:
    """No complaint, and no request to any other place than the explorer itself."""
    assert complaints(browser) == []
    asked = requested(browser)
    assert asked
    away = [each for each in asked if not each.startswith((f"{address}/", "data:"))]
    assert away == []
