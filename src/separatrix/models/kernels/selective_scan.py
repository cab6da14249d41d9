"""The selective scan of Mamba: a linear recurrence whose decay, input and output depend on the token.

Every channel has its own state of a few numbers,

    h_t = exp(δ_t a) h_{t−1} + δ_t x_t B_t,        y_t = ⟨C_t, h_t⟩ + s x_t,

with a rate a < 0 for each number of the state (`rate`), a step δ_t > 0 for each channel, which is the
softplus of a raw one and a bias (`raw` and `bias`), B_t and C_t (`write` and `read`) shared by all channels,
and a weight s for the direct way (`skip`). `reference` says just that. `parallel` forms the decays
and inputs of many steps at once and leaves one fused multiply-add for each step; only the states at the
borders of these chunks are kept, and the backward pass, written by hand, computes the others again. Powers
are those of 2, which processors form two to three times as fast as those of e.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from separatrix.models.kernels.choice import Backend, chosen
from separatrix.models.kernels.exported import is_exporting, scanned

__all__ = ["LOG2_E", "OFFERS", "one_step", "parallel", "reference", "selective_scan", "step_sizes"]

OFFERS: tuple[Backend, ...] = ("reference", "parallel", "triton")
LOG2_E: Final = math.log2(math.e)
_CHUNK_NUMBERS = 1 << 18
"""Numbers of a chunk's states: few enough that the passes over them find them in the cache."""
_SHORTEST_CHUNK = 8
Channels: TypeAlias = Float[Tensor, "member batch pos channel"]
States: TypeAlias = Float[Tensor, "member batch pos state"]
Rates: TypeAlias = Float[Tensor, "member channel state"]
Scales: TypeAlias = Float[Tensor, "member channel"]
Desk: TypeAlias = Float[Tensor, "sheet pos member batch state channel"]
Five: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def selective_scan(
    x: Channels,
    raw: Channels,
    bias: Scales,
    rate: Rates,
    write: States,
    read: States,
    skip: Scales,
    *,
    backend: Backend = "auto",
) -> Channels:
    """y at every position, in the type of x, computed in the way that `backend` names."""
    if is_exporting():
        return _exported(x, raw, bias, rate, write, read, skip)
    way = chosen(backend, x, offers=OFFERS)
    if way == "triton":
        from separatrix.models.kernels import triton_selective_scan  # noqa: PLC0415

        return triton_selective_scan.scan(x, raw, bias, rate, write, read, skip)
    compute = reference if way == "reference" else parallel
    return compute(x, raw, bias, rate, write, read, skip)


def step_sizes(
    raw: Float[Tensor, "member *lead channel"], bias: Scales
) -> Float[Tensor, "member *lead channel"]:
    """δ, in full precision."""
    wide = _wide(raw)
    lead = (len(bias), *[1] * (raw.dim() - 2), bias.shape[1])
    return F.softplus(raw.to(wide) + bias.to(wide).view(lead))


def one_step(
    h: Float[Tensor, "member batch channel state"],
    x: Float[Tensor, "member batch channel"],
    delta: Float[Tensor, "member batch channel"],
    rate: Rates,
    write: Float[Tensor, "member batch state"],
    read: Float[Tensor, "member batch state"],
    skip: Scales,
) -> tuple[Float[Tensor, "member batch channel"], Float[Tensor, "member batch channel state"]]:
    """y at the next position, and the state after it."""
    decay = torch.exp(delta.unsqueeze(-1) * rate.unsqueeze(1))
    h = decay * h + (delta * x).unsqueeze(-1) * write.unsqueeze(-2)
    return (h * read.unsqueeze(-2)).sum(-1) + skip.unsqueeze(1) * x, h


def reference(
    x: Channels, raw: Channels, bias: Scales, rate: Rates, write: States, read: States, skip: Scales
) -> Channels:
    """The definition, position by position."""
    wide = _wide(x)
    h = rate.new_zeros((*x.shape[:2], *rate.shape[1:]), dtype=wide)
    rows = (x, step_sizes(raw, bias), write, read)
    outputs = []
    for x_now, delta, write_now, read_now in zip(*(row.to(wide).unbind(2) for row in rows), strict=True):
        y, h = one_step(h, x_now, delta, rate.to(wide), write_now, read_now, skip.to(wide))
        outputs.append(y)
    return torch.stack(outputs, dim=2).to(x.dtype)


