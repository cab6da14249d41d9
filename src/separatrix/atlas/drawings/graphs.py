"""Drawings of the tasks on graphs."""

from __future__ import annotations

from separatrix.atlas.drawings.layout import Sketch, lay_tiles, ring, verdict
from separatrix.atlas.examples import Example
from separatrix.atlas.svg import WIDTH, Canvas, Point, place
from separatrix.tasks.cycle5 import Cycle5

__all__ = ["draw_cycle3", "draw_cycle5", "draw_is_tree"]

Edge = tuple[str, str]


def draw_cycle3(canvas: Canvas, example: Example) -> Sketch:
    """A directed graph and its triangles."""
    return _draw_cycles(canvas, example, size=3, directed=True, kind="a directed 3-cycle")


def draw_cycle5(canvas: Canvas, example: Example) -> Sketch:
    """An undirected graph and its pentagons, or its closed walks where the task takes R by the letter."""
    assert isinstance(example.task, Cycle5)
    distinct = example.task.distinct
    kind = "an undirected 5-cycle" if distinct else "a closed walk of five edges"
    return _draw_cycles(canvas, example, size=5, directed=False, distinct=distinct, kind=kind)


def _draw_cycles(
    canvas: Canvas, example: Example, *, size: int, directed: bool, kind: str, distinct: bool = True
) -> Sketch:
    """Vertices on a ring, those on a cycle filled, and the edges of every such cycle drawn strong."""
    arcs = [(start, end) for start, end in example.row.nonzero().tolist()]
    labels = dict(zip(example.labelled, example.answers, strict=True))
    points = ring(len(labels), centre=(WIDTH / 2, 152), radius=132)
    cycles = _cycles(arcs, len(points), size, distinct=distinct)
    strong = {arc for cycle in cycles for arc in zip(cycle, (*cycle[1:], cycle[0]), strict=True)}
    if not directed:
        strong |= {(end, start) for start, end in strong}
    for arc in sorted(arcs, key=lambda arc: arc in strong):
        style = "edge on" if arc in strong else "edge"
        start, end = points[arc[0]], points[arc[1]]
        if directed:
            canvas.arrow(start, end, style, bend=7 if arc[::-1] in arcs else 0, shorten=16)
        elif arc[0] < arc[1]:
            canvas.line(start, end, style)
    for vertex, at in enumerate(points):
        canvas.node(at, str(vertex + 1), "tile answer" if labels[vertex] == "1" else "tile")
    on = [str(vertex + 1) for vertex in labels if labels[vertex] == "1"]
    says = f"{len(on)} of {len(points)} vertices lie on {kind}"
    return Sketch(height=302, says=f"{says}: {', '.join(on)}." if on else f"No vertex lies on {kind}.")


def _cycles(arcs: list[tuple[int, int]], count: int, size: int, *, distinct: bool) -> list[tuple[int, ...]]:
    """Every closed walk of `size` steps from a least vertex on; if `distinct`, over different vertices."""
    following = [[end for start, end in arcs if start == vertex] for vertex in range(count)]

    def extend(path: tuple[int, ...]) -> list[tuple[int, ...]]:
        if len(path) == size:
            return [path] if path[0] in following[path[-1]] else []
        onward = [v for v in following[path[-1]] if v >= path[0] and not (distinct and v in path)]
        return [cycle for vertex in onward for cycle in extend((*path, vertex))]

    return [cycle for vertex in range(count) for cycle in extend((vertex,))]


def draw_is_tree(canvas: Canvas, example: Example) -> Sketch:
    """The graph hung from vertex 1 in the order of the tour, the tour below, and the verdict."""
    words = example.text.split()
    edges = [(words[at - 1], words[at + 1]) for at, word in enumerate(words) if word == "~"]
    walk = words[1 + 3 * len(edges) :]
    places, tree = _hang(edges)
    visited = set(walk)
    for edge in edges:
        start, end = places[edge[0]], places[edge[1]]
        if edge in tree or edge[::-1] in tree:
            middle = (start[1] + end[1]) / 2
            canvas.path(
                f"M{place(start)} C{place((start[0], middle))} {place((end[0], middle))} {place(end)}", "edge"
            )
        else:
            canvas.path(_swerve(start, end), "edge on")
    for vertex, at in places.items():
        canvas.node(at, vertex, "tile on" if vertex in visited else "tile faint", radius=13)
    lowest = max(y for _, y in places.values())
    top = lowest + 34
    canvas.text((0, top), "tour", "note", anchor="start")
    tiles = lay_tiles(walk, top=top + 12, gap=2, leading=26, least=22)
    for vertex, centre in zip(walk, tiles.centres, strict=True):
        canvas.tile(centre, (tiles.size[0], 22), vertex, "tile on")
    answer = example.answers[-1]
    verdict(canvas, tiles.bottom + 26, answer)
    missed = len(places) - len(visited)
    unseen = f"{missed} {'vertex is' if missed == 1 else 'vertices are'} never reached" if missed else ""
    return Sketch(
        height=tiles.bottom + 42,
        says="The depth-first tour from vertex 1 comes to every vertex and back: a tree."
        if answer == "YES"
        else f"The depth-first tour from vertex 1 comes back too early, {unseen}: no tree.",
    )


def _hang(edges: list[Edge]) -> tuple[dict[str, Point], set[Edge]]:
    """Where each vertex goes when every component hangs from its least vertex, and the edges that hold it."""
    neighbours: dict[str, list[str]] = {}
    for first, second in edges:
        neighbours.setdefault(first, []).append(second)
        neighbours.setdefault(second, []).append(first)
    columns: dict[str, float] = {}
    levels: dict[str, int] = {}
    tree: set[Edge] = set()
    leaves = 0

    def settle(vertex: str, level: int) -> None:
        nonlocal leaves
        levels[vertex] = level
        children = []
        for other in neighbours[vertex]:
            if other not in levels:
                tree.add((vertex, other))
                children.append(other)
                settle(other, level + 1)
        if children:
            columns[vertex] = sum(columns[child] for child in children) / len(children)
        else:
            columns[vertex] = leaves
            leaves += 1

    for root in sorted(neighbours, key=int):
        if root not in levels:
            settle(root, 0)
    step = min(44.0, (WIDTH - 30) / max(1, leaves - 1))
    left = (WIDTH - step * (leaves - 1)) / 2
    return {vertex: (left + step * columns[vertex], 17 + 38 * levels[vertex]) for vertex in levels}, tree


def _swerve(start: Point, end: Point) -> str:
    """A curve between two vertices that keeps clear of what hangs between them."""
    side = max(start[0], end[0]) + 46
    return f"M{place(start)} Q{place((side, (start[1] + end[1]) / 2))} {place(end)}"
