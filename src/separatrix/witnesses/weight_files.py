"""Weights as bytes: a safetensors file written in one way only, and read as if a stranger had made it.

The header carries the SHA-256 of the model's spec, so the file's own hash stands for both.
"""

from __future__ import annotations

import hashlib
import io
import json
from typing import Final

from torch import Tensor

from separatrix.errors import InvalidFile
from separatrix.models.explicit import ExplicitModel
from separatrix.tensor_files import bytes_of, laid_out, read_tensors

__all__ = ["WEIGHTS", "canonical", "spec_sha256", "tensors_from", "weight_bytes", "weights_sha256"]

WEIGHTS: Final = "weights.safetensors"
_KEY: Final = "separatrix.model.sha256"
_DTYPES: Final = ("F64", "I64")


def weight_bytes(model: ExplicitModel) -> bytes:
    """The weights as a safetensors file, tensors in the order of their names; always the same bytes."""
    layout = laid_out(model.tensors(), {_KEY: spec_sha256(model.spec())})
    return b"".join([layout.head, *map(bytes_of, layout.tensors)])


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
    tensors, metadata = read_tensors(io.BytesIO(content), len(content), what=f"'{WEIGHTS}'", dtypes=_DTYPES)
    stated = metadata.get(_KEY)
    if stated is None:
        raise InvalidFile(f"'{WEIGHTS}' does not say for which model it was written; it is not from here.")
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InvalidFile(f"The tensor '{name[:80]}' of '{WEIGHTS}' holds a number that is not finite.")
    return tensors, stated
