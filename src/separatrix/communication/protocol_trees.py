"""A deterministic protocol as a tree: who speaks, which inputs send 0 and which 1, and what the leaves say.

>>> import numpy as np
>>> tree = ProtocolTree(
...     root=Speech(
...         speaker="Alice", zeros=(0,), ones=(1,), after_zero=Leaf(value=0), after_one=Leaf(value=1)
...     )
... )
>>> tree.run(1, 0)
Run(value=1, bits=(1,))
>>> tree.check(np.array([[0, 0], [1, 1]]))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
from jaxtyping import Int

from separatrix.communication.ranks import as_entries
from separatrix.errors import InvalidInput
from separatrix.evidence import Party

__all__ = ["Leaf", "ProtocolTree", "Run", "Speech"]

_MOST_NAMED: Final = 16


@final
@dataclass(frozen=True, kw_only=True)
class Leaf:
    """Both parties know the answer."""

    value: int


@final
@dataclass(frozen=True, kw_only=True)
class Speech:
    """One party sends one bit; `zeros` and `ones` are its inputs that lead here, by what they send."""

    speaker: Party
    zeros: tuple[int, ...]
    ones: tuple[int, ...]
    after_zero: Speech | Leaf
    after_one: Speech | Leaf

    def __post_init__(self) -> None:
        if set(self.zeros) & set(self.ones):
            raise InvalidInput("An input sends 0 or 1, and not both.")

    @cached_property
    def sent(self) -> dict[int, int]:
        """The bit that each input sends."""
        return {**dict.fromkeys(self.zeros, 0), **dict.fromkeys(self.ones, 1)}


@final
@dataclass(frozen=True)
class Run:
    """What came of a pair of inputs: the answer, and every bit that was sent."""

    value: int
    bits: tuple[int, ...]


@final
@dataclass(frozen=True, kw_only=True)
class ProtocolTree:
    """A protocol: what is sent depends on the speaker's own input and on what was sent before."""

    root: Speech | Leaf

    @property
    def depth(self) -> int:
        """Bits in the worst case."""
        return max(depth for depth, _ in self._leaves())

    @property
    def leaves(self) -> int:
        """How many rectangles the tree cuts the matrix into."""
        return sum(1 for _ in self._leaves())

    def run(self, row: int, column: int) -> Run:
        """Alice holds this row and Bob this column."""
        node, bits = self.root, list[int]()
        while isinstance(node, Speech):
            held = row if node.speaker == "Alice" else column
            if held not in node.sent:
                raise InvalidInput(
                    f"This protocol does not know {node.speaker}'s input {held} after "
                    f"{''.join(map(str, bits)) or 'no bits'}."
                )
            bits.append(node.sent[held])
            node = node.after_one if bits[-1] else node.after_zero
        return Run(value=node.value, bits=tuple(bits))

    def check(self, matrix: Int[np.ndarray, "row column"]) -> None:
        """Raise `InvalidInput` unless every pair that is an input ends with its own answer."""
        entries = as_entries(matrix)
        for row, column in np.argwhere(entries >= 0).tolist():
            value = self.run(row, column).value
            if value != entries[row, column]:
                raise InvalidInput(
                    f"The protocol says {value} for row {row} and column {column}; the matrix has "
                    f"{entries[row, column]}."
                )

    def render(self) -> str:
        """The tree as text, a line a node, each indented below the bit that leads to it."""
        return "\n".join(_lines(self.root, ""))

    def __str__(self) -> str:
        return self.render()

    def _leaves(self) -> Iterator[tuple[int, Leaf]]:
        """Every leaf with its depth."""
        open_: list[tuple[int, Speech | Leaf]] = [(0, self.root)]
        while open_:
            depth, node = open_.pop()
            if isinstance(node, Leaf):
                yield depth, node
            else:
                open_ += [(depth + 1, node.after_one), (depth + 1, node.after_zero)]


def _lines(node: Speech | Leaf, indent: str) -> Iterator[str]:
    if isinstance(node, Leaf):
        yield f"{indent}answer {node.value}"
        return
    yield f"{indent}{node.speaker} sends 0 for {_named(node.zeros)}, 1 for {_named(node.ones)}"
    for bit, after in enumerate((node.after_zero, node.after_one)):
        first, *rest = _lines(after, f"{indent}   ")
        yield f"{indent}{bit}: {first.lstrip()}"
        yield from rest


def _named(inputs: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, inputs[:_MOST_NAMED]))
    left = len(inputs) - _MOST_NAMED
    return f"{{{shown}, and {left} more}}" if left > 0 else f"{{{shown}}}"
