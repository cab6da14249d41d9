"""Witness folders as a stranger might hand them over: changed, and with hashes that fit all the same."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from separatrix.errors import SeparatrixError
from separatrix.witnesses.files import SPEC, WEIGHTS, load
from separatrix.witnesses.weight_files import spec_sha256

Change = Callable[[dict[str, Any]], None]
KEY = "separatrix.model.sha256"


def record_of(folder: Path) -> dict[str, Any]:
    record = json.loads((folder / SPEC).read_bytes())
    assert isinstance(record, dict)
    return record


def parts_of(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and numbers of a safetensors file."""
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def joined(header: dict[str, Any], numbers: bytes) -> bytes:
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + numbers


def with_spec(folder: Path, change: Change) -> None:
    """Change `witness.json`, and let every hash follow."""
    record = record_of(folder)
    change(record)
    header, numbers = parts_of((folder / WEIGHTS).read_bytes())
    header["__metadata__"][KEY] = spec_sha256(record.get("model"))
    _put(folder, record, joined(header, numbers))


def with_weights(folder: Path, change: Callable[[dict[str, Any], bytes], bytes]) -> None:
    """Change the header of the weights in place and the numbers by what is returned; hashes follow."""
    header, numbers = parts_of((folder / WEIGHTS).read_bytes())
    numbers = change(header, numbers)
    _put(folder, record_of(folder), joined(header, numbers))


def with_weight_file(folder: Path, content: bytes) -> None:
    """Any bytes as weights, named by their hash."""
    _put(folder, record_of(folder), content)


def set_number(folder: Path, name: str, place: int, value: float) -> None:
    """One number of one tensor."""

    def change(header: dict[str, Any], numbers: bytes) -> bytes:
        at = header[name]["data_offsets"][0] + 8 * place
        return numbers[:at] + struct.pack("<d", value) + numbers[at + 8 :]

    with_weights(folder, change)


def _put(folder: Path, record: dict[str, Any], content: bytes) -> None:
    if isinstance(record.get("weights_sha256"), str):
        record["weights_sha256"] = hashlib.sha256(content).hexdigest()
    (folder / WEIGHTS).write_bytes(content)
    (folder / SPEC).write_text(json.dumps(record), encoding="utf-8")


def refusal(folder: Path) -> str:
    with pytest.raises(SeparatrixError) as error:
        load(folder)
    assert "\n" not in str(error.value)
    return str(error.value)
