"""Maps with integer weights on vectors of bits: what they read, and why nothing is rounded.

If all weights are integers and, for every result, the absolute values of its terms add up to no more than an
arithmetic's largest number that has all smaller integers below it, then every partial sum is an integer that
the arithmetic holds, in whatever order it adds: what it computes is what the integers say.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from separatrix.certificates.enclosures import Rounding
from separatrix.certificates.enclosures.fixed_rounding import FixedRounding
from separatrix.certificates.enclosures.float_rounding import FloatRounding
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.recurrent_maps import Block, Coordinates, LinearMap, Pattern
from separatrix.precision import Float64, Numbers

__all__ = [
    "Entries",
    "Integers",
    "Reach",
    "assignments",
    "beside",
    "bits_of",
    "composed",
    "image",
    "read_map",
    "reads_through",
    "whole",
]

Integers: TypeAlias = NDArray[np.int64]

_LARGEST: Final = 1 << 24
_MOST_ENTRIES: Final = 1 << 25
_MOST_COLOURS: Final = 4


@final
class Reach:
    """Sums of absolute values met so far; one beyond what an arithmetic holds exactly is refused."""

    def __init__(self, rounding: Rounding) -> None:
        """Integers up to 2^24 at most, so that float64 can follow them too."""
        self.limit = _LARGEST
        if isinstance(rounding, FixedRounding):
            self.limit = min(self.limit, rounding.system.limit // rounding.system.one)
        if isinstance(rounding, FloatRounding):
            self.limit = min(self.limit, 1 << rounding.form.digits)
        self.largest = 0

    def take(self, sums: Integers) -> None:
        """Sums of the absolute values of terms, one for each result."""
        self.largest = max(self.largest, int(sums.max(initial=0)))
        if self.largest > self.limit:
            raise NotProved(
                f"Terms add up to {self.largest} in absolute value, and the arithmetic has all integers only "
                f"up to {self.limit}."
            )


@final
@dataclass(frozen=True, eq=False)
class Entries:
    """The weights of a map written out, one for each place that is not 0, sorted by rows.

    `sizes` add up absolute values where several blocks stand at one place, `values` the weights themselves.
    """

    height: int
    breadth: int
    rows: Integers
    columns: Integers
    values: Integers
    sizes: Integers

    def reach(self, most: Integers | int = 1) -> Integers:
        """Σ |weight|·most of each row, for vectors with entries of at most `most` in absolute value."""
        sizes = self.sizes * (most if isinstance(most, int) else most[self.columns])
        return _totals(self.rows, sizes, self.height)

    def among(self, rows: slice) -> Entries:
        """Some of the rows, from 0 on."""
        kept = (self.rows >= rows.start) & (self.rows < rows.stop)
        return Entries(
            rows.stop - rows.start,
            self.breadth,
            rows=self.rows[kept] - rows.start,
            columns=self.columns[kept],
            values=self.values[kept],
            sizes=self.sizes[kept],
        )

    def apart(self, columns: slice) -> Entries:
        """Some of the columns, from 0 on."""
        kept = (self.columns >= columns.start) & (self.columns < columns.stop)
        return Entries(
            self.height,
            columns.stop - columns.start,
            rows=self.rows[kept],
            columns=self.columns[kept] - columns.start,
            values=self.values[kept],
            sizes=self.sizes[kept],
        )

    def highest(self) -> Integers:
        """The largest result of each row on vectors of bits."""
        return _totals(self.rows, np.maximum(self.values, 0), self.height)

    def reads(self) -> tuple[Integers, Integers]:
        """Pairs (row, column) such that the row depends on the column."""
        used = self.values != 0
        return self.rows[used], self.columns[used]

    def dense(self) -> Integers:
        """As a matrix."""
        if self.height * self.breadth > _MOST_ENTRIES:
            raise NotProved(f"A matrix of {self.height} × {self.breadth} is too large for this proof.")
        matrix = np.zeros((self.height, self.breadth), dtype=np.int64)
        matrix[self.rows, self.columns] = self.values
        return matrix


def whole(tensor: Float[Tensor, "..."]) -> Integers:
    """Weights that are integers of moderate size."""
    if not bool((tensor == tensor.round()).all()) or float(tensor.abs().max()) > _LARGEST:
        raise NotProved("This proof is about weights that are integers of at most 2^24.")
    return np.asarray(tensor.to(torch.int64).numpy())


def read_map(linear: LinearMap) -> Entries:
    """All blocks, those at one place added up."""
    if linear.connections > _MOST_ENTRIES:
        raise NotProved(f"A map has {linear.connections:,} weights, too many to read one by one.")
    parts = [_written_out(block) for block in linear.blocks]
    height, breadth = linear.rows.width, linear.columns.width
    nothing = np.zeros((3, 0), dtype=np.int64)
    return _collected(height, breadth, *np.concatenate([nothing, *parts], axis=1))


def _collected(height: int, breadth: int, rows: Integers, columns: Integers, values: Integers) -> Entries:
    places, where = np.unique(rows * breadth + columns, return_inverse=True)
    where = where.reshape(-1)
    return Entries(
        height,
        breadth,
        rows=places // breadth,
        columns=places % breadth,
        values=_totals(where, values, len(places)),
        sizes=_totals(where, np.abs(values), len(places)),
    )


def composed(first: Entries, second: Entries) -> Entries:
    """The first map behind the second. No weight is lost to cancelling: `values` are kept even if 0."""
    left, right = _paths(first, second)
    return _collected(
        first.height,
        second.breadth,
        first.rows[left],
        second.columns[right],
        first.values[left] * second.values[right],
    )


def reads_through(first: Entries, second: Entries) -> tuple[Integers, Integers]:
    """Pairs (row of the first, column of the second) of which the row reads the column through a unit."""
    left, right = _paths(first, second)
    used = (first.values[left] != 0) & (second.values[right] != 0)
    return first.rows[left][used], second.columns[right][used]


def beside(first: Entries, second: Entries) -> Entries:
    """Two maps to the same rows as one that reads both vectors, one behind the other."""
    rows = np.concatenate([first.rows, second.rows])
    order = np.argsort(rows, kind="stable")

    def both(left: Integers, right: Integers) -> Integers:
        return np.asarray(np.concatenate([left, right])[order])

    return Entries(
        first.height,
        first.breadth + second.breadth,
        rows=rows[order],
        columns=both(first.columns, first.breadth + second.columns),
        values=both(first.values, second.values),
        sizes=both(first.sizes, second.sizes),
    )


def assignments(
    rows: Integers, columns: Integers, sources: Coordinates, known: tuple[str, ...]
) -> list[Float[Tensor, "sources"]]:
    """Few vectors of bits that show each row every combination of what it reads.

    `rows` and `columns` are pairs of which the row reads the column, or should read it: for two functions of
    bits to be compared, the pairs are those of both. A row may read anything of the `known`
    fields, which are left 0 here for others to fill in, but of every other field one coordinate at most.
    Fields that some row reads both get different colours, and coordinates of one colour the same bit: so all
    combinations of the colours give each row all combinations of its own coordinates.
    """
    fields = np.repeat(np.arange(len(sources.fields)), [field.numbers for field in sources.fields])
    free = np.array([field.name not in known for field in sources.fields])
    kept = free[fields[columns]]
    pairs = np.unique(np.stack([rows[kept], columns[kept]]), axis=1)
    by_field = np.unique(np.stack([pairs[0], fields[pairs[1]]]), axis=1)
    if by_field.shape[1] < pairs.shape[1]:
        raise NotProved("A result depends on several bits of one field, not on one.")
    colours = _coloured(by_field, len(sources.fields))
    vectors = []
    for bits in product((0.0, 1.0), repeat=int(colours.max(initial=0)) + 1):
        vector = torch.tensor(bits, dtype=torch.float64)[torch.from_numpy(colours[fields])]
        vectors.append(vector * torch.from_numpy(free[fields]))
    return vectors


def bits_of(numbers: Int[Tensor, "case"], count: int) -> Float[Tensor, "case bits"]:
    """Binary digits, the least significant first; what does not fit is left out."""
    return ((numbers.unsqueeze(1) >> torch.arange(count)) & 1).to(torch.float64)


def image(bias: Float[Tensor, "rows"], *terms: tuple[LinearMap, Float[Tensor, "case columns"]]) -> Tensor:
    """The sum of maps of vectors of integers and a bias: exact, since the sums met are far below 2^53."""
    system = Float64()
    total = Numbers(system, (bias.repeat(len(terms[0][1]), 1),))
    for linear, vectors in terms:
        linear.add_to(total, system, linear.encoded(system, vectors.device), Numbers(system, (vectors,)))
    return total.parts[0]


def _paths(first: Entries, second: Entries) -> tuple[Integers, Integers]:
    """All pairs of an entry of the first and one of the second whose row is the former's column."""
    starts = np.searchsorted(second.rows, np.arange(second.height + 1))
    counts = (starts[1:] - starts[:-1])[first.columns]
    total = int(counts.sum())
    if total > _MOST_ENTRIES:
        raise NotProved("Rows depend on too many columns to go through them one by one.")
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(np.arange(len(counts)), counts), np.repeat(starts[first.columns], counts) + within


