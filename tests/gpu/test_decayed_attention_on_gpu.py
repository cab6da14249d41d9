"""The Triton kernels of decayed attention on a CUDA device: right, compiled, captured, repeatable."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.kernels.choice import Backend, use_backend
from separatrix.models.kernels.decayed_attention import attention_with_totals, decayed_attention, reference
from separatrix.models.linear_transformer import LinearTransformer
from separatrix.models.population import Signature
from separatrix.models.retnet import RetNet
from separatrix.tasks.interface import Classes, Tokens

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

Inputs = tuple[Tensor, Tensor, Tensor]
# Rows, positions, heads, width of keys, width of values: a whole block, less, more, one position, wide heads.
SHAPES = [
    (2, 64, 2, 32, 32),
    (3, 1, 1, 16, 16),
    (2, 17, 3, 5, 7),
    (2, 200, 4, 64, 128),
    (1, 333, 2, 32, 64),
    (1, 90, 1, 128, 256),
    (1, 70, 1, 256, 300),
]
SIGNATURE = Signature(inputs=Tokens(size=7), targets=Classes(size=7), length=130)


def drawn(shape: tuple[int, ...], kind: torch.dtype) -> Inputs:
    rows, length, heads, key, value = shape
    generator = torch.Generator().manual_seed(length)
    q, k, v = (
        torch.randn(rows, length, heads, width, generator=generator, dtype=torch.float64).to("cuda", kind)
        for width in (key, key, value)
    )
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_()


def rates(heads: int, *, decayed: bool) -> Tensor | None:
    number = torch.arange(heads, device="cuda", dtype=torch.float64)
    return torch.log1p(-torch.exp2(-3 - number)) if decayed else None


def results(inputs: Inputs, log_decay: Tensor | None, *, totals: bool, backend: Backend) -> list[Tensor]:
    """Outputs and gradients; the reference computes in float64 on the same rounded numbers."""
    if backend == "reference":
        doubled = [x.detach().double().requires_grad_() for x in inputs]
        inputs = (doubled[0], doubled[1], doubled[2])
    outputs: tuple[Tensor, ...] = (decayed_attention(*inputs, log_decay, backend=backend),)
    if totals:
        outputs = attention_with_totals(*inputs, log_decay, backend=backend)
    generator = torch.Generator().manual_seed(5)
    weights = [
        torch.randn(each.shape, generator=generator).bfloat16().to("cuda", each.dtype) for each in outputs
    ]
    return [each.detach() for each in (*outputs, *torch.autograd.grad(outputs, inputs, weights))]


@pytest.mark.parametrize("totals", [False, True])
@pytest.mark.parametrize("decayed", [False, True])
@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, 2e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernels_against_float64(
    shape: tuple[int, ...], kind: torch.dtype, tolerance: float, decayed: bool, totals: bool
) -> None:
    inputs, log_decay = drawn(shape, kind), rates(shape[2], decayed=decayed)
    meant = results(inputs, log_decay, totals=totals, backend="reference")
    found = results(inputs, log_decay, totals=totals, backend="triton")
    for a, b in zip(found, meant, strict=True):
        assert float((a.double() - b).abs().max() / b.abs().max()) < tolerance


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_same_bytes_twice_and_in_any_layout(kind: torch.dtype) -> None:
    q, k, v = drawn((8, 200, 4, 64, 300), kind)
    first = results((q, k, v), rates(4, decayed=True), totals=True, backend="triton")
    again = results((q, k, v), rates(4, decayed=True), totals=True, backend="triton")
    by_heads = q.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
    sliced = torch.cat([v.detach(), v.detach()], dim=-1)[..., :300].requires_grad_()
    other = results((by_heads, k, sliced), rates(4, decayed=True), totals=True, backend="triton")
    for a, b, c in zip(first, again, other, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


def test_a_row_does_not_depend_on_the_others() -> None:
    inputs = drawn((6, 100, 2, 32, 32), torch.bfloat16)
    whole = decayed_attention(*inputs, rates(2, decayed=True), backend="triton")
    q, k, v = (x[3:4] for x in inputs)
    alone = decayed_attention(q, k, v, rates(2, decayed=True), backend="triton")
    assert torch.equal(whole[3:4], alone)


def test_auto_takes_triton_where_it_can() -> None:
    inputs = drawn((1, 20, 1, 16, 16), torch.float32)
    assert torch.equal(decayed_attention(*inputs), decayed_attention(*inputs, backend="triton"))
    wide = drawn((1, 20, 1, 512, 16), torch.float32)
    assert torch.allclose(decayed_attention(*wide), reference(*wide), rtol=1e-3, atol=1e-3)
    with pytest.raises(InvalidInput, match="heads of at most 256 numbers; got 512"):
        decayed_attention(*wide, backend="triton")
    exact = drawn((1, 20, 1, 16, 16), torch.float64)
    with pytest.raises(InvalidInput, match="float32 and in 16 bits"):
        decayed_attention(*exact, backend="triton")


def models() -> list[RetNet | LinearTransformer]:
    retnet = RetNet(RetNet.Config(layers=2, width=64, heads=2), SIGNATURE, members=3)
    linear = LinearTransformer(LinearTransformer.Config(layers=2, width=64, heads=2), SIGNATURE, members=3)
    return [model.initialise([1, 2, 3]).cuda() for model in (retnet, linear)]


def tokens() -> Tensor:
    return torch.randint(7, (3, 4, 130), generator=torch.Generator().manual_seed(0)).cuda()


@pytest.mark.parametrize("which", [0, 1], ids=["retnet", "linear-transformer"])
def test_models_in_float32_and_under_autocast(which: int) -> None:
    model = models()[which]
    meant = model.double()(tokens())
    model = model.float()
    found = model(tokens())
    assert (found - meant).abs().max() < 1e-4 * meant.abs().max()
    for layer in (None, torch.tensor([[[129, 3]] * 4] * 3, device="cuda")):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            rounded = model(tokens(), layer)
        wanted = meant if layer is None else meant[:, :, [129, 3]]
        assert (rounded.double() - wanted).abs().max() < 0.05 * meant.abs().max()
    use_backend(model, "parallel")
    assert (model(tokens()) - found).abs().max() < 1e-4 * meant.abs().max()


def gradients_of(model: torch.nn.Module, run: Callable[..., Tensor]) -> list[Tensor]:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = run(tokens()).float().square().mean()
    return [each.detach() for each in torch.autograd.grad(loss, list(model.parameters()))]


@pytest.mark.filterwarnings("ignore")  # the compiler's own remarks
@pytest.mark.parametrize("which", [0, 1], ids=["retnet", "linear-transformer"])
def test_models_compile_to_one_graph(which: int) -> None:
    model = models()[which]
    plain = gradients_of(model, model)
    compiled = gradients_of(model, torch.compile(model, fullgraph=True))
    for (name, _), a, b in zip(model.named_parameters(), compiled, plain, strict=True):
        assert float((a - b).abs().max()) <= 0.05 * float(b.abs().max()) + 1e-7, name


@pytest.mark.filterwarnings("ignore")  # the compiler's own remarks
@pytest.mark.parametrize(("which", "fused"), list(itertools.product([0, 1], [False, True])))
def test_a_training_step_is_captured(which: int, fused: bool) -> None:
    model, inputs = models()[which], tokens()
    run = torch.compile(model, fullgraph=True) if fused else model

    def step() -> None:
        model.zero_grad(set_to_none=False)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = run(inputs).float().square().mean()
        loss.backward()

    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.replay()
    first = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    inputs.copy_((inputs + 1) % 7)
    graph.replay()
    other = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    inputs.copy_((inputs + 6) % 7)
    graph.replay()
    again = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))
