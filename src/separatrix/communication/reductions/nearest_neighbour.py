"""INDEX and DISJ in nearest neighbour: a point for each place, its label the symbol there (S-T8).

Bob asks with the very point of a place, so it is at distance 0 and the margin asks that the points differ in
enough coordinates: they are words of a binary code. S asks for all of them in one go, as in MQAR; here a row
has one query, and for DISJ Bob asks about as many rows as there are points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from separatrix.communication.problems import Disjointness, Index
from separatrix.communication.reductions.interface import Reduction, label_at, one_question, places
from separatrix.options import require
from separatrix.tasks.nearest_neighbour import NearestNeighbour

__all__ = ["DisjToNearestNeighbour", "IndexToNearestNeighbour", "lexicode"]

_LONGEST_CODE: Final = 16


def _gap(task: NearestNeighbour) -> int:
    """In how many more coordinates than the nearest any other point must differ from the query."""
    return math.ceil(Fraction(repr(float(task.margin))) * task.dimension / 2)


def _coordinate(task: NearestNeighbour) -> float:
    """The size of a point's coordinates, as float32 has it."""
    return torch.tensor(1 / math.sqrt(task.dimension), dtype=torch.float32).item()


@lru_cache(maxsize=64)
def lexicode(length: int, distance: int) -> Int[Tensor, "word"]:
    """The words of a binary code, as numbers, any two at least `distance` apart: the greedy one.

    The code that takes every next number far enough from all before it is linear (Conway and Sloane), so it
    is enough to take generators: with one more, a word's distance from the code is the lesser of its own and
    that of the word plus the generator.
    """
    numbers = torch.arange(1 << length)
    apart = torch.zeros_like(numbers)
    for place in range(length):
        apart += numbers >> place & 1
    words = numbers[:1]
    while bool((apart >= distance).any()):
        generator = (apart >= distance).int().argmax()
        words = torch.cat([words, words ^ generator])
        apart = torch.minimum(apart, apart[numbers ^ generator])
    return words


@lru_cache(maxsize=64)
def _points(count: int, dimension: int, gap: int) -> Bool[Tensor, "word dim"]:
    """At most `count` vertices of the hypercube, any two of which differ in at least `gap` coordinates.

    Every bit of a short code is repeated r times: words that differ in ⌈gap/r⌉ bits differ in `gap`
    coordinates. The least r that gives enough words is taken, else the one that gives the most.
    """
    best, repeats = torch.zeros(1, dtype=torch.int64), 1
    for r in range(1, min(gap, dimension) + 1):
        words = lexicode(min(dimension // r, _LONGEST_CODE), -(-gap // r))
        if len(words) > len(best):
            best, repeats = words, r
        if len(best) >= count:
            break
    length = min(dimension // repeats, _LONGEST_CODE)
    bits = (best[:count].unsqueeze(1) >> torch.arange(length)) & 1
    spread = bits.bool().repeat_interleave(repeats, dim=1)
    return torch.nn.functional.pad(spread, (0, dimension - spread.shape[1]))


@dataclass(frozen=True, kw_only=True)
class _ToNearestNeighbour(Reduction[NearestNeighbour]):
    """n − 1 labelled points, or as many as the margin leaves room for; Bob's query is one of them.

    If the code has fewer words than the row has points, its last word is no place's: it fills the row.
    """

    task_name: ClassVar[str] = NearestNeighbour.name

    def validate(self) -> None:
        """Two labels. There is always a point: 0 … 0 and 1 … 1 are as far apart as any margin asks."""
        labels = self.task.labels
        require(labels >= 2, f"A bit in nearest-neighbour needs at least 2 labels; got labels={labels}.")

    @property
    def split(self) -> str:
        """The labelled points are Alice's, the query is Bob's."""
        return "prefix/suffix"

    @property
    def _code(self) -> Bool[Tensor, "word dim"]:
        task = self.task
        return _points(task.n - 1, task.dimension, _gap(task))

    @property
    def _places(self) -> int:
        words = len(self._code)
        return words if words == self.task.n - 1 else words - 1

    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Float[Tensor, "batch alice_pos w"]:
        """Every point and its label; the filler has label 0."""
        stored = self.task.n - 1
        which = places(stored, x).clamp(max=len(self._code) - 1)
        points = self._as_points(which).expand(len(x), -1, -1)
        marks = torch.nn.functional.pad(x, (0, stored - x.shape[1]))
        labels = torch.nn.functional.one_hot(marks, self.task.labels).float()
        labels = torch.nn.functional.pad(labels, (self.task.dimension, 0))
        return torch.stack([points, labels], dim=2).flatten(1, 2)

    def _as_points(self, words: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch w"]:
        """Positions that hold these words of the code."""
        signs = self._code.to(words.device)[words].float() * 2 - 1
        return torch.nn.functional.pad(signs * _coordinate(self.task), (0, self.task.labels))


@final
@dataclass(frozen=True, kw_only=True)
class IndexToNearestNeighbour(_ToNearestNeighbour):
    """Bob asks for the point of his place, and its label is the symbol."""

    problem_name: ClassVar[str] = Index.name
    size: ClassVar[str] = "n − 1 symbols of an alphabet of `labels`, or fewer if the margin leaves no room"
    reads: ClassVar[str] = "the label at the query"

    @property
    def problem(self) -> Index:
        """A label for each point."""
        return Index(n=self._places, alphabet=self.task.labels)

    def bob(self, y: Int[Tensor, "batch 1"]) -> Float[Tensor, "batch 1 1 w"]:
        """The point of place y."""
        return one_question(self._as_points(y))

    def read(self, targets: Int[Tensor, "batch ask pos"], y: Int[Tensor, "batch 1"]) -> Int[Tensor, "batch"]:
        """The label is the symbol."""
        return label_at(targets, self.task.length - 1)


@final
@dataclass(frozen=True, kw_only=True)
class DisjToNearestNeighbour(_ToNearestNeighbour):
    """Bob asks for every point in turn, and compares the labels with his own bits."""

    problem_name: ClassVar[str] = Disjointness.name
    size: ClassVar[str] = "n − 1 bits, or fewer if the margin leaves no room"
    reads: ClassVar[str] = "the label at the query, in the rows of Bob's set: is one of them 1"

    @property
    def problem(self) -> Disjointness:
        """A bit for each point."""
        return Disjointness(n=self._places)

    @property
    def asks(self) -> int:
        """A row for each point."""
        return self._places

    def bob(self, y: Int[Tensor, "batch bob_place"]) -> Float[Tensor, "batch ask 1 w"]:
        """Every point, whatever y is."""
        points = self._as_points(places(self._places, y))
        return points.unsqueeze(1).expand(len(y), -1, -1, -1)

    def read(
        self, targets: Int[Tensor, "batch ask pos"], y: Int[Tensor, "batch bob_place"]
    ) -> Int[Tensor, "batch"]:
        """Whether the two sets meet."""
        return ((targets[:, :, self.task.length - 1] == 1) & (y == 1)).any(1).long()
