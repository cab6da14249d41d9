"""The picture of the atlas in the README: the real page, as headless Chromium shows it at 1280 points.

python -m docs.picture
"""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from PIL import Image
from tests.atlas.browser import chromium

import separatrix

__all__ = ["picture"]

PICTURE: Final = Path(__file__).parent / "atlas.png"
WIDTH: Final = 1280
HEIGHT: Final = 960
GRAND_TABLE: Final = "section.whole"
"""What the picture begins with: every task by every family."""
_MOST_BYTES: Final = 300_000
_COLOURS: Final = 128


def picture(path: Path, *, selector: str = GRAND_TABLE) -> None:
    """Write a PNG of the page from the element on that a selector names."""
    with TemporaryDirectory() as folder, chromium() as browser:
        browser.open(separatrix.make_atlas(folder), width=WIDTH, height=HEIGHT)
        browser.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        top = browser.evaluate(f"document.querySelector({selector!r}).getBoundingClientRect().top + scrollY")
        shot = browser.screenshot(clip={"x": 0, "y": top, "width": WIDTH, "height": HEIGHT})
    # A page has few colours; a palette makes the file a third as large and looks the same.
    few = Image.open(io.BytesIO(shot)).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    if path.stat().st_size >= _MOST_BYTES:
        raise SystemExit(
            f"{path} has {path.stat().st_size:,} bytes; a README asks for less than {_MOST_BYTES:,}."
        )


if __name__ == "__main__":
    picture(PICTURE)
    print(PICTURE, f"{PICTURE.stat().st_size:,} bytes")
