"""Writing maps field by field: what constructions of recurrent models share."""

from __future__ import annotations

from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.models.explicit.recurrent import ReadoutLayer
from separatrix.models.explicit.recurrent_maps import ONCE, Block, Coordinates, LinearMap, Pattern, same

__all__ = ["ONE", "MapWriter", "addresses", "layer", "lower", "ones", "scalar", "vector"]


def scalar(value: float) -> Float[Tensor, "1 1"]:
    """A matrix of one entry."""
    return torch.full((1, 1), value, dtype=torch.float64)


def ones(rows: int, columns: int) -> Float[Tensor, "rows columns"]:
    """A matrix of ones."""
    return torch.ones(rows, columns, dtype=torch.float64)


def lower(size: int, *, diagonal: bool) -> Float[Tensor, "size size"]:
    """Row k adds up what stands before k, and k itself if asked."""
    return torch.tril(ones(size, size), diagonal=0 if diagonal else -1)


ONE: Final = scalar(1)


def addresses(first: int, count: int, digits: int) -> tuple[Float[Tensor, "count digits"], Tensor]:
    """Signs and biases that measure the Hamming distance from each of the numbers first … first + count − 1.

    With digits c of a register, row j of signs·c + bias is −(number of digits in which first + j differs
    from the register): 0 at the number the register holds, −1 or less at every other.
    """
    numbers = torch.arange(first, first + count).unsqueeze(1)
    bits = ((numbers >> torch.arange(digits)) & 1).to(torch.float64)
    return 2 * bits - 1, -bits.sum(1)


class MapWriter:
    """Collects the blocks of one map, with rows and columns called by the names of their fields."""

    def __init__(self, rows: Coordinates, columns: Coordinates) -> None:
        """From the columns to the rows."""
        self._rows, self._columns = rows, columns
        self._blocks: list[Block] = []

    def add(
        self,
        target: str,
        source: str,
        matrix: Float[Tensor, "height breadth"],
        *,
        outer: Pattern = ONCE,
        inner: Pattern = ONCE,
        skip: tuple[int, int] = (0, 0),
    ) -> MapWriter:
        """A block; `skip` leaves out so many coordinates at the front of the target and of the source."""
        self._blocks.append(
            Block(
                row=self._rows.start(target) + skip[0],
                column=self._columns.start(source) + skip[1],
                matrix=matrix,
                outer=outer,
                inner=inner,
            )
        )
        return self

    def each(self, target: str, source: str, factor: float = 1) -> MapWriter:
        """Every coordinate of the target reads its own of the source."""
        return self.add(target, source, scalar(factor), inner=same(self._rows.numbers(target)))

    def done(self) -> LinearMap:
        """The map."""
        return LinearMap(self._rows, self._columns, tuple(self._blocks))


def vector(coordinates: Coordinates, **values: float | Float[Tensor, "numbers"]) -> Float[Tensor, "width"]:
    """A vector given field by field, underscores read as spaces; 0 where nothing is said."""
    result = torch.zeros(coordinates.width, dtype=torch.float64)
    for name, value in values.items():
        result[coordinates.place(name.replace("_", " "))] = torch.as_tensor(value, dtype=torch.float64)
    return result


def layer(writer: MapWriter, bias: Float[Tensor, "rows"]) -> ReadoutLayer:
    """A layer of the readout."""
    return ReadoutLayer(map=writer.done(), bias=bias)
