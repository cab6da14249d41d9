"""R-G: cycles in graphs by one graph unit."""

from __future__ import annotations

import pytest
import torch

from separatrix.errors import InvalidInput
from separatrix.precision import FixedDown, FixedNearest, Float32, Float64, NumberSystem
from separatrix.tasks.cycle3 import Cycle3
from separatrix.tasks.cycle5 import Cycle5
from separatrix.witnesses import Choices, Witness, witness_for

from .checking import right_on_every_input, right_on_samples, wrong_answers

SYSTEMS: tuple[NumberSystem, ...] = (Float64(), Float32(), FixedDown(n=4, k=3), FixedNearest(p=17))


def built(task: Cycle3 | Cycle5, system: NumberSystem | None = None) -> Witness:
    return witness_for(task, choices=Choices(system=system or Float64()))


@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_every_directed_graph_of_three_vertices(system: NumberSystem) -> None:
    assert right_on_every_input(built(Cycle3(n=3), system))


@pytest.mark.parametrize("system", [Float64(), Float32()], ids=str)
def test_every_directed_graph_of_four_vertices(system: NumberSystem) -> None:
    assert right_on_every_input(built(Cycle3(n=4), system))


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=str)
def test_every_directed_graph_of_four_vertices_in_few_bits(system: NumberSystem) -> None:
    assert right_on_every_input(built(Cycle3(n=4), system))


@pytest.mark.slow
@pytest.mark.parametrize("system", [Float64(), Float32()], ids=str)
def test_every_graph_of_five_vertices(system: NumberSystem) -> None:
    assert right_on_every_input(built(Cycle5(n=5), system))


@pytest.mark.slow
@pytest.mark.parametrize("system", [FixedDown(n=5, k=3), FixedNearest(p=21)], ids=str)
def test_every_graph_of_five_vertices_in_few_bits(system: NumberSystem) -> None:
    assert right_on_every_input(built(Cycle5(n=5), system))


def worst_directed(n: int) -> torch.Tensor:
    """No 3-cycle and as many tuples as can be that miss one edge; one 3-cycle among them; all edges."""
    order = torch.triu(torch.ones(n, n), 1)
    one = order.clone()
    one[2, 0] = 1
    return torch.stack([order, one, torch.ones(n, n) - torch.eye(n), torch.zeros(n, n)])


def worst_undirected(n: int) -> torch.Tensor:
    """Two full sides have no odd walk and every walk but one edge; a triangle beside them; all edges."""
    side = torch.arange(n) % 2
    sides = (side[:, None] != side[None, :]).float()
    odd = sides.clone()
    odd[0, 2] = odd[2, 0] = 1
    return torch.stack([sides, odd, torch.ones(n, n) - torch.eye(n), torch.zeros(n, n)])


@pytest.mark.parametrize("system", [Float64(), Float32(), FixedDown(n=12, k=2), FixedNearest(p=17)], ids=str)
def test_graphs_with_the_most_near_misses(system: NumberSystem) -> None:
    witness = built(Cycle3(n=12), system)
    assert wrong_answers(witness.model, witness.task, worst_directed(12)) == 0


@pytest.mark.parametrize("system", [Float64(), Float32(), FixedDown(n=6, k=3)], ids=str)
def test_graphs_with_the_most_near_misses_of_five(system: NumberSystem) -> None:
    witness = built(Cycle5(n=6), system)
    assert wrong_answers(witness.model, witness.task, worst_undirected(6)) == 0


def test_a_blunter_unit_fails_where_near_misses_are_many() -> None:
    witness = built(Cycle3(n=12))
    for tensor in (witness.model.tensors()["kernel.matrix"], witness.model.tensors()["kernel.bias"]):
        tensor.mul_(0.5)
    assert wrong_answers(witness.model, witness.task, worst_directed(12)) > 0


def test_random_graphs() -> None:
    assert right_on_samples(built(Cycle3(n=40)), count=6)
    assert right_on_samples(built(Cycle3(n=12, instances="disjointness")), count=40)
    assert right_on_samples(built(Cycle5(n=9)), count=10)


def test_what_it_is_and_how_small() -> None:
    witness = built(Cycle5(n=32))
    assert (witness.theorem, witness.family, witness.variant) == (
        "R-G",
        "third-order",
        "graph unit of order 5",
    )
    assert witness.size.parameters == 13
    assert built(Cycle3(n=1024)).size.parameters == 11


def test_distinct_vertices_and_too_few_bits_are_refused() -> None:
    with pytest.raises(InvalidInput, match="closed walks"):
        built(Cycle5(n=5, distinct=True))
    with pytest.raises(InvalidInput, match="more bits"):
        built(Cycle3(n=3), FixedDown(n=3, k=2))
