"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from separatrix.errors import InvalidFile

__all__ = ["written_whole"]


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """A UTF-8 text file to write to; it takes its place under `path` only when the block ends well.

    Until then readers see what was there before, and whatever goes wrong leaves that as it was. Only an
    ordinary file is ever replaced: a device such as /dev/null is refused, and a link stays a link.
    """
    try:
        final = path.resolve()
        if final.is_dir():
            raise InvalidFile(f"'{path}' is a folder; name a file in it.")
        if final.exists() and not final.is_file():
            raise InvalidFile(f"'{path}' is no ordinary file and is left alone; name another.")
        if not final.parent.is_dir():
            raise InvalidFile(
                f"'{path}' cannot be written: there is no folder '{path.parent}'; make it first."
            )
        part = final.with_name(f".{secrets.token_hex(8)}.part")
        file = part.open("x", encoding="utf-8", newline="\n")
    except InvalidFile:
        raise
    except (OSError, RuntimeError, ValueError) as failure:  # links in a circle, a null in the name
        raise _unwritable(path, failure) from failure
    try:
        with file:
            yield file
        part.replace(final)
    except OSError as failure:
        raise _unwritable(path, failure) from failure
    finally:
        part.unlink(missing_ok=True)


def _unwritable(path: Path, failure: Exception) -> InvalidFile:
    reason = os.strerror(failure.errno) if isinstance(failure, OSError) and failure.errno else str(failure)
    return InvalidFile(f"'{path}' cannot be written: {reason}; choose a place that can be written to.")
