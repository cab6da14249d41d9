"""INDEX in IsTree: Alice writes a forest, and Bob's edges ask which of its trees a vertex is in (W-4.7).

W doubles the string, so that a bit is whether two neighbours hang on the same hub: ⌊(n − 2)/2⌋ bits for n
vertices. `IndexToTree` gets n − 2, and that is all one edge of Bob's can ask for. Let e_1 … e_N be the edges
with which Bob asks for places 1 … N. None of them may be Alice's, since an edge stands once. For every string
but that of zeros some answer is YES, so her n − 2 edges are a forest of two trees, and x_i says whether e_i
goes from one to the other. The e_i have no cycle, because a cycle crosses a cut an even number of times and a
string that is 1 on one of its edges only would be impossible; so N ≤ n − 1. And if N = n − 1 they are a
spanning tree. For n ≥ 3 choose an edge e_i = uv of it and the string that is 1 on all other edges at u or v:
one of her two trees is {u, v} alone, and its only edge is e_i, which is not hers.

More bits go over if Bob has more edges: `IndexToTreeByHubs` carries (n − k − 1)·log k for any k, which at
k ≈ n/ln n is of the order of n·log n.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import log2
from typing import ClassVar, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.communication.problems import Index
from separatrix.communication.reductions.interface import Reduction, one_question, places
from separatrix.options import require
from separatrix.tasks import Partition
from separatrix.tasks.is_tree import YES, IsTree

__all__ = ["IndexToTree", "IndexToTreeByHubs"]


@dataclass(frozen=True, kw_only=True)
class _ToTree(Reduction[IsTree]):
    """How edges are written, whoever has chosen them."""

    problem_name: ClassVar[str] = Index.name
    task_name: ClassVar[str] = IsTree.name

    def complete(self, rows: Int[Tensor, "row pos"]) -> Int[Tensor, "row pos"]:
        """Behind the graph the chain that belongs to it, which is what a right model writes there."""
        if self.task.form == "direct":
            return rows
        return torch.stack([self.task.completed(row) for row in rows[:, : self.task.prompt]])

    def _written(self, edges: Int[Tensor, "batch edge 2"], *, start: bool) -> Int[Tensor, "batch pos"]:
        """Tokens of these edges, the smaller end of each first; with `start` behind the token for it."""
        vocabulary = self.task.vocabulary
        low, high = (ends + vocabulary.token("0") for ends in (edges.amin(2), edges.amax(2)))
        tokens = torch.stack([low, torch.full_like(low, vocabulary.token("~")), high], dim=2).flatten(1)
        return torch.nn.functional.pad(tokens, (1, 0), value=vocabulary.token("<s>")) if start else tokens

    def _is_tree(self, targets: Int[Tensor, "batch ask pos"]) -> Bool[Tensor, "batch ask"]:
        """The last label is the verdict; labels behind it are zero, and so is NO."""
        return (targets == YES).any(2)


@final
@dataclass(frozen=True, kw_only=True)
class IndexToTree(_ToTree):
    """n − 2 bits in a graph of n ≥ 5 vertices: the root 1, the hub 2, and vertex i + 3 for place i.

    Alice joins the hub to the root and to the vertices of zeros; she joins the vertices of ones, if there are
    any, in a star around the first of them. That is a forest of two trees. Bob adds the edge from the root
    to the vertex of place y, which she never uses: if x_y = 1 it makes the two trees one, and if x_y = 0 it
    closes a cycle. If there are no ones she writes a cycle through all vertices but the root and the hub, and
    no edge of Bob's makes a tree of that.
    """

    size: ClassVar[str] = "n − 2 bits"
    reads: ClassVar[str] = "the verdict: YES is 1"

    def validate(self) -> None:
        """Room for a cycle."""
        require(self.task.n >= 5, f"INDEX in is-tree needs at least 5 vertices; got n={self.task.n}. Try 8.")

    @property
    def problem(self) -> Index:
        """A bit for each vertex but two."""
        return Index(n=self.task.n - 2)

    @property
    def split(self) -> str:
        """All edges but the last are Alice's."""
        return "prefix/suffix"

    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Int[Tensor, "batch alice_pos"]:
        """An edge for each vertex but two, in their order."""
        root, hub = 1, 2
        vertex = (places(self.task.n - 2, x) + 3).expand_as(x)
        first = x.argmax(1, keepdim=True) + 3
        parent = torch.where(x == 1, first, hub)
        # The first of the ones has nobody to join, so the edge from hub to root is written in its stead.
        lonely = (x == 1) & (vertex == first)
        edges = torch.stack([torch.where(lonely, root, vertex), torch.where(lonely, hub, parent)], dim=2)
        # Without ones: the cycle 3, 4, … n, 3, which needs three vertices.
        around = torch.stack([vertex, (vertex - 3 + 1) % (self.task.n - 2) + 3], dim=2)
        return self._written(torch.where((x == 1).any(1).view(-1, 1, 1), edges, around), start=True)

    def bob(self, y: Int[Tensor, "batch 1"]) -> Int[Tensor, "batch 1 3"]:
        """The edge from the root to the vertex of place y."""
        edge = torch.stack([torch.ones_like(y), y + 3], dim=2)
        return one_question(self._written(edge, start=False))

    def read(self, targets: Int[Tensor, "batch ask pos"], y: Int[Tensor, "batch 1"]) -> Int[Tensor, "batch"]:
        """A tree means 1."""
        return self._is_tree(targets)[:, 0].long()


