"""All weights of a population as one matrix, member × parameter.

The model's tensors are views of it. The optimiser then is a few operations on whole rows, a member's weights
are a row, and a checkpoint is three such matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from separatrix.models.population import Population

__all__ = ["Packed", "pack"]

_ALIGNED = 8
"""Each parameter begins at a multiple of so many numbers, so that vector loads stay aligned."""


@dataclass(frozen=True, kw_only=True)
class Packed:
    """The matrix, the model's parameters in order, and which columns are matrices, which decay acts on."""

    values: Float[Tensor, "member parameter"]
    parameters: tuple[Float[Tensor, "member *shape"], ...]
    starts: tuple[int, ...]
    decays: Bool[Tensor, "parameter"]

    def joined(
        self, gradients: Sequence[Float[Tensor, "member *shape"]]
    ) -> Float[Tensor, "member parameter"]:
        """Tensors shaped like the parameters, as one matrix like theirs."""
        members, wide = self.values.shape
        parts, place = [], 0
        for start, gradient in zip((*self.starts, wide), (*gradients, None), strict=True):
            if start > place:
                parts.append(self.values.new_zeros(members, start - place))
            if gradient is not None:
                parts.append(_rows(gradient.to(self.values.dtype)))
                place = start + parts[-1].shape[1]
        return torch.cat(parts, dim=1)


def pack(population: Population) -> Packed:
    """Move a population's parameters into one matrix, of which they become views."""
    parameters = tuple(population.parameters())
    starts, wide = [], 0
    for parameter in parameters:
        starts.append(wide)
        wide += -(-parameter[0].numel() // _ALIGNED) * _ALIGNED
    first = parameters[0]
    values = torch.zeros(population.members, wide, dtype=first.dtype, device=first.device)
    decays = torch.zeros(wide, dtype=torch.bool, device=first.device)
    for start, parameter in zip(starts, parameters, strict=True):
        columns = slice(start, start + parameter[0].numel())
        values[:, columns] = _rows(parameter.detach())
        parameter.data = values[:, columns].view(parameter.shape)
        decays[columns] = parameter.dim() > 2
    return Packed(values=values, parameters=parameters, starts=tuple(starts), decays=decays)


def _rows(values: Float[Tensor, "member *shape"]) -> Float[Tensor, "member number"]:
    """Each member's numbers one after another, also where a member has a single one without an axis."""
    return values.reshape(len(values), values[0].numel())
