"""Files that appear whole or not at all, folders that hold nothing else, and what is wrong with either."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Final

from separatrix.errors import InvalidFile, NewerFile

__all__ = ["has_own", "made_folder", "naming", "replace_file", "written_whole"]

_SYSTEM: Final = (Path("/dev"), Path("/proc"))
_MOST_LINKS: Final = 40
_EFFECTIVE: Final = os.access in os.supports_effective_ids


@contextmanager
def written_whole(path: Path, *, durable: bool = False) -> Iterator[TextIOWrapper]:
    """A UTF-8 text file to write to; it takes its place under `path` only when the block ends well.

    Until then readers see what was there before, and whatever goes wrong leaves that as it was. Only an
    ordinary file that may be written is ever replaced, and it keeps its permissions: a device such as
    /dev/null is refused, and a link stays a link. `durable` waits until the disk has it, so that a machine
    that loses its power afterwards still has the one file or the other.
    """
    try:
        final = _destination(path)
        old_mode = final.stat().st_mode & 0o777 if final.exists() else None
    except InvalidFile:
        raise
    except (OSError, RuntimeError, ValueError) as failure:  # a null in the name, links in a circle
        raise _unwritable(path, failure) from failure
    part = final.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with _created(part, old_mode) as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(final)
        if durable:
            _sync_folder(final.parent)
    except OSError as failure:
        raise _unwritable(path, failure) from failure
    finally:
        with suppress(OSError):
            part.unlink()


def replace_file(path: Path, content: bytes, *, durable: bool = False) -> None:
    """A file with exactly these bytes, under the same promises as `written_whole`."""
    with written_whole(path, durable=durable) as file:
        file.buffer.write(content)


@contextmanager
def made_folder(folder: Path | str) -> Iterator[Path]:
    """A folder to write to; if it was not there and the block fails, it is gone again."""
    place = Path(folder)
    made: list[Path] = []
    try:
        if place.exists() and not place.is_dir():
            raise InvalidFile(f"'{place}' is a file; name a folder, which is made if need be.")
        made = [each for each in (place, *place.parents) if not each.exists()]
        place.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as failure:  # a null in the name is a ValueError
        if isinstance(failure, InvalidFile):
            raise
        raise InvalidFile(f"The folder '{place}' cannot be made: {_reason(failure)}.") from failure
    try:
        yield place
    except BaseException:
        for each in made:
            with suppress(OSError):
                each.rmdir()
        raise


def has_own(folder: Path, mark: str, *, what: str) -> bool:
    """Whether a folder that is to be written to holds such a thing already; other things are refused.

    `mark` is the file by which it is known. Hidden files count for nothing, and a folder that is not there,
    is empty or is a file, which is for others to refuse, holds none.
    """
    try:
        if not folder.is_dir():
            return False
        if (folder / mark).is_file():
            return True
        there = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except (OSError, ValueError) as failure:
        raise _unwritable(folder, failure) from failure
    if there:
        raise InvalidFile(
            f"'{folder}' holds '{there[0][:80]}' and no {what}, so it is left alone; name a folder that is "
            f"new, empty or holds a {what}."
        )
    return False


@contextmanager
def naming(path: Path, *, again: str = "") -> Iterator[None]:
    """Whatever is wrong with what a file holds is said with the file's name, and `again`, what to do."""
    try:
        yield
    except NewerFile as problem:
        raise NewerFile(f"'{path}' is of no use here: {problem}") from problem
    except InvalidFile as problem:
        name = "" if str(path) in str(problem) else f"'{path}' is of no use: "
        raise InvalidFile(f"{name}{problem} {again}".rstrip()) from problem


def _sync_folder(folder: Path) -> None:
    """Have the disk know the names in a folder, as `fsync` has it know what a file holds."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _destination(path: Path) -> Path:
    """The file that is to be replaced or made; `InvalidFile` if that is not to be done."""
    final = _followed(path)
    if final.is_dir():
        raise InvalidFile(f"'{path}' is a folder; name a file in it.")
    if final.exists() and not final.is_file():
        raise InvalidFile(f"'{path}' is no ordinary file and is left alone; name another.")
    if final.exists() and not os.access(final, os.W_OK, effective_ids=_EFFECTIVE):
        raise InvalidFile(f"'{path}' is write-protected and is left alone; name another file.")
    if not final.parent.is_dir():
        raise InvalidFile(f"'{path}' cannot be written: there is no folder '{path.parent}'; make it first.")
    return final


def _followed(path: Path) -> Path:
    """Where the links lead, looked at one by one: /dev/stdout leads through /proc to an ordinary file."""
    step = path.absolute()
    for _ in range(_MOST_LINKS):
        _refuse_system(path, Path(os.path.normpath(step)))
        step = step.parent.resolve() / step.name
        _refuse_system(path, step)
        if not step.is_symlink():
            return step.resolve()
        step = step.parent / step.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _refuse_system(path: Path, step: Path) -> None:
    for system in _SYSTEM:
        if step.is_relative_to(system):
            raise InvalidFile(f"'{path}' leads into {system}, which is no place for files; name another.")


def _created(part: Path, mode: int | None) -> TextIOWrapper:
    """A new file with this mode, never wider on the way there; without one, with what the umask leaves."""

    def opener(name: str, flags: int) -> int:
        descriptor = os.open(name, flags, 0o666 if mode is None else mode)
        if mode is not None:
            os.fchmod(descriptor, mode)
        return descriptor

    return open(part, "x", encoding="utf-8", newline="\n", opener=opener)


def _unwritable(path: Path, failure: Exception) -> InvalidFile:
    reason = _reason(failure)
    return InvalidFile(f"'{path}' cannot be written: {reason}; choose a place that can be written to.")


def _reason(failure: Exception) -> str:
    return os.strerror(failure.errno) if isinstance(failure, OSError) and failure.errno else str(failure)
