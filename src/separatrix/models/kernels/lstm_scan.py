"""The recurrence of one LSTM layer over time, for all members at once.

Given what the inputs add to the gates at every position and the recurrent weights, with i, f, g, o for the
four quarters of what a position's gates come to:

    c_t = σ(f) c_{t−1} + σ(i) tanh(g),     h_t = σ(o) tanh(c_t),     gates_t = inward_t + h_{t−1} W.

A step is one matrix product for all members and some work number by number. Members and examples never mix,
so the time is that of the longest chain: what counts is how little is done between two steps.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from separatrix.models.kernels.choice import Backend, chosen
from separatrix.models.kernels.exported import is_exporting, scanned

__all__ = ["OFFERS", "cell", "lstm_scan", "parallel", "reference"]

OFFERS: tuple[Backend, ...] = ("reference", "parallel", "triton")


def lstm_scan(
    inward: Float[Tensor, "member batch pos gates"],
    weight: Float[Tensor, "member width gates"],
    *,
    backend: Backend = "auto",
) -> Float[Tensor, "member batch pos width"]:
    """h at every position, in the type of `inward`; h and c are zero before the first."""
    weight = weight.to(inward.dtype)
    if is_exporting():
        return _exported(inward, weight)
    match chosen(backend, inward, offers=OFFERS):
        case "triton":
            from separatrix.models.kernels import triton_lstm_scan  # noqa: PLC0415

            return triton_lstm_scan.scan(inward, weight)
        case "reference":
            return reference(inward, weight)
        case _:
            return parallel(inward, weight)


def cell(
    gates: Float[Tensor, "member batch gates"], before: Float[Tensor, "member batch width"]
) -> tuple[Float[Tensor, "member batch width"], Float[Tensor, "member batch width"]]:
    """h and c of a step from its gates and the c before it, computed in the type of that c."""
    enter, forget, candidate, leave = gates.to(before.dtype).chunk(4, dim=-1)
    after = forget.sigmoid() * before + enter.sigmoid() * candidate.tanh()
    return leave.sigmoid() * after.tanh(), after


def reference(
    inward: Float[Tensor, "member batch pos gates"], weight: Float[Tensor, "member width gates"]
) -> Float[Tensor, "member batch pos width"]:
    """The definition, step by step."""
    members, batch, length, _ = inward.shape
    h = inward.new_zeros(members, batch, weight.shape[1])
    c = h.to(_working_type(inward))
    seen = []
    for t in range(length):
        h, c = cell(inward[:, :, t] + h @ weight, c)
        h = h.to(inward.dtype)
        seen.append(h)
    return torch.stack(seen, dim=2)


def _exported(
    inward: Float[Tensor, "member batch pos gates"], weight: Float[Tensor, "member width gates"]
) -> Float[Tensor, "member batch pos width"]:
    """The definition as one loop."""

    def step(h: Tensor, c: Tensor, now: Tensor, weight: Tensor) -> list[Tensor]:
        h, c = cell(now + torch.bmm(h, weight), c)
        h = h.to(now.dtype)
        return [h, c, h.clone()]

    first = inward.new_zeros(*inward.shape[:2], weight.shape[1])
    (seen,) = scanned(
        step, [first, first.to(_working_type(inward)).clone()], [inward.movedim(2, 0).contiguous()], [weight]
    )
    return seen.permute(1, 2, 0, 3)


def parallel(
    inward: Float[Tensor, "member batch pos gates"], weight: Float[Tensor, "member width gates"]
) -> Float[Tensor, "member batch pos width"]:
    """Plain PyTorch, one step's numbers at a time, with the backward written out.

    It is one operation to whoever compiles it: a loop over time that is unrolled takes minutes to compile.
    """
    h: Tensor = _forward(inward, weight, needs_gradient(inward, weight))[0]
    return h


def needs_gradient(*tensors: Tensor) -> bool:
    """Whether a backward may follow, so that what it needs is to be kept."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def weight_gradient(
    h: Float[Tensor, "member batch pos width"], gates: Float[Tensor, "member batch pos gates"]
) -> Float[Tensor, "member width gates"]:
    """Σ_t h_{t−1}ᵀ dgates_t over all examples, in one matrix product a member."""
    before = F.pad(h[:, :, :-1], (0, 0, 1, 0))
    return torch.bmm(before.flatten(1, 2).transpose(1, 2), gates.flatten(1, 2))


