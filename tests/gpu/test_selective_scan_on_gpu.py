"""The selective scan's Triton kernels on a CUDA device against the definition in float64.

`PYTHONPATH=src python3 -m pytest tests/gpu/test_selective_scan_on_gpu.py`
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from separatrix.models.kernels.selective_scan import parallel, reference, selective_scan
from separatrix.models.kernels.triton_selective_scan import Blocks, scan
from tests.gpu.kernel_checks import (
    NEEDS_CUDA,
    graph_replays,
    home,
    member_alone,
    random_shapes,
    same_bytes,
)
from tests.models.kernel_checks import agree, exact_of
from tests.models.test_selective_scan import NAMES, Shape, parts_of, results

pytestmark = NEEDS_CUDA

SHAPES: tuple[Shape, ...] = (
    (1, 1, 1, 1, 1),
    (1, 2, 3, 5, 2),
    (3, 4, 37, 50, 16),
    (2, 3, 201, 100, 16),
    (2, 2, 64, 33, 5),
    (1, 3, 130, 40, 64),
    (1, 2, 50, 24, 200),
    (7, 8, 200, 128, 16),
    (2, 3, 64, 32, 32),
)


def on_gpu(parts: list[Tensor], *, low: bool = False) -> list[Tensor]:
    """In float32; with `low`, all but the weights in bf16."""
    weights = {"bias", "rate", "skip"}
    kinds = [torch.bfloat16 if low and name not in weights else torch.float32 for name in NAMES]
    return [part.detach().cuda().to(kind).requires_grad_() for part, kind in zip(parts, kinds, strict=True)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("low", [False, True], ids=["float32", "bf16"])
def test_kernels_are_the_definition(shape: Shape, low: bool) -> None:
    parts = on_gpu(parts_of(shape, seed=sum(shape)), low=low)
    found = results(scan, parts)
    assert [found[name].dtype for name in NAMES] == [part.dtype for part in parts]
    agree(home(found), home(results(reference, exact_of(parts))), 2**-7 if low else 1e-4)


def test_random_shapes() -> None:
    for seed, shape in enumerate(random_shapes(4, 5, 90, 150, 32)):
        parts = on_gpu(parts_of(shape, seed=seed))  # type: ignore[arg-type]
        agree(home(results(scan, parts)), home(results(reference, exact_of(parts))), 1e-4)


def test_more_rows_than_a_grid_is_high() -> None:
    parts = on_gpu(parts_of((1, 70_000, 3, 2, 2), seed=2))
    agree(home(results(scan, parts)), home(results(reference, exact_of(parts))), 1e-4)


@pytest.mark.parametrize(
    "blocks",
    [
        Blocks(steps=1, state_lanes=4, lane_channels=4, registers=0, early=0),
        Blocks(steps=3, state_lanes=8, lane_channels=4, registers=128, early=1),
        Blocks(steps=4, state_lanes=2, lane_channels=1, registers=0, early=0),
    ],
    ids=str,
)
def test_other_blocks_compute_the_same(blocks: Blocks) -> None:
    parts = on_gpu(parts_of((2, 2, 45, 70, 16), seed=3))
    found = results(lambda *given: scan(*given, blocks=blocks), parts)
    agree(home(found), home(results(reference, exact_of(parts))), 1e-4)


@pytest.mark.parametrize("low", [False, True], ids=["float32", "bf16"])
def test_steps_far_out_are_safe(low: bool) -> None:
    parts = parts_of((2, 2, 64, 32, 16), seed=11)
    parts[1] = (parts[1] * 60).detach().requires_grad_()
    given = on_gpu(parts, low=low)
    agree(home(results(scan, given)), home(results(reference, exact_of(given))), 2**-7 if low else 1e-4)


def test_two_runs_give_the_same_bytes() -> None:
    parts = on_gpu(parts_of((3, 16, 150, 96, 16), seed=4), low=True)
    assert same_bytes(lambda: results(scan, parts))


def test_a_member_does_not_depend_on_its_neighbours() -> None:
    assert member_alone(scan, on_gpu(parts_of((3, 4, 60, 40, 16), seed=5)))


def test_without_gradients_the_outputs_are_the_same() -> None:
    parts = on_gpu(parts_of((2, 3, 30, 20, 16), seed=6))
    with torch.no_grad():
        assert torch.equal(scan(*parts), selective_scan(*parts))
    assert torch.equal(scan(*parts), selective_scan(*parts, backend="triton"))


def test_float64_takes_the_parallel_form() -> None:
    parts = [part.detach().cuda().requires_grad_() for part in parts_of((2, 2, 40, 20, 8), seed=7)]
    agree(home(results(selective_scan, parts)), home(results(reference, parts)), 1e-10)
    agree(home(results(parallel, on_gpu(parts))), home(results(reference, parts)), 1e-4)


@pytest.mark.filterwarnings("ignore")  # the compiler's own remarks
def test_inside_a_compiled_function() -> None:
    def squared(*given: Tensor) -> Tensor:
        return selective_scan(given[0] * 2, *given[1:]).float().square()

    parts = on_gpu(parts_of((2, 3, 51, 40, 16), seed=8))
    torch.compiler.reset()
    found = results(torch.compile(squared, fullgraph=True), parts)
    agree(home(found), home(results(squared, exact_of(parts))), 1e-4)


def test_inside_a_cuda_graph() -> None:
    parts, others = (on_gpu(parts_of((2, 3, 50, 40, 16), seed=seed)) for seed in (9, 10))
    assert graph_replays(scan, parts, others)
