"""The LSTM's recurrence by Triton on a CUDA device, against the definition in float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from separatrix.models.kernels.lstm_scan import lstm_scan, parallel, reference
from separatrix.models.lstm import LSTM
from separatrix.models.population import signature_of
from separatrix.tasks import task

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SHAPES = (
    (1, 1, 1, 1),
    (2, 3, 5, 7),
    (3, 17, 9, 33),
    (2, 70, 13, 100),
    (7, 64, 20, 64),
    (2, 20, 300, 64),
    (2, 65, 33, 250),
    (7, 64, 200, 256),
    (1, 33, 40, 520),
)


def numbers(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).cuda()


def case(members: int, batch: int, length: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Gates from outside, recurrent weights, and a gradient of what comes out."""
    inward = numbers(members, batch, length, 4 * width, seed=1)
    weight = numbers(members, width, 4 * width, seed=2) / width**0.5
    return inward, weight, numbers(members, batch, length, width, seed=3)


def results(backend: str, inward: Tensor, weight: Tensor, outer: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What comes out, and the gradients of both inputs."""
    inward, weight = inward.detach().requires_grad_(), weight.detach().requires_grad_()
    h = reference(inward, weight) if backend == "reference" else lstm_scan(inward, weight, backend="triton")
    to_inward, to_weight = torch.autograd.grad(h, (inward, weight), outer)
    return h.detach(), to_inward, to_weight


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("kind", "bound"), [(torch.float32, 2e-5), (torch.bfloat16, 3e-2)], ids=str)
def test_values_and_gradients(shape: tuple[int, int, int, int], kind: torch.dtype, bound: float) -> None:
    given = [each.to(kind) for each in case(*shape)]
    found = results("triton", *given)
    expected = results("reference", *(each.double() for each in given))
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == kind
        gap = (mine.double() - theirs).abs().max() / theirs.abs().max().clamp_min(1)
        assert float(gap) < bound


def test_it_is_what_a_gpu_computes_by_itself() -> None:
    inward, weight, _ = case(2, 5, 7, 16)
    assert torch.equal(lstm_scan(inward, weight), lstm_scan(inward, weight, backend="triton"))
    double = lstm_scan(inward.double(), weight.double())
    assert torch.equal(double, parallel(inward.double(), weight.double()))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=str)
def test_the_same_bytes_twice(kind: torch.dtype) -> None:
    given = [each.to(kind) for each in case(3, 40, 50, 96)]
    first, second = results("triton", *given), results("triton", *given)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("width", [64, 128])
def test_a_member_s_bytes_do_not_depend_on_its_neighbours(width: int) -> None:
    given = [each.bfloat16() for each in case(5, 64, 20, width)]
    together = results("triton", *given)
    alone = results("triton", *(each[3:4] for each in given))
    for mine, theirs in list(zip(together, alone, strict=True))[:2]:
        assert torch.equal(mine[3:4], theirs)


def test_nothing_is_kept_without_a_backward() -> None:
    inward, weight, _ = case(2, 9, 30, 48)
    expected = lstm_scan(inward.clone().requires_grad_(), weight, backend="triton")
    with torch.no_grad():
        assert torch.equal(lstm_scan(inward, weight, backend="triton"), expected)


@pytest.mark.filterwarnings(
    "ignore:The AccumulateGrad node's stream"
)  # a tensor's node made on another stream
def test_a_graph_captures_it() -> None:
    inward, weight, outer = case(3, 20, 15, 40)
    inward.requires_grad_()
    weight.requires_grad_()

    def step() -> tuple[Tensor, ...]:
        h = lstm_scan(inward, weight)
        return h, *torch.autograd.grad(h, (inward, weight), outer)

    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        inward.copy_(numbers(*inward.shape, seed=8))
        weight.mul_(0.5)
    graph.replay()
    replayed = [each.clone() for each in captured]
    assert all(torch.equal(a, b) for a, b in zip(replayed, step(), strict=True))


@pytest.mark.parametrize("mixed", [False, True])
def test_a_population_compiles(mixed: bool) -> None:
    about = task("index-lookup", n=20)
    model = LSTM(LSTM.Config(layers=2, width=32), signature_of(about), members=3).initialise((1, 2, 3)).cuda()
    inputs = torch.stack([about.sample(8, seed=seed, device="cuda").inputs for seed in range(3)])
    at = torch.full((3, 8, 1), inputs.shape[2] - 1, device="cuda")

    def slopes(forward: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor]:
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=mixed):
            outputs = forward(inputs, at)
        return [
            outputs.detach().float(),
            *torch.autograd.grad(outputs.float().square().sum(), list(model.parameters())),
        ]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's own remarks
        torch.compiler.reset()
        compiled = slopes(torch.compile(model, fullgraph=True))
    for mine, theirs in zip(compiled, slopes(model), strict=True):
        gap = (mine - theirs).abs().max() / theirs.abs().max().clamp_min(1e-3)
        assert float(gap) < (0.05 if mixed else 1e-4)
