"""The causal convolution of every channel with a kernel of its own, as long as the input.

y_t = Σ_{s ≤ t} k_{t−s} u_s, in three ways. The reference adds up shifted inputs. Short inputs are multiplied
by the kernel's Toeplitz matrix: length² numbers a channel, but matrix products are what hardware does best.
Under autocast they round both factors to its type, as linear maps do, where the transform keeps float32.
Long ones go through the fast Fourier transform, with at least as many zeros behind them as they are long, so
that nothing comes round. Channels stand before the batch and positions are last, as both fast ways want it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float, Int
from torch import Tensor

from separatrix.models.kernels.choice import Backend, chosen

__all__ = [
    "convolution_at",
    "convolution_by_fft",
    "convolution_by_matrix",
    "long_convolution",
    "reference_convolution",
    "toeplitz",
]

_LONGEST_MATRIX: Final = {"cuda": 512, "cpu": 96}
_LARGEST_MATRICES: Final = {"cuda": 1 << 26, "cpu": 0}
"""Longer inputs are multiplied too if one member's matrices have at most so many numbers."""
_ALIGNED: Final = 16


def long_convolution(
    u: Float[Tensor, "member width batch pos"],
    kernel: Float[Tensor, "member width pos"],
    *,
    backend: Backend = "auto",
) -> Float[Tensor, "member width batch pos"]:
    """Each channel's inputs, weighted by how long ago they came."""
    if chosen(backend, u, offers=("reference", "parallel")) == "reference":
        return reference_convolution(u, kernel)
    width, length, device = u.shape[1], u.shape[-1], u.device.type
    if length <= _LONGEST_MATRIX.get(device, 0) or width * length**2 <= _LARGEST_MATRICES.get(device, 0):
        return convolution_by_matrix(u, kernel)
    return convolution_by_fft(u, kernel)


def reference_convolution(
    u: Float[Tensor, "member width batch pos"], kernel: Float[Tensor, "member width pos"]
) -> Float[Tensor, "member width batch pos"]:
    """The definition: for every delay, the input so long ago times the kernel there."""
    length = u.shape[-1]
    y = torch.zeros_like(u)
    for delay in range(length):
        y = y + F.pad(u[..., : length - delay] * kernel[:, :, None, delay : delay + 1], (delay, 0))
    return y


def convolution_by_matrix(
    u: Float[Tensor, "member width batch pos"], kernel: Float[Tensor, "member width pos"]
) -> Float[Tensor, "member width batch pos"]:
    """A product with each channel's Toeplitz matrix; under autocast in its type, like any linear map.

    On a GPU zeros make rows a multiple of 16 numbers long, without which products are several times slower.
    """
    length = u.shape[-1]
    spare = -length % _ALIGNED if u.is_cuda else 0
    if not spare:
        return u @ toeplitz(kernel.to(u.dtype))
    longer = F.pad(u, (0, spare)) @ toeplitz(F.pad(kernel, (0, spare)).to(u.dtype))
    return longer[..., :length]


def toeplitz(kernel: Float[Tensor, "*lead pos"]) -> Float[Tensor, "*lead from to"]:
    """The matrix with kernel[to − from] where `to` is not before `from`, and 0 elsewhere.

    Rows of pos + 1 numbers, cut into rows of pos, move one step to the right each time. Read backwards, that
    sums the gradient along diagonals without a scatter.
    """
    length = kernel.shape[-1]
    rows = F.pad(kernel, (0, 1)).unsqueeze(-2).expand(*kernel.shape[:-1], length, length + 1)
    cut = rows.flatten(-2)[..., : length * length]
    return cut.view(*kernel.shape, length).triu()


def convolution_by_fft(
    u: Float[Tensor, "member width batch pos"], kernel: Float[Tensor, "member width pos"]
) -> Float[Tensor, "member width batch pos"]:
    """A product of Fourier transforms, in float32 at least."""
    y: Tensor = _fft_convolution(_at_least_float32(u), _at_least_float32(kernel))
    return y.to(u.dtype)


