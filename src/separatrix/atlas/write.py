"""The page on disk: whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from separatrix.errors import InvalidFile
from separatrix.files import written_whole

__all__ = ["DEFAULT_FOLDER", "write_page"]

DEFAULT_FOLDER: Final = Path("out") / "atlas"


def write_page(page: str, out: Path | str | None) -> Path:
    """Put the page in its place in one step, so that a reader sees the old one or the new one."""
    path = _destination(out)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) and failure.strerror else str(failure)
        raise InvalidFile(
            f"The atlas cannot be written to '{path}': {reason}; choose a folder that can be written to."
        ) from failure
    with written_whole(path) as file:
        file.write(page)
    return path


def _destination(out: Path | str | None) -> Path:
    place = DEFAULT_FOLDER if out is None else Path(out)
    return place if place.suffix.lower() in {".html", ".htm"} else place / "index.html"
