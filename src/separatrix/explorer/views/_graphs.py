"""Graphs that a reader draws: how many vertices, and which of them are joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from separatrix.errors import InvalidInput
from separatrix.explorer.view import number_in

__all__ = ["MOST_VERTICES", "Graph", "graph_in"]

MOST_VERTICES: Final = 12


@final
@dataclass(frozen=True, kw_only=True)
class Graph:
    """Vertices 1 … n, and edges in the order in which they were drawn, the smaller end of each first."""

    vertices: int
    edges: tuple[tuple[int, int], ...]

    @property
    def as_many_as_a_tree(self) -> bool:
        """Whether it has n − 1 edges, as the graphs of IsTree do."""
        return len(self.edges) == self.vertices - 1

    @property
    def text(self) -> str:
        """As IsTree writes it."""
        return " ".join(["<s>", *(f"{first} ~ {second}" for first, second in self.edges)])

    @property
    def miscount(self) -> str:
        """Why no model is asked about a graph with another number of edges."""
        vertices, edges = _counted(self.vertices, "vertex", "vertices"), _counted(self.vertices - 1, "edge")
        return (
            f"A tree on {vertices} has {edges} and this graph has {len(self.edges)}, so it is none. The "
            "weights are for graphs with n − 1 edges, where counting does not settle it; they were not asked."
        )

    def to_fields(self) -> dict[str, object]:
        """The fields as JSON values."""
        return {"vertices": self.vertices, "edges": [list(edge) for edge in self.edges]}


def graph_in(
    asked: Mapping[str, object], default: Mapping[str, object], *, most: int = MOST_VERTICES
) -> Graph:
    """The graph that a question holds in `vertices` and `edges`; the default one where it holds neither."""
    held = asked if "vertices" in asked or "edges" in asked else default
    vertices = number_in(held, "vertices", least=1, most=most)
    given = held.get("edges")
    if not isinstance(given, list):
        raise InvalidInput("'edges' is an array of pairs of vertices, such as [[1, 3], [2, 3]].")
    edges: dict[tuple[int, int], None] = {}
    pairs = vertices * (vertices - 1) // 2
    if len(given) > pairs:
        raise InvalidInput(f"A graph on {vertices} vertices has at most {pairs} edges; got {len(given)}.")
    for each in given:
        edge = _edge(each, vertices)
        if edge in edges:
            raise InvalidInput(f"Every edge stands once; got {edge[0]} ~ {edge[1]} twice. Leave one out.")
        edges[edge] = None
    return Graph(vertices=vertices, edges=tuple(edges))


def _edge(given: object, vertices: int) -> tuple[int, int]:
    if not isinstance(given, list) or len(given) != 2 or not all(type(end) is int for end in given):
        raise InvalidInput("An edge is an array of two vertices, such as [1, 3].")
    first, second = sorted(given)
    if not 1 <= first <= second <= vertices:
        got = f"{str(first)[:20]} ~ {str(second)[:20]}"
        raise InvalidInput(f"The vertices of this graph are 1 to {vertices}; got the edge {got}.")
    if first == second:
        raise InvalidInput(f"An edge joins two different vertices; got {first} ~ {second}. Leave it out.")
    return first, second


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
