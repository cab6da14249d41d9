"""Linear maps written block by block, so that a state of many thousand cells needs no dense matrix.

A block is a Kronecker product O ⊗ M ⊗ I of a small matrix M with two patterns, each of which is an identity,
a column of ones or a row of ones. "Every cell compares its own address with the counter" is such a block
(M holds the addresses, a column of ones hands each result to all bits of the cell), "each cell reads itself"
is another (an identity), "add up all cells" a third (a row of ones). Applying a block costs as much as M and
the numbers it touches, never rows times columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.errors import InvalidFile, InvalidInput
from separatrix.precision import Float64, Numbers, NumberSystem
from separatrix.record_checks import require_count, require_text
from separatrix.records import JsonObject, Reader

__all__ = [
    "ONCE",
    "Block",
    "Coordinates",
    "Encoded",
    "Field",
    "LinearMap",
    "Pattern",
    "same",
    "spread",
    "summed",
]

WIDEST: Final = 1 << 26
MOST_FIELDS: Final = 64
MOST_BLOCKS: Final = 64

Kind: TypeAlias = Literal["same", "spread", "sum"]
Encoded: TypeAlias = tuple[Numbers, ...]
"""The matrices of a map's blocks in one number system, on one device."""


@final
@dataclass(frozen=True, kw_only=True)
class Field:
    """Neighbouring coordinates with a name that says what they hold."""

    name: str
    numbers: int

    def __post_init__(self) -> None:
        require_text("A field of coordinates", name=self.name)
        require_count("A field of coordinates", least=1, numbers=self.numbers)


@final
class Coordinates:
    """The coordinates of a vector: named fields, one behind the other."""

    def __init__(self, *fields: Field) -> None:
        """Names differ."""
        starts: dict[str, int] = {}
        width = 0
        for each in fields:
            starts[each.name] = width
            width += each.numbers
        if not fields or len(starts) != len(fields) or len(fields) > MOST_FIELDS or width > WIDEST:
            raise InvalidInput(
                f"A vector has 1 to {MOST_FIELDS} fields of different names and at most 2^26 coordinates; "
                f"got {len(fields)} fields, {len(starts)} names and {width} coordinates."
            )
        self.fields = fields
        self.width = width
        self._starts = starts

    @classmethod
    def of(cls, **numbers: int) -> Coordinates:
        """Fields by name, underscores read as spaces; those without coordinates are left out."""
        return cls(
            *(Field(name=name.replace("_", " "), numbers=count) for name, count in numbers.items() if count)
        )

    def start(self, name: str) -> int:
        """The first coordinate of a field."""
        return self._starts[name]

    def numbers(self, name: str) -> int:
        """How many coordinates a field has."""
        return next(each.numbers for each in self.fields if each.name == name)

    def place(self, name: str) -> slice:
        """The coordinates of a field."""
        return slice(self.start(name), self.start(name) + self.numbers(name))

    def covering(self, low: int, high: int) -> str:
        """The fields that coordinates low … high − 1 belong to, for reports."""
        names = [
            each.name
            for each in self.fields
            if low < self.start(each.name) + each.numbers and self.start(each.name) < high
        ]
        return ", ".join(names)

    def spec(self) -> list[JsonObject]:
        """The fields as JSON values."""
        return [{"name": each.name, "numbers": each.numbers} for each in self.fields]

    @classmethod
    def read(cls, read: Reader, name: str) -> Coordinates:
        """The coordinates that a field of a file holds."""
        fields = []
        for place, item in enumerate(bounded_items(read, name, MOST_FIELDS)):
            inner = Reader(item, what=f"{read.what}.{name}[{place}]")
            fields.append(Field(name=inner.text("name", longest=80), numbers=inner.count("numbers")))
            inner.finish()
        return cls(*fields)

    def __str__(self) -> str:
        return ", ".join(f"{each.name} {each.numbers:,}" for each in self.fields)


@final
@dataclass(frozen=True, kw_only=True)
class Pattern:
    """An identity (`same`), a column of ones (`spread`) or a row of ones (`sum`) of `count`."""

    kind: Kind
    count: int

    def __post_init__(self) -> None:
        require_count("A pattern of a block", least=1, count=self.count)
        if self.count > WIDEST:
            raise InvalidInput(f"A pattern of a block repeats at most 2^26 times; got {self.count}.")

    @property
    def outputs(self) -> int:
        """Rows."""
        return 1 if self.kind == "sum" else self.count

    @property
    def inputs(self) -> int:
        """Columns."""
        return 1 if self.kind == "spread" else self.count

    def spec(self) -> JsonObject:
        """As JSON values."""
        return {"kind": self.kind, "count": self.count}

    @classmethod
    def read(cls, read: Reader, name: str) -> Pattern:
        """The pattern that a field of a file holds."""
        inner = Reader(read.value(name), what=f"{read.what}.{name}")
        kinds: tuple[Kind, ...] = ("same", "spread", "sum")
        pattern = cls(kind=inner.choice("kind", kinds), count=inner.count("count"))
        inner.finish()
        return pattern

    def __str__(self) -> str:
        return "" if self.count == 1 else f"{self.kind} {self.count:,}"


