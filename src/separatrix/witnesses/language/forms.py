"""Fields and linear forms of them: what heads and gadgets are written in.

A field is a name for what a position holds, with the code that makes it a vector; a form is a linear map of
fields plus a constant, with exact coefficients. Nobody who writes forms knows a coordinate's number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from separatrix.errors import TooLarge

_MOST_ENTRIES: Final = 1 << 25

__all__ = ["Exact", "Field", "Linear", "Matrix", "as_linear", "constant", "joined", "total"]

Exact: TypeAlias = int | Fraction
Matrix: TypeAlias = NDArray[np.object_]
"""Exact numbers, (rows, columns)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Field:
    """What positions hold under a name: `dim` numbers, each within [low, high] when nothing is rounded.

    `since` is the layer that writes it, 0 for the input; `noisy` says that attention wrote it, so that its
    numbers are near the ideal ones and not equal to them. `square` bounds the sum of the squares of its
    numbers where that is less than their ranges tell. An `inner` field is read within its own feed-forward
    map only and has no coordinates in the stream.
    """

    name: str
    dim: int
    low: Fraction
    high: Fraction
    note: str
    since: int = 0
    noisy: bool = False
    square: Fraction | None = None
    inner: bool = False

    def __add__(self, other: Term) -> Linear:
        return as_linear(self) + other

    def __sub__(self, other: Term) -> Linear:
        return as_linear(self) - other

    def __rsub__(self, other: Term) -> Linear:
        return -as_linear(self) + other

    def __neg__(self) -> Linear:
        return -as_linear(self)

    def __mul__(self, factor: Exact) -> Linear:
        return as_linear(self) * factor

    __rmul__ = __mul__
    __radd__ = __add__

    def __getitem__(self, rows: int | slice) -> Linear:
        return as_linear(self)[rows]

    def __repr__(self) -> str:
        return f"<field {self.name}>"


@dataclass(frozen=True, eq=False)
class Linear:
    """Σ over fields of parts[field]·field + offset: a vector of `out` numbers at every position."""

    parts: Mapping[Field, Matrix] = field(default_factory=dict)
    offset: tuple[Fraction, ...] = ()

    @property
    def out(self) -> int:
        """Coordinates."""
        return len(self.offset)

    @property
    def has_offset(self) -> bool:
        """Whether there is a constant to add."""
        return any(self.offset)

    def __add__(self, other: Term) -> Linear:
        right = as_linear(other, out=self.out)
        assert right.out == self.out, f"a form of {self.out} numbers cannot be added to one of {right.out}"
        parts = dict(self.parts)
        for key, matrix in right.parts.items():
            parts[key] = parts[key] + matrix if key in parts else matrix
        return Linear(parts, tuple(a + b for a, b in zip(self.offset, right.offset, strict=True)))

    __radd__ = __add__

    def __mul__(self, factor: Exact) -> Linear:
        exact = Fraction(factor)
        return Linear(
            {key: matrix * exact for key, matrix in self.parts.items()},
            tuple(value * exact for value in self.offset),
        )

    __rmul__ = __mul__

    def __neg__(self) -> Linear:
        return self * -1

    def __sub__(self, other: Term) -> Linear:
        return self + (-as_linear(other, out=self.out))

    def __rsub__(self, other: Term) -> Linear:
        return (-self) + other

    def __getitem__(self, rows: int | slice) -> Linear:
        chosen = slice(rows, rows + 1) if isinstance(rows, int) else rows
        return Linear({key: matrix[chosen] for key, matrix in self.parts.items()}, self.offset[chosen])

    def through(self, matrix: Matrix) -> Linear:
        """The image under another exact matrix."""
        assert matrix.shape[1] == self.out
        return Linear(
            {key: matrix @ part for key, part in self.parts.items()},
            tuple(matrix @ np.array(self.offset, dtype=object)),
        )

    def bounds(self) -> list[tuple[Fraction, Fraction]]:
        """Least and greatest value of each coordinate, as far as the fields' ranges tell."""
        ends = [[value, value] for value in self.offset]
        for key, matrix in self.parts.items():
            for row, coefficients in enumerate(matrix):
                for coefficient in coefficients:
                    low, high = sorted((coefficient * key.low, coefficient * key.high))
                    ends[row][0] += low
                    ends[row][1] += high
        return [(low, high) for low, high in ends]

    def spread(self) -> Fraction:
        """The widest range of a coordinate."""
        return max((high - low for low, high in self.bounds()), default=Fraction(0))

    def size(self) -> float:
        """A bound on the Euclidean length of the vector."""
        if len(self.parts) == 1 and not self.has_offset:
            key, matrix = next(iter(self.parts.items()))
            # Rows with one entry each in different columns stretch by the largest entry and no more.
            used = [[column for column, value in enumerate(row) if value] for row in matrix]
            places = [column for columns in used for column in columns]
            if key.square is not None and len(set(places)) == len(places) == len(used):
                return max(abs(float(value)) for value in matrix.reshape(-1)) * math.sqrt(key.square)
        return math.sqrt(sum(max(float(low) ** 2, float(high) ** 2) for low, high in self.bounds()))

    def gain(self, part: Field) -> Fraction:
        """How much an error of 1 in every number of a field can move a coordinate."""
        if part not in self.parts:
            return Fraction(0)
        return max(sum((abs(value) for value in row), Fraction(0)) for row in self.parts[part])

    def __str__(self) -> str:
        named = []
        for key, matrix in self.parts.items():
            values = {abs(value) for value in matrix.reshape(-1) if value}
            factor = f"{next(iter(values))}·" if len(values) == 1 and values != {1} else ""
            signs = {value > 0 for value in matrix.reshape(-1) if value}
            named.append(f"{'−' if signs == {False} else '+'} {factor}{key.name}")
        if self.has_offset:
            shown = set(self.offset)
            named.append(f"+ {next(iter(shown))}" if len(shown) == 1 else "+ constants")
        return " ".join(named).removeprefix("+ ") or "0"


