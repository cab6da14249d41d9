"""Long convolutions and diagonal recurrences: every way against plain loops, values and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.kernels.choice import Backend
from separatrix.models.kernels.diagonal import diagonal_recurrence
from separatrix.models.kernels.long_convolution import (
    convolution_at,
    convolution_by_fft,
    convolution_by_matrix,
    fast_length,
    long_convolution,
    reference_convolution,
    toeplitz,
)

Way = Callable[[Tensor, Tensor], Tensor]
WAYS: tuple[Way, ...] = (reference_convolution, convolution_by_matrix, convolution_by_fft)


def random(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def written_out(u: Tensor, kernel: Tensor) -> Tensor:
    """The double sum, number by number."""
    y = torch.zeros_like(u)
    for t in range(u.shape[-1]):
        for s in range(t + 1):
            y[..., t] += kernel[:, :, None, t - s] * u[..., s]
    return y


def with_gradients(way: Callable[..., Tensor], *inputs: Tensor, seed: int = 9) -> list[Tensor]:
    inputs = tuple(each.clone().requires_grad_() for each in inputs)
    y = way(*inputs)
    weights = random(*y.shape, seed=seed, dtype=y.dtype)
    return [y.detach(), *torch.autograd.grad((y * weights).sum(), inputs)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("length", [1, 2, 7, 16])
def test_every_way_is_the_double_sum(way: Way, length: int) -> None:
    u, kernel = random(2, 3, 4, length, seed=1), random(2, 3, length, seed=2)
    torch.testing.assert_close(way(u, kernel), written_out(u, kernel), rtol=0, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    members=st.integers(1, 2),
    width=st.integers(1, 4),
    batch=st.integers(1, 3),
    length=st.integers(1, 70),
    seed=st.integers(0, 99),
)
def test_fast_ways_have_the_values_and_gradients_of_the_reference(
    members: int, width: int, batch: int, length: int, seed: int
) -> None:
    u, kernel = (
        random(members, width, batch, length, seed=seed),
        random(members, width, length, seed=seed + 1),
    )
    expected = with_gradients(reference_convolution, u, kernel)
    for way in (convolution_by_matrix, convolution_by_fft):
        for found, wanted in zip(with_gradients(way, u, kernel), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-11)


@pytest.mark.parametrize("way", WAYS[1:])
def test_float32_stays_near_float64_at_a_long_input(way: Way) -> None:
    u, kernel = random(1, 2, 2, 1000, seed=3), random(1, 2, 1000, seed=4) / 30
    expected = with_gradients(convolution_by_fft, u, kernel)
    found = with_gradients(way, u.float(), kernel.float())
    for single, double in zip(found, expected, strict=True):
        assert single.dtype == torch.float32
        assert (single - double).abs().max() < 1e-5 * double.abs().max()


def test_half_precision_inputs_keep_their_type() -> None:
    u, kernel = random(1, 2, 3, 20, seed=5), random(1, 2, 20, seed=6)
    expected = written_out(u, kernel)
    for way in WAYS[1:]:
        found = way(u.bfloat16(), kernel.float())
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found.double(), expected, rtol=0.05, atol=0.1)


@pytest.mark.slow
def test_the_transform_is_differentiated_right() -> None:
    u, kernel = random(2, 2, 2, 5, seed=7).requires_grad_(), random(2, 2, 5, seed=8).requires_grad_()
    torch.library.opcheck(torch.ops.separatrix.fft_convolution.default, (u, kernel))
    assert torch.autograd.gradcheck(convolution_by_fft, (u, kernel))


def test_transform_lengths_hold_twice_the_input_and_have_small_factors() -> None:
    for least in range(1, 700):
        length = fast_length(least)
        left = length
        for prime in (2, 3, 5):
            while left % prime == 0:
                left //= prime
        assert left == 1
        assert length % 2 == 0
        assert least <= length <= 2 * least
    assert [fast_length(n) for n in (1, 14, 400, 2 * 1601)] == [2, 16, 400, 3240]


def test_the_matrix_has_the_kernel_on_its_diagonals() -> None:
    expected = [[1, 2, 3], [0, 1, 2], [0, 0, 1]]
    assert toeplitz(torch.tensor([1, 2, 3])).tolist() == expected


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 2, 9])
def test_one_position_of_each_example(length: int) -> None:
    u, kernel = random(2, 3, length, 4, seed=10), random(2, length, 4, seed=11)
    at = torch.arange(6).view(2, 3) % length

    def everywhere(u: Tensor, kernel: Tensor) -> Tensor:
        y = written_out(u.permute(0, 3, 1, 2).clone(), kernel.transpose(1, 2)).permute(0, 2, 3, 1)
        return y.gather(2, at[..., None, None].expand(2, 3, 1, 4)).squeeze(2)

    operator = torch.ops.separatrix.convolution_at.default
    torch.library.opcheck(operator, (u.requires_grad_(), kernel.requires_grad_(), at))
    u, kernel = u.detach(), kernel.detach()
    found = with_gradients(lambda u, kernel: convolution_at(u, kernel, at), u, kernel)
    for one, wanted in zip(found, with_gradients(everywhere, u, kernel), strict=True):
        torch.testing.assert_close(one, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [30, 300])
def test_the_dispatcher_gives_the_same_by_every_name(length: int) -> None:
    u, kernel = random(1, 2, 2, length, seed=12), random(1, 2, length, seed=13)
    names: tuple[Backend, ...] = ("auto", "parallel", "reference")
    found = [long_convolution(u, kernel, backend=name) for name in names]
    torch.testing.assert_close(found[0], found[2], rtol=0, atol=1e-11)
    assert torch.equal(found[0], found[1])
    with pytest.raises(InvalidInput, match="computed by reference, parallel; got backend=triton"):
        long_convolution(u, kernel, backend="triton")


@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 64, 65, 200, 1100])
def test_recurrences_in_pieces_are_those_one_by_one(length: int) -> None:
    real, imag = random(2, 3, 2, length, seed=14), random(2, 3, 2, length, seed=15)
    decay, angle = -random(2, 3, seed=16).exp() / 5, 7 * random(2, 3, seed=17)

    def states(backend: Backend) -> list[Tensor]:
        def way(real: Tensor, imag: Tensor, decay: Tensor, angle: Tensor) -> Tensor:
            return torch.cat(diagonal_recurrence((real, imag), decay, angle, backend=backend))

        return with_gradients(way, real, imag, decay, angle)

    for fast, slow in zip(states("parallel"), states("reference"), strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-9)
    rate = torch.polar(decay.exp(), angle)[..., None]
    state = torch.zeros(2, 3, 2, dtype=torch.complex128)
    for t in range(length):
        state = rate * state + torch.complex(real[..., t], imag[..., t])
    ends = [part[..., -1] for part in diagonal_recurrence((real, imag), decay, angle)]
    torch.testing.assert_close(torch.complex(*ends), state, rtol=0, atol=1e-9)
