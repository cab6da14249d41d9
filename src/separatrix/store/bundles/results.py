"""Where published results are: in the installed package, or in the checkout it is run from."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from separatrix.store.bundles.tables import RUNS

__all__ = ["bundles_in", "results_folder"]

_PACKAGE: Final = Path(__file__).parents[2]


def results_folder() -> Path | None:
    """The folder `results` with a bundle a folder; None where neither the package nor a checkout has one."""
    inside = _PACKAGE / "results"
    if inside.is_dir():
        return inside
    checkout = _PACKAGE.parents[1]
    if _PACKAGE.parent.name == "src" and (checkout / "pyproject.toml").is_file():
        beside = checkout / "results"
        return beside if beside.is_dir() else None
    return None


def bundles_in(folder: Path | None) -> tuple[Path, ...]:
    """The folders in a folder that have a bundle, by their names; none where there is no folder."""
    if folder is None or not folder.is_dir():
        return ()
    return tuple(sorted(path for path in folder.iterdir() if (path / RUNS.file).is_file()))
