"""Safetensors files with a seal: the SHA-256 of every byte of the file but those of the seal itself.

The seal stands first in the header, always at the same place, and is blank while the hash is taken. A byte
that changes anywhere, in numbers, names, shapes or padding, breaks it. The file stays one that any reader of
safetensors opens. A file that does not say its version is of the first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO, Final, cast, final

from torch import Tensor

from separatrix.errors import InvalidFile
from separatrix.files import written_whole
from separatrix.records import JsonObject, Upgrade, parse_json, upgraded
from separatrix.store.keys import canonical
from separatrix.tensor_files import LENGTH_BYTES, METADATA, bytes_of, laid_out, read_tensors

__all__ = ["Sealed", "read_sealed", "write_sealed"]

_SEAL: Final = "sha256"
_BLANK: Final = "0" * 64
_PLACE: Final = LENGTH_BYTES + len(f'{{"{METADATA}":{{"{_SEAL}":"')
_CHUNK: Final = 1 << 20
_UPGRADES: Final[tuple[Upgrade, ...]] = ()
"""What brings owner and meta of older files to the version that is written now; see `records.upgraded`."""
_VERSION: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


@final
@dataclass(frozen=True, kw_only=True)
class Sealed:
    """What a sealed file holds: tensors, whose they are, and a JSON object about them."""

    tensors: dict[str, Tensor]
    owner: str
    meta: JsonObject


def write_sealed(
    path: Path, tensors: Mapping[str, Tensor], *, owner: str, meta: Mapping[str, object]
) -> None:
    """Write the file whole and wait until the disk has it; what fails leaves what was there."""
    here = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    head, ordered = laid_out(here, {_SEAL: _BLANK, **_said(owner, meta)})
    seal = hashlib.sha256(head)
    for tensor in ordered:
        seal.update(bytes_of(tensor))
    sealed = head[:_PLACE] + seal.hexdigest().encode() + head[_PLACE + len(_BLANK) :]
    with written_whole(path, durable=True) as file:
        binary = cast(BinaryIO, file.buffer)
        binary.write(sealed)
        for tensor in ordered:
            binary.write(bytes_of(tensor))


def read_sealed(path: Path) -> Sealed:
    """What the file holds, once its seal is found whole."""
    what = f"'{path}'"
    try:
        if path.exists() and not path.is_file():
            raise InvalidFile(f"{what} is no ordinary file.")
        with path.open("rb") as file:
            size = _checked_size(file, what=what)
            file.seek(0)
            tensors, metadata = read_tensors(file, size, what=what)
    except OSError as failure:
        raise InvalidFile(f"{what} cannot be read: {failure.strerror or failure}.") from failure
    version = metadata.get("version", "1")
    if _VERSION.fullmatch(version) is None:
        raise InvalidFile(f"{what} has the version {version[:40]!r}, which is no whole number.")
    meta = parse_json(metadata.get("meta", "{}"), what=f"the meta of {what}")
    said: JsonObject = {"owner": metadata.get("owner"), "meta": meta}
    said = upgraded(said, version=int(version), upgrades=_UPGRADES, what=what)
    owner, meta = said["owner"], said["meta"]
    if not isinstance(meta, dict) or not isinstance(owner, str):
        raise InvalidFile(f"{what} does not say whose tensors it holds; it is not from here.")
    return Sealed(tensors=tensors, owner=owner, meta=meta)


def _said(owner: str, meta: Mapping[str, object]) -> dict[str, str]:
    return {"version": str(len(_UPGRADES) + 1), "owner": owner, "meta": canonical(meta)}


def _checked_size(file: BufferedIOBase, *, what: str) -> int:
    """Read a file to its end and compare it with its seal; how many bytes it has."""
    start, stated = file.read(_PLACE), file.read(len(_BLANK))
    hashed, size = hashlib.sha256(start + _BLANK.encode()), len(start) + len(stated)
    while chunk := file.read(_CHUNK):
        hashed.update(chunk)
        size += len(chunk)
    if hashed.hexdigest().encode() != stated:
        raise InvalidFile(
            f"{what} is damaged or cut off: it does not have the SHA-256 that it was sealed with."
        )
    return size
