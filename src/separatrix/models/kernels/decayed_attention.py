"""Decayed linear attention: y_t = Σ_{s ≤ t} γ^(t−s) ⟨q_t, k_s⟩ v_s, with a γ for each head.

The sum is a state S_t = γ S_{t−1} + k_t v_tᵀ that is read by the query, y_t = S_tᵀ q_t. `reference` says just
that. `parallel` cuts the input into chunks: within one, scores are a matrix that is masked and faded; what a
chunk takes from all before it is one state, and the states of all chunks are a triangular matrix times what
each chunk adds. Decays are given by their logarithms, and no gradient goes to them; None stands for γ = 1.

A row may have a second input, from the position `begins` on: the sum then goes over what belongs to the
query's own, and the state is empty where the second begins.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.kernels.choice import Backend, chosen

__all__ = [
    "OFFERS",
    "attention_at",
    "attention_with_totals",
    "decayed_attention",
    "one_step",
    "parallel",
    "reference",
    "wide_type",
]

OFFERS: tuple[Backend, ...] = ("reference", "parallel", "triton", "fla")
WIDEST_KEY = 256
"""The widest key whose state the Triton kernels can hold."""
_LEAST_CHUNK = 32


def decayed_attention(
    query: Float[Tensor, "row pos head key"],
    key: Float[Tensor, "row pos head key"],
    value: Float[Tensor, "row pos head value"],
    log_decay: Float[Tensor, "head"] | None = None,
    *,
    begins: Int[Tensor, "row"] | None = None,
    backend: Backend = "auto",
) -> Float[Tensor, "row pos head value"]:
    """What each query reads, in the way that `backend` names."""
    way = _way(query, backend, begins)
    if way == "triton":
        from separatrix.models.kernels import triton_decayed_attention as kernels  # noqa: PLC0415

        return kernels.attention(query, key, value, log_decay, totals=False, begins=begins)[0]
    if way == "fla":
        from separatrix.models.kernels import fla_backend  # noqa: PLC0415

        return fla_backend.attention(query, key, value, log_decay)
    compute = reference if way == "reference" else parallel
    return compute(query, key, value, log_decay, begins=begins)


def attention_with_totals(
    query: Float[Tensor, "row pos head key"],
    key: Float[Tensor, "row pos head key"],
    value: Float[Tensor, "row pos head value"],
    log_decay: Float[Tensor, "head"] | None = None,
    *,
    begins: Int[Tensor, "row"] | None = None,
    backend: Backend = "auto",
) -> tuple[Float[Tensor, "row pos head value"], Float[Tensor, "row pos head"]]:
    """What each query reads, and the sum of the weights it reads with, in float32 at least."""
    way = _way(query, backend, begins)
    if way == "triton":
        from separatrix.models.kernels import triton_decayed_attention as kernels  # noqa: PLC0415

        return kernels.attention(query, key, value, log_decay, totals=True, begins=begins)
    if way == "fla":
        from separatrix.models.kernels import fla_backend  # noqa: PLC0415

        return fla_backend.attention_with_totals(query, key, value, log_decay)
    compute = reference if way == "reference" else parallel
    # The sum of the weights is what a query reads where every value is 1.
    wide = value.to(wide_type(value))
    read = compute(query, key, F.pad(wide, (0, 1), value=1.0), log_decay, begins=begins)
    return read[..., :-1].to(value.dtype), read[..., -1]


def reference(
    query: Float[Tensor, "row pos head key"],
    key: Float[Tensor, "row pos head key"],
    value: Float[Tensor, "row pos head value"],
    log_decay: Float[Tensor, "head"] | None = None,
    *,
    begins: Int[Tensor, "row"] | None = None,
) -> Float[Tensor, "row pos head value"]:
    """The definition, one position after another."""
    wide = wide_type(value)
    with torch.autocast(value.device.type, enabled=False):
        q, k, v = query.to(wide), key.to(wide), value.to(wide)
        state = k.new_zeros(k.shape[0], *k.shape[2:], v.shape[-1])
        reads = []
        for place in range(k.shape[1]):
            if begins is not None:
                state = state.masked_fill((begins == place).view(-1, 1, 1, 1), 0)
            read, state = one_step(q[:, place], k[:, place], v[:, place], state, log_decay)
            reads.append(read)
        return torch.stack(reads, dim=1).to(value.dtype)


def one_step(
    query: Float[Tensor, "*row head key"],
    key: Float[Tensor, "*row head key"],
    value: Float[Tensor, "*row head value"],
    state: Float[Tensor, "*row head key value"],
    log_decay: Float[Tensor, "head"] | None = None,
) -> tuple[Float[Tensor, "*row head value"], Float[Tensor, "*row head key value"]]:
    """What the next query reads, and the state after it, both in the state's type."""
    query, key, value = query.to(state.dtype), key.to(state.dtype), value.to(state.dtype)
    if log_decay is not None:
        state = state * log_decay.detach().to(state.dtype).exp().view(-1, 1, 1)
    state = state + key.unsqueeze(-1) * value.unsqueeze(-2)
    return (query.unsqueeze(-1) * state).sum(-2), state


