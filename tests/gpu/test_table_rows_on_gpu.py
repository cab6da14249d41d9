"""The gradient of tables by Triton on a CUDA device, against adding one by one in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from separatrix.models.kernels.table_rows import table_rows
from tests.gpu.kernel_checks import NEEDS_CUDA
from tests.models.test_table_rows import Shape, case, summed

pytestmark = NEEDS_CUDA

SHAPES: tuple[Shape, ...] = (
    (1, 1, 1, (1,)),
    (2, 5, 3, (4, 2)),
    (3, 17, 33, (0,)),
    (7, 403, 64, (64, 801)),
    (2, 470, 1024, (16, 401)),
    (2, 4096, 40, (3, 1000)),
)


def on_gpu(shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
    table, index, outer = (part.cuda() for part in case(shape, seed=6))
    return table.float(), index, outer.float()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("low", [False, True], ids=["float32", "bf16"])
def test_sums_are_those_of_adding(shape: Shape, low: bool) -> None:
    table, index, outer = on_gpu(shape)
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=low):
        found = summed(table, index, outer, "auto")
    rounded = outer.bfloat16() if low else outer
    expected = summed(table.double(), index, rounded.double(), "reference")
    assert found.dtype == torch.float32
    assert float((found - expected).abs().max()) <= 1e-5 * max(1.0, float(expected.abs().max()))


def test_the_same_bytes_twice_and_alone() -> None:
    table, index, outer = on_gpu((5, 100, 64, (64, 300)))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        first, again = (summed(table, index, outer, "auto") for _ in range(2))
        alone = summed(table[3:4], index[3:4], outer[3:4], "auto")
    assert torch.equal(first, again)
    assert torch.equal(first[3:4], alone)


def test_double_and_large_tables_are_summed_too() -> None:
    table, index, outer = (part.cuda() for part in case((2, 30, 8, (6, 5)), seed=7))
    assert torch.allclose(summed(table, index, outer, "auto"), summed(table, index, outer, "reference"))
    large = torch.randn(1, 5000, 4, device="cuda")
    assert torch.equal(table_rows(large, torch.tensor([[4999]], device="cuda"))[0, 0], large[0, 4999])
