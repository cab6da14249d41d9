"""Drawings are saved as SVG and PNG and tables as CSV, from the page alone and by keyboard too."""

from __future__ import annotations

import base64
import csv
import io
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import pytest
from PIL import Image

from separatrix.atlas.plots.memory import collect_memory
from tests.atlas.browser import Browser, chromium

pytestmark = [pytest.mark.browser]

SVG = "{http://www.w3.org/2000/svg}"

CAUGHT = """(() => {
  window.saved = [];
  URL.createObjectURL = (blob) => { window.last = blob; return "blob:none"; };
  HTMLAnchorElement.prototype.click = function () { window.saved.push([this.download, window.last]); };
})()"""
"""What would be saved is caught instead, with its name."""

PRESSED = """(async () => {
  window.saved.length = 0;
  const pressed = [...document.querySelectorAll(".export button")].filter((one) => one.textContent === "%s");
  for (const [place, one] of pressed.entries()) {
    one.click();
    while (window.saved.length <= place) await new Promise((done) => setTimeout(done, 1));
  }
  const read = (blob) => new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.split(",")[1]);
    reader.readAsDataURL(blob);
  });
  return Promise.all(window.saved.map(async ([name, blob]) => [name, blob.type, await read(blob)]));
})()"""

DRAWN = """[...document.querySelectorAll("svg.drawing")].map((svg) => ({
  title: svg.querySelector("title").textContent,
  words: [...svg.querySelectorAll("text")].map((one) => one.textContent),
  shapes: svg.querySelectorAll("rect, circle, line, path, polyline, polygon").length,
  box: [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height],
}))"""

