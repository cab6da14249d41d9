"""Weights as bytes: a safetensors file written in one way only, and read as if a stranger had made it.

The header carries the SHA-256 of the model's spec, so the file's own hash stands for both. The bytes are laid
out here and not by a library, so that a model has the same hash under every version of everything.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from typing import Final

import torch
from torch import Tensor

from separatrix.errors import InvalidFile
from separatrix.models.explicit import ExplicitModel
from separatrix.records import Reader, parse_json

__all__ = ["WEIGHTS", "canonical", "spec_sha256", "tensors_from", "weight_bytes", "weights_sha256"]

WEIGHTS: Final = "weights.safetensors"
_METADATA: Final = "__metadata__"
_KEY: Final = "separatrix.model.sha256"
_MOST_HEADER: Final = 16 * 2**20
_MOST_AXES: Final = 8
_DTYPES: Final = {"F64": torch.float64, "I64": torch.int64}
_NAMES: Final = {dtype: name for name, dtype in _DTYPES.items()}
_BYTES: Final = 8  # of a number; both dtypes have as many


def weight_bytes(model: ExplicitModel) -> bytes:
    """The weights as a safetensors file, tensors in the order of their names; always the same bytes."""
    header: dict[str, object] = {_METADATA: {_KEY: spec_sha256(model.spec())}}
    parts, end = [], 0
    for name, tensor in sorted(model.tensors().items()):
        part = tensor.detach().cpu().contiguous().numpy().tobytes()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [end, end + len(part)],
        }
        parts.append(part)
        end += len(part)
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % _BYTES)
    return b"".join([struct.pack("<Q", len(head)), head, *parts])


def weights_sha256(model: ExplicitModel) -> str:
    """The hash that certificates name a model by."""
    return hashlib.sha256(weight_bytes(model)).hexdigest()


def spec_sha256(spec: object) -> str:
    """The hash of a model's spec, whatever the order of its fields."""
    return hashlib.sha256(canonical(spec).encode()).hexdigest()


def canonical(spec: object) -> str:
    """JSON in one way only, in ASCII."""
    return json.dumps(spec, sort_keys=True, separators=(",", ":"))


def tensors_from(content: bytes) -> tuple[dict[str, Tensor], str]:
    """The tensors of a file, and the hash that its header states for the model's spec."""
    length = struct.unpack("<Q", content[:8])[0] if len(content) >= 8 else 0
    if not 2 <= length <= min(_MOST_HEADER, len(content) - 8):
        raise InvalidFile(f"'{WEIGHTS}' is no safetensors file, or it is cut off.")
    what = f"the header of '{WEIGHTS}'"
    head = parse_json(content[8 : 8 + length], what=what)
    if not isinstance(head, dict):
        raise InvalidFile(f"{what} is no JSON object.")
    metadata = head.pop(_METADATA, None)
    stated = metadata.get(_KEY) if isinstance(metadata, dict) else None
    if not isinstance(stated, str):
        raise InvalidFile(f"'{WEIGHTS}' does not say for which model it was written; it is not from here.")
    data = memoryview(content)[8 + length :]
    tensors, end = {}, 0
    for name, described in head.items():
        tensors[name], end = _tensor(name, described, data, end)
    if end != len(data):
        raise InvalidFile(f"'{WEIGHTS}' has {len(data):,} bytes of numbers; its tensors take {end:,}.")
    return tensors, stated


def _tensor(name: str, described: object, data: memoryview, start: int) -> tuple[Tensor, int]:
    """One tensor, which must begin where the one before it ends."""
    shown = name[:80]
    read = Reader(described, what=f"the tensor '{shown}' of '{WEIGHTS}'")
    dtype, shape, offsets = read.text("dtype", longest=80), read.items("shape"), read.items("data_offsets")
    read.finish()
    if dtype not in _DTYPES:
        raise InvalidFile(f"The tensor '{shown}' of '{WEIGHTS}' must be F64 or I64; it is {dtype}.")
    axes = [axis for axis in shape if isinstance(axis, int) and not isinstance(axis, bool) and axis >= 0]
    if len(axes) != len(shape) or len(axes) > _MOST_AXES:
        raise InvalidFile(f"The tensor '{shown}' of '{WEIGHTS}' has a shape that is none.")
    # An empty tensor may claim axes of any size; none may be larger than the file could ever fill.
    end = start + math.prod(axes) * _BYTES
    if max(axes, default=0) > _MOST_HEADER or list(offsets) != [start, end] or end > len(data):
        raise InvalidFile(
            f"The tensor '{shown}' of '{WEIGHTS}' does not lie where its shape says, or the file is cut off."
        )
    numbers = torch.frombuffer(bytearray(data[start:end]), dtype=_DTYPES[dtype]) if end > start else None
    tensor = torch.zeros(axes, dtype=_DTYPES[dtype]) if numbers is None else numbers.reshape(axes)
    if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
        raise InvalidFile(f"The tensor '{shown}' of '{WEIGHTS}' holds a number that is not finite.")
    return tensor, end
