"""Where fields lie in the stream, and forms of fields as exact matrices over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.witnesses.language.forms import Field, Linear, Matrix, zeros

__all__ = ["Epoch", "rows_of", "tensor", "vector"]


@dataclass(frozen=True, eq=False)
class Epoch:
    """A stretch of the computation with one set of coordinates, between residuals that are left out."""

    places: dict[Field, int]

    @property
    def width(self) -> int:
        """All coordinates."""
        return sum(field.dim for field in self.places)


def rows_of(form: Linear, epoch: Epoch) -> Matrix:
    """The coefficients of a form as a matrix over the stream; its constants are left to a bias."""
    matrix = zeros(form.out, epoch.width)
    for field, part in form.parts.items():
        start = epoch.places[field]
        matrix[:, start : start + field.dim] += part
    return matrix


def tensor(matrix: Matrix) -> Float[Tensor, "rows columns"]:
    """The nearest float64 numbers."""
    return torch.from_numpy(matrix.astype(np.float64))


def vector(values: Sequence[Fraction]) -> Float[Tensor, "entries"]:
    """The nearest float64 numbers."""
    return torch.tensor([float(value) for value in values], dtype=torch.float64)
