"""Any input map from its spec and its weights."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from separatrix.models.explicit.inputs import InputMap, inputs_from
from separatrix.models.explicit.sparse_sets import SparseSetInputs
from separatrix.models.explicit.windows import WindowInputs

__all__ = ["input_map_from"]


def input_map_from(data: object, tensors: dict[str, Tensor]) -> InputMap:
    """The input map that a file describes; its weights are removed from `tensors`."""
    kind = data.get("kind") if isinstance(data, Mapping) else None
    if kind == SparseSetInputs.kind:
        return SparseSetInputs.taken(data, tensors)
    if kind == WindowInputs.kind:
        return WindowInputs.taken(data, tensors)
    return inputs_from(data, tensors)
