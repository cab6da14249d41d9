"""Checkpoints of a population: the last two, so that there is always one that is whole.

A file is written under another name, brought to the disk and only then takes its place; whatever happens in
between, the one before it is still there. Reading trusts nothing: a file that is cut off, changed in one
byte, another population's or of no use to its reader is passed over for the one before it, and that is said.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from torch import Tensor

from separatrix.errors import InvalidFile, NewerFile
from separatrix.record_checks import require_count
from separatrix.records import JsonObject, Reader, thaw
from separatrix.store.keys import short
from separatrix.store.sealed import read_sealed, write_sealed

__all__ = ["Checkpoint", "Checkpoints", "Loaded"]

_NAME: Final = re.compile(r"step-([0-9]{12})\.safetensors")
_MOST_STEPS: Final = 10**12 - 1


@final
@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The state of a population after a step."""

    step: int
    tensors: dict[str, Tensor]
    meta: JsonObject
    path: Path


@final
@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The newest checkpoint that is good, if there is one; `note` says what was wrong with newer ones."""

    checkpoint: Checkpoint | None
    note: str | None


@final
class Checkpoints:
    """The checkpoints in a folder, of the population whose config has the hash `owner`.

    Only one process may save into a folder; `Store.claim` sees to that.
    """

    def __init__(self, folder: Path, owner: str) -> None:
        """The folder is made when the first is saved."""
        self.folder, self.owner = folder, owner
        self._unusable: set[Path] = set()
        self._foreign: set[Path] = set()

    def save(self, tensors: Mapping[str, Tensor], *, meta: Mapping[str, object], step: int) -> Path:
        """Write the state after a step, and let go of all but the one before it."""
        require_count("A checkpoint", step=step)
        path = self.folder / f"step-{min(step, _MOST_STEPS):012d}.safetensors"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_sealed(path, tensors, owner=self.owner, meta={"step": step, "meta": meta})
        except (OSError, InvalidFile) as failure:
            raise self._unwritable(step, failure) from failure
        self._unusable.discard(path)
        self._foreign.discard(path)
        older = [each for each in self.paths() if each.name < path.name and each not in self._foreign]
        whole = [each for each in older if each not in self._unusable]
        for each in older:
            if each not in whole[:1]:
                with suppress(OSError):
                    each.unlink()
        return path

    def load(self, use: Callable[[Checkpoint], None] | None = None) -> Loaded:
        """The newest good one, with a note to print if newer ones were passed over.

        `use` takes it up, and raises `InvalidFile` with a sentence about it if it is of no use.
        """
        problems: list[str] = []
        for path in self.paths():
            try:
                checkpoint = self._read(path)
                self._offer(checkpoint, use)
            except InvalidFile as problem:
                self._unusable.add(path)
                problems.append(str(problem))
                continue
            used = f"Training goes on from step {checkpoint.step:,}, '{path}'."
            return Loaded(checkpoint=checkpoint, note=" ".join([*problems, used]) if problems else None)
        if not problems:
            return Loaded(checkpoint=None, note=None)
        count = "The only checkpoint" if len(problems) == 1 else f"None of the {len(problems)} checkpoints"
        can = "cannot" if len(problems) == 1 else "can"
        none = f"{count} in '{self.folder}' {can} be used, so training begins anew."
        return Loaded(checkpoint=None, note=" ".join([*problems, none]))

    def _offer(self, checkpoint: Checkpoint, use: Callable[[Checkpoint], None] | None) -> None:
        """One that is whole and of no use here may be of use to another version: it is left alone."""
        try:
            if use is not None:
                use(checkpoint)
        except InvalidFile:
            self._foreign.add(checkpoint.path)
            raise

    def paths(self) -> list[Path]:
        """The files, newest first, good or not."""
        with suppress(OSError):
            found = [path for path in self.folder.iterdir() if _NAME.fullmatch(path.name)]
            return sorted(found, reverse=True)
        return []

    def last_step(self) -> int | None:
        """The step of the file that was written last, good or not; another that is of no use may be ahead."""
        with suppress(OSError):
            written = max(self.paths(), key=lambda path: path.stat().st_mtime_ns, default=None)
            return None if written is None else int(written.stem.removeprefix("step-"))
        return None

    def _read(self, path: Path) -> Checkpoint:
        try:
            sealed = read_sealed(path)
        except NewerFile:
            self._foreign.add(path)
            raise
        if sealed.owner != self.owner:
            self._foreign.add(path)
            raise InvalidFile(
                f"'{path}' is a checkpoint of another config ({short(sealed.owner)}…, not "
                f"{short(self.owner)}…) and is left alone."
            )
        read = Reader(sealed.meta, what=f"'{path}'")
        step, meta = read.count("step"), thaw(read.value("meta"))
        read.finish()
        if path.name != f"step-{step:012d}.safetensors" or not isinstance(meta, dict):
            self._foreign.add(path)
            raise InvalidFile(f"'{path}' is the checkpoint of step {step:,} under another name.")
        return Checkpoint(step=step, tensors=sealed.tensors, meta=meta, path=path)

    def _unwritable(self, step: int, failure: OSError | InvalidFile) -> InvalidFile:
        cause = failure if isinstance(failure, OSError) else failure.__cause__
        errno = cause.errno if isinstance(cause, OSError) else None
        reason = str(failure).rstrip(".") if errno is None else os.strerror(errno)
        whole = [path for path in self.paths() if path not in self._unusable]
        kept = f"'{whole[0]}' is as it was" if whole else "there is none before it"
        return InvalidFile(
            f"The checkpoint of step {step:,} cannot be written: {reason}; {kept}. Make room or mend the "
            "place, and run the same again to go on."
        )
