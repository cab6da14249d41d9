"""Setting a run aside: what it left is moved out of the way and kept, and it can be trained again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from separatrix.errors import InvalidFile
from separatrix.files import replace_file
from separatrix.store.evidence import FOLDER, SUFFIXES
from separatrix.store.runs import Run
from separatrix.store.store import Store

__all__ = ["set_aside"]

_FILES: Final = (
    ("weights", "safetensors"),
    ("curves", "parquet"),
    *((FOLDER, suffix) for suffix in SUFFIXES),
)
_MOST: Final = 10_000


def set_aside(store: Store, run: Run) -> Path:
    """Move the files of a run into a folder of their own, with its row as JSON; where that is.

    The row is the last to change: whoever is killed on the way finds a run whose files are missing, and sets
    the rest aside.
    """
    try:
        folder = _free_folder(store.path / "aside", run.key)
        replace_file(folder / "run.json", (json.dumps(run.to_json(), allow_nan=False) + "\n").encode())
        for kind, suffix in _FILES:
            path = store.place(kind, run.key, suffix)
            if path.is_symlink() or path.exists():
                path.rename(folder / f"{kind}.{suffix}")
    except OSError as failure:
        raise InvalidFile(
            f"The files of the run {run.short} cannot be set aside in '{store.path / 'aside'}': "
            f"{failure.strerror or failure}."
        ) from failure
    store.reopen(run.key)
    return folder


def _free_folder(parent: Path, key: str) -> Path:
    """A new folder for this run; it may have been set aside before."""
    parent.mkdir(exist_ok=True)
    for number in range(1, _MOST):
        folder = parent / (key if number == 1 else f"{key}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"it was set aside {_MOST:,} times")