def _coloured(pairs: NDArray[np.int64], count: int) -> Integers:
    """Colours of fields, by pairs (row, field): fields of one row differ; greedily."""
    masks = np.zeros(int(pairs[0].max(initial=-1)) + 1, dtype=np.int64)
    np.bitwise_or.at(masks, pairs[0], 1 << pairs[1])
    together = [{field for field in range(count) if mask >> field & 1} for mask in set(masks.tolist())]
    colours = np.zeros(count, dtype=np.int64)
    for field in range(count):
        taken = {int(colours[other]) for row in together if field in row for other in row if other < field}
        colours[field] = next(colour for colour in range(count) if colour not in taken)
    if int(colours.max(initial=0)) >= _MOST_COLOURS:
        raise NotProved("A result depends on too many fields at once.")
    return colours


def _written_out(block: Block) -> NDArray[np.int64]:
    """(3, weights): row, column and weight of every entry of outer ⊗ matrix ⊗ inner."""
    matrix = whole(block.matrix)
    height, breadth = matrix.shape
    outer, inner = _ones(block.outer), _ones(block.inner)
    middle_row, middle_column = np.divmod(np.arange(matrix.size), breadth)
    shape = (1, -1, 1)
    rows = (outer[0] * height + middle_row.reshape(shape)) * block.inner.outputs + inner[0].reshape(1, 1, -1)
    columns = (outer[1] * breadth + middle_column.reshape(shape)) * block.inner.inputs + inner[1].reshape(
        1, 1, -1
    )
    values = np.broadcast_to(matrix.reshape(shape), rows.shape)
    written = np.stack([block.row + rows, block.column + columns, values]).reshape(3, -1)
    return written[:, written[2] != 0]


def _ones(pattern: Pattern) -> tuple[Integers, Integers]:
    """Rows and columns of a pattern's ones, each of shape (count, 1, 1)."""
    count = np.arange(pattern.count).reshape(-1, 1, 1)
    none = np.zeros_like(count)
    return (none if pattern.kind == "sum" else count, none if pattern.kind == "spread" else count)


def _totals(places: Integers, values: Integers, length: int) -> Integers:
    """Values added up by place."""
    totals = np.zeros(length, dtype=np.int64)
    np.add.at(totals, places, values)
    return totals
