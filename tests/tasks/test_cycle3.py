"""Directed 3-cycles against their definition, the law of the random graphs, and the words of errors."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix.errors import InvalidInput, TooLarge
from separatrix.randomness import Draws
from separatrix.tasks import Task, task
from separatrix.tasks._adjacency import random_edges
from separatrix.tasks.cycle3 import Cycle3, share_on_3_cycles
from separatrix.testing import TaskConformance


def edges_of(matrix: list[list[float]]) -> set[tuple[int, int]]:
    return {(i, j) for i, row in enumerate(matrix) for j, entry in enumerate(row) if entry == 1}


def share_by_neighbours(n: int, density: float) -> float:
    """Sum over who the out- and in-neighbours of a vertex are; no edge may lead from one to another."""
    keep, missed = 1 - density, 0.0
    for kinds in itertools.product((0, 1, 2, 3), repeat=n - 1):  # bit 0: out, bit 1: in
        ends = sum(kind & 1 for kind in kinds) + sum(kind >> 1 for kind in kinds)
        links = sum(a & 1 and b >> 1 for a, b in itertools.permutations(kinds, 2))
        missed += density**ends * keep ** (2 * (n - 1) - ends + links)
    return 1 - missed


class TestCycle3(TaskConformance):
    typical = (
        Cycle3(n=3),
        Cycle3(n=6),
        Cycle3(n=12),
        Cycle3(n=5, density=0.25),
        Cycle3(n=6, density=0.3),
        Cycle3(n=6, instances="disjointness"),
        Cycle3(n=11, instances="disjointness"),
    )
    small = (Cycle3(n=3), Cycle3(n=4), Cycle3(n=3, density=0.9), Cycle3(n=4, instances="disjointness"))

    def definition(self, task: Task, row: list[Any]) -> dict[int, int]:
        assert isinstance(task, Cycle3)
        edges = edges_of(row)
        return {
            i: int(
                any(
                    (i, j) in edges and (j, k) in edges and (k, i) in edges
                    for j in range(task.n)
                    for k in range(task.n)
                )
            )
            for i in range(task.n)
        }

    def balance(self, task: Task) -> dict[int, float] | None:
        assert isinstance(task, Cycle3)
        if task.instances == "disjointness":
            share = 0.0 if task.n % 3 else 1 / 2 / (task.n // 3)
        elif task.n <= 6:
            share = share_by_neighbours(task.n, task.edge_probability)
        else:
            share = share_on_3_cycles(task.n, task.edge_probability)
        return {0: 1 - share, 1: share}


@pytest.mark.parametrize("density", [0.05, 0.3, 0.77])
def test_the_share_on_3_cycles(density: float) -> None:
    for n in range(3, 7):
        assert math.isclose(share_on_3_cycles(n, density), share_by_neighbours(n, density), abs_tol=1e-12)


@pytest.mark.parametrize("n", [3, 4, 5, 8, 20, 100, 1024])
def test_the_automatic_density_puts_half_of_the_vertices_on_cycles(n: int) -> None:
    density = Cycle3(n=n).edge_probability
    assert abs(share_on_3_cycles(n, density) - 0.5) < 0.02
    assert density * 2**32 == int(density * 2**32)


@pytest.mark.parametrize("density", [0.5, 0.375, 0.3, 2**-32, 1 - 2**-32])
def test_edges_are_independent_with_the_given_density(density: float) -> None:
    draws = Draws(seed=8, stream="test", batch=4000, start=0)
    edges = random_edges(draws, "edges", 24, density)
    mean, spread = edges.double().mean().item(), math.sqrt(density * (1 - density) / edges.numel())
    assert abs(mean - density) <= 5 * spread
    both = (edges[:, 0::2] & edges[:, 1::2]).double().mean().item()
    assert abs(both - density**2) <= 5 * math.sqrt(density**2 * (1 - density**2) / (edges.numel() / 2))


def test_every_edge_is_drawn_alike() -> None:
    graphs = Cycle3(n=5, density=0.3).sample(8000, seed=2).inputs.mean(0)
    off_diagonal = ~torch.eye(5, dtype=torch.bool)
    assert (graphs[off_diagonal] - 0.3).abs().max() < 5 * math.sqrt(0.21 / 8000)
    assert not graphs[~off_diagonal].any()


def disjointness_graph(n: int, alice: set[tuple[int, int]], bob: set[tuple[int, int]]) -> str:
    size = n // 3
    u, v, w = (range(1 + group * size, 1 + (group + 1) * size) for group in range(3))
    edges = [f"{u[i]}>{v[j]}" for i, j in alice] + [f"{v[j]}>{w[i]}" for i, j in bob]
    return " ".join([f"{n}:", *edges, *(f"{w[i]}>{u[i]}" for i in range(size))])


def square(size: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(size) for j in range(size)]


def subsets(things: list[tuple[int, int]]) -> list[set[tuple[int, int]]]:
    return [{thing for i, thing in enumerate(things) if bits >> i & 1} for bits in range(1 << len(things))]


def test_the_reduction_from_disjointness() -> None:
    """R's graph has a 3-cycle exactly if the sets meet."""
    cycle = Cycle3(n=6)
    pairs = list(itertools.product(subsets(square(2)), repeat=2))
    graphs = torch.stack([cycle.parse(disjointness_graph(6, *pair)) for pair in pairs])
    found = cycle.solve(graphs).targets.any(1).tolist()
    assert found == [bool(alice & bob) for alice, bob in pairs]


