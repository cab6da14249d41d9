"""Every figure of the papers that `results/` has numbers for, and a manifest of their hashes.

    python -m benchmarks.figures [--out out/figures]

Writes each as PNG, SVG and PDF, with the attention pictures where a study has some, and then
`results/figures.sha256`, one line a file as `sha256sum` reads it: `sha256sum -c` in the folder checks it by
hand. The first lines name the versions of matplotlib and FreeType that drew them: another FreeType may place
a letter elsewhere. Run it whenever results or figures change.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import matplotlib as mpl
from matplotlib import ft2font

from separatrix.atlas.experiments import kept_in, paper_studies, reported
from separatrix.experiments.attention_pictures import figure
from separatrix.experiments.figures import write_drawing, write_figures
from separatrix.experiments.outcomes import CellOutcome
from separatrix.files import written_whole
from separatrix.store.bundles import results_folder

MANIFEST = Path(__file__).parents[1] / "results" / "figures.sha256"


def drawn_with() -> str:
    """The programs whose versions the bytes depend on."""
    return f"matplotlib {mpl.__version__}, FreeType {ft2font.__freetype_version__}"


def write_all(folder: Path) -> dict[str, str]:
    """Draw everything into a folder; the SHA-256 of each file by its name."""
    kept = kept_in(results_folder())
    written: list[Path] = []
    for asked in paper_studies():
        outcome = reported(asked, kept)
        if any(_is_kept(one) for panel in outcome.panels for one in panel.cells):
            written += write_figures(outcome, folder)
        if asked.study.name in kept.pictures:
            draw = partial(figure, kept.pictures[asked.study.name])
            written += write_drawing(draw, folder, name=f"{asked.study.name}-attention")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(written)}


def _is_kept(one: CellOutcome) -> bool:
    """Whether a number comes from a file, and not from counting now."""
    return one.accuracy is not None and one.cell.measure is None


def manifest_text(hashes: Mapping[str, str]) -> str:
    """The manifest as `sha256sum` writes it, after the versions."""
    lines = [f"{digest}  {name}" for name, digest in sorted(hashes.items())]
    return "\n".join(["# Made by python -m benchmarks.figures", f"# {drawn_with()}", *lines, ""])


def read_manifest(path: Path = MANIFEST) -> tuple[str, dict[str, str]]:
    """What the manifest was drawn with, and the hashes by name."""
    lines = path.read_text(encoding="utf-8").splitlines()
    remarks = [line.removeprefix("# ") for line in lines if line.startswith("#")]
    hashes = {
        name: digest for digest, name in (line.split("  ", 1) for line in lines if not line.startswith("#"))
    }
    return remarks[-1], hashes


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out") / "figures")
    parser.add_argument("--no-manifest", action="store_true", help="Draw only; leave the manifest as it is.")
    options = parser.parse_args()
    hashes = write_all(options.out)
    if not options.no_manifest:
        with written_whole(MANIFEST) as file:
            file.write(manifest_text(hashes))
    print(f"{len(hashes)} files in {options.out}, drawn with {drawn_with()}")


if __name__ == "__main__":
    main()