def _working_type(x: Tensor) -> torch.dtype:
    """Half precision serves for what is multiplied; what is carried from step to step needs more."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


@torch.library.custom_op("separatrix::lstm_scan_parallel", mutates_args=())
def _forward(inward: Tensor, weight: Tensor, kept: bool) -> tuple[Tensor, Tensor, Tensor]:
    """h, and if `kept` the open gates and the c of every step, with time as their first axis."""
    members, batch, length, wide = inward.shape
    width, working = wide // 4, _working_type(inward)
    with torch.autocast(inward.device.type, enabled=False):
        inward_, weight = inward.to(working), weight.to(working)
        h = inward_.new_empty(length, members, batch, width)
        # Without a backward, each step's gates and c take the place of the last.
        steps = length if kept else 1
        gates, c = (inward_.new_empty(steps, members, batch, each) for each in (wide, width))
        minus = -inward_.new_ones(())
        h_before = c_before = h.new_zeros(members, batch, width)
        views = (inward_.movedim(2, 0), h, c, gates, *gates.chunk(4, dim=-1))
        for given, seen, after, now, enter, forget, candidate, leave in zip(
            *(each.expand(length, -1, -1, -1).unbind() for each in views), strict=True
        ):
            torch.baddbmm(given, h_before, weight, out=now)
            candidate.add_(candidate)
            now.sigmoid_()
            torch.add(minus, candidate, alpha=2, out=candidate)
            torch.mul(c_before, forget, out=after).addcmul_(enter, candidate)
            _tanh(after, minus, out=seen).mul_(leave)
            h_before, c_before = seen, after
    batched = _batched(h).to(inward.dtype)
    return (batched, gates, c) if kept else (batched, gates.new_empty(0), c.new_empty(0))


@_forward.register_fake
def _(inward: Tensor, weight: Tensor, kept: bool) -> tuple[Tensor, Tensor, Tensor]:
    members, batch, length, wide = inward.shape
    working = _working_type(inward)
    h = inward.new_empty(members, batch, length, wide // 4)
    if not kept:
        return h, h.new_empty(0, dtype=working), h.new_empty(0, dtype=working)
    gates = inward.new_empty(length, members, batch, wide, dtype=working)
    return h, gates, inward.new_empty(length, members, batch, wide // 4, dtype=working)


@torch.library.custom_op("separatrix::lstm_scan_parallel_backward", mutates_args=())
def _backward(outer: Tensor, weight: Tensor, h: Tensor, gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of `inward` and `weight` from that of h.

    With H for the gradient of h and C for that of c, C_t = C_{t+1} σ(f_{t+1}) + H_t σ(o) (1 − tanh² c_t).
    """
    width = gates.shape[-1] // 4
    with torch.autocast(outer.device.type, enabled=False):
        outer_, back = outer.to(gates.dtype), weight.to(gates.dtype).transpose(1, 2).contiguous()
        inward = outer.new_empty(*outer.shape[:-1], 4 * width)
        slopes = torch.zeros_like(gates[0])  # the gradient of a step's gates
        to_enter, to_forget, to_candidate, to_leave = slopes.chunk(4, dim=-1)
        minus = -gates.new_ones(())
        to_h, to_c, bent, share = (torch.zeros_like(c[0]) for _ in range(4))
        before = [torch.zeros_like(c[0]), *c.unbind()]  # one longer than the others: what is before the first
        views = (outer_.movedim(2, 0), inward.movedim(2, 0), c, *gates.chunk(4, dim=-1))
        both, to_both = gates[..., : 2 * width].unbind(), slopes[..., : 2 * width]
        for t, (given, left, after, enter, forget, candidate, leave) in reversed(
            list(enumerate(zip(*(each.unbind() for each in views), strict=True)))
        ):
            torch.baddbmm(given, slopes, back, out=to_h)
            _tanh(after, minus, out=bent)
            torch.mul(to_h, leave, out=share)
            to_c.add_(_through_tanh(share, bent))
            torch.mul(to_c, candidate, out=to_enter)
            torch.mul(to_c, before[t], out=to_forget)
            torch.mul(to_c, enter, out=to_candidate)
            torch.mul(to_h, bent, out=to_leave)
            _through_tanh(to_candidate, candidate)
            _through_sigmoid(to_both, both[t])
            _through_sigmoid(to_leave, leave)
            left.copy_(slopes)
            to_c.mul_(forget)
        return inward, weight_gradient(h, inward)


@_backward.register_fake
def _(outer: Tensor, weight: Tensor, h: Tensor, gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    return outer.new_empty(*outer.shape[:-1], gates.shape[-1]), torch.empty_like(weight)


def _tanh(x: Tensor, minus: Tensor, *, out: Tensor) -> Tensor:
    """2 σ(2x) − 1, for PyTorch's sigmoid takes a sixth of the time of its tanh on a CPU; `minus` is −1."""
    torch.add(x, x, out=out).sigmoid_()
    return torch.add(minus, out, alpha=2, out=out)


def _through_tanh(gradient: Tensor, bent: Tensor) -> Tensor:
    """The gradient before a tanh that gave `bent`, in place."""
    return torch.ops.aten.tanh_backward.grad_input(gradient, bent, grad_input=gradient)  # type: ignore[no-any-return]


def _through_sigmoid(gradient: Tensor, opened: Tensor) -> Tensor:
    """The gradient before a sigmoid that gave `opened`, in place."""
    return torch.ops.aten.sigmoid_backward.grad_input(gradient, opened, grad_input=gradient)  # type: ignore[no-any-return]


def _batched(x: Float[Tensor, "pos member batch width"]) -> Float[Tensor, "member batch pos width"]:
    return x.permute(1, 2, 0, 3).contiguous()


def join(forward: torch.library.CustomOpDef, backward: torch.library.CustomOpDef) -> None:
    """Make `backward` the gradient of `forward`, whose outputs behind h are kept for it and nothing else."""

    def keep(ctx: Any, inputs: tuple[Tensor, Tensor, bool], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)  # else zeros as large as the kept outputs are made for them
        ctx.save_for_backward(inputs[1], *output)

    def gradients(
        ctx: Any, outer: Tensor | None, _gates: None, _c: None
    ) -> tuple[Tensor | None, Tensor | None, None]:
        if outer is None:
            return None, None, None
        return *backward(outer.contiguous(), *ctx.saved_tensors), None

    forward.register_autograd(gradients, setup_context=keep)


join(_forward, _backward)