@pytest.mark.parametrize("n", [3, 4, 6])
def test_disjointness_instances_follow_the_stated_law(n: int) -> None:
    cycle = Cycle3(n=n, instances="disjointness")
    size, count = n // 3, 20_000
    things = square(size)
    disjoint = [(a, b) for a, b in itertools.product(subsets(things), repeat=2) if not a & b]
    law: defaultdict[str, float] = defaultdict(float)
    for alice, bob in disjoint:
        law[cycle.render(cycle.parse(disjointness_graph(n, alice, bob)))] += 1 / 2 / len(disjoint)
        for thing in things:
            text = disjointness_graph(n, alice | {thing}, bob | {thing})
            law[cycle.render(cycle.parse(text))] += 1 / 2 / len(disjoint) / len(things)
    seen = Counter(map(cycle.render, cycle.sample(count, seed=6).inputs))
    assert set(seen) <= set(law)
    for text, share in law.items():
        assert abs(seen[text] / count - share) <= 5 * math.sqrt(share * (1 - share) / count), text


def test_a_second_library_finds_the_same_vertices() -> None:
    cycle = Cycle3(n=14)
    batch = cycle.sample(40, seed=12)
    for matrix, targets in zip(batch.inputs, batch.targets, strict=True):
        graph = nx.from_numpy_array(matrix.numpy(), create_using=nx.DiGraph)
        found = {v for loop in nx.simple_cycles(graph, length_bound=3) if len(loop) == 3 for v in loop}
        assert found == set(targets.nonzero().flatten().tolist())


def test_dense_graphs_do_not_overflow() -> None:
    cycle = Cycle3(n=1024)
    complete = 1 - torch.eye(1024)
    assert cycle.solve(complete.unsqueeze(0)).targets.all()
    assert not cycle.solve(complete.triu().unsqueeze(0)).targets.any()
    assert cycle.domain_size() == 1 << 1024 * 1023
    with pytest.raises(TooLarge):
        next(cycle.enumerate())


def test_the_text() -> None:
    cycle = Cycle3(n=3)
    assert cycle.render(torch.zeros(3, 3)) == "3:"
    assert torch.equal(cycle.parse(" 3 :3>1\n1>2 "), torch.tensor([[0.0, 1, 0], [0, 0, 0], [1, 0, 0]]))
    assert cycle.render(cycle.parse("3:3>1 1>2")) == "3: 1>2 3>1"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 2}, "cycle3 needs 3 ≤ n ≤ 1024; got n=2. Try 16."),
        (
            {"n": 8, "density": 1.5},
            "cycle3 needs a density between 0 and 1, or 0 for an automatic one; got density=1.5. Try 0.2.",
        ),
        (
            {"n": 8, "density": 1},
            "cycle3 needs a density between 0 and 1, or 0 for an automatic one; got density=1. Try 0.2.",
        ),
        (
            {"n": 8, "density": math.nan},
            "cycle3 needs a density between 0 and 1, or 0 for an automatic one; got density=nan. Try 0.2.",
        ),
        ({"n": 8, "instances": "hard"}, "cycle3 knows instances as random or disjointness; got 'hard'."),
    ],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        task("cycle3", **parameters)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "A graph of this task begins with '4:', for its vertices; got ''."),
        ("1>2 2>3", "A graph of this task begins with '4:', for its vertices; got '1>2 2>3'."),
        ("3: 1>2", "A graph of this task begins with '4:', for its vertices; got '3: 1>2'."),
        ("4: 1>2 2-3", "An edge is written like 1>2; got '2-3'."),
        ("4: 1>2>3", "An edge is written like 1>2; got '1>2>3'."),
        ("4: 1>5", "The vertices are 1 to 4; got the edge 1>5."),
        ("4: 0>1", "An edge is written like 1>2; got '0>1'."),
        ("4: 2>2", "An edge joins two different vertices; got 2>2."),
        ("4: 1>2 2>1 1>2", "Each edge is written once; got 1>2 a second time."),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Cycle3(n=4).parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (torch.zeros(3, 4), "An input of cycle3 is float32 of shape (3, 3); got float32 of shape (3, 4)."),
        (torch.full((3, 3), 0.5), "cycle3 needs entries 0 or 1; got 0.5."),
        (torch.full((3, 3), math.nan), "cycle3 needs entries 0 or 1; got nan."),
        (
            torch.eye(3).roll(1, 0) + torch.diag(torch.tensor([0.0, 0, 1])),
            "cycle3 has no loops; got one at vertex 3.",
        ),
    ],
)
def test_matrices_that_are_no_inputs(matrix: torch.Tensor, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Cycle3(n=3).check(matrix)
    assert str(caught.value) == message


@given(st.text(max_size=30) | st.text("1234> ", max_size=20).map(lambda edges: f"3:{edges}"))
def test_parse_answers_any_text(text: str) -> None:
    cycle = Cycle3(n=3)
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
    instances=st.sampled_from(["random", "disjointness"]),
)
def test_any_parameters_are_refused_or_work(**parameters: Any) -> None:
    try:
        cycle = task("cycle3", **parameters)
    except InvalidInput:
        return
    batch = cycle.sample(3, seed=1)
    for row in batch.inputs:
        cycle.check(row)
    assert torch.equal(cycle.solve(batch.inputs).targets, batch.targets)
