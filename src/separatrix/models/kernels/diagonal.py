"""The recurrence h_t = λ h_{t−1} + u_t with a complex λ for each channel, the same at every position.

Complex numbers are pairs of real tensors throughout. Powers of λ = exp(decay + i · angle) are taken through
the exponent, never by repeated multiplication; with decay ≤ 0 none of them grows. The fast form cuts the
input into short pieces: inside a piece the sum is a matrix product, and the last states of the pieces obey
the same recurrence with a power of λ in its place.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from separatrix.models.kernels.choice import Backend, chosen
from separatrix.models.kernels.long_convolution import toeplitz

__all__ = ["Pair", "diagonal_recurrence", "exponential_less_one", "powers", "product"]

Pair: TypeAlias = tuple[Tensor, Tensor]
"""The real and the imaginary parts of complex numbers."""

_PIECE: Final = 32


def powers(
    decay: Float[Tensor, "*lead"], angle: Float[Tensor, "*lead"], exponents: Float[Tensor, "power"]
) -> Pair:
    """exp((decay + i · angle) · exponent), with the exponents as a new last axis."""
    real, imag = decay.unsqueeze(-1) * exponents, angle.unsqueeze(-1) * exponents
    if not real.is_cuda:
        return real.exp() * imag.cos(), real.exp() * imag.sin()
    found: Pair = _exponential(real, imag)
    return found


def exponential_less_one(decay: Float[Tensor, "*shape"], angle: Float[Tensor, "*shape"]) -> Pair:
    """exp(decay + i · angle) − 1, without the cancellation that small numbers bring into the difference."""
    if not decay.is_cuda:
        return _less_one_by_formula(decay, angle)
    found: Pair = _less_one(decay, angle)
    return found


def _less_one_by_formula(decay: Float[Tensor, "*shape"], angle: Float[Tensor, "*shape"]) -> Pair:
    return decay.expm1() * angle.cos() - 2 * (angle / 2).sin().square(), decay.exp() * angle.sin()


# Operators of their own, because a compiler fuses sines into the sums of the gradient, and that code took
# minutes to compile. What is saved are the results: backwards there are only products.
@torch.library.custom_op(
    "separatrix::complex_exponential",
    mutates_args=(),
    schema="(Tensor real, Tensor imag) -> (Tensor, Tensor)",
)
def _exponential(real: Float[Tensor, "*shape"], imag: Float[Tensor, "*shape"]) -> Pair:
    """exp(real + i · imag)."""
    modulus, imag = real.contiguous().exp(), imag.contiguous()
    return modulus * imag.cos(), modulus.mul_(imag.sin())


@_exponential.register_fake
def _(real: Tensor, imag: Tensor) -> Pair:
    return real.new_empty(real.shape), real.new_empty(real.shape)


def _keep_results(ctx: Any, inputs: tuple[Tensor, ...], output: Pair) -> None:
    ctx.save_for_backward(*output)


def _exponential_gradients(ctx: Any, *gradients: Tensor) -> Pair:
    """The conjugate of the results times what came back."""
    real, imag = ctx.saved_tensors
    return product((gradients[0], gradients[1]), (real, -imag))


_exponential.register_autograd(_exponential_gradients, setup_context=_keep_results)


@torch.library.custom_op(
    "separatrix::complex_exponential_less_one",
    mutates_args=(),
    schema="(Tensor real, Tensor imag) -> (Tensor, Tensor)",
)
def _less_one(real: Float[Tensor, "*shape"], imag: Float[Tensor, "*shape"]) -> Pair:
    """exp(real + i · imag) − 1."""
    return _less_one_by_formula(real.contiguous(), imag.contiguous())


@_less_one.register_fake
def _(real: Tensor, imag: Tensor) -> Pair:
    return real.new_empty(real.shape), real.new_empty(real.shape)


def _less_one_gradients(ctx: Any, *gradients: Tensor) -> Pair:
    """The conjugate of the exponential times what came back."""
    real, imag = ctx.saved_tensors
    return product((gradients[0], gradients[1]), (1 + real, -imag))


_less_one.register_autograd(_less_one_gradients, setup_context=_keep_results)


def product(first: Pair, second: Pair) -> Pair:
    """The complex product, element by element."""
    (a, b), (c, d) = first, second
    return a * c - b * d, a * d + b * c


def diagonal_recurrence(
    u: Pair,
    decay: Float[Tensor, "member state"],
    angle: Float[Tensor, "member state"],
    *,
    backend: Backend = "auto",
) -> Pair:
    """The states h at every position, from u of shape (member, state, batch, pos); before the first, 0.

    Computed in the type of `decay`, under autocast too: errors add up along the input.
    """
    way = chosen(backend, u[0], offers=("reference", "parallel"))
    u = u[0].to(decay.dtype), u[1].to(decay.dtype)
    with torch.autocast(decay.device.type, enabled=False):
        return _one_by_one(u, decay, angle) if way == "reference" else _in_pieces(u, decay, angle)


def _one_by_one(u: Pair, decay: Float[Tensor, "member state"], angle: Float[Tensor, "member state"]) -> Pair:
    """The definition."""
    modulus = decay.exp().unsqueeze(-1)
    rate = modulus * angle.unsqueeze(-1).cos(), modulus * angle.unsqueeze(-1).sin()
    state: Pair = torch.zeros_like(u[0][..., 0]), torch.zeros_like(u[1][..., 0])
    states: list[Pair] = []
    for new in zip(u[0].unbind(-1), u[1].unbind(-1), strict=True):
        kept = product(rate, state)
        state = kept[0] + new[0], kept[1] + new[1]
        states.append(state)
    return torch.stack([real for real, _ in states], -1), torch.stack([imag for _, imag in states], -1)


def _in_pieces(u: Pair, decay: Float[Tensor, "member state"], angle: Float[Tensor, "member state"]) -> Pair:
    """Each piece from a state of 0, then what the state before it still contributes."""
    length = u[0].shape[-1]
    if length <= _PIECE:
        return _at_once(u, decay, angle)
    pieces = -(-length // _PIECE)
    members, channels, batch, _ = u[0].shape
    padded = [F.pad(part, (0, pieces * _PIECE - length)) for part in u]
    real, imag = (part.reshape(members, channels, batch * pieces, _PIECE) for part in padded)
    real, imag = (
        part.reshape(members, channels, batch, pieces, _PIECE)
        for part in _at_once((real, imag), decay, angle)
    )
    ends = real[..., -1], imag[..., -1]
    before = _in_pieces((ends[0][..., :-1], ends[1][..., :-1]), decay * _PIECE, angle * _PIECE)
    past = [F.pad(part, (1, 0)).unsqueeze(-1) for part in before]  # nothing stands before the first piece
    steps = torch.arange(1, _PIECE + 1, device=decay.device, dtype=decay.dtype)
    fading = [part[:, :, None, None] for part in powers(decay, angle, steps)]
    kept = product((past[0], past[1]), (fading[0], fading[1]))
    return (real + kept[0]).flatten(-2)[..., :length], (imag + kept[1]).flatten(-2)[..., :length]


def _at_once(u: Pair, decay: Float[Tensor, "member state"], angle: Float[Tensor, "member state"]) -> Pair:
    """A convolution with the powers of λ: one product with a real matrix of four Toeplitz blocks."""
    length = u[0].shape[-1]
    delays = torch.arange(length, device=decay.device, dtype=decay.dtype)
    real, imag = (toeplitz(part) for part in powers(decay, angle, delays))
    matrix = torch.cat([torch.cat([real, imag], -1), torch.cat([-imag, real], -1)], -2)
    found = torch.cat(u, -1) @ matrix
    return found[..., :length], found[..., length:]
