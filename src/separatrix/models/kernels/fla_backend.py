"""Decayed linear attention by flash-linear-attention, where that package is installed; never needed.

Its `chunk_simple_gla` takes queries, keys and values as (row, position, head, part), as here, and one
logarithm of a decay for each head; without one nothing fades. It scales scores by 1/√key unless told not to.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.kernels.decayed_attention import wide_type

__all__ = ["attention", "attention_with_totals"]


def attention(
    query: Float[Tensor, "row pos head key"],
    key: Float[Tensor, "row pos head key"],
    value: Float[Tensor, "row pos head value"],
    log_decay: Float[Tensor, "head"] | None = None,
) -> Float[Tensor, "row pos head value"]:
    """What each query reads."""
    chunked = _chunked()
    if value.dtype == torch.float64:
        raise InvalidInput("backend=fla computes in float32 and in 16 bits; got torch.float64.")
    rates = None if log_decay is None else log_decay.detach().to(torch.float32)
    query, key = query.to(value.dtype), key.to(value.dtype)
    read, _ = chunked(query, key, value, g_gamma=rates, scale=1.0)
    return read.to(value.dtype)


def attention_with_totals(
    query: Float[Tensor, "row pos head key"],
    key: Float[Tensor, "row pos head key"],
    value: Float[Tensor, "row pos head value"],
    log_decay: Float[Tensor, "head"] | None = None,
) -> tuple[Float[Tensor, "row pos head value"], Float[Tensor, "row pos head"]]:
    """What each query reads, and the sum of its weights."""
    read = attention(query, key, value, log_decay)
    wide = wide_type(value)
    if log_decay is None:
        total = (query.to(wide) * key.to(wide).cumsum(1)).sum(-1)
    else:
        # One more call reads values of 1; 16 of them, the narrowest block of a kernel.
        ones = torch.ones_like(value[..., :1]).expand(*value.shape[:-1], 16).contiguous()
        total = attention(query, key, ones, log_decay)[..., 0].to(wide)
    return read, total


def _chunked() -> Callable[..., tuple[Tensor, Tensor | None]]:
    try:
        from fla.ops.simple_gla import chunk_simple_gla  # noqa: PLC0415
    except ImportError as error:
        raise InvalidInput(
            "backend=fla needs the package flash-linear-attention with fla.ops.simple_gla; install it, "
            "or leave it out."
        ) from error
    return chunk_simple_gla  # type: ignore[no-any-return]
