"""The folder that the explorer was started in: what lies in it, and nothing else.

Every name is looked up component by component from a descriptor of the folder, without following a link, so
no name leads out of it, whatever is renamed meanwhile. What is read is copied to a private place first; that
is where the readers of witnesses and stores then look, so nothing here is ever written to.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Final, Literal, final

from separatrix.errors import InvalidFile, InvalidInput

__all__ = ["Entry", "Folder"]

DEEPEST: Final = 2
MOST_ENTRIES: Final = 200
MOST_SEEN: Final = 5_000
LARGEST_FILE: Final = 64 * 2**20
LONGEST_PATH: Final = 400
_PIECE: Final = 1 << 20
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_WITNESS: Final = "witness.json"
_DATABASE: Final = "runs.sqlite"

Kind = Literal["witness", "store"]


@final
@dataclass(frozen=True, kw_only=True)
class Entry:
    """Something that can be opened: its path from the folder, with `/`, and what it is."""

    path: str
    kind: Kind


@final
class Folder:
    """A folder to read from."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise InvalidFile(f"There is no folder '{root}' to explore; name one that is there.")

    def entries(self) -> tuple[Entry, ...]:
        """The witnesses and stores at most two levels deep; hidden ones and links are left out."""
        found: list[Entry] = []
        budget = [MOST_SEEN]
        with self._opened(()) as root:
            _look(root, "", DEEPEST, found, budget)
        return tuple(found[:MOST_ENTRIES])

    def read(self, path: str, name: str, *, most: int) -> bytes:
        """What a file of the folder at `path` holds, if it is no larger than `most`."""
        with self._opened(_parts(path)) as source, _file(source, name, path=path) as file:
            assert file is not None
            content = file.read(most + 1)
        if len(content) > most:
            raise _too_large(path, name, most)
        return content

    @contextmanager
    def copied(self, path: str, *names: str, optional: tuple[str, ...] = ()) -> Iterator[Path]:
        """A private folder with copies of these files of the folder at `path`, gone when the block ends."""
        parts = _parts(path)
        with tempfile.TemporaryDirectory(prefix="separatrix-") as place, self._opened(parts) as source:
            for name in (*names, *optional):
                _copy(source, name, Path(place), path=path, optional=name in optional)
            yield Path(place)

    @contextmanager
    def _opened(self, parts: tuple[str, ...]) -> Iterator[int]:
        """A descriptor of a folder inside, each step taken from the one before and through no link."""
        here = os.open(self.root, _FOLDER)
        try:
            for part in parts:
                try:
                    inner = os.open(part, _FOLDER, dir_fd=here)
                except (OSError, ValueError) as failure:
                    raise _not_here("/".join(parts)) from failure
                os.close(here)
                here = inner
            yield here
        finally:
            os.close(here)


def _parts(path: str) -> tuple[str, ...]:
    """The names in a path; refused if it could lead out or to something hidden."""
    if len(path) > LONGEST_PATH or "\0" in path:
        raise InvalidInput(f"A path in the folder has at most {LONGEST_PATH} characters and no null.")
    if path in ("", "."):
        return ()
    parts = tuple(path.split("/"))
    if "\\" in path or any(not part or part.startswith(".") for part in parts):
        raise _not_here(path)
    return parts


def _look(here: int, prefix: str, depth: int, found: list[Entry], budget: list[int]) -> None:
    try:
        with os.scandir(here) as listing:
            # Of a folder with millions of names as many are read as would be looked at.
            inside = sorted(islice(listing, MOST_SEEN), key=lambda each: each.name)
    except OSError:
        return
    names = {each.name for each in inside if each.is_file(follow_symlinks=False)}
    kinds: tuple[tuple[Kind, str], ...] = (("witness", _WITNESS), ("store", _DATABASE))
    found += [Entry(path=prefix or ".", kind=kind) for kind, file in kinds if file in names]
    if depth == 0:
        return
    for each in inside:
        budget[0] -= 1
        if budget[0] < 0 or len(found) >= MOST_ENTRIES:
            return
        if each.name.startswith(".") or not each.name.isprintable() or "\\" in each.name:
            continue
        if not each.is_dir(follow_symlinks=False):
            continue
        with suppress(OSError):
            inner = os.open(each.name, _FOLDER, dir_fd=here)
            try:
                _look(inner, f"{prefix}/{each.name}" if prefix else each.name, depth - 1, found, budget)
            finally:
                os.close(inner)


def _copy(source: int, name: str, place: Path, *, path: str, optional: bool) -> None:
    with _file(source, name, path=path, optional=optional) as reading:
        if reading is None:
            return
        target = place.joinpath(*_parts(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as writing:
            left = LARGEST_FILE
            while piece := reading.read(_PIECE):
                left -= len(piece)
                if left < 0:
                    raise _too_large(path, name, LARGEST_FILE)
                writing.write(piece)


@contextmanager
def _file(source: int, name: str, *, path: str, optional: bool = False) -> Iterator[BufferedReader | None]:
    """An ordinary file below an open folder, through no link; None if it may be missing and is."""
    *folders, last = _parts(name)
    here = os.dup(source)
    try:
        for part in folders:
            inner = os.open(part, _FOLDER, dir_fd=here)
            os.close(here)
            here = inner
        descriptor = os.open(last, _FILE, dir_fd=here)
    except OSError as failure:
        if optional and isinstance(failure, FileNotFoundError):
            yield None
            return
        raise _not_here(f"{path}/{name}") from failure
    finally:
        os.close(here)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_here(f"{path}/{name}")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def _too_large(path: str, name: str, most: int) -> InvalidFile:
    return InvalidFile(f"'{name}' in '{path}' is too large for the explorer; it reads {most:,} bytes.")


def _not_here(path: str) -> InvalidFile:
    return InvalidFile(
        f"There is no {path[:80]!r} in the folder that the explorer was started in; links and hidden "
        "names are not followed."
    )
