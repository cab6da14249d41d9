"""Mamba's short causal convolution with its SiLU: each channel sees itself and its last few values.

    y_t = SiLU(b + Σ_j w_j u_{t−k+1+j}),        j = 0, …, k − 1,

with weights and a bias for each channel and zeros before the beginning; the last weight meets the newest
value. `reference` adds one shifted copy after another; `parallel` does so with slices of one padded copy,
which a compiler makes one pass of. Sums are formed in float32 at least; y has the type of u.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from separatrix.models.kernels.choice import Backend, chosen

__all__ = ["OFFERS", "parallel", "reference", "short_convolution"]

OFFERS: tuple[Backend, ...] = ("reference", "parallel", "triton")
Channels: TypeAlias = Float[Tensor, "member batch pos channel"]
Window: TypeAlias = Float[Tensor, "member place channel"]
Shift: TypeAlias = Float[Tensor, "member channel"]


def short_convolution(u: Channels, weights: Window, bias: Shift, *, backend: Backend = "auto") -> Channels:
    """y at every position, in the type of u, computed in the way that `backend` names."""
    way = chosen(backend, u, offers=OFFERS)
    if way == "triton":
        from separatrix.models.kernels import triton_short_convolution  # noqa: PLC0415

        return triton_short_convolution.convolved(u, weights, bias)
    compute = reference if way == "reference" else parallel
    return compute(u, weights, bias)


def reference(u: Channels, weights: Window, bias: Shift) -> Channels:
    """The definition: what stood `back` positions before, for every `back` that the window reaches."""
    wide, length = _wide(u), u.shape[2]
    total = bias.to(wide)[:, None, None].expand(u.shape)
    for back, weight in enumerate(reversed(weights.to(wide).unbind(1))):
        if back < length:
            total = total + F.pad(u.to(wide)[:, :, : length - back], (0, 0, back, 0)) * weight[:, None, None]
    return (total * torch.sigmoid(total)).to(u.dtype)


def parallel(u: Channels, weights: Window, bias: Shift) -> Channels:
    """Slices of one padded copy; weights are wide, so that products and sums are."""
    wide, length = _wide(u), u.shape[2]
    padded = F.pad(u, (0, 0, weights.shape[1] - 1, 0))
    total = bias.to(wide)[:, None, None]
    for place, weight in enumerate(weights.to(wide).unbind(1)):
        total = total + padded[:, :, place : place + length] * weight[:, None, None]
    return F.silu(total).to(u.dtype)


def _wide(u: Tensor) -> torch.dtype:
    return torch.float64 if u.dtype == torch.float64 else torch.float32
