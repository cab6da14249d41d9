"""The short convolution: every way to compute it against the definition in float64, outputs and gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.kernels.short_convolution import parallel, reference, short_convolution
from tests.models import kernel_checks
from tests.models.kernel_checks import agree, exact_of, interpreted

Shape = tuple[int, int, int, int, int]
"""Members, batch, length, channels, places of the window."""
NAMES = ("u", "weights", "bias")
results = partial(kernel_checks.results, names=NAMES)


def parts_of(shape: Shape, *, seed: int) -> list[Tensor]:
    """Everything that a convolution takes, in float64."""
    members, batch, length, channels, conv = shape
    generator = torch.Generator().manual_seed(seed)
    sizes = ((members, batch, length, channels), (members, conv, channels), (members, channels))
    return [torch.randn(*size, generator=generator, dtype=torch.float64).requires_grad_() for size in sizes]


def small_of(parts: Sequence[Tensor], *, low: bool = False) -> list[Tensor]:
    """In float32; with `low`, u in bf16."""
    kinds = (torch.bfloat16 if low else torch.float32, torch.float32, torch.float32)
    return [part.detach().to(kind).requires_grad_() for part, kind in zip(parts, kinds, strict=True)]


@settings(deadline=None, max_examples=40)
@given(
    shape=st.tuples(
        st.integers(1, 3), st.integers(1, 3), st.integers(1, 12), st.integers(1, 5), st.integers(1, 7)
    ),
    seed=st.integers(0, 1000),
)
def test_parallel_is_the_definition(shape: Shape, seed: int) -> None:
    parts = parts_of(shape, seed=seed)
    agree(results(parallel, parts), results(reference, parts), 1e-13)
    agree(results(parallel, small_of(parts)), results(reference, parts), 1e-5)


def test_definition_is_the_formula_number_by_number() -> None:
    u, weights, bias = (part.detach() for part in parts_of((2, 2, 6, 3, 4), seed=1))
    y = reference(u, weights, bias)
    for member, row, t, channel in torch.cartesian_prod(*map(torch.arange, u.shape)).tolist():
        z = bias[member, channel].item()
        for place in range(4):
            if t - 3 + place >= 0:
                z += weights[member, place, channel].item() * u[member, row, t - 3 + place, channel].item()
        assert y[member, row, t, channel].item() == pytest.approx(z / (1 + math.exp(-z)), abs=1e-12)


def test_in_bf16_only_inputs_and_outputs_are_rounded() -> None:
    low = small_of(parts_of((2, 3, 20, 5, 4), seed=2), low=True)
    found, expected = results(parallel, low), results(reference, exact_of(low))
    assert [found[name].dtype for name in NAMES] == [torch.bfloat16, torch.float32, torch.float32]
    # u's gradient is a sum of as many terms as there are places, each rounded where a slice of u ends.
    agree(found, expected, 2**-7)
    assert torch.equal(found["y"], expected["y"].bfloat16())
    lowest = [part.detach().bfloat16() for part in low]
    assert torch.equal(parallel(*lowest), reference(*exact_of(lowest)).bfloat16())


def test_backends_are_chosen_by_name() -> None:
    parts = parts_of((1, 2, 5, 3, 2), seed=3)
    expected = reference(*parts)
    for backend in ("auto", "reference", "parallel"):
        assert torch.allclose(short_convolution(*parts, backend=backend), expected)
    with pytest.raises(InvalidInput, match="computed by reference, parallel, triton; got backend=fla"):
        short_convolution(*parts, backend="fla")


def test_it_compiles_to_one_graph() -> None:
    parts = parts_of((2, 2, 9, 3, 4), seed=4)
    torch.compiler.reset()
    compiled = torch.compile(short_convolution, backend="aot_eager", fullgraph=True)
    agree(results(compiled, parts), results(reference, parts), 1e-13)


TRITON_SHAPES: tuple[Shape, ...] = (
    (1, 1, 1, 1, 1),
    (1, 2, 9, 5, 1),  # a window of one place
    (2, 2, 3, 5, 4),  # shorter than the window and than a chunk
    (2, 1, 13, 131, 4),  # a block of channels and a part of another
    (3, 2, 8, 4, 2),
    (1, 1, 17, 3, 16),  # a window that is long for a lane
)


def check_triton_kernels() -> None:
    """Run in a process of its own, where Triton interprets its kernels on the CPU."""
    from separatrix.models.kernels.triton_short_convolution import Cut, convolved, cut_for

    for place, shape in enumerate(TRITON_SHAPES):
        parts = parts_of(shape, seed=place)
        agree(results(convolved, small_of(parts)), results(reference, parts), 1e-5)
        low = small_of(parts, low=True)
        found = results(convolved, low)
        assert [found[name].dtype for name in NAMES] == [torch.bfloat16, torch.float32, torch.float32]
        agree(found, results(reference, exact_of(low)), 2**-7)

    parts = parts_of((2, 2, 14, 5, 4), seed=9)
    expected = results(reference, parts)
    for cut in (
        Cut(span=5, steps=2, lane_channels=1, warps=1, registers=0),
        Cut(span=2, steps=3, lane_channels=2, warps=2, registers=0),  # a span shorter than the window
        Cut(span=14, steps=20, lane_channels=1, warps=1, registers=0),
    ):
        agree(results(lambda *given, cut=cut: convolved(*given, cut=cut), small_of(parts)), expected, 1e-5)
    assert [cut_for(length, 4).span for length in (1, 256, 257, 1000)] == [1, 256, 129, 250]

    wide = torch.randn(2, 2, 14, 10, generator=torch.Generator().manual_seed(1))
    for u in (wide[..., :5], wide[..., 5:], wide.transpose(2, 3)[:, :, :, :5], wide[:, :1, :, 1:6]):
        assert not u.is_contiguous()
        strided = [u.requires_grad_(), *small_of(parts)[1:]]
        agree(results(convolved, strided), results(reference, exact_of(strided)), 1e-5)

    far = small_of(parts)
    far[0] = (far[0] * 1000).detach().requires_grad_()
    agree(results(convolved, far), results(reference, exact_of(far)), 1e-5)

    small = small_of(parts)
    slopes = torch.ones_like(small[0])
    together = torch.autograd.grad(convolved(*small), small, slopes)
    single = [part.detach()[1:].requires_grad_() for part in small]
    alone = torch.autograd.grad(short_convolution(*single, backend="triton"), single, slopes[1:])
    assert all(torch.equal(mine[1:], right) for mine, right in zip(together, alone, strict=True))

    none = [part.detach()[:, :0].requires_grad_() if place == 0 else part for place, part in enumerate(small)]
    empty = torch.autograd.grad(convolved(*none), none, slopes[:, :0])
    assert not any(bool(slope.any()) for slope in empty)

    rows, weights, bias = (part.detach() for part in small)
    torch.library.opcheck(
        torch.ops.separatrix.short_convolution.default,
        (rows.flatten(0, 1), weights, bias, [14, 4, 1, 1, 0]),
        test_utils=("test_schema", "test_faketensor"),
    )
    compiled = torch.compile(convolved, backend="aot_eager", fullgraph=True)
    agree(results(compiled, small), expected, 1e-5)
    print("agreed")


@pytest.mark.slow
def test_triton_kernels_are_the_definition() -> None:
    assert interpreted(check_triton_kernels) == "agreed\n"
