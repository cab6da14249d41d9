"""The LSTM: layers of gated memory cells, each reading what the one before it gives out.

No residual stream and no norms: a layer's output takes the place of its input. Gates and initial weights are
PyTorch's: in the order enter, forget, candidate, leave, all weights uniform within ±1/√width, tokens embedded
by standard normal rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from separatrix.accounting import StatePart, recurrent_state
from separatrix.models import MODELS
from separatrix.models.kernels.choice import Backend
from separatrix.models.kernels.lstm_scan import cell, lstm_scan
from separatrix.models.laws import Law, Numbers, uniform, within
from separatrix.models.members import Linear, linear, taken
from separatrix.models.population import State
from separatrix.models.seams import between
from separatrix.models.stack import Mixer, Reading, SeamedStack, StackConfig

__all__ = ["LSTM", "Cells", "Plain"]


class Cells(Mixer):
    """One layer of cells, as many as the stream is wide: each keeps a number c and shows h of it."""

    def __init__(self, members: int, width: int) -> None:
        super().__init__(members)
        self.width = width
        self.backend: Backend = "auto"
        bound = 1 / math.sqrt(width)
        self.inward = Linear(members, width, 4 * width, law=uniform(bound), bias=_two_biases(bound))
        self.recurrent = self.parameter("recurrent", (width, 4 * width), uniform(bound))

    @property
    def seam(self) -> int:
        """A step with all gates shut leaves h and c at zero, as they are before the first."""
        return 1

    def forward(
        self,
        x: Float[Tensor, "member batch pos width"],
        at: Int[Tensor, "member batch label"] | None = None,
        begins: Int[Tensor, "member batch"] | None = None,
    ) -> Float[Tensor, "member batch label width"]:
        """h at the positions `at`."""
        gates = self.inward(x)
        if begins is not None:
            # So far down that a gate is shut whatever the cells before say to it, and no sum overflows.
            shut = torch.finfo(gates.dtype).min / 4
            gates = gates.masked_fill(between(begins, self.seam, x.shape[2]), shut)
        return taken(lstm_scan(gates, self.recurrent, backend=self.backend), at)

    def start(self, batch: int, like: Tensor) -> State:
        """h and c are zero."""
        return like.new_zeros(self.members, batch, self.width), like.new_zeros(
            self.members, batch, self.width
        )

    def step(
        self, x: Float[Tensor, "member batch width"], state: State
    ) -> tuple[Float[Tensor, "member batch width"], State]:
        """h after the next position, and with c as the state."""
        h, c = state
        state = cell(self.inward(x) + linear(h, self.recurrent), c)
        return state[0], state

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """h and c of every cell."""
        return (recurrent_state(numbers=2 * self.width, precision_bits=precision, name="hidden state"),)


def _two_biases(bound: float) -> Law:
    """PyTorch adds two biases to the gates, one of the inputs and one of h; this is the law of their sum."""

    def law(numbers: Numbers) -> Tensor:
        return (2 * numbers.uniform((2, *numbers.shape)) - 1).sum(0) * bound

    return law


class Plain(nn.Module):
    """A block that is its mixer and nothing else."""

    def __init__(self, mixer: Mixer) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(
        self,
        x: Float[Tensor, "member batch pos width"],
        at: Int[Tensor, "member batch label"] | None = None,
        begins: Int[Tensor, "member batch"] | None = None,
    ) -> Float[Tensor, "member batch label width"]:
        """What the mixer gives at the positions `at`."""
        return self.mixer(x, at) if begins is None else self.mixer(x, at, begins)  # type: ignore[no-any-return]

    def step(
        self, x: Float[Tensor, "member batch width"], state: State
    ) -> tuple[Float[Tensor, "member batch width"], State]:
        """What the mixer gives at the next position."""
        return self.mixer.step(x, state)


@MODELS.register("lstm")
class LSTM(SeamedStack):
    """Cells with an entry, a memory that may be forgotten, and an exit; a position knows its past only."""

    name = "lstm"
    title = "LSTM"
    source = "Hochreiter and Schmidhuber, 1997"

    @dataclass(frozen=True, kw_only=True)
    class Config(StackConfig):
        """Depth, and cells of a layer."""

    config: Config

    @property
    def shape(self) -> tuple[int, int]:
        """Neither a feed-forward map nor heads."""
        return 0, 0

    def make_reading(self) -> Reading:
        """A table of tokens; order is what a recurrent model has by itself."""
        return Reading(
            self.members, self.config.width, self.signature, embedding=self.config.embedding, deviation=1.0
        )

    def make_block(self, place: int) -> Plain:
        """Cells alone."""
        return Plain(Cells(self.members, self.config.width))

    def make_norm(self) -> nn.Module:
        """None: h lies between −1 and 1."""
        return nn.Identity()

    def make_readout(self) -> Linear:
        """A linear map with PyTorch's initial weights."""
        law = within(self.config.width)
        return Linear(self.members, self.config.width, self.signature.out, law=law, bias=law)