def same(count: int) -> Pattern:
    """Each of `count` parts by itself."""
    return Pattern(kind="same", count=count)


def spread(count: int) -> Pattern:
    """One result handed to `count` places."""
    return Pattern(kind="spread", count=count)


def summed(count: int) -> Pattern:
    """`count` parts added up."""
    return Pattern(kind="sum", count=count)


ONCE: Final = same(1)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """outer ⊗ matrix ⊗ inner, from the coordinates behind `column` to those behind `row`."""

    row: int
    column: int
    matrix: Float[Tensor, "height breadth"]
    outer: Pattern = field(default=ONCE)
    inner: Pattern = field(default=ONCE)

    def __post_init__(self) -> None:
        require_count("A block", row=self.row, column=self.column)
        if self.matrix.ndim != 2 or not self.matrix.numel():
            raise InvalidInput(f"The matrix of a block has two axes; got shape {tuple(self.matrix.shape)}.")

    @property
    def outputs(self) -> int:
        """Coordinates it writes."""
        return self.outer.outputs * self.matrix.shape[0] * self.inner.outputs

    @property
    def inputs(self) -> int:
        """Coordinates it reads."""
        return self.outer.inputs * self.matrix.shape[1] * self.inner.inputs

    @property
    def connections(self) -> int:
        """Weights of the block written out as a matrix, without the zeros of its identities."""
        return self.outer.count * self.matrix.numel() * self.inner.count

    def apply(self, system: NumberSystem, transposed: Numbers, vectors: Numbers) -> Numbers:
        """The block's share of the result; sums and matrix products are single operations of the system."""
        batch = vectors.shape[0]
        height, breadth = self.matrix.shape
        parts = vectors[:, self.column : self.column + self.inputs]
        parts = parts.reshape(batch, self.outer.inputs, breadth, self.inner.inputs)
        if self.outer.kind == "sum":
            parts = system.sum(parts, 1)[:, None]
        if self.inner.kind == "sum":
            parts = system.sum(parts, 3)[..., None]
        if height == breadth == 1:
            parts = self._scaled(system, transposed, parts)
        else:
            shape = (batch, parts.shape[1], parts.shape[3], height)
            flat = parts.transpose(2, 3).reshape(-1, breadth)
            parts = system.matmul(flat, transposed).reshape(*shape).transpose(2, 3)
        parts = parts.expand(batch, self.outer.outputs, height, self.inner.outputs)
        return parts.reshape(batch, self.outputs)

    def _scaled(self, system: NumberSystem, factor: Numbers, parts: Numbers) -> Numbers:
        """A multiple; 1 and −1 need no product, and none would round."""
        number = self.matrix.item()
        if number == 1:
            return parts
        return system.negate(parts) if number == -1 else system.multiply(parts, factor[0, 0])

    def spec(self) -> JsonObject:
        """All but the matrix."""
        return {
            "row": self.row,
            "column": self.column,
            "outer": self.outer.spec(),
            "inner": self.inner.spec(),
        }


