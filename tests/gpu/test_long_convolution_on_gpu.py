"""Long convolutions, DSS and the linear RNN on a CUDA device: right, repeatable, compiled and captured.

`PYTHONPATH=src python3 -m pytest tests/gpu/test_long_convolution_on_gpu.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from separatrix.models.dss import DSS
from separatrix.models.kernels.long_convolution import (
    convolution_at,
    convolution_by_fft,
    convolution_by_matrix,
    reference_convolution,
)
from separatrix.models.linear_rnn import LinearRNN
from separatrix.models.population import Signature
from separatrix.models.stack import Stack
from separatrix.tasks.interface import Classes, Tokens

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

Way = Callable[[Tensor, Tensor], Tensor]
WORDS = 7
SIGNATURE = Signature(inputs=Tokens(size=WORDS), targets=Classes(size=WORDS), length=16)


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def with_gradients(way: Way, u: Tensor, kernel: Tensor) -> list[Tensor]:
    u, kernel = u.clone().requires_grad_(), kernel.clone().requires_grad_()
    y = way(u, kernel)
    weights = random(*y.shape, seed=9).to(y)
    return [y.detach(), *torch.autograd.grad((y * weights).sum(), (u, kernel))]


@pytest.mark.parametrize("way", [convolution_by_matrix, convolution_by_fft])
@pytest.mark.parametrize("length", [1, 5, 64, 129, 200, 601])
def test_values_and_gradients_of_the_reference(way: Way, length: int) -> None:
    u, kernel = random(2, 3, 4, length, seed=length), random(2, 3, length, seed=length + 1)
    expected = with_gradients(reference_convolution, u, kernel)
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        found = with_gradients(way, u.to("cuda", dtype), kernel.to("cuda", dtype))
        again = with_gradients(way, u.to("cuda", dtype), kernel.to("cuda", dtype))
        for one, same, wanted in zip(found, again, expected, strict=True):
            assert torch.equal(one, same)
            assert (one.cpu().double() - wanted).abs().max() <= tolerance * wanted.abs().max().clamp(min=1)


@pytest.mark.parametrize("length", [1, 33, 200])
def test_one_position_of_each_example(length: int) -> None:
    u, kernel = random(2, 5, length, 6, seed=1), random(2, length, 6, seed=2)
    at = torch.arange(10).view(2, 5) * 7 % length
    expected = with_gradients(lambda u, kernel: convolution_at(u, kernel, at), u, kernel)
    u, kernel, here = u.float().cuda(), kernel.float().cuda(), at.cuda()
    found = with_gradients(lambda u, kernel: convolution_at(u, kernel, here), u, kernel)
    for one, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu().double(), wanted, rtol=1e-4, atol=1e-4)


def small(kind: type[Stack]) -> Stack:
    config: Any = kind.Config(layers=2, width=16)
    return kind(config, SIGNATURE, members=3).initialise((1, 2, 3)).cuda()


def words(length: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(WORDS, (3, 4, length), generator=generator).cuda()


@pytest.mark.parametrize("kind", [DSS, LinearRNN])
@pytest.mark.parametrize("length", [50, 700])
def test_models_give_the_numbers_of_the_cpu(kind: type[Stack], length: int) -> None:
    model, inputs = small(kind), words(length)
    found = model(inputs)
    torch.testing.assert_close(found.cpu(), model.cpu()(inputs.cpu()), rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", [DSS, LinearRNN])
@pytest.mark.parametrize("length", [50, 700])
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.filterwarnings("ignore")  # the compiler's own remarks
def test_a_training_step_compiles_and_is_captured(kind: type[Stack], length: int, asked: bool) -> None:
    """Compiled under autocast without a warning, replayed from a graph: the gradients of the plain way."""
    model, inputs = small(kind), words(length)
    at = words(1) * (length // WORDS) if asked else None
    compiled = torch.compile(model, fullgraph=True, dynamic=False)

    def step(way: Callable[..., Tensor]) -> list[Tensor]:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = way(inputs, at).float().square().mean()
        return list(torch.autograd.grad(loss, list(model.parameters())))

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", message=".*TensorFloat32.*|.*TF32.*")
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step(compiled)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = step(compiled)
    graph.replay()
    first = [each.clone() for each in found]
    graph.replay()
    assert all(map(torch.equal, first, found))
    for one, wanted in zip(found, step(model), strict=True):
        assert (one - wanted).norm() <= 0.05 * wanted.norm() + 1e-6
