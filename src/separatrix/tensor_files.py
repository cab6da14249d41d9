"""Tensors as safetensors files, laid out in one way only, and read as if a stranger had made them.

The bytes are laid out here and not by a library, so that the same tensors are the same file under every
version of everything. A header is bounded before it is parsed, and nothing is taken from it on trust: every
tensor must lie where its shape says, one after another, up to the last byte of the file.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Collection, Mapping
from io import BufferedIOBase
from types import MappingProxyType
from typing import Final, NamedTuple

import torch
from torch import Tensor

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.records import Reader, parse_json

__all__ = ["LENGTH_BYTES", "METADATA", "Layout", "bytes_of", "laid_out", "read_tensors"]

METADATA: Final = "__metadata__"
LENGTH_BYTES: Final = 8
"""The header's length stands before it, in so many bytes."""
_MOST_HEADER: Final = 16 * 2**20
_MOST_AXES: Final = 8
_LARGEST_EMPTY_AXIS: Final = 16 * 2**20
_DTYPES: Final[Mapping[str, torch.dtype]] = MappingProxyType(
    {
        "F64": torch.float64,
        "F32": torch.float32,
        "BF16": torch.bfloat16,
        "F16": torch.float16,
        "I64": torch.int64,
        "I32": torch.int32,
        "I16": torch.int16,
        "I8": torch.int8,
        "U8": torch.uint8,
        "BOOL": torch.bool,
    }
)
_NAMES: Final = {dtype: name for name, dtype in _DTYPES.items()}


class Layout(NamedTuple):
    """A file before it is written: its head, and the tensors whose bytes follow it, in their order."""

    head: bytes
    tensors: tuple[Tensor, ...]


def laid_out(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Layout:
    """The one layout of these tensors: widest numbers first, so that all are aligned, then by name."""
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise InvalidInput(
                f"A file holds tensors of {', '.join(_NAMES.values())}; '{name}' is of {tensor.dtype}."
            )
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    described: dict[str, object] = {METADATA: dict(metadata)}
    end = 0
    for name in order:
        tensor = tensors[name]
        start, end = end, end + tensor.numel() * tensor.dtype.itemsize
        described[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    head = json.dumps(described, separators=(",", ":")).encode()
    head += b" " * (-len(head) % LENGTH_BYTES)
    if len(head) > _MOST_HEADER:
        raise InvalidInput(
            f"A file's header may have {_MOST_HEADER:,} bytes; this one would have {len(head):,}."
        )
    return Layout(struct.pack("<Q", len(head)) + head, tuple(tensors[name] for name in order))


def bytes_of(tensor: Tensor) -> memoryview:
    """The bytes of a tensor's numbers, row by row; those of a contiguous one on the CPU without a copy."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy())  # type: ignore[arg-type]


def read_tensors(
    file: BufferedIOBase, size: int, *, what: str, dtypes: Collection[str] = tuple(_DTYPES)
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a file of `size` bytes, from its beginning; `what` names it."""
    start = file.read(LENGTH_BYTES)
    length = struct.unpack("<Q", start)[0] if len(start) == LENGTH_BYTES else 0
    if not 2 <= length <= min(_MOST_HEADER, size - LENGTH_BYTES):
        raise InvalidFile(f"{what} is no safetensors file, or it is cut off.")
    header = f"the header of {what}"
    head = parse_json(file.read(length), what=header)
    if not isinstance(head, dict):
        raise InvalidFile(f"{header} is no JSON object.")
    metadata = head.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise InvalidFile(f"{header} has metadata that are not texts by name.")
    room = size - LENGTH_BYTES - length
    tensors, end = {}, 0
    for name, described in head.items():
        owner = f"The tensor '{name[:80]}' of {what}"
        tensors[name], end = _tensor(file, described, end, room, owner=owner, dtypes=dtypes)
    if end != room:
        raise InvalidFile(f"{what} has {room:,} bytes of numbers; its tensors take {end:,}.")
    return tensors, metadata


def _tensor(
    file: BufferedIOBase, described: object, start: int, room: int, *, owner: str, dtypes: Collection[str]
) -> tuple[Tensor, int]:
    """One tensor, which must begin where the one before it ends."""
    read = Reader(described, what=f"{owner[0].lower()}{owner[1:]}")
    dtype, shape, offsets = read.text("dtype", longest=80), read.items("shape"), read.items("data_offsets")
    read.finish()
    if dtype not in dtypes:
        raise InvalidFile(f"{owner} must be {' or '.join(dtypes)}; it is {dtype}.")
    axes = [axis for axis in shape if isinstance(axis, int) and not isinstance(axis, bool) and axis >= 0]
    if len(axes) != len(shape) or len(axes) > _MOST_AXES:
        raise InvalidFile(f"{owner} has a shape that is none.")
    # A tensor without numbers may claim axes of any size, and torch has its limits.
    endless = 0 in axes and max(axes) > _LARGEST_EMPTY_AXIS
    end = start + math.prod(axes) * _DTYPES[dtype].itemsize
    if endless or list(offsets) != [start, end] or end > room:
        raise InvalidFile(f"{owner} does not lie where its shape says, or the file is cut off.")
    tensor = torch.empty(axes, dtype=_DTYPES[dtype])
    if end > start and file.readinto(bytes_of(tensor)) != end - start:
        raise InvalidFile(f"{owner} is cut off.")
    return tensor, end
