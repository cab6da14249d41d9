"""How long the atlas takes to open in Chromium from disk, and from a slider's move to the next picture.

    python -m benchmarks.atlas_page [--runs 5] [--page FILE]

The page is made first unless one is given. Opening is from the start of navigation to the load event and to
the first content on screen. A move is an `input` event of a slider; it ends when the frame that it asked for
has been handed on, so the wait for the next frame of the screen is in it. The slow rows have the processor
throttled to a quarter, which stands for a phone.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.atlas.browser import Browser, chromium

from benchmarks.markdown import table
from separatrix.atlas import make_atlas
from separatrix.files import written_whole

OPENED: Final = """(() => {
  const [entry] = performance.getEntriesByType("navigation");
  const [paint] = performance.getEntriesByName("first-contentful-paint");
  return [entry.loadEventEnd, paint ? paint.startTime : null];
})()"""
MOVED: Final = """new Promise((done) => {
  const dial = document.querySelector("#dial-NAME");
  dial.value = VALUE;
  const begin = performance.now();
  dial.dispatchEvent(new Event("input", { bubbles: true }));
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => done(performance.now() - begin);
    channel.port2.postMessage(null);
  });
})"""
SETTLED: Final = "new Promise((done) => setTimeout(done, 300))"
MOVES: Final = (*(("n", power) for power in range(4, 31)), *(("bits", power) for power in range(4, 51)))


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "atlas_page.md")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        page = arguments.page or make_atlas(folder)
        text = measured(page, runs=arguments.runs)
    with written_whole(arguments.out) as file:
        file.write(text)
    print(text)


def measured(page: Path, *, runs: int) -> str:
    """The table, in Markdown."""
    rows: list[tuple[object, ...]] = []
    with chromium() as browser:
        for what, rate in (("as it is", 1), ("processor at a quarter", 4)):
            browser.call("Emulation.setCPUThrottlingRate", rate=rate)
            for width in (1280, 360):
                rows.append((f"{width} px, {what}", *_times(browser, page, width=width, runs=runs)))
    head = (
        "window",
        "loaded, ms",
        "first content, ms",
        "a move, median ms",
        "a move, worst ms",
    )
    return "\n".join(
        [
            "# The atlas in Chromium",
            "",
            f"Made by `python -m benchmarks.atlas_page`. The page has {page.stat().st_size:,} bytes.",
            f"Opening: the median of {runs}. Moves: {len(MOVES)} a run, each slider from end to end.",
            "",
            table(head, rows),
            "",
        ]
    )


def _times(browser: Browser, page: Path, *, width: int, runs: int) -> tuple[str, ...]:
    loaded, content, moves = [], [], []
    for _ in range(runs):
        browser.open(page, width=width)
        browser.evaluate(SETTLED)
        load, paint = browser.evaluate(OPENED)
        loaded.append(load)
        content.append(load if paint is None else paint)
        for name, power in MOVES:
            moves.append(browser.evaluate(MOVED.replace("NAME", name).replace("VALUE", str(power))))
    return tuple(
        f"{value:,.0f}"
        for value in (
            statistics.median(loaded),
            statistics.median(content),
            statistics.median(moves),
            max(moves),
        )
    )


if __name__ == "__main__":
    main()