@lru_cache(maxsize=256)
def _best_hubs(n: int) -> int:
    """The number of hubs k ≥ 2 at which (n − k − 1)·log k is largest."""
    return max(range(2, max(3, n - 1)), key=lambda hubs: (n - hubs - 1) * log2(hubs))


@final
@dataclass(frozen=True, kw_only=True)
class IndexToTreeByHubs(_ToTree):
    """N = n − k − 1 symbols of an alphabet of k: hubs 1 … k, vertex k + 1 + i for place i, and n for Bob.

    Alice joins the vertex of each place to the hub of its symbol, which gives k stars. Bob asks, for each
    symbol c but one: is x_y = c? He joins all hubs but c in a chain, and his own vertex n to the first of
    them and to the vertex of place y. These are k edges, and n − 1 in all. If x_y = c the star of c is joined
    to the others by the way through n, and the graph is a tree; if not, that way closes a cycle.
    """

    variant: ClassVar[str] = "hubs"
    size: ClassVar[str] = "n − k − 1 symbols of an alphabet of k, for the best k"
    reads: ClassVar[str] = "the verdict in each row: which symbol gives YES, and the last if none does"

    def validate(self) -> None:
        """One place, two hubs and Bob's vertex."""
        require(self.task.n >= 4, f"INDEX in is-tree needs at least 4 vertices; got n={self.task.n}. Try 8.")

    @property
    def problem(self) -> Index:
        """A symbol for each vertex that is neither a hub nor Bob's."""
        return Index(n=self.task.n - self._hubs - 1, alphabet=self._hubs)

    @property
    def split(self) -> str:
        """The edges of the places are Alice's, the others Bob's."""
        return "places/hubs"

    @property
    def partition(self) -> Partition:
        """A prefix, earlier than the task's own."""
        task = self.task
        return Partition.prefix(task.length, 1 + 3 * self.problem.n, given=task.prompt)

    @property
    def asks(self) -> int:
        """A row for each symbol but the last."""
        return self._hubs - 1

    @property
    def _hubs(self) -> int:
        return _best_hubs(self.task.n)

    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Int[Tensor, "batch alice_pos"]:
        """Every vertex of a place with its hub."""
        vertex = places(self.problem.n, x) + self._hubs + 1
        return self._written(torch.stack([x + 1, vertex.expand_as(x)], dim=2), start=True)

    def bob(self, y: Int[Tensor, "batch 1"]) -> Int[Tensor, "batch ask bob_pos"]:
        """For each symbol a chain of the other hubs, and the way through vertex n."""
        hubs = self._hubs
        symbol = places(self.asks, y).unsqueeze(1)
        others = places(hubs - 1, y)
        # The hubs but the symbol's own, counted from 1.
        others = others + (others >= symbol) + 1
        chain = torch.stack([others[:, :-1], others[:, 1:]], dim=2).expand(len(y), -1, -1, -1)
        asked = (y + hubs + 1).expand(-1, self.asks)
        first = others[:, 0].expand_as(asked)
        way = torch.stack([first, asked], dim=2).unsqueeze(3)
        way = torch.cat([way, torch.full_like(way, self.task.n)], dim=3)
        edges = torch.cat([chain, way], dim=2)
        return self._written(edges.flatten(0, 1), start=False).view(len(y), self.asks, -1)

    def read(self, targets: Int[Tensor, "batch ask pos"], y: Int[Tensor, "batch 1"]) -> Int[Tensor, "batch"]:
        """The symbol whose row is a tree; where none is, it is the last."""
        found = self._is_tree(targets)
        return torch.where(found.any(1), found.long().argmax(1), self._hubs - 1)
