"""Where a run comes from: the versions, the device and the settings that its numbers depend on."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from separatrix.records import JsonObject
from separatrix.version import __version__

__all__ = ["provenance"]


def provenance(device: torch.device, *, precision: str, deterministic: bool) -> JsonObject:
    """What to write beside a result so that it can be had again."""
    on_gpu = device.type == "cuda"
    return {
        "separatrix": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name(device) if on_gpu else f"{device.type} ({platform.machine()})",
        "threads": torch.get_num_threads(),
        "precision": precision,
        "deterministic": deterministic,
        "commit": _named(os.environ.get("SEPARATRIX_COMMIT", "")) or _commit(Path(__file__).parents[3]),
        "sources": _sources(Path(__file__).parents[1]),
    }


@cache
def _sources(package: Path) -> str:
    """A hash of the code itself: it tells a checkout with changes from the commit that it is at."""
    whole = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        whole.update(f"{path.relative_to(package).as_posix()} {len(content)}\n".encode())
        whole.update(content)
    return whole.hexdigest()


def _commit(checkout: Path) -> str | None:
    """The commit that a checkout is at, read without git; None where the package is installed or copied, and
    where $SEPARATRIX_COMMIT can say it.
    """
    with suppress(OSError, UnicodeDecodeError):
        git = checkout / ".git"
        head = (git / "HEAD").read_text().strip()
        name = head.removeprefix("ref: ")
        if head != name and (git / name).is_file():
            head = (git / name).read_text().strip()
        elif head != name:
            packed = (git / "packed-refs").read_text().splitlines()
            head = next((line.split()[0] for line in packed if line.endswith(f" {name}")), "")
        return _named(head)
    return None


def _named(text: str) -> str | None:
    return text if re.fullmatch(r"[0-9a-f]{40,64}", text) else None
