"""Undirected 5-cycles, to the letter and proper, against definitions by walking, and the words of errors."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput, TooLarge
from separatrix.tasks import Task, task
from separatrix.tasks.cycle5 import Cycle5
from separatrix.testing import TaskConformance

Neighbours = list[list[int]]


def returns_after_five_steps(neighbours: Neighbours, vertex: int) -> bool:
    reached = {vertex}
    for _ in range(5):
        reached = {further for place in reached for further in neighbours[place]}
    return vertex in reached


def closes_a_path_of_five(neighbours: Neighbours, path: tuple[int, ...]) -> bool:
    if len(path) == 5:
        return path[0] in neighbours[path[-1]]
    return any(
        closes_a_path_of_five(neighbours, (*path, further))
        for further in neighbours[path[-1]]
        if further not in path
    )


def answers(rows: list[list[float]], *, distinct: bool) -> dict[int, int]:
    neighbours = [[j for j, entry in enumerate(row) if entry == 1] for row in rows]
    return {
        i: int(
            closes_a_path_of_five(neighbours, (i,)) if distinct else returns_after_five_steps(neighbours, i)
        )
        for i in range(len(rows))
    }


@lru_cache
def share_of_ones(distinct: bool, density: float) -> float:
    """How likely the last of five vertices is labelled 1, summed over all 1024 graphs."""
    share = 0.0
    listed = Cycle5(n=5)
    for graph in listed.decode(torch.arange(listed.domain_size())).tolist():
        edges = sum(map(sum, graph)) / 2
        share += density**edges * (1 - density) ** (10 - edges) * answers(graph, distinct=distinct)[4]
    return share


class TestCycle5(TaskConformance):
    samples = 128
    typical = (
        Cycle5(n=5),
        Cycle5(n=5, distinct=True),
        Cycle5(n=9),
        Cycle5(n=9, distinct=True),
        Cycle5(n=8, density=0.5, distinct=True),
        Cycle5(n=7, density=0.77, distinct=True),
        Cycle5(n=20, density=0.1),
    )
    small = (Cycle5(n=5), Cycle5(n=5, distinct=True))

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        assert isinstance(task, Cycle5)
        return answers(row, distinct=task.distinct)

    def balance(self, task: Task) -> dict[int, float] | None:
        assert isinstance(task, Cycle5)
        if task.n > 5:
            return None
        share = share_of_ones(task.distinct, task.edge_probability)
        return {0: 1 - share, 1: share}


@pytest.mark.parametrize("n", [5, 6, 7, 8, 9])
def test_a_second_library_finds_the_same_vertices(n: int) -> None:
    for density in (0.2, 0.5, 0.8):
        cycle = Cycle5(n=n, density=density, distinct=True)
        batch = cycle.sample(12, seed=12)
        for matrix, targets in zip(batch.inputs, batch.targets, strict=True):
            graph = nx.from_numpy_array(matrix.numpy())
            found = {v for loop in nx.simple_cycles(graph, length_bound=5) if len(loop) == 5 for v in loop}
            assert found == set(targets.nonzero().flatten().tolist())


def test_to_the_letter_a_triangle_and_its_neighbours_count() -> None:
    graph = Cycle5(n=6).parse("6: 1-2 2-3 1-3 3-4 4-5 5-6").unsqueeze(0)
    assert Cycle5(n=6).solve(graph).targets[0].tolist() == [1, 1, 1, 1, 0, 0]
    assert not Cycle5(n=6, distinct=True).solve(graph).targets.any()


@pytest.mark.parametrize("n", [5, 6, 7, 8, 12, 16, 24, 48, 100, 250])
@pytest.mark.parametrize("distinct", [False, True])
def test_the_automatic_density_labels_about_half(n: int, distinct: bool) -> None:
    cycle = Cycle5(n=n, distinct=distinct)
    ones = cycle.sample(max(20, min(1500, 500_000 // n**2)), seed=3).targets
    assert abs(ones.double().mean().item() - 0.5) < 0.06
    assert cycle.edge_probability * 2**32 == int(cycle.edge_probability * 2**32)


def test_every_edge_is_drawn_alike() -> None:
    graphs = Cycle5(n=6, density=0.3).sample(8000, seed=2).inputs
    off_diagonal = ~torch.eye(6, dtype=torch.bool)
    assert (graphs.mean(0)[off_diagonal] - 0.3).abs().max() < 5 * math.sqrt(0.21 / 8000)
    # Two edges at a vertex are independent.
    assert abs((graphs[:, 0, 1] * graphs[:, 1, 2]).mean().item() - 0.09) < 5 * math.sqrt(0.09 * 0.91 / 8000)


@pytest.mark.slow
def test_dense_graphs_do_not_overflow() -> None:
    complete = 1 - torch.eye(1024)
    sides = torch.arange(1024) % 2
    bipartite = (sides.unsqueeze(0) != sides.unsqueeze(1)).float()
    for distinct in (False, True):
        cycle = Cycle5(n=1024, distinct=distinct)
        assert cycle.solve(complete.unsqueeze(0)).targets.all()
        assert not cycle.solve(bipartite.unsqueeze(0)).targets.any()
    # Two hubs joined to all make a thousand triangles, but a 5-cycle needs an edge between two others.
    hubs = torch.zeros(1024, 1024)
    hubs[:2] = hubs[:, :2] = 1
    hubs.fill_diagonal_(0)
    assert not Cycle5(n=1024, distinct=True).solve(hubs.unsqueeze(0)).targets.any()
    hubs[2, 3] = hubs[3, 2] = 1
    assert Cycle5(n=1024, distinct=True).solve(hubs.unsqueeze(0)).targets.all()
    assert Cycle5(n=1024).domain_size() == 1 << 1024 * 1023 // 2
    with pytest.raises(TooLarge):
        next(Cycle5(n=1024).enumerate())


def test_the_text() -> None:
    cycle = Cycle5(n=5)
    assert cycle.render(torch.zeros(5, 5)) == "5:"
    assert cycle.render(cycle.parse("5: 4-2 1-5 1-3")) == "5: 1-3 1-5 2-4"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 4}, "cycle5 needs 5 ≤ n ≤ 1024; got n=4. Try 16."),
        (
            {"n": 8, "density": -0.1},
            "cycle5 needs a density between 0 and 1, or 0 for an automatic one; got density=-0.1. Try 0.2.",
        ),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("cycle5", **parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5 1-2", "A graph of this task begins with '5:', for its vertices; got '5 1-2'."),
        ("5: 1>2", "An edge is written like 1-2; got '1>2'."),
        ("5: 1-6", "The vertices are 1 to 5; got the edge 1-6."),
        ("5: 3-3", "An edge joins two different vertices; got 3-3."),
        ("5: 1-2 2-1", "Each edge is written once; got 2-1 a second time."),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Cycle5(n=5).parse(text)
    assert str(caught.value) == message


def test_matrices_that_are_no_inputs() -> None:
    lonely = torch.zeros(5, 5)
    lonely[1, 3] = 1
    with pytest.raises(InvalidInput) as caught:
        Cycle5(n=5).check(lonely)
    assert str(caught.value) == ("cycle5 needs a symmetric matrix; entry 2, 4 differs from its mirror image.")


@given(st.text(max_size=30) | st.text("123456- ", max_size=20).map(lambda edges: f"5:{edges}"))
def test_parse_answers_any_text(text: str) -> None:
    cycle = Cycle5(n=5)
    try:
        row = cycle.parse(text)
    except InvalidInput:
        return
    cycle.check(row)
    assert torch.equal(cycle.parse(cycle.render(row)), row)


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(-2, 24) | st.sampled_from([-(2**60), 2**60, 1025]),
    density=st.floats() | st.floats(0, 1),
    distinct=st.booleans(),
)
def test_any_parameters_are_refused_or_work(**parameters: Any) -> None:
    try:
        cycle = task("cycle5", **parameters)
    except InvalidInput:
        return
    batch = cycle.sample(3, seed=1)
    for row in batch.inputs:
        cycle.check(row)
    assert torch.equal(cycle.solve(batch.inputs).targets, batch.targets)
