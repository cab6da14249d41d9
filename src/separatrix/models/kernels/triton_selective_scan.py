"""The selective scan on a GPU, with its gradients, as operations that a compiler takes as they are.

The kernels stand in `triton_selective_scan_kernels`. The softplus that makes steps of raw ones and the direct
way from x to y are part of them, as these would be passes over all of x of their own. Gradients that are
sums over channels, or over examples and time, are written in parts, one for each warp, and PyTorch adds the
parts in a fixed order, so that two runs give the same bytes.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any, Final

import torch
import triton
from torch import Tensor

from separatrix.models.kernels import triton_selective_scan_kernels as kernels
from separatrix.models.kernels.selective_scan import Channels, Rates, Scales, States

__all__ = ["Blocks", "blocks_for", "scan"]

_LANES: Final = 32
Six = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """How the work is cut.

    `steps` is the length of a chunk, `state_lanes` the lanes over which a channel's state is spread,
    `lane_channels` the channels that a lane has its share of, no more than `state_lanes`. The backward pass
    gets `registers` for each lane, or with 0 as many as the compiler likes, and asks for a chunk's first
    state one chunk before with `early`.
    """

    steps: int
    state_lanes: int
    lane_channels: int
    registers: int
    early: int

    @property
    def block(self) -> int:
        """Channels of a warp."""
        return _LANES // self.state_lanes * self.lane_channels

    def shares(self, state: int) -> dict[str, int]:
        """What the kernels want to know of the way lanes share a state of this size."""
        lane_states = max(1, triton.next_power_of_2(state) // self.state_lanes)
        assert self.lane_channels <= self.state_lanes, "a lane owns one channel"
        assert lane_states * self.lane_channels > 1, "states are stored in pairs"
        state_bits = self.state_lanes.bit_length() - 1
        early_bits = max(0, min(lane_states.bit_length() - 1, 4 - state_bits))
        return {
            "lane_states": lane_states,
            "lane_channels": self.lane_channels,
            "state_lanes": self.state_lanes,
            "state_bits": state_bits,
            "early_bits": early_bits,
            "steps": self.steps,
        }

    def is_whole(self, length: int, channels: int, state: int) -> bool:
        """Whether nothing of a warp lies outside, and no two lanes own the same numbers."""
        lane_states = self.shares(state)["lane_states"]
        return (
            length % self.steps == 0
            and channels % self.block == 0
            and state == lane_states * self.state_lanes
            and self.lane_channels == self.state_lanes
            and 2 * lane_states * self.state_lanes >= _LANES
        )


def blocks_for(state: int) -> Blocks:
    """16 numbers for each lane, 4 states × 4 channels where that can be; these fit the registers."""
    padded = triton.next_power_of_2(state)
    state_lanes = min(max(4, padded // 4), _LANES)
    lane_states = max(1, padded // state_lanes)
    return Blocks(
        steps=3,
        state_lanes=state_lanes,
        lane_channels=min(4, max(1, 16 // lane_states)),
        registers=0,
        early=1,
    )


def scan(
    x: Channels,
    raw: Channels,
    bias: Scales,
    rate: Rates,
    write: States,
    read: States,
    skip: Scales,
    *,
    blocks: Blocks | None = None,
) -> Channels:
    """y at every position, in the type of x; sums and exponentials are float32."""
    members, batch, length, channels = x.shape
    rows, state = members * batch, rate.shape[-1]
    y, _ = _scan(
        x.reshape(rows, length, channels),
        raw.reshape(rows, length, channels),
        bias.float(),
        rate.float(),
        torch.cat((write, read), dim=-1).view(rows, length, 2 * state),
        skip.float(),
        list(astuple(blocks or blocks_for(state))),
        torch.is_grad_enabled(),
    )
    return y.view(x.shape)  # type: ignore[no-any-return]


@torch.library.custom_op("separatrix::selective_scan", mutates_args=())
def _scan(
    x: Tensor,
    raw: Tensor,
    bias: Tensor,
    rate: Tensor,
    both: Tensor,
    skip: Tensor,
    cut: list[int],
    keep: bool,
) -> tuple[Tensor, Tensor]:
    """y, and the states at the beginning of each chunk where they are to be kept; `both` are B and C."""
    x, raw, bias, rate, both, skip = (part.contiguous() for part in (x, raw, bias, rate, both, skip))
    blocks = _blocks(cut)
    rows, length, channels = x.shape
    members, _, state = rate.shape
    y, borders = _outputs(x, rate, blocks, keep)
    if x.numel():
        kernels.forward[rows * triton.cdiv(channels, blocks.block),](
            x,
            raw,
            bias,
            rate,
            both,
            skip,
            y,
            borders,
            rows // members,
            length,
            channels,
            state,
            **blocks.shares(state),
            whole=blocks.is_whole(length, channels, state),
            keep=keep,
            num_warps=1,
        )
    return y, borders


def _blocks(cut: list[int]) -> Blocks:
    steps, state_lanes, lane_channels, registers, early = cut
    return Blocks(
        steps=steps, state_lanes=state_lanes, lane_channels=lane_channels, registers=registers, early=early
    )


def _outputs(x: Tensor, rate: Tensor, blocks: Blocks, keep: bool) -> tuple[Tensor, Tensor]:
    """States are kept in bf16 where x is: each is only where a chunk begins, and errors do not add up."""
    rows, length, channels = x.shape
    shares = blocks.shares(rate.shape[-1])
    chunks = -(-length // blocks.steps) if keep else 0
    numbers = shares["lane_states"] * shares["lane_channels"] * _LANES
    kind = torch.bfloat16 if x.dtype == torch.bfloat16 else torch.float32
    borders = x.new_empty((rows, chunks, -(-channels // blocks.block), numbers), dtype=kind)
    return x.new_empty(x.shape), borders


@_scan.register_fake
def _(
    x: Tensor,
    raw: Tensor,
    bias: Tensor,
    rate: Tensor,
    both: Tensor,
    skip: Tensor,
    cut: list[int],
    keep: bool,
) -> tuple[Tensor, Tensor]:
    return _outputs(x, rate, _blocks(cut), keep)


@torch.library.custom_op("separatrix::selective_scan_gradients", mutates_args=())
def _gradients(
    y_grad: Tensor,
    borders: Tensor,
    x: Tensor,
    raw: Tensor,
    bias: Tensor,
    rate: Tensor,
    both: Tensor,
    skip: Tensor,
    cut: list[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of all six."""
    parts = (part.contiguous() for part in (y_grad, x, raw, bias, rate, both, skip))
    y_grad, x, raw, bias, rate, both, skip = parts
    blocks = _blocks(cut)
    rows, length, channels = x.shape
    members, _, state = rate.shape
    count = triton.cdiv(channels, blocks.block)
    x_grad, raw_grad = torch.empty_like(x), torch.empty_like(raw)
    make = rate.new_empty if x.numel() else rate.new_zeros
    bias_parts, skip_parts = make(2, members, rows // members, channels)
    rate_parts = make(members, rows // members, channels, state)
    both_parts = make(count, rows, length, 2 * state)
    if x.numel():
        kernels.backward[rows * count,](
            x,
            raw,
            bias,
            rate,
            both,
            skip,
            borders.view(torch.int32) if borders.dtype == torch.bfloat16 else borders,
            y_grad,
            x_grad,
            raw_grad,
            bias_parts,
            rate_parts,
            both_parts,
            skip_parts,
            rows // members,
            length,
            channels,
            state,
            **blocks.shares(state),
            whole=blocks.is_whole(length, channels, state),
            early=bool(blocks.early),
            num_warps=1,
            maxnreg=blocks.registers or None,
        )
    both_grad = both_parts.sum(0).to(both.dtype)
    return x_grad, raw_grad, bias_parts.sum(1), rate_parts.sum(1), both_grad, skip_parts.sum(1)


@_gradients.register_fake
def _(
    y_grad: Tensor,
    borders: Tensor,
    x: Tensor,
    raw: Tensor,
    bias: Tensor,
    rate: Tensor,
    both: Tensor,
    skip: Tensor,
    cut: list[int],
) -> Six:
    x_grad, raw_grad, bias_grad, rate_grad, both_grad, skip_grad = (
        part.new_empty(part.shape) for part in (x, raw, bias, rate, both, skip)
    )
    return x_grad, raw_grad, bias_grad, rate_grad, both_grad, skip_grad


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.cut = inputs[6]
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1], *inputs[:6])


def _back(ctx: Any, y_grad: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if y_grad is None:
        return (None,) * 8
    return *_gradients(y_grad, *ctx.saved_tensors, ctx.cut), None, None


_scan.register_autograd(_back, setup_context=_save)