TABLES = """[...document.querySelectorAll("table")].map((table) =>
  [...table.rows].filter((row) => !row.closest("[hidden]")).map((row) => [...row.cells].flatMap((cell) => {
    const copy = cell.cloneNode(true);
    copy.querySelectorAll("svg, summary, button, .unseen, [aria-hidden=true]").forEach((one) => one.remove());
    return [copy.textContent, ...Array(cell.colSpan - 1).fill("")];
  })))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


def saved(browser: Browser, page: Path, kind: str, *, dark: bool = False) -> list[tuple[str, str, bytes]]:
    """All files of a kind that the page can make, with their names and types."""
    browser.open(page, width=1280, dark=dark)
    browser.evaluate(CAUGHT)
    return [(name, type_, base64.b64decode(data)) for name, type_, data in browser.evaluate(PRESSED % kind)]


@pytest.mark.parametrize("dark", [False, True])
def test_every_drawing_is_saved_as_an_svg_that_stands_alone(
    browser: Browser, page_path: Path, dark: bool
) -> None:
    files = saved(browser, page_path, "SVG", dark=dark)
    drawn = browser.evaluate(DRAWN)
    assert len(files) == len(drawn) > 40
    assert len({name for name, _, _ in files}) == len(files)
    for (name, kind, content), original in zip(files, drawn, strict=True):
        assert (name[:11], name[-4:], kind) == ("separatrix-", ".svg", "image/svg+xml")
        root = ElementTree.fromstring(content)
        assert root.tag == f"{SVG}svg"
        assert [float(root.attrib[side]) for side in ("width", "height")] == original["box"]
        assert _text(root.find(f"{SVG}title")) == original["title"]
        texts = list(root.iter(f"{SVG}text"))
        assert [_text(one) for one in texts] == original["words"]
        assert all(re.fullmatch(r"rgba?\(.*\)", one.attrib["fill"]) for one in texts), name
        assert all({"font-family", "font-size"} <= one.attrib.keys() for one in texts), name
        assert sum(one.tag in _SHAPES for one in root.iter()) == original["shapes"] + 1  # and the ground
        written = content.decode()
        assert "class=" not in written
        assert "var(" not in written
        assert "light-dark" not in written


def test_every_drawing_is_saved_as_a_sharp_png(browser: Browser, page_path: Path) -> None:
    files = saved(browser, page_path, "PNG")
    drawn = browser.evaluate(DRAWN)
    assert len(files) == len(drawn)
    for (name, kind, content), original in zip(files, drawn, strict=True):
        assert (name[-4:], kind) == (".png", "image/png")
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        with Image.open(io.BytesIO(content)) as image:
            assert image.size == tuple(round(3 * side) for side in original["box"])
            found = image.convert("RGBA").getcolors(1 << 20) or []
        colours = [cast("tuple[int, ...]", colour) for _, colour in found]
        assert len(colours) > 1, f"{name} is blank"
        assert all(colour[3] == 255 for colour in colours), f"{name} has no ground"


def test_every_table_is_saved_with_its_cells(browser: Browser, page_path: Path) -> None:
    files = saved(browser, page_path, "CSV")
    tables = browser.evaluate(TABLES)
    assert len(files) == len(tables) > 4
    assert len({name for name, _, _ in files}) == len(files)
    for (name, kind, content), table in zip(files, tables, strict=True):
        assert (name[-4:], kind) == (".csv", "text/csv")
        rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))
        assert [[_letters(cell) for cell in row] for row in rows] == [
            [_letters(cell) for cell in row] for row in table
        ], name


def test_numbers_in_a_table_are_saved_as_numbers(browser: Browser, page_path: Path) -> None:
    by_name = {name: content for name, _, content in saved(browser, page_path, "CSV")}
    rows = list(csv.reader(io.StringIO(by_name["separatrix-audited-models.csv"].decode("utf-8-sig"))))
    memory = collect_memory()
    assert [row[1] for row in rows[1:]] == [
        str(each.audit.size.state_bits(memory.lengths[0])) for each in memory.models
    ]
    assert [row[-1] for row in rows[1:]] == [
        "none" if each.wall is None else str(each.wall) for each in memory.models
    ]


def test_a_power_is_not_lost_and_a_hidden_row_is(browser: Browser, page_path: Path) -> None:
    browser.open(page_path, width=1280)
    browser.evaluate(CAUGHT)
    browser.evaluate(
        "document.querySelector('select[name=task]').value = 'match3';"
        "document.querySelector('.filters').dispatchEvent(new Event('change'))"
    )
    files = {name: base64.b64decode(data).decode() for name, _, data in browser.evaluate(PRESSED % "CSV")}
    results = files["separatrix-results.csv"]
    assert "R-M3" in results
    assert "S-T1," not in results
    assert "N^-K" in results or "^(" in results


def test_quotes_and_commas_come_back_as_they_were(browser: Browser, page_path: Path) -> None:
    browser.open(page_path, width=1280)
    browser.evaluate(CAUGHT)
    browser.evaluate("document.querySelector('table.audited tbody td').textContent = 'a \"b\", c'")
    files = {name: base64.b64decode(data) for name, _, data in browser.evaluate(PRESSED % "CSV")}
    text = files["separatrix-audited-models.csv"].decode("utf-8-sig")
    assert list(csv.reader(io.StringIO(text)))[1][1] == 'a "b", c'


@pytest.mark.parametrize(
    ("kind", "start"), [("SVG", b"<svg "), ("PNG", b"\x89PNG"), ("CSV", b"\xef\xbb\xbf")]
)
def test_a_file_is_really_saved_by_keyboard(
    browser: Browser, page_path: Path, kind: str, start: bytes, tmp_path: Path
) -> None:
    browser.open(page_path, width=1280)
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    buttons = f"[...document.querySelectorAll('.export button')].filter((b) => b.textContent === '{kind}')"
    browser.evaluate(f"{buttons}[0].focus()")
    assert browser.evaluate(f"getComputedStyle({buttons}[0].parentElement).opacity") == "1"
    assert browser.evaluate("document.activeElement.getAttribute('aria-label')").startswith(
        f"Save as {kind}: "
    )
    browser.press("Enter")
    found: list[Path] = []
    for _ in range(200):
        found = [path for path in tmp_path.iterdir() if path.suffix == f".{kind.lower()}"]
        if found:
            break
        time.sleep(0.05)
    assert [path.name[:11] for path in found] == ["separatrix-"]
    assert found[0].read_bytes().startswith(start)
    requests = [
        event["request"]["url"] for method, event in browser.events if method == "Network.requestWillBeSent"
    ]
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests)


_SHAPES = {f"{SVG}{tag}" for tag in ("rect", "circle", "line", "path", "polyline", "polygon")}


def _text(element: Any) -> str:
    return "".join(element.itertext())


def _letters(cell: str) -> str:
    """What is left of a cell without spaces and signs that are written another way."""
    return re.sub(r"[\s,;^_()−\u2011\u200b-]", "", cell)
