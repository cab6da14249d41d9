"""Claims: one process at a time trains a population.

A claim is a lock that the kernel holds for the process, so it ends with the process however that ends. The
file that is locked names the process, for those who find it taken.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from separatrix.errors import InvalidFile

__all__ = ["CLAIM", "claimant", "claiming", "is_claimed"]

CLAIM: Final = "claim.lock"
_LONGEST: Final = 20
_PATIENCE: Final = 0.1
"""Seconds to wait for a lock: who only looks whether a folder is claimed locks it for a moment."""
_BETWEEN: Final = 0.01


@contextmanager
def claiming(folder: Path) -> Iterator[bool]:
    """Try to claim a folder, made if need be, for the block; whether that succeeded."""
    path = folder / CLAIM
    try:
        descriptor = _locked(path)
        if descriptor is not None:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
    except (OSError, ValueError) as failure:
        raise _unlockable(path, failure) from failure
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_claimed(folder: Path) -> bool:
    """Whether somebody holds the claim; looking changes nothing."""
    path = folder / CLAIM
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as failure:
        raise _unlockable(path, failure) from failure
    return False


def claimant(folder: Path) -> str:
    """Who holds the claim, in words."""
    with suppress(OSError, ValueError), (folder / CLAIM).open("rb") as file:
        return f"process {int(file.read(_LONGEST))}"
    return "another process"


def _locked(path: Path) -> int | None:
    """An open file with the lock, None if another has it.

    Its holder may remove the folder meanwhile, and a lock on a file without a name is no claim: then again.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor
            except BlockingIOError:
                os.close(descriptor)
                if time.monotonic() > deadline:
                    return None
                time.sleep(_BETWEEN)
                continue
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)


def _unlockable(path: Path, failure: Exception) -> InvalidFile:
    reason = (failure.strerror if isinstance(failure, OSError) else None) or failure
    return InvalidFile(f"'{path}' cannot be locked: {reason}; choose another place.")
