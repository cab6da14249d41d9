"""Random graphs with n − 1 edges on the vertices 1 … n, many at a time, half of them trees."""

from __future__ import annotations

import math
from functools import cache

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks.domains import subset
from separatrix.tasks.shaping import redraw, uniform_between
from separatrix.tasks.tree_search import tour

__all__ = ["hub_graph", "uniform_graph", "vertex_pairs"]

_LISTED = 6
_ATTEMPTS = 24


def hub_graph(draws: Draws, n: int) -> Int[Tensor, "batch edge 2"]:
    """W's graphs: two hubs that everybody else joins one of, and one edge between two of the others.

    With a random numbering of the vertices from 0, vertices 2 … n − 1 join hub 0 or hub 1 by a fair coin;
    then i and i + 1 are joined for a uniform i in 2 … n − 2. It is a tree if and only if those two have
    different hubs.
    """
    number = draws.permutations("numbering", n) + 1
    hub = draws.integers("hubs", (n - 2,), 2)
    joined = uniform_between(draws, "bridge", 2, n - 2).unsqueeze(1)
    spokes = torch.stack([number[:, 2:], number.gather(1, hub)], dim=-1)
    bridge = torch.stack([number.gather(1, joined), number.gather(1, joined + 1)], dim=-1)
    return torch.cat([spokes, bridge], dim=1)


def uniform_graph(draws: Draws, n: int) -> Int[Tensor, "batch edge 2"]:
    """By a fair coin a uniform labelled tree, or a uniform graph among those that are no tree."""
    tree = _prufer_tree(draws.integers("prufer", (n - 2,), n, wide=True), n)
    other = _no_tree(draws, n)
    return torch.where(draws.coins("kind", (1, 1)), tree, other)


def _prufer_tree(code: Int[Tensor, "batch code"], n: int) -> Int[Tensor, "batch edge 2"]:
    """The labelled tree of a Prüfer code: join the least leaf to each letter in turn, then the last two."""
    vertex = torch.arange(n, device=code.device)
    degree = torch.ones(len(code), n, dtype=torch.int64, device=code.device)
    degree.scatter_add_(1, code, torch.ones_like(code))
    edges = []
    for letter in code.unsqueeze(2).unbind(1):
        leaf = torch.where(degree == 1, vertex, n).amin(1, keepdim=True)
        edges.append(torch.cat([leaf, letter], dim=1))
        degree.scatter_add_(1, edges[-1], torch.full_like(edges[-1], -1))
    last = torch.where(degree == 1, vertex, -1)
    least = torch.where(degree == 1, vertex, n).amin(1, keepdim=True)
    edges.append(torch.cat([least, last.amax(1, keepdim=True)], dim=1))
    return torch.stack(edges, dim=1) + 1


def _no_tree(draws: Draws, n: int) -> Int[Tensor, "batch edge 2"]:
    """Uniform among the sets of n − 1 edges that form no tree.

    Up to six vertices, where most sets may be trees, they are listed. Beyond, a set is a tree with
    probability at most 16807/54264 (n = 7), so redrawing fails with probability below 10^-12; should it, a
    triangle with a vertex left out is taken.
    """
    if n <= _LISTED:
        listed = _sets_without_tree(n, draws.device)
        return listed[draws.integers("edges", (1,), len(listed), wide=True).squeeze(1)]
    pairs = vertex_pairs(n, draws.device)

    def propose(attempt: int) -> Int[Tensor, "batch edge 2"]:
        return pairs[draws.distinct(f"edges/{attempt}", n - 1, len(pairs))]

    edges, accepted = redraw(propose, lambda edges: ~_is_tree(edges, n), attempts=_ATTEMPTS)
    return torch.where(accepted.view(-1, 1, 1), edges, _triangle(n, draws.device))


def _is_tree(edges: Int[Tensor, "batch edge 2"], n: int) -> Bool[Tensor, "batch"]:
    return tour(edges, n)[:, -1] > 0


@cache
def vertex_pairs(n: int, device: torch.device | str) -> Int[Tensor, "pair 2"]:
    """Every pair u < v of the vertices 1 … n, in lexicographic order; made once for each device."""
    return torch.combinations(torch.arange(1, n + 1)).to(device)


@cache
def _sets_without_tree(n: int, device: torch.device | str) -> Int[Tensor, "set edge 2"]:
    pairs = vertex_pairs(n, "cpu")
    sets = pairs[subset(torch.arange(math.comb(len(pairs), n - 1)), n - 1, len(pairs))]
    return sets[~_is_tree(sets, n)].to(device)


@cache
def _triangle(n: int, device: torch.device | str) -> Int[Tensor, "edge 2"]:
    return torch.tensor([(1, 2), (2, 3), *((1, other) for other in range(3, n))]).to(device)