def _exported(
    x: Channels, raw: Channels, bias: Scales, rate: Rates, write: States, read: States, skip: Scales
) -> Channels:
    """The definition as one loop."""
    wide = _wide(x)

    def step(
        h: Tensor,
        x_now: Tensor,
        delta: Tensor,
        write_now: Tensor,
        read_now: Tensor,
        rate: Tensor,
        skip: Tensor,
    ) -> list[Tensor]:
        y, h = one_step(h, x_now, delta, rate, write_now, read_now, skip)
        return [h, y]

    h = rate.new_zeros((*x.shape[:2], *rate.shape[1:]), dtype=wide)
    rows = [row.to(wide).movedim(2, 0).contiguous() for row in (x, step_sizes(raw, bias), write, read)]
    (y,) = scanned(step, [h], rows, [rate.to(wide), skip.to(wide)])
    return y.permute(1, 2, 0, 3).to(x.dtype)


def parallel(
    x: Channels, raw: Channels, bias: Scales, rate: Rates, write: States, read: States, skip: Scales
) -> Channels:
    """Chunk by chunk, with time as the first axis: a step is one operation on a contiguous slice."""
    wide = _wide(x)
    x_wide = x.to(wide)
    rows = (x_wide, step_sizes(raw, bias), write, read)
    x_first, delta_first, write_first, read_first = (
        row.to(wide).permute(2, 0, 1, 3).contiguous() for row in rows
    )
    rate_last = (rate.to(wide) * LOG2_E).transpose(1, 2).contiguous()
    y, _ = _scan(x_first, delta_first, rate_last, write_first, read_first)
    direct = skip.to(wide).view(len(skip), 1, 1, -1) * x_wide
    return (y.permute(1, 2, 0, 3) + direct).to(x.dtype)  # type: ignore[no-any-return]


@torch.library.custom_op("separatrix::selective_scan_in_chunks", mutates_args=())
def _scan(x: Tensor, delta: Tensor, rate: Tensor, write: Tensor, read: Tensor) -> tuple[Tensor, Tensor]:
    """y, and the states at the borders of chunks; to a compiler it is one operation, not a loop to unroll.

    All are (pos, member, batch, …); rates, those of powers of 2, and states have the channel last, as it is
    the longest axis.
    """
    chunks = _chunks(x, rate)
    desk = _desk(x, rate, chunks, sheets=2)
    borders = x.new_zeros(len(chunks), *desk.shape[2:])
    y = torch.empty_like(x)
    for place, chunk in enumerate(chunks):
        _, states = _chunk_states(desk, borders[place], x[chunk], delta[chunk], rate, write[chunk])
        y[chunk] = _over_states(read[chunk], states)
        if place + 1 < len(chunks):
            borders[place + 1] = states[-1]
    return y, borders


