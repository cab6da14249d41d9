"""Rows of tables: every way to sum their gradient against adding one by one in float64."""

from __future__ import annotations

import json
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.kernels.choice import Backend
from separatrix.models.kernels.table_rows import table_rows
from tests.models import kernel_checks

Shape = tuple[int, int, int, tuple[int, ...]]
"""Members, rows, width, and the shape of a member's uses."""


def case(shape: Shape, *, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """A table, uses of its rows, and a gradient of what they give, in float64."""
    members, rows, width, lead = shape
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(members, rows, width, generator=generator, dtype=torch.float64)
    index = torch.randint(rows, (members, *lead), generator=generator)
    return table, index, torch.randn(members, *lead, width, generator=generator, dtype=torch.float64)


def summed(table: Tensor, index: Tensor, outer: Tensor, backend: Backend) -> Tensor:
    """The gradient of the table."""
    table = table.detach().requires_grad_()
    (found,) = torch.autograd.grad(table_rows(table, index, backend=backend), table, outer)
    return found


def test_rows_and_sums_number_by_number() -> None:
    table, index, outer = case((2, 5, 3, (4, 2)), seed=1)
    rows = table_rows(table, index, backend="parallel")
    expected = torch.zeros_like(table)
    for member, first, second in torch.cartesian_prod(*map(torch.arange, index.shape)).tolist():
        name = int(index[member, first, second])
        assert torch.equal(rows[member, first, second], table[member, name])
        expected[member, name] += outer[member, first, second]
    for backend in ("auto", "reference", "parallel"):
        assert torch.allclose(summed(table, index, outer, backend), expected, rtol=1e-14, atol=1e-14)


@settings(deadline=None, max_examples=40)
@given(
    shape=st.tuples(
        st.integers(1, 3), st.integers(1, 9), st.integers(1, 5), st.sampled_from([(0,), (1,), (8, 3), (7,)])
    ),
    seed=st.integers(0, 100),
)
def test_a_product_sums_as_adding_does(shape: Shape, seed: int) -> None:
    parts = case(shape, seed=seed)
    assert torch.allclose(summed(*parts, "parallel"), summed(*parts, "reference"), rtol=1e-13, atol=1e-13)


def test_ways_that_do_not_fit_are_refused() -> None:
    table, index, _ = case((1, 2, 3, (4,)), seed=2)
    with pytest.raises(InvalidInput, match="computed by reference, parallel, triton; got backend=fla"):
        table_rows(table, index, backend="fla")
    with pytest.raises(InvalidInput, match="on a CUDA device; these numbers are on cpu"):
        table_rows(table, index, backend="triton")


INTERPRETED: tuple[Shape, ...] = (
    (1, 1, 1, (1,)),
    (2, 5, 3, (4, 2)),
    (3, 150, 70, (300,)),
    (2, 17, 16, (0,)),
    (1, 130, 20, (5, 70)),
)


def interpreted() -> None:
    """Print how far the kernel, run by Triton's interpreter, is from sums in float64."""
    found = {}
    for shape in INTERPRETED:
        table, index, outer = case(shape, seed=3)
        expected = summed(table, index, outer, "reference")
        mine = summed(table.float(), index, outer.float(), "triton")
        found[str(shape)] = float((mine.double() - expected).abs().max())
    with pytest.raises(InvalidInput, match=r"in float32 and in 16 bits; got torch\.float64"):
        summed(*case((1, 2, 3, (4,)), seed=2), "triton")
    found["no rows"] = float(
        summed(torch.ones(2, 0, 3), torch.ones(2, 0, dtype=torch.int64), torch.ones(2, 0, 3), "triton").sum()
    )
    compiled = torch.compile(partial(table_rows, backend="triton"), fullgraph=True, backend="aot_eager")
    table, index, outer = case((2, 20, 6, (9, 3)), seed=5)
    expected, small = summed(table, index, outer, "reference"), table.float().requires_grad_()
    (mine,) = torch.autograd.grad(compiled(small, index), small, outer.float())
    found["compiled"] = float((mine.double() - expected).abs().max())
    print(json.dumps(found))


@pytest.mark.slow
def test_the_kernel_under_the_interpreter() -> None:
    found: dict[str, float] = json.loads(kernel_checks.interpreted(interpreted))
    assert set(found) == {*map(str, INTERPRETED), "no rows", "compiled"}
    assert all(value < 1e-5 for value in found.values()), found  # which no NaN is
