"""The documentation site: it builds without a warning, says what it should, and asks no other machine."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.build import foreign_requests, lay_out, unlisted

import separatrix
from tests.atlas.browser import Browser, chromium

ROOT = Path(__file__).parent.parent


def test_every_page_is_in_the_navigation() -> None:
    assert unlisted(ROOT / "docs", ROOT / "zensical.toml") == []


def test_pages_take_along_what_they_link_to(tmp_path: Path) -> None:
    docs, code = tmp_path / "docs", tmp_path / "src" / "thing.py"
    docs.mkdir()
    code.parent.mkdir()
    code.write_text('"""Says ```so```."""\n')
    (tmp_path / "README.md").write_text("# All\n\n[in](docs/page.md#here) and [code](src/thing.py)\n")
    (docs / "page.md").write_text("[up](../README.md#all) [out](https://x.org)\n\n```\n[not](gone.md)\n```\n")
    lay_out(docs, tmp_path, tmp_path / "pages")
    found = {
        path.relative_to(tmp_path / "pages").as_posix(): path for path in (tmp_path / "pages").rglob("*.md")
    }
    assert set(found) == {"page.md", "repository/about.md", "repository/src/thing.py.md"}
    assert found["page.md"].read_text().startswith("[up](repository/about.md#all) [out](https://x.org)")
    assert "[not](gone.md)" in found["page.md"].read_text()
    assert "[in](../page.md#here) and [code](src/thing.py.md)" in found["repository/about.md"].read_text()
    assert found["repository/src/thing.py.md"].read_text().count("````") == 2


@pytest.mark.parametrize("link", ["../gone.md", "../../beyond.md"])
def test_a_link_to_nothing_ends_the_build(link: str, tmp_path: Path) -> None:
    docs = tmp_path / "root" / "docs"
    docs.mkdir(parents=True)
    (tmp_path / "beyond.md").write_text("# Out of reach\n")
    (docs / "page.md").write_text(f"[there]({link})\n")
    with pytest.raises(SystemExit, match=r"leads (to no file|out of the repository)"):
        lay_out(docs, tmp_path / "root", tmp_path / "pages")


@pytest.mark.parametrize(
    ("name", "text", "asks"),
    [
        ("a.html", '<script src="https://x.org/y.js"></script>', True),
        ("a.html", '<link rel="stylesheet" href="//x.org/y.css">', True),
        ("a.html", '<img src="http://x.org/y.png">', True),
        ("a.html", '<p style="background: url(https://x.org/y.png)">', True),
        ("a.css", '@import "https://x.org/y.css";', True),
        ("a.css", "p { background: url(//x.org/y.png) }", True),
        ("a.html", '<a href="https://x.org">there</a><link rel="canonical" href="https://x.org">', False),
        ("a.html", '<script src="y.js"></script><img src="data:image/png;base64,AA">', False),
    ],
)
def test_requests_to_others_are_found(name: str, text: str, asks: bool, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert bool(foreign_requests(tmp_path)) == asks


@pytest.fixture(scope="module")
def site(testrun_uid: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built into the place where `make site` puts it, once, by whichever test process comes first."""
    built = tmp_path_factory.getbasetemp().parent / f"site-{testrun_uid}"
    with built.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            done = subprocess.run(
                [sys.executable, "-m", "docs.build"], check=False, cwd=ROOT, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout + done.stderr
            built.touch()
    return ROOT / "out" / "site"


@pytest.mark.slow
@pytest.mark.extra
def test_the_site_builds_and_has_every_page(site: Path) -> None:
    assert {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")} <= {
        path.name for path in site.iterdir()
    }
    api = (site / "api.html").read_text()
    for name in set(separatrix.__all__) - {"__version__"}:
        assert f'id="separatrix.{name}"' in api
    assert "Weights that do the task on every input" in api  # docstrings, not names alone
    assert (site / "repository" / "src" / "separatrix" / "witnesses" / "index_lookup.py.html").exists()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.mark.slow
@pytest.mark.extra
@pytest.mark.browser
@pytest.mark.parametrize("page", ["index", "tutorial", "api", "theorem-to-code"])
def test_a_page_opens_from_disk_and_asks_nobody(browser: Browser, site: Path, page: str) -> None:
    browser.open(site / f"{page}.html", width=1280)
    browser.evaluate("new Promise((done) => setTimeout(done, 500))")
    asked = [
        event["request"]["url"] for method, event in browser.events if method == "Network.requestWillBeSent"
    ]
    assert asked
    assert [address for address in asked if not address.startswith(("file:", "data:"))] == []
    assert [event for event in browser.events if event[0] == "Runtime.exceptionThrown"] == []
    assert browser.evaluate("document.querySelector('article h1').textContent.length") > 5
    assert browser.evaluate("document.fonts.size") == 0
