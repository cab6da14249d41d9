"""What a store no longer needs: checkpoints of what has finished, and files that belong to nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from separatrix.store.claims import CLAIM, claiming, is_claimed
from separatrix.store.evidence import FOLDER, SUFFIXES
from separatrix.store.store import Store

__all__ = ["Cleaned", "Leftover", "clean"]

_KEY: Final = r"[0-9a-f]{64}"
_CHECKPOINT: Final = re.compile(r"step-[0-9]{12}\.safetensors")
_PART: Final = re.compile(r"\.[0-9a-f]{16}\.part")
_OF_RUNS: Final = {"curves": ("parquet",), "weights": ("safetensors",), FOLDER: SUFFIXES}
"""Folders with a file for each run, and how the names of such files end."""
_OLD: Final = 3600.0
"""Seconds after which nobody is writing to a temporary file any more."""


@final
@dataclass(frozen=True, kw_only=True)
class Leftover:
    """A file that nobody needs."""

    path: Path
    bytes: int
    why: str


@final
@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """What was removed, or would be, and the populations that were left alone because they are trained."""

    removed: tuple[Leftover, ...]
    claimed: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """How much room that makes."""
        return sum(leftover.bytes for leftover in self.removed)


def clean(store: Store, *, dry_run: bool = False) -> Cleaned:
    """Remove what is left over: only what a store itself writes, and nothing of a population in training."""
    removed: list[Leftover] = []
    for leftover in _strays(store):
        if _gone(leftover, dry_run=dry_run):
            removed.append(leftover)
    claimed = []
    for folder in _populations(store):
        held: AbstractContextManager[bool] = (
            nullcontext(not is_claimed(folder)) if dry_run else claiming(folder)
        )
        with held as mine:
            if not mine:
                claimed.append(folder.name)
                continue
            removed += [each for each in _of_population(store, folder) if _gone(each, dry_run=dry_run)]
            if not dry_run:
                _remove_empty(folder)
    return Cleaned(removed=tuple(removed), claimed=tuple(claimed))


def _strays(store: Store) -> Iterator[Leftover]:
    """Curves, weights and evidence of no run, and temporary files that a killed process left long ago."""
    # The files first and the rows after: a file that is there now has had its row for longer.
    files = [(path, suffixes) for kind, suffixes in _OF_RUNS.items() for path in _files(store.path / kind)]
    keys = store.all_keys()
    for path, suffixes in files:
        key, _, suffix = path.name.partition(".")
        if re.fullmatch(_KEY, key) and suffix in suffixes and key not in keys:
            yield _leftover(path, "belongs to no run")
        elif _PART.fullmatch(path.name) and time.time() - path.stat().st_mtime > _OLD:
            yield _leftover(path, "was never finished")


def _populations(store: Store) -> list[Path]:
    folder = store.path / "checkpoints"
    if not folder.is_dir():
        return []
    return sorted(
        each
        for each in folder.iterdir()
        if re.fullmatch(_KEY, each.name) and each.is_dir() and not each.is_symlink()
    )


def _of_population(store: Store, folder: Path) -> Iterator[Leftover]:
    """Nobody trains it now, so temporary files are dead; checkpoints are if all members have finished."""
    members = store.members(folder.name)
    finished = bool(members) and all(run.finished for run in members)
    for path in _files(folder):
        if _PART.fullmatch(path.name):
            yield _leftover(path, "was never finished")
        elif finished and _CHECKPOINT.fullmatch(path.name):
            yield _leftover(path, "all members have finished")


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir() or folder.is_symlink():
        return []
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())


def _leftover(path: Path, why: str) -> Leftover:
    return Leftover(path=path, bytes=path.stat().st_size, why=why)


def _gone(leftover: Leftover, *, dry_run: bool) -> bool:
    """Whether the file is away now, or would be."""
    if dry_run:
        return True
    with suppress(OSError):
        leftover.path.unlink()
        return True
    return False


def _remove_empty(folder: Path) -> None:
    """A folder that holds nothing but its claim goes too; the claim is held, so nobody comes in between."""
    if [path.name for path in folder.iterdir()] in ([], [CLAIM]):
        with suppress(OSError):
            (folder / CLAIM).unlink(missing_ok=True)
            folder.rmdir()