@final
@dataclass(frozen=True, eq=False)
class LinearMap:
    """A sum of blocks between two vectors; where no block stands, the matrix is 0."""

    rows: Coordinates
    columns: Coordinates
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        if len(self.blocks) > MOST_BLOCKS:
            raise InvalidInput(f"A map has at most {MOST_BLOCKS} blocks; got {len(self.blocks)}.")
        for block in self.blocks:
            below, beside = block.row + block.outputs, block.column + block.inputs
            if below > self.rows.width or beside > self.columns.width:
                raise InvalidInput(
                    f"A block reaches row {below} and column {beside} of a map with "
                    f"{self.rows.width} rows and {self.columns.width} columns."
                )

    @property
    def connections(self) -> int:
        """Weights of all blocks written out."""
        return sum(block.connections for block in self.blocks)

    def encoded(self, system: NumberSystem, device: torch.device) -> Encoded:
        """The transposed matrices in the numbers of a system."""
        return tuple(system.encode(block.matrix.T.contiguous().to(device)) for block in self.blocks)

    def add_to(self, total: Numbers, system: NumberSystem, matrices: Encoded, vectors: Numbers) -> None:
        """Add the image of (batch, columns) vectors to (batch, rows) numbers in place, block by block."""
        for block, matrix in zip(self.blocks, matrices, strict=True):
            rows = slice(block.row, block.row + block.outputs)
            result = system.add(total[:, rows], block.apply(system, matrix, vectors))
            for target, source in zip(total.parts, result.parts, strict=True):
                target[:, rows] = source

    def scaled(self, factor: float) -> LinearMap:
        """The map times a number."""
        blocks = (replace(block, matrix=factor * block.matrix) for block in self.blocks)
        return LinearMap(self.rows, self.columns, tuple(blocks))

    def image(self, vector: Float[Tensor, "columns"]) -> Float[Tensor, "rows"]:
        """The image of one vector in float64, for building weights from weights."""
        system = Float64()
        total = system.encode(torch.zeros(1, self.rows.width, dtype=torch.float64))
        matrices = self.encoded(system, vector.device)
        self.add_to(total, system, matrices, system.encode(vector.unsqueeze(0)))
        return system.decode_float64(total)[0]

    def tensors(self, name: str) -> Iterator[tuple[str, Float[Tensor, "..."]]]:
        """The matrices by name."""
        for place, block in enumerate(self.blocks):
            yield f"{name}.{place}", block.matrix

    def spec(self) -> list[JsonObject]:
        """All but the matrices."""
        return [block.spec() for block in self.blocks]

    def describe(self) -> Iterator[str]:
        """Which fields each block writes and reads."""
        for block in self.blocks:
            target = self.rows.covering(block.row, block.row + block.outputs)
            source = self.columns.covering(block.column, block.column + block.inputs)
            height, breadth = block.matrix.shape
            shape = f"{height} × {breadth}" if height * breadth > 1 else f"{block.matrix.item():g}"
            factors = [str(block.outer), shape, str(block.inner)]
            yield f"{target} ← {' ⊗ '.join(factor for factor in factors if factor)} of {source}"


def read_map(
    read: Reader, name: str, tensors: Tensors, *, prefix: str, rows: Coordinates, columns: Coordinates
) -> LinearMap:
    """The map that a field of a file holds, with its matrices from the tensors."""
    blocks = []
    for place, item in enumerate(bounded_items(read, name, MOST_BLOCKS)):
        inner = Reader(item, what=f"{read.what}.{name}[{place}]")
        blocks.append(
            Block(
                row=inner.count("row"),
                column=inner.count("column"),
                outer=Pattern.read(inner, "outer"),
                inner=Pattern.read(inner, "inner"),
                matrix=tensors.matrix(f"{prefix}.{place}"),
            )
        )
        inner.finish()
    return LinearMap(rows, columns, tuple(blocks))


@final
class Tensors:
    """The tensors of a file while they are read: each is taken once, by its name and shape."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        """What was read, and what is still to be asked for."""
        self._left = dict(tensors)

    def matrix(self, name: str) -> Float[Tensor, "height breadth"]:
        """Two axes of any length."""
        tensor = self._take(name)
        if tensor.ndim != 2 or not 0 < tensor.numel() <= WIDEST:
            raise InvalidFile(f"The tensor '{name}' is a matrix; got shape {tuple(tensor.shape)}.")
        return tensor

    def vector(self, name: str, width: int) -> Float[Tensor, "width"]:
        """One axis of this length."""
        tensor = self._take(name)
        if tuple(tensor.shape) != (width,):
            raise InvalidFile(f"The tensor '{name}' has {width} numbers; got shape {tuple(tensor.shape)}.")
        return tensor

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        if self._left:
            unknown = ", ".join(repr(name[:60]) for name in list(self._left)[:5])
            raise InvalidFile(f"The file has tensors that its model does not know: {unknown}.")

    def _take(self, name: str) -> Float[Tensor, "..."]:
        if name not in self._left:
            raise InvalidFile(f"The file lacks the tensor '{name}'.")
        tensor = self._left.pop(name)
        if tensor.dtype != torch.float64 or not bool(tensor.isfinite().all()):
            raise InvalidFile(f"The tensor '{name}' must hold finite float64 numbers; got {tensor.dtype}.")
        return tensor.detach().cpu()


def bounded_items(read: Reader, name: str, most: int) -> Sequence[object]:
    """A list in a file that cannot be long."""
    items = read.items(name)
    if len(items) > most:
        raise InvalidFile(f"Field '{name}' of {read.what} may have {most} items; it has {len(items)}.")
    return items
