"""Depth-first search of many graphs at once: W's two algorithms for IsTree, in lockstep over a batch.

Vertices are 1 … n; 0 stands for "none", and a search that has ended rests at vertex 0, where nothing changes
any more. One step costs a few operations on (edge, batch), so shapes depend on n alone.

The inner loops are written for speed. The edge axis comes first, so that a minimum over edges is taken lane
by lane; numbers are int16; and equality is tested by exclusive or, whose result is 0 where both agree: that,
like + and minimum, runs in vector registers on a CPU, while comparisons that make booleans do not.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

__all__ = ["LARGEST", "Rounds", "search_rounds", "tour"]

LARGEST = 4096
"""Vertices at most: their numbers, and the orders of their edges, fit int16 with room to spare."""

_FAR = 14
_LARGEST_INT16 = (1 << 15) - 1

Numbers = Int[Tensor, "batch"]
Table = Int[Tensor, "vertex batch"]


def tour(edges: Int[Tensor, "batch edge 2"], n: int) -> Int[Tensor, "batch step"]:
    """Algorithm 1: the walk of a depth-first search from vertex 1, 2n − 1 steps long at most, then zeros.

    Each step writes down where the walk is, then goes to a neighbour that has not been visited, by the
    earliest edge that leads to one, or back to where it first came from. Parents stand for the stack that one
    would keep. A connected graph of n vertices is left after exactly 2n − 1 steps, any other one earlier.
    """
    first, second, order = _edge_major(edges)
    ends = first ^ second
    parent = _table(edges, n, fill=0)
    top = torch.ones_like(parent[0])
    visited_first, visited_second = _mark(torch.zeros_like(first), first, top), _mark(first * 0, second, top)
    steps = []
    for _ in range(2 * n - 1):
        steps.append(top)
        # Zero for an edge that joins the top to an unvisited vertex.
        unusable = torch.minimum((first ^ top) | visited_second, (second ^ top) | visited_first)
        place, found = _least(order + (unusable.clamp_(max=1) << _FAR))
        child = (_at(ends, place) ^ top) * found
        visited_first = _mark(visited_first, first, child)
        visited_second = _mark(visited_second, second, child)
        _put(parent, child, top)
        parent[0] = 0
        top = torch.where(found, child, _at(parent, top))
    return torch.stack(steps, dim=1).long()


class Rounds(NamedTuple):
    """What algorithm 2 does at each step of its walk; a round that never happens has vertex 0.

    `edge` is the vertex at the other end of the edge found first, `edge_again` the one found after it when
    the first was the parent's (`again`), 0 for none. `next` is the neighbour to go to, if any; it is `new`,
    or `next_parent` was written down for it before (0 for the root).
    """

    vertex: Int[Tensor, "batch round"]
    previous: Int[Tensor, "batch round"]
    parent: Int[Tensor, "batch round"]
    edge: Int[Tensor, "batch round"]
    again: Bool[Tensor, "batch round"]
    edge_again: Int[Tensor, "batch round"]
    next: Int[Tensor, "batch round"]
    new: Bool[Tensor, "batch round"]
    next_parent: Int[Tensor, "batch round"]


def search_rounds(edges: Int[Tensor, "batch edge 2"], n: int) -> tuple[Rounds, Bool[Tensor, "batch"]]:
    """Algorithm 2: the same walk, but every step looks things up instead of keeping a stack.

    A visitor to v who comes from `previous` asks for v's parent, then for the edge that follows the one just
    used in v's order (the very first, on arrival from the parent), and once more if the answer leads to the
    parent. Without an edge left, v is done and the walk returns to the parent. With one, the visitor asks
    whether the vertex u behind it has a parent yet. If so, an edge closes a cycle and all is over; if not, u
    is new, v becomes its parent and the walk moves on. A tree is what lets all n vertices be done.
    """
    first, second, order = _edge_major(edges)
    ends = first ^ second
    parent = _table(edges, n, fill=0)
    # The order of the edge to the parent; −1 for the root, whose edges all come after that.
    edge_to_parent = _table(edges, n, fill=-1)
    seen = _table(edges, n, fill=0)
    seen[1] = 1
    vertex = torch.ones_like(parent[0])
    previous, left = torch.zeros_like(vertex), torch.zeros_like(vertex)
    records = []
    for _ in range(2 * n - 1):
        above = _at(parent, vertex)
        elsewhere = torch.minimum(first ^ vertex, second ^ vertex).clamp_(max=1) << _FAR
        came_by = torch.where(previous == above, -1, _at(edge_to_parent, previous))
        place, found = _least_after(came_by, elsewhere, order)
        edge = (_at(ends, place) ^ vertex) * found
        again = found & (edge == above)
        place_again, found_again = _least_after(place, elsewhere, order)
        edge_again = (_at(ends, place_again) ^ vertex) * found_again
        following = torch.where(again, edge_again, edge)
        new = (following > 0) & (_at(seen, following) == 0)
        next_parent = _at(parent, following)
        records.append((vertex, previous, above, edge, again, edge_again, following, new, next_parent))

        child = following * new
        _put(seen, child, torch.ones_like(child))
        _put(parent, child, vertex)
        _put(edge_to_parent, child, torch.where(again, place_again, place))
        seen[0], parent[0], edge_to_parent[0] = 0, 0, -1
        back = (following == 0) & (vertex > 0)
        left += back
        previous, vertex = vertex, torch.where(new, child, above * back)
    columns = [torch.stack(column, dim=1) for column in zip(*records, strict=True)]
    numbers = [column if column.dtype == torch.bool else column.long() for column in columns]
    return Rounds._make(numbers), left == n


def _edge_major(edges: Int[Tensor, "batch edge 2"]) -> tuple[Tensor, Tensor, Tensor]:
    if edges.shape[1] == 0:  # one vertex alone: an edge 0 ~ 0, which nobody is at, keeps the shapes whole
        edges = torch.zeros(len(edges), 1, 2, dtype=edges.dtype, device=edges.device)
    first, second = edges.to(torch.int16).permute(2, 1, 0).contiguous().unbind(0)
    order = torch.arange(len(first), dtype=torch.int16, device=edges.device).unsqueeze(1)
    return first, second, order


def _table(edges: Int[Tensor, "batch edge 2"], n: int, *, fill: int) -> Table:
    """One number for each vertex; row 0 takes the writes that mean nothing and is cleaned after each."""
    return torch.full((n + 1, len(edges)), fill, dtype=torch.int16, device=edges.device)


def _mark(
    marks: Int[Tensor, "edge batch"], end: Int[Tensor, "edge batch"], vertex: Numbers
) -> Int[Tensor, "edge batch"]:
    """The marks, with a 1 added wherever this end of an edge is the vertex."""
    return torch.maximum(marks, 1 - (end ^ vertex))


def _least(key: Int[Tensor, "edge batch"]) -> tuple[Numbers, Bool[Tensor, "batch"]]:
    """The least order among keys that are not set far off, and whether there is one; 0 stands in for none."""
    place = key.amin(0)
    found = place < 1 << _FAR
    return place * found, found


def _least_after(
    last: Numbers, elsewhere: Int[Tensor, "edge batch"], order: Int[Tensor, "edge 1"]
) -> tuple[Numbers, Bool[Tensor, "batch"]]:
    """The same among the edges that come after `last`: what does not, wraps round to the largest numbers."""
    steps, found = _least(((order - (last + 1)) & _LARGEST_INT16) | elsewhere)
    return (last + 1 + steps) * found, found


def _at(table: Int[Tensor, "row batch"], row: Numbers) -> Numbers:
    return table.gather(0, row.long().unsqueeze(0)).squeeze(0)


def _put(table: Table, row: Numbers, value: Numbers) -> None:
    table.scatter_(0, row.long().unsqueeze(0), value.unsqueeze(0))
