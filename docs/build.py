"""The documentation site: `make site` lays the pages out in out/pages and builds them into out/site.

Pages link to files of the repository beside them. On GitHub those links lead to the files; here each file
that is linked to becomes a page of its own under `repository/`, and the links are turned. Whatever is not as
it should be ends the build: a warning of zensical's, a link that leads nowhere, a request to another machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Final

__all__ = ["build", "foreign_requests", "lay_out", "unlisted"]

ROOT: Final = Path(__file__).parent.parent
PAGES: Final = ROOT / "out" / "pages"
SITE: Final = ROOT / "out" / "site"
_LINK: Final = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")
_FENCE: Final = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
_LANGUAGES: Final = {".py": "python", ".toml": "toml", ".json": "json"}
_LOADS: Final = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "link": "href",
    "use": "href",
}
"""Elements that a browser fetches something for, and where they say what."""
_INERT: Final = frozenset({"canonical", "next", "prev", "alternate"})
"""Relations of a `<link>` that nothing is fetched for."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_REMOTE: Final = re.compile(r"^(https?:)?//")
_STYLE: Final = re.compile(r"url\(\s*[\"']?((?:https?:)?//[^)\"']+)|@import\s+[\"']((?:https?:)?//[^\"']+)")


def lay_out(docs: Path, root: Path, pages: Path) -> None:
    """Put the pages of `docs`, and every file of `root` that they link to, into the folder `pages`."""
    shutil.rmtree(pages, ignore_errors=True)
    waiting = [*sorted(docs.glob("*.md"))]
    laid: set[Path] = set()
    while waiting:
        file = waiting.pop()
        if file in laid:
            continue
        laid.add(file)
        place = pages / _place(file, docs, root)
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            text, linked = _turned(file, docs, root)
            place.write_text(text, encoding="utf-8")
            waiting += linked
        elif file.suffix in {".svg", ".png"}:
            shutil.copyfile(file, place)
        else:
            place.write_text(_as_page(file, root), encoding="utf-8")


def _place(file: Path, docs: Path, root: Path) -> PurePosixPath:
    """Where a file of the repository stands among the pages."""
    if file.is_relative_to(docs):
        return PurePosixPath(file.relative_to(docs).as_posix())
    inside = file.relative_to(root).as_posix()
    # A README would be taken for the index of its folder.
    inside = re.sub(r"README\.md$", "about.md", inside)
    page = file.suffix in {".md", ".svg", ".png"}
    return PurePosixPath("repository", inside if page else f"{inside}.md")


def _turned(file: Path, docs: Path, root: Path) -> tuple[str, list[Path]]:
    """The text of a page with its links turned to where files stand now, and the files it links to."""
    linked: list[Path] = []
    here = _place(file, docs, root).parent

    def turn(found: re.Match[str]) -> str:
        target = (file.parent / found[2]).resolve()
        if not target.is_relative_to(root):
            raise SystemExit(f"{file}: the link {found[2]} leads out of the repository.")
        if not target.is_file():
            raise SystemExit(f"{file}: the link {found[2]} leads to no file.")
        linked.append(target)
        moved = os.path.relpath(_place(target, docs, root), here)
        return f"{found[1]}{moved}{found[3]}"

    parts = [
        text if fenced else _LINK.sub(turn, text) for fenced, text in _by_fences(file.read_text("utf-8"))
    ]
    return "".join(parts), linked


def _by_fences(text: str) -> Iterator[tuple[bool, str]]:
    """The text in pieces, with whether each is a block of code."""
    end = 0
    for found in _FENCE.finditer(text):
        yield False, text[end : found.start()]
        yield True, found[0]
        end = found.end()
    yield False, text[end:]


def _as_page(file: Path, root: Path) -> str:
    code = file.read_text(encoding="utf-8")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", code)), default=0))
    name, language = file.relative_to(root).as_posix(), _LANGUAGES.get(file.suffix, "text")
    return f"# {name}\n\n{fence}{language}\n{code.rstrip()}\n{fence}\n"


class _Requests(HTMLParser):
    """What a browser would fetch from elsewhere for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one element."""
        given = dict(attrs)
        if tag == "link" and given.get("rel") in _INERT:
            return
        address = given.get(_LOADS.get(tag, "")) or ""
        if _REMOTE.match(address) or _STYLE.search(given.get("style") or ""):
            self.found.append(address or f"{tag} style")


def foreign_requests(site: Path) -> list[str]:
    """Every `file: address` that opening a page of the site would ask of another machine."""
    found: list[str] = []
    for path in sorted(site.rglob("*.html")):
        parser = _Requests()
        parser.feed(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)}: {address}" for address in parser.found]
    for path in sorted(site.rglob("*.css")):
        remote = _STYLE.findall(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)}: {first or second}" for first, second in remote]
    return found


def unlisted(docs: Path, config: Path) -> list[str]:
    """Pages that are not in the navigation, and entries of the navigation that are no pages."""
    listed = set(_named(tomllib.loads(config.read_text(encoding="utf-8"))["project"]["nav"]))
    return sorted(listed ^ {path.name for path in docs.glob("*.md")})


def _named(entry: object) -> Iterator[str]:
    """The pages that a part of the navigation names."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict | list):
        for each in entry.values() if isinstance(entry, dict) else entry:
            yield from _named(each)


def build() -> None:
    """Lay the pages out, build them with every warning an error, and look at what came of it."""
    if missing := unlisted(ROOT / "docs", ROOT / "zensical.toml"):
        raise SystemExit(f"Pages and the navigation in zensical.toml differ in {', '.join(missing)}.")
    lay_out(ROOT / "docs", ROOT, PAGES)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(
        command,
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        said = _COLOUR.sub("", done.stdout + done.stderr)
        raise SystemExit(f"{said}\nThe site is not built; what is wrong stands above.")
    if found := foreign_requests(SITE):
        raise SystemExit("The site would ask other machines:\n" + "\n".join(found))
    print(SITE / "index.html")


if __name__ == "__main__":
    build()
