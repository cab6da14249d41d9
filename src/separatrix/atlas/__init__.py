"""The atlas: one self-contained page with every task, drawn, every result, every model, every figure."""

from __future__ import annotations

from pathlib import Path

from separatrix.atlas.collect import collect_content
from separatrix.atlas.drawings import draw_examples
from separatrix.atlas.grand_table import View
from separatrix.atlas.render import render_page
from separatrix.atlas.write import write_page
from separatrix.store.bundles import results_folder

__all__ = ["make_atlas"]


def make_atlas(
    out: Path | str | None = None,
    *,
    seed: int = 0,
    results: Path | str | None = None,
    n: int = View.n,
    precision: int = View.precision,
    budget: int = View.budget,
) -> Path:
    """Write the page and return its path.

    `out` is a folder, which gets an `index.html`, or a file that ends in `.html`; left out, the page goes
    to `out/atlas/index.html`. `seed` chooses the drawn examples. `results` is a folder with bundles of runs;
    left out, those that come with the package are shown. `n`, `precision` and `budget` (in bits) are where
    the sliders of the grand table stand when the page opens. The same arguments, registries and results
    give the same bytes.
    """
    kept = results_folder() if results is None else Path(results)
    content = collect_content(seed=seed, results=kept, view=View(n=n, precision=precision, budget=budget))
    drawings = draw_examples(content.tasks)
    page = render_page(content, drawings)
    return write_page(page, out)