Term: TypeAlias = Field | Linear | Exact


def as_linear(term: Term, *, out: int | None = None) -> Linear:
    """A field as it is; a number as a constant in every one of `out` coordinates."""
    if isinstance(term, Linear):
        return term
    if isinstance(term, Field):
        return Linear({term: identity(term.dim)}, (Fraction(0),) * term.dim)
    return constant([term] * (1 if out is None else out))


def constant(values: Sequence[Exact]) -> Linear:
    """The same vector at every position."""
    return Linear({}, tuple(Fraction(value) for value in values))


def total(term: Term) -> Linear:
    """The sum of all coordinates."""
    form = as_linear(term)
    return form.through(np.array([[Fraction(1)] * form.out], dtype=object))


def joined(terms: Iterable[Term]) -> Linear:
    """Forms one below the other."""
    forms = [as_linear(term) for term in terms]
    height = sum(form.out for form in forms)
    parts: dict[Field, Matrix] = {}
    start = 0
    for form in forms:
        for key, matrix in form.parts.items():
            whole = parts.setdefault(key, zeros(height, key.dim))
            whole[start : start + form.out] = matrix
        start += form.out
    return Linear(parts, tuple(value for form in forms for value in form.offset))


def identity(size: int) -> Matrix:
    """Ones on the diagonal."""
    matrix = zeros(size, size)
    for i in range(size):
        matrix[i, i] = Fraction(1)
    return matrix


def zeros(rows: int, columns: int) -> Matrix:
    """Nothing but exact zeros."""
    if rows * columns > _MOST_ENTRIES:
        raise TooLarge(
            f"A weight matrix of {rows:,} × {columns:,} numbers is too large to be written out; "
            "take a smaller n, or addresses that are shorter."
        )
    matrix: NDArray[Any] = np.empty((rows, columns), dtype=object)
    matrix[:] = Fraction(0)
    return matrix
