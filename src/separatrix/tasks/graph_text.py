"""Graphs as people write them: edges in a row or a line each, as `3 ~ 7`, `3 7`, `3-7` or `3,7`."""

from __future__ import annotations

import re

from separatrix.errors import InvalidInput

__all__ = ["edges_in", "graph_words"]

_MOST_CHARACTERS = 1 << 24
_EDGE = re.compile(r"(\d{1,9})(?:\s*[~,\-–]\s*|\s+)(\d{1,9})", re.ASCII)


def edges_in(text: str) -> list[tuple[int, int]]:
    """The edges of a graph, in their order; `#` begins a remark, and `<s>` in front is allowed."""
    if len(text) > _MOST_CHARACTERS:
        raise InvalidInput(f"A graph has at most {_MOST_CHARACTERS:,} characters; got {len(text):,}.")
    edges: list[tuple[int, int]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        rest = line.partition("#")[0].strip()
        rest = rest.removeprefix("<s>").lstrip(" ;") if not edges else rest
        while rest:
            found = _EDGE.match(rest)
            end = found.end() if found else 0
            if found is None or (end < len(rest) and not re.match(r"[\s;]", rest[end:])):
                raise InvalidInput(
                    "A graph is a list of edges such as `3 ~ 7` or `3 7`, in one line or a line each; "
                    f"got '{rest[:40]}' in line {number}."
                )
            edges.append((int(found[1]), int(found[2])))
            rest = rest[end:].lstrip(" \t;")
    return edges


def graph_words(edges: list[tuple[int, int]]) -> str:
    """The same edges as IsTree writes them, the smaller end of each first."""
    return " ".join(["<s>", *(f"{min(edge)} ~ {max(edge)}" for edge in edges)])