@_scan.register_fake
def _(x: Tensor, delta: Tensor, rate: Tensor, write: Tensor, read: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty(len(_chunks(x, rate)), *x.shape[1:3], *rate.shape[1:])


@torch.library.custom_op("separatrix::selective_scan_in_chunks_gradients", mutates_args=())
def _gradients(
    y_grad: Tensor, x: Tensor, delta: Tensor, rate: Tensor, write: Tensor, read: Tensor, borders: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of all five, chunk by chunk from the last to the first."""
    chunks = _chunks(x, rate)
    desk = _desk(x, rate, chunks, sheets=4)
    y_grad = y_grad.contiguous()
    grads = tuple(torch.empty_like(part) for part in (x, delta, write, read))
    rate_grad = torch.zeros_like(rate)
    behind = torch.zeros_like(borders[0])  # 2^(δ_{t+1} a) times the gradient of h_{t+1}
    for chunk, h in zip(reversed(chunks), reversed(borders.unbind()), strict=True):
        parts = x[chunk], delta[chunk], rate, write[chunk], read[chunk]
        *found, part_of_rate = _chunk_gradients(desk, h, behind, y_grad[chunk], *parts)
        for whole, part in zip(grads, found, strict=True):
            whole[chunk] = part
        rate_grad += part_of_rate
    x_grad, delta_grad, write_grad, read_grad = grads
    return x_grad, delta_grad, rate_grad, write_grad, read_grad


@_gradients.register_fake
def _(
    y_grad: Tensor, x: Tensor, delta: Tensor, rate: Tensor, write: Tensor, read: Tensor, borders: Tensor
) -> Five:
    x_grad, delta_grad, rate_grad, write_grad, read_grad = map(
        torch.empty_like, (x, delta, rate, write, read)
    )
    return x_grad, delta_grad, rate_grad, write_grad, read_grad


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs, output[1])


def _back(ctx: Any, y_grad: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
    return (None,) * 5 if y_grad is None else _gradients(y_grad, *ctx.saved_tensors)


_scan.register_autograd(_back, setup_context=_save)


def _chunk_states(
    desk: Desk, h: Tensor, x: Tensor, delta: Tensor, rate: Tensor, write: Tensor
) -> tuple[Float[Tensor, "pos member batch state channel"], Float[Tensor, "pos member batch state channel"]]:
    """Decays and states of a chunk that begins behind the state h, on the desk's first two sheets."""
    decay, states = desk[0, : len(x)], desk[1, : len(x)]
    torch.mul(delta.unsqueeze(-2), rate.unsqueeze(1), out=decay).exp2_()
    torch.mul((delta * x).unsqueeze(-2), write.unsqueeze(-1), out=states)
    for now, factor in zip(states.unbind(), decay.unbind(), strict=True):
        h = now.addcmul_(factor, h)
    return decay, states


def _chunk_gradients(
    desk: Desk,
    h: Tensor,
    behind: Tensor,
    y_grad: Tensor,
    x: Tensor,
    delta: Tensor,
    rate: Tensor,
    write: Tensor,
    read: Tensor,
) -> Five:
    """Gradients of x, δ, B, C and, summed over the chunk, of the rates; `behind` goes on to the chunk before.

    g_t, the gradient of h_t, is C_t ∂y_t + 2^(δ_{t+1} a) g_{t+1}. The exponent δ_t a receives
    ln 2 · g_t 2^(δ_t a) h_{t−1}, which goes on to δ and a.
    """
    decay, states = _chunk_states(desk, h, x, delta, rate, write)
    state_grad, products = desk[2, : len(x)], desk[3, : len(x)]
    read_grad = torch.mul(states, y_grad.unsqueeze(-2), out=products).sum(-1)
    torch.mul(y_grad.unsqueeze(-2), read.unsqueeze(-1), out=state_grad)
    state_grad[-1] += behind
    later = state_grad[-1]
    for now, factor in zip(reversed(state_grad[:-1].unbind()), reversed(decay[1:].unbind()), strict=True):
        later = now.addcmul_(factor, later)
    write_grad = torch.mul(state_grad, (delta * x).unsqueeze(-2), out=products).sum(-1)
    input_grad = _over_states(write, state_grad)
    through = decay.mul_(state_grad)
    behind.copy_(through[0])
    through[0] *= h
    through[1:] *= states[:-1]
    delta_grad = torch.mul(through, rate.unsqueeze(1), out=products).sum(-2).div_(LOG2_E)
    delta_grad.addcmul_(x, input_grad)
    rate_grad = through.mul_(delta.unsqueeze(-2)).sum((0, 2)).div_(LOG2_E)
    return input_grad.mul_(delta), delta_grad, write_grad, read_grad, rate_grad


def _over_states(weights: Tensor, states: Tensor) -> Float[Tensor, "pos member batch channel"]:
    with torch.autocast(states.device.type, enabled=False):  # a product of matrices would be rounded to bf16
        return (weights.unsqueeze(-2) @ states).squeeze(-2)


def _chunks(x: Float[Tensor, "pos member batch channel"], rate: Tensor) -> list[slice]:
    """Stretches of time whose states fit the cache, yet long enough that their borders are few."""
    a_step = max(1, x[0].numel() * rate.shape[1])
    chunk = max(_SHORTEST_CHUNK, _CHUNK_NUMBERS // a_step)
    return [slice(first, min(first + chunk, len(x))) for first in range(0, len(x), chunk)]


def _desk(
    x: Float[Tensor, "pos member batch channel"], rate: Tensor, chunks: list[slice], sheets: int
) -> Desk:
    """Room for the work on one chunk, to be used for one after another: fresh memory is slow to come by."""
    return x.new_empty(sheets, chunks[0].stop, *x.shape[1:3], *rate.shape[1:])


def _wide(x: Tensor) -> torch.dtype:
    """Sums and exponentials are formed in float32 at least."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