def _at_least_float32(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


@cache
def fast_length(least: int) -> int:
    """The first even number ≥ `least` without prime factors over 5: transforms of such lengths are fast."""
    length = least + least % 2
    while not _is_smooth(length):
        length += 2
    return length


def _is_smooth(number: int) -> bool:
    for prime in (2, 3, 5):
        while number % prime == 0:
            number //= prime
    return number == 1


def _spectrum(x: Float[Tensor, "*lead pos"]) -> Complex[Tensor, "*lead frequency"]:
    spectrum: Tensor = torch.fft.rfft(x, fast_length(2 * x.shape[-1]))
    return spectrum


def _signal(spectrum: Complex[Tensor, "*lead frequency"], length: int) -> Float[Tensor, "*lead pos"]:
    signal: Tensor = torch.fft.irfft(spectrum, fast_length(2 * length))
    return signal[..., :length].contiguous()


# Operators of their own, because compilers have no code for complex numbers: they see real ones only. The
# backward pass transforms the input again, which is cheaper than keeping four times as many numbers.
@torch.library.custom_op(
    "separatrix::fft_convolution", mutates_args=(), schema="(Tensor u, Tensor kernel) -> Tensor"
)
def _fft_convolution(
    u: Float[Tensor, "member width batch pos"], kernel: Float[Tensor, "member width pos"]
) -> Float[Tensor, "member width batch pos"]:
    return _signal(_spectrum(u).mul_(_spectrum(kernel).unsqueeze(2)), u.shape[-1])


@torch.library.custom_op(
    "separatrix::fft_convolution_backward",
    mutates_args=(),
    schema="(Tensor gradient, Tensor u, Tensor kernel) -> (Tensor, Tensor)",
)
def _fft_convolution_backward(
    gradient: Float[Tensor, "member width batch pos"],
    u: Float[Tensor, "member width batch pos"],
    kernel: Float[Tensor, "member width pos"],
) -> tuple[Float[Tensor, "member width batch pos"], Float[Tensor, "member width pos"]]:
    """Both are convolutions backwards in time, whose spectra are conjugates."""
    length = u.shape[-1]
    spectrum = _spectrum(gradient)
    of_kernel = _signal((_spectrum(u).conj() * spectrum).sum(2), length)
    of_u = _signal(spectrum.mul_(_spectrum(kernel).conj().unsqueeze(2)), length)
    return of_u, of_kernel


@_fft_convolution.register_fake
def _(u: Tensor, kernel: Tensor) -> Tensor:
    return u.new_empty(u.shape)


@_fft_convolution_backward.register_fake
def _(gradient: Tensor, u: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor]:
    return u.new_empty(u.shape), kernel.new_empty(kernel.shape)


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
    of_u, of_kernel = _fft_convolution_backward(gradient, *ctx.saved_tensors)
    return of_u, of_kernel


_fft_convolution.register_autograd(_gradients, setup_context=_keep)


def convolution_at(
    u: Float[Tensor, "member batch pos width"],
    kernel: Float[Tensor, "member pos width"],
    at: Int[Tensor, "member batch"],
) -> Float[Tensor, "member batch width"]:
    """The convolution at one position of each example, for as much as reading the input costs.

    Channels are last here: nothing is multiplied as a matrix, and rows are gathered.
    """
    y: Tensor = _convolution_at(_at_least_float32(u), _at_least_float32(kernel).contiguous(), at)
    return y.to(u.dtype)


# By hand, because both factors are gathered backwards too, where a derived gradient would scatter.
@torch.library.custom_op(
    "separatrix::convolution_at", mutates_args=(), schema="(Tensor u, Tensor kernel, Tensor at) -> Tensor"
)
def _convolution_at(
    u: Float[Tensor, "member batch pos width"],
    kernel: Float[Tensor, "member pos width"],
    at: Int[Tensor, "member batch"],
) -> Float[Tensor, "member batch width"]:
    return _before(kernel.unsqueeze(1), at).mul_(u).sum(2)


@torch.library.custom_op(
    "separatrix::convolution_at_backward",
    mutates_args=(),
    schema="(Tensor gradient, Tensor u, Tensor kernel, Tensor at) -> (Tensor, Tensor)",
)
def _convolution_at_backward(
    gradient: Float[Tensor, "member batch width"],
    u: Float[Tensor, "member batch pos width"],
    kernel: Float[Tensor, "member pos width"],
    at: Int[Tensor, "member batch"],
) -> tuple[Float[Tensor, "member batch pos width"], Float[Tensor, "member pos width"]]:
    gradient = gradient.unsqueeze(2)
    of_kernel = _before(u, at).mul_(gradient).sum(1)
    return _before(kernel.unsqueeze(1), at).mul_(gradient), of_kernel


@_convolution_at.register_fake
def _(u: Tensor, kernel: Tensor, at: Tensor) -> Tensor:
    return u.new_empty(u.shape[0], u.shape[1], u.shape[3])


@_convolution_at_backward.register_fake
def _(gradient: Tensor, u: Tensor, kernel: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    return u.new_empty(u.shape), kernel.new_empty(kernel.shape)


def _gradients_at(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
    of_u, of_kernel = _convolution_at_backward(gradient, *ctx.saved_tensors)
    return of_u, of_kernel, None


_convolution_at.register_autograd(_gradients_at, setup_context=_keep)


def _before(
    rows: Float[Tensor, "member #batch pos width"], at: Int[Tensor, "member batch"]
) -> Float[Tensor, "member batch pos width"]:
    """Row at − i in place of row i, and zeros where that is before the first."""
    length, width = rows.shape[2:]
    place = at.unsqueeze(-1) - torch.arange(length, device=at.device)
    index = place.clamp(min=0).unsqueeze(-1).expand(*place.shape, width)
    return rows.expand(*index.shape).gather(2, index).masked_fill_((place < 0).unsqueeze(-1), 0)
