"""Mamba: a gated block around the selective scan, whose decay and input depend on the token.

Initial weights as in its paper and the authors' code: a state's rates are −1, …, −n; the steps δ begin
log-uniform between 0.001 and 0.1; linear maps and the convolution uniform within ±1/√(inputs), those that
lead back into the stream divided by √layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from separatrix.accounting import StatePart, recurrent_state
from separatrix.models import MODELS
from separatrix.models.kernels.choice import Backend
from separatrix.models.kernels.selective_scan import one_step, selective_scan, step_sizes
from separatrix.models.kernels.short_convolution import short_convolution
from separatrix.models.laws import Numbers, constant, fixed, uniform, within
from separatrix.models.members import Linear, RMSNorm, linear, taken
from separatrix.models.population import State
from separatrix.models.seams import between
from separatrix.models.stack import Block, Mixer, Reading, SeamedStack, StackConfig
from separatrix.options import option, require

__all__ = ["Mamba", "SelectiveMixer"]

_SHORTEST_STEP, _LONGEST_STEP = 1e-3, 1e-1
_WIDTH_FOR_A_RANK = 16
_MOST_STATE = 512
_FORGETS = 1e20
"""A step in which a state decays to zero at any rate that it may have learned, also in 32 bits."""


class SelectiveMixer(Mixer):
    """Two branches of the inner width: one is convolved and scanned, the other gates it."""

    def __init__(self, members: int, width: int, *, state: int, expand: int, conv: int, layers: int) -> None:
        """`layers` are those of the whole model; more of them make the map back into the stream smaller."""
        super().__init__(members)
        self.backend: Backend = "auto"
        self.inner, self.state, self.conv = expand * width, state, conv
        self.rank = -(-width // _WIDTH_FOR_A_RANK)
        inner = self.inner
        last = uniform(1 / math.sqrt(inner * layers))
        self.inward = Linear(members, width, 2 * inner, law=within(width))
        self.window = self.parameter("window", (conv, inner), within(conv))
        self.shift = self.parameter("shift", (inner,), within(conv))
        self.select = Linear(members, inner, self.rank + 2 * state, law=within(inner))
        self.pace = Linear(members, self.rank, inner, law=within(self.rank), bias=_log_uniform_steps)
        rates = torch.arange(1, state + 1, dtype=torch.float64).log().expand(inner, state)
        self.log_rate = self.parameter("log_rate", (inner, state), fixed(rates))
        self.skip = self.parameter("skip", (inner,), constant(1))
        self.outward = Linear(members, inner, width, law=last)

    @property
    def seam(self) -> int:
        """The convolution has to leave the first input, and the state takes a step to forget it."""
        return max(1, self.conv - 1)

    def forward(
        self,
        x: Float[Tensor, "member batch pos width"],
        at: Int[Tensor, "member batch label"] | None = None,
        begins: Int[Tensor, "member batch"] | None = None,
    ) -> Float[Tensor, "member batch label width"]:
        """The scan runs over every position; gate and outward map are computed where they are asked for.

        In a seam the convolution sees zeros, as before a beginning, nothing is written, and a step is so long
        that the state decays to zero.
        """
        seam = None if begins is None else between(begins, self.seam, x.shape[2])
        if seam is not None:
            x = x.masked_fill(seam, 0)
        if at is None:
            u, gate = self.inward(x).chunk(2, dim=-1)
        else:
            u = linear(x, self.inward.weight[..., : self.inner])
            gate = linear(taken(x, at), self.inward.weight[..., self.inner :])
        u = short_convolution(u, self.window, self.shift, backend=self.backend)
        raw, write, read = self._selected(u)
        if seam is not None:
            longest = min(_FORGETS, torch.finfo(raw.dtype).max)
            raw, write = raw.masked_fill(seam, longest), write.masked_fill(seam, 0)
        parts = (raw, self._bias, self._rate(), write, read, self.skip)
        return self._gated(taken(selective_scan(u, *parts, backend=self.backend), at), gate)

    def _selected(self, u: Float[Tensor, "member *lead inner"]) -> tuple[Tensor, Tensor, Tensor]:
        """Steps before their bias and softplus, and what is written to and read from the state."""
        low, write, read = self.select(u).split([self.rank, self.state, self.state], dim=-1)
        return linear(low, self.pace.weight), write, read

    @property
    def _bias(self) -> Float[Tensor, "member inner"]:
        assert self.pace.bias is not None
        return self.pace.bias

    def _rate(self) -> Float[Tensor, "member inner state"]:
        return -self.log_rate.exp()

    def _gated(
        self, y: Float[Tensor, "member *lead inner"], gate: Float[Tensor, "member *lead inner"]
    ) -> Float[Tensor, "member *lead width"]:
        return self.outward(y * F.silu(gate))  # type: ignore[no-any-return]

    def start(self, batch: int, like: Tensor) -> State:
        """Zeros, as if nothing had been read."""
        window = like.new_zeros(self.members, batch, self.conv - 1, self.inner)
        return window, like.new_zeros(self.members, batch, self.inner, self.state)

    def step(
        self, x: Float[Tensor, "member batch width"], state: State
    ) -> tuple[Float[Tensor, "member batch width"], State]:
        """Shift the window by one and go one step in the scan."""
        window, h = state
        u, gate = self.inward(x).chunk(2, dim=-1)
        window = torch.cat([window, u.unsqueeze(2).to(window.dtype)], dim=2)
        mixed = (window * self.window.unsqueeze(1)).sum(2) + self.shift.unsqueeze(1)
        u = F.silu(mixed).to(u.dtype)
        raw, write, read = self._selected(u)
        parts = (u, step_sizes(raw, self._bias), self._rate(), write, read, self.skip)
        y, h = one_step(h, *(part.to(h.dtype) for part in parts))
        return self._gated(y.to(u.dtype), gate), (window[:, :, 1:], h)

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """The inputs that the convolution still needs, and a state for each channel."""
        scan = recurrent_state(numbers=self.inner * self.state, precision_bits=precision, name="scan state")
        if self.conv == 1:
            return (scan,)
        kept = (self.conv - 1) * self.inner
        return recurrent_state(numbers=kept, precision_bits=precision, name="convolution window"), scan


@MODELS.register("mamba")
class Mamba(SeamedStack):
    """Gated selective scans behind norms; a block has no feed-forward map."""

    name = "mamba"
    title = "Mamba"
    source = "Gu and Dao, 2023"

    @dataclass(frozen=True, kw_only=True)
    class Config(StackConfig):
        """Depth and width; the state of a channel, the inner width and the convolution's length."""

        layers: int = option(2, help="blocks, one after another")
        state: int = option(16, help="numbers in the state of a channel")
        expand: int = option(2, help="channels for each number of the width")
        conv: int = option(4, help="positions that the convolution sees")

        def validate(self) -> None:
            """Everything is there, and a state fits the kernels."""
            require(
                1 <= self.state <= _MOST_STATE,
                f"Mamba needs a state of 1 to {_MOST_STATE} numbers; got state={self.state}. Try 16.",
            )
            require(
                1 <= self.expand <= 64, f"Mamba needs expand of 1 to 64; got expand={self.expand}. Try 2."
            )
            require(1 <= self.conv <= 64, f"Mamba needs conv of 1 to 64; got conv={self.conv}. Try 4.")

    config: Config

    @property
    def shape(self) -> tuple[int, int]:
        """No feed-forward map, no heads."""
        return 0, 0

    def make_reading(self) -> Reading:
        """Token table, no positions."""
        return Reading(self.members, self.config.width, self.signature, embedding=self.config.embedding)

    def make_block(self, place: int) -> Block:
        """A norm and the mixer."""
        config = self.config
        mixer = SelectiveMixer(
            self.members,
            config.width,
            state=config.state,
            expand=config.expand,
            conv=config.conv,
            layers=config.layers,
        )
        return Block(mixer, RMSNorm(self.members, config.width), None, None)

    def make_norm(self) -> nn.Module:
        """RMSNorm."""
        return RMSNorm(self.members, self.config.width)


def _log_uniform_steps(numbers: Numbers) -> Tensor:
    """Biases whose softplus is log-uniform between the shortest and the longest step."""
    least, most = math.log(_SHORTEST_STEP), math.log(_LONGEST_STEP)
    step = (least + (most - least) * numbers.uniform()).exp()
    return step + (-torch.expm1(-step)).log()