def parallel(
    query: Float[Tensor, "row pos head key"],
    key: Float[Tensor, "row pos head key"],
    value: Float[Tensor, "row pos head value"],
    log_decay: Float[Tensor, "head"] | None = None,
    *,
    begins: Int[Tensor, "row"] | None = None,
    chunk: int | None = None,
) -> Float[Tensor, "row pos head value"]:
    """Matrix products within chunks and between them; `chunk` is the most positions that one may have."""
    length, wide = key.shape[1], wide_type(value)
    chunks = -(-length // (chunk or _chunk_for(length)))
    chunk = -(-length // chunks)
    log_decay = None if log_decay is None else log_decay.detach().to(wide)
    place = torch.arange(chunk, device=key.device)
    with torch.autocast(value.device.type, enabled=False):
        q, k, v = (_cut(x.to(wide), chunks, chunk) for x in (query, key, value))
        within = _faded(log_decay, place.unsqueeze(1) - place, wide).unsqueeze(1)
        number = torch.arange(chunks, device=key.device)
        seam = None if begins is None else _Seam(begins, chunk * number, place)
        if seam is not None:
            within = within * seam.within
        read = (q @ k.transpose(-1, -2) * within) @ v
        if chunks > 1:
            to_end = _faded(log_decay, chunk - 1 - place, wide)[:, None, :, None]
            from_start = _faded(log_decay, place + 1, wide)[:, None, :, None]
            carried = _faded(log_decay, chunk * (number.unsqueeze(1) - number - 1), wide)
            if seam is not None:
                to_end, from_start = to_end * seam.to_end, from_start * seam.from_start
                carried = carried * seam.carried
            added = (k * to_end).transpose(-1, -2) @ v
            state = (carried @ added.flatten(-2)).view(added.shape)
            read = read + (q * from_start) @ state
    joined = read.permute(0, 2, 3, 1, 4).reshape(value.shape[0], chunks * chunk, *value.shape[2:])
    return joined[:, :length].to(value.dtype)


def attention_at(
    query: Float[Tensor, "row label head key"],
    key: Float[Tensor, "row pos head key"],
    value: Float[Tensor, "row pos head value"],
    at: Int[Tensor, "row label"],
    log_decay: Float[Tensor, "head"] | None = None,
    *,
    begins: Int[Tensor, "row"] | None = None,
) -> tuple[Float[Tensor, "row label head value"], Float[Tensor, "row label head"]]:
    """What the queries at a few positions read, and the sums of their weights; no state is formed."""
    wide = wide_type(value)
    scores = query.transpose(1, 2) @ key.permute(0, 2, 3, 1)  # (row, head, label, pos)
    place = torch.arange(key.shape[1], device=key.device)
    behind = at.unsqueeze(2) - place
    seen = behind >= 0
    if begins is not None:
        second = begins.unsqueeze(1)
        seen = seen & ((at >= second).unsqueeze(2) == (place >= second).unsqueeze(1))
    if log_decay is None:
        weights = scores.to(wide) * seen.unsqueeze(1)
    else:
        rate = log_decay.detach().to(wide).view(1, -1, 1, 1)
        faded = (rate * behind.clamp(min=0).unsqueeze(1)).exp() * seen.unsqueeze(1)
        weights = scores.to(wide) * faded
    read = weights.to(value.dtype) @ value.transpose(1, 2)
    return read.transpose(1, 2).to(value.dtype), weights.sum(-1).transpose(1, 2)


def wide_type(x: Tensor) -> torch.dtype:
    """The type for sums of many numbers like these: float32 at least."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


class _Seam:
    """What is left of each factor where a row has a second input: ones and zeros, with an axis for heads.

    A chunk in which the second begins, or behind which it does, carries nothing over from before to after:
    its queries of the second input read no state, its keys of the first go into none, and what later chunks
    read comes from it and from those behind it.
    """

    def __init__(
        self, begins: Int[Tensor, "row"], starts: Int[Tensor, "chunk"], place: Int[Tensor, "place"]
    ) -> None:
        chunk = len(place)
        begin = begins.view(-1, 1, 1)
        second = starts.view(-1, 1) + place >= begin  # (row, chunk, place)
        start = starts.view(1, -1, 1)
        crosses = (start < begin) & (begin <= start + chunk)
        self.within = (second.unsqueeze(-1) == second.unsqueeze(-2)).unsqueeze(1)
        self.to_end = (second | ~crosses)[:, None, :, :, None]
        self.from_start = ~(second & crosses)[:, None, :, :, None]
        # Whether a chunk reads, and adds to, the state of the second input.
        reads, adds = (start >= begin).squeeze(-1), (start + chunk >= begin).squeeze(-1)
        self.carried = (reads.unsqueeze(-1) == adds.unsqueeze(-2)).unsqueeze(1)


def _way(query: Tensor, backend: Backend, begins: Tensor | None) -> Backend:
    way = chosen(backend, query, offers=OFFERS)
    if way == "fla" and begins is not None:
        raise InvalidInput("backend=fla computes rows of one input each; leave it out where rows have two.")
    if backend == "auto" and way == "triton" and query.shape[-1] > WIDEST_KEY:
        return "parallel"
    if way == "fla" and not query.is_cuda:
        raise InvalidInput(f"backend=fla computes on a CUDA device; these numbers are on {query.device}.")
    return way


def _chunk_for(length: int) -> int:
    """Chunks of 32 positions; longer ones beyond 1024, where the states of many chunks would cost more."""
    return max(_LEAST_CHUNK, math.isqrt(length))


def _cut(
    x: Float[Tensor, "row pos head part"], chunks: int, chunk: int
) -> Float[Tensor, "row head chunk place part"]:
    """Whole chunks, filled up with zeros, which add nothing to a state."""
    rows, length, heads, part = x.shape
    x = F.pad(x, (0, 0, 0, 0, 0, chunks * chunk - length))
    # Copied once here, since every matrix product would copy it again.
    return x.view(rows, chunks, chunk, heads, part).permute(0, 3, 1, 2, 4).contiguous()


def _faded(
    log_decay: Float[Tensor, "head"] | None, distance: Int[Tensor, "*shape"], kind: torch.dtype
) -> Float[Tensor, "head *shape"]:
    """γ^distance for every head, and 0 where the distance is negative; one head for all where γ = 1."""
    causal = (distance >= 0).unsqueeze(0)
    if log_decay is None:
        return causal.to(kind)
    rate = log_decay.view(-1, *[1] * distance.dim())
    return (rate * distance.clamp(min=0)).exp() * causal
