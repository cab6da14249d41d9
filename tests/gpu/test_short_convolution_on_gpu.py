"""The short convolution's Triton kernels on a CUDA device against the definition in float64.

`PYTHONPATH=src python3 -m pytest tests/gpu/test_short_convolution_on_gpu.py`
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from separatrix.models.kernels.short_convolution import parallel, reference, short_convolution
from separatrix.models.kernels.triton_short_convolution import Cut, convolved
from separatrix.models.mamba import SelectiveMixer
from tests.gpu.kernel_checks import (
    NEEDS_CUDA,
    graph_replays,
    home,
    member_alone,
    random_shapes,
    same_bytes,
)
from tests.models.kernel_checks import agree, exact_of
from tests.models.test_short_convolution import NAMES, Shape, parts_of, results, small_of

pytestmark = NEEDS_CUDA

SHAPES: tuple[Shape, ...] = (
    (1, 1, 1, 1, 1),
    (2, 3, 2, 5, 4),
    (3, 4, 37, 50, 4),
    (2, 3, 201, 512, 4),
    (2, 2, 64, 33, 3),
    (2, 2, 70, 130, 1),
    (1, 3, 600, 40, 4),
    (1, 2, 50, 24, 16),
    (7, 8, 201, 128, 4),
)


def on_gpu(parts: list[Tensor], *, low: bool = False) -> list[Tensor]:
    return [part.detach().cuda().requires_grad_() for part in small_of(parts, low=low)]


def tolerance(low: bool) -> float:
    """Relative to the largest number; in bf16 half a unit in the last place is at most 2^−8 of a number."""
    return 1.01 * 2**-8 if low else 1e-5


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("low", [False, True], ids=["float32", "bf16"])
def test_kernels_are_the_definition(shape: Shape, low: bool) -> None:
    parts = on_gpu(parts_of(shape, seed=sum(shape)), low=low)
    found = results(convolved, parts)
    assert [found[name].dtype for name in NAMES] == [part.dtype for part in parts]
    expected = home(results(reference, exact_of(parts)))
    agree(home(found), expected, tolerance(low))
    sums = {name: expected[name] for name in ("weights", "bias")}  # these are not rounded
    agree(home(found), sums, 1e-5)


@pytest.mark.slow
def test_the_longest_window() -> None:
    parts = on_gpu(parts_of((2, 2, 90, 70, 64), seed=1))
    agree(home(results(convolved, parts)), home(results(reference, exact_of(parts))), 1e-5)


def test_random_shapes() -> None:
    for seed, shape in enumerate(random_shapes(4, 5, 400, 300, 5)):
        parts = on_gpu(parts_of(shape, seed=seed))  # type: ignore[arg-type]
        agree(home(results(convolved, parts)), home(results(reference, exact_of(parts))), 1e-5)


def test_more_rows_than_a_grid_is_high() -> None:
    parts = on_gpu(parts_of((1, 70_000, 3, 2, 4), seed=2))
    agree(home(results(convolved, parts)), home(results(reference, exact_of(parts))), 1e-5)


@pytest.mark.parametrize("low", [False, True], ids=["float32", "bf16"])
@pytest.mark.parametrize(
    "cut",
    [
        Cut(span=2, steps=3, lane_channels=1, warps=1, registers=0),
        Cut(span=17, steps=8, lane_channels=2, warps=4, registers=64),
        Cut(span=100, steps=1, lane_channels=8, warps=2, registers=0),
    ],
    ids=str,
)
def test_other_cuts_compute_the_same(cut: Cut, low: bool) -> None:
    parts = on_gpu(parts_of((2, 2, 45, 70, 4), seed=3), low=low)
    found = results(lambda *given: convolved(*given, cut=cut), parts)
    agree(home(found), home(results(reference, exact_of(parts))), tolerance(low))


@pytest.mark.parametrize("low", [False, True], ids=["float32", "bf16"])
def test_halves_of_wider_rows_are_read_where_they_are(low: bool) -> None:
    plain = on_gpu(parts_of((3, 2, 50, 2 * 48, 4), seed=4), low=low)
    _, weights, bias = on_gpu(parts_of((3, 2, 50, 48, 4), seed=5))
    for half in (plain[0][..., :48], plain[0][..., 48:]):
        strided = half.detach().requires_grad_()
        assert strided.stride(2) == 2 * 48
        copied = half.detach().contiguous().requires_grad_()
        found, right = (results(convolved, [u, weights, bias]) for u in (strided, copied))
        assert all(torch.equal(found[name], right[name]) for name in found)
        agree(home(found), home(results(reference, exact_of([copied, weights, bias]))), tolerance(low))


def test_sums_far_out_are_safe() -> None:
    parts = on_gpu(parts_of((2, 2, 64, 32, 4), seed=6))
    parts[0] = (parts[0] * 1000).detach().requires_grad_()
    # Sums of a few thousand keep an error of about 2e-4 in float32 where they cancel, and slopes bend there.
    agree(home(results(convolved, parts)), home(results(reference, exact_of(parts))), 2e-4)


def test_two_runs_give_the_same_bytes() -> None:
    parts = on_gpu(parts_of((3, 16, 150, 96, 4), seed=7), low=True)
    assert same_bytes(lambda: results(convolved, parts))


@pytest.mark.parametrize("batch", [4, 64])
def test_a_member_does_not_depend_on_its_neighbours(batch: int) -> None:
    assert member_alone(convolved, on_gpu(parts_of((7, batch, 60, 512, 4), seed=8)))


def test_float64_takes_the_parallel_form() -> None:
    parts = [part.detach().cuda().requires_grad_() for part in parts_of((2, 2, 40, 20, 4), seed=9)]
    agree(home(results(short_convolution, parts)), home(results(reference, parts)), 1e-12)
    agree(home(results(parallel, on_gpu(parts))), home(results(reference, parts)), 1e-5)


@pytest.mark.filterwarnings("ignore")  # the compiler's own remarks
def test_inside_a_compiled_function() -> None:
    def halved(wide: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
        u, gate = (2 * wide).chunk(2, dim=-1)
        return short_convolution(u, weights, bias).float().square() * gate

    parts = [
        on_gpu(parts_of((2, 3, 51, 80, 4), seed=10))[0],
        *on_gpu(parts_of((2, 3, 51, 40, 4), seed=11))[1:],
    ]
    torch.compiler.reset()
    found = results(torch.compile(halved, fullgraph=True), parts)
    agree(home(found), home(results(halved, exact_of(parts))), 1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("asked", [False, True])
def test_a_mixer_compiles_and_agrees_with_the_other_way(asked: bool) -> None:
    mixer = SelectiveMixer(2, 32, state=16, expand=2, conv=4, layers=1).cuda()
    generator = torch.Generator().manual_seed(12)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    x = torch.randn(2, 3, 70, 32, generator=generator).cuda()
    at = torch.tensor([69, 3]).expand(2, 3, 2).cuda() if asked else None

    def slopes(run: Callable[..., Tensor]) -> list[Tensor]:
        y = run(x, at)
        return [y.detach(), *torch.autograd.grad(y.square().sum(), list(mixer.parameters()))]

    torch.compiler.reset()
    found = slopes(torch.compile(mixer, fullgraph=True))
    mixer.backend = "parallel"
    for mine, right in zip(found, slopes(mixer), strict=True):
        assert float((mine - right).abs().max()) <= 1e-3 * max(1.0, float(right.abs().max()))


def test_inside_a_cuda_graph() -> None:
    parts, others = (on_gpu(parts_of((2, 3, 50, 40, 4), seed=seed)) for seed in (13, 14))
    assert graph_replays(convolved, parts, others)
