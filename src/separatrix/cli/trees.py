"""A tree as lines of text, from the tour that went through it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

__all__ = ["drawn"]

_COLUMNS_A_LEVEL = 3


def drawn(tour: Sequence[int], *, most: int, width: int = 80) -> list[str]:
    """The tree of a depth-first tour: children below their parent, in the order they were visited.

    A tour that was broken off gives the part it saw. At most `most` vertices are drawn, and none so deep that
    it would not fit the width; what is left out is counted where it would stand.
    """
    if not tour:
        return []
    children = _children(tour)
    below = _below(children)
    deepest = max(1, (width - len(f"{max(children)} … {len(children)} below")) // _COLUMNS_A_LEVEL)
    lines: list[str] = []
    hidden = len(children)
    # (vertex, its depth, what stands before it, what stands before its children)
    waiting = [(tour[0], 0, "", "")]
    while waiting and len(lines) < most:
        vertex, depth, before, under = waiting.pop()
        hidden -= 1
        rows = children[vertex]
        if depth == deepest and rows:
            lines.append(f"{before}{vertex} … {below[vertex]} below")
            hidden -= below[vertex]
            continue
        lines.append(f"{before}{vertex}")
        for place in range(len(rows) - 1, -1, -1):
            last = place == len(rows) - 1
            corner, pad = ("└─ ", "   ") if last else ("├─ ", "│  ")
            waiting.append((rows[place], depth + 1, under + corner, under + pad))
    return [*lines, f"… and {hidden:,} vertices more"] if hidden else lines


def _children(tour: Sequence[int]) -> dict[int, list[int]]:
    """Of every vertex, parents before their children."""
    children: dict[int, list[int]] = {tour[0]: []}
    for here, there in itertools.pairwise(tour):
        if there not in children:
            children[here].append(there)
            children[there] = []
    return children


def _below(children: dict[int, list[int]]) -> dict[int, int]:
    """How many vertices are below each."""
    below: dict[int, int] = {}
    for vertex in reversed(children):
        below[vertex] = sum(1 + below[child] for child in children[vertex])
    return below
