from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from separatrix.explorer.view import TimeIsUp
from separatrix.explorer.views.thinking import FAMILIES, VIEW
from separatrix.tasks.is_tree import IsTree
from separatrix.witnesses.solving import solve
from tests.explorer.view_asking import put, refused

Edges = list[list[int]]


def graphs(vertices: int) -> Iterator[Edges]:
    pairs = [list(pair) for pair in itertools.combinations(range(1, vertices + 1), 2)]
    for count in range(len(pairs) + 1):
        yield from (list(chosen) for chosen in itertools.combinations(pairs, count))


def is_tree(vertices: int, edges: Edges) -> bool:
    """Everything is reached from vertex 1, and taking any edge away leaves something that is not."""

    def connected(kept: Edges) -> bool:
        reached = {1}
        for _ in range(vertices):
            reached |= {v for edge in kept if set(edge) & reached for v in edge}
        return len(reached) == vertices

    without = ([other for other in edges if other != edge] for edge in edges)
    return connected(edges) and not any(map(connected, without))


@pytest.mark.parametrize(
    ("family", "most"),
    [
        ("transformer-cot", 3),
        ("hybrid-cot", 3),
        pytest.param("transformer-cot", 4, marks=pytest.mark.slow),
        pytest.param("hybrid-cot", 4, marks=pytest.mark.slow),
        pytest.param("transformer-cot", 5, marks=pytest.mark.slow),
    ],
)
def test_every_small_graph(family: str, most: int) -> None:
    seen = 0
    for vertices in range(1, most + 1):
        for edges in graphs(vertices):
            told = put(VIEW, {"family": family, "vertices": vertices, "edges": edges})
            right = "YES" if is_tree(vertices, edges) else "NO"
            assert (told["answer"], told["oracle"]) == (right, right), edges
            assert told["asked"] == (len(edges) == vertices - 1)
            seen += 1
    assert seen == sum(2 ** (vertices * (vertices - 1) // 2) for vertices in range(1, most + 1))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "edges",
    [
        [[1, 2], [1, 3], [2, 4], [2, 5], [3, 6]],
        [[1, 2], [2, 3], [1, 3], [3, 4], [5, 6]],
        [[2, 3], [3, 4], [2, 4], [1, 5], [5, 6]],
        [[4, 6], [1, 6], [2, 6], [3, 6], [5, 6]],
    ],
)
def test_the_steps_are_the_words_of_the_model_and_walk_along_edges(family: str, edges: Edges) -> None:
    told = put(VIEW, {"family": family, "vertices": 6, "edges": edges})
    solution = solve(IsTree(n=6), " ".join(f"{u} ~ {v}" for u, v in edges), family=family)
    assert [step["word"] for step in told["steps"]] == list(solution.words)
    assert told["prompt"] == ["<s>", *(word for u, v in edges for word in (str(u), "~", str(v)))]
    places = [step["at"] for step in told["steps"]]
    assert places[0] == 1
    for here, there in itertools.pairwise(places):
        assert here == there or sorted((here, there)) in edges
    for step in told["steps"]:
        assert step["looks"] is None or sorted(step["looks"]) in edges
    assert told["weights"]["family"] == family


def says(asked: dict[str, Any]) -> str:
    return str(put(VIEW, asked)["steps"][-1]["says"])


def test_the_last_step_says_why() -> None:
    tree = {"vertices": 3, "edges": [[1, 2], [2, 3]]}
    cycle = {"vertices": 4, "edges": [[1, 2], [2, 3], [1, 3]]}
    apart = {"vertices": 5, "edges": [[1, 2], [3, 4], [4, 5], [3, 5]]}
    assert says(tree) == "The walk is over and has met all 3: with n − 1 edges that is a tree."
    assert says(cycle) == "The edge 3 ~ 1 leads to a vertex met before: a cycle."
    assert says(apart) == "The walk is over and has met 2 of 5: no tree."
    assert says({**cycle, "family": "hybrid-cot"}) == "The walk is over and has met 3 of 4: no tree."


def test_a_graph_with_another_number_of_edges_is_settled_by_counting() -> None:
    told = put(VIEW, {"vertices": 3, "edges": [[1, 2]]})
    assert not told["asked"]
    assert told["steps"] == []
    assert told["says"].startswith("A tree on 3 vertices has 2 edges and this graph has 1, so it is none.")


def test_nothing_asked_is_the_default() -> None:
    told = put(VIEW, {})
    assert (told["vertices"], told["edges"]) == (VIEW.default["vertices"], VIEW.default["edges"])
    assert told["answer"] == "YES"


@pytest.mark.parametrize(
    ("asked", "saying"),
    [
        ({"family": "rnn"}, "'family' is one of transformer-cot, hybrid-cot"),
        ({"vertices": 13, "edges": []}, "between 1 and 12"),
        ({"vertices": 0, "edges": []}, "between 1 and 12"),
        ({"vertices": True, "edges": []}, "whole number from 1 to 12"),
        ({"edges": [[1, 2]]}, "whole number from 1 to 12"),
        ({"vertices": 3}, "'edges' is an array of pairs"),
        ({"vertices": 3, "edges": "1 ~ 2"}, "'edges' is an array of pairs"),
        ({"vertices": 3, "edges": [[1]]}, "An edge is an array of two vertices"),
        ({"vertices": 3, "edges": [[1, "2"]]}, "An edge is an array of two vertices"),
        ({"vertices": 3, "edges": [[1, 4]]}, "1 to 3; got the edge 1 ~ 4"),
        ({"vertices": 3, "edges": [[2, 2]]}, "two different vertices"),
        ({"vertices": 3, "edges": [[1, 2], [2, 1]]}, "got 1 ~ 2 twice"),
        ({"vertices": 2, "edges": [[1, 2]] * 9}, "at most 1 edges; got 9"),
        ({"graph": 1}, "family, vertices, edges"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(asked: dict[str, Any], saying: str) -> None:
    refused(VIEW, asked, saying)


def test_the_deadline_is_kept() -> None:
    with pytest.raises(TimeIsUp):
        put(VIEW, {}, seconds=0)
