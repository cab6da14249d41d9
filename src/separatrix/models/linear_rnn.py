"""W's linear RNN: layers f(X) = X + A(X) + g(X + A(X)), where A is h_t = A h_{t−1} + B x_t read out by C.

The matrix A is kept in real normal form. A real matrix that can be diagonalised is, in some basis, made of
2 × 2 blocks, each a rotation times a modulus, and B and C absorb the basis; a real eigenvalue takes a block
with the angle 0 or π. A block is a complex eigenvalue λ = exp(−exp(ν) + iθ), whose modulus training cannot
push to 1 or beyond. Initial values as in the LRU (Orvieto et al., 2023): λ uniform on the ring between the
radii 0.9 and 0.999, and inputs scaled by √(1 − |λ|²), so that the state is about as large as what comes in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from separatrix.accounting import StatePart, recurrent_state
from separatrix.models import MODELS
from separatrix.models.feed_forward import Gated
from separatrix.models.kernels.choice import Backend
from separatrix.models.kernels.diagonal import Pair, diagonal_recurrence, powers, product
from separatrix.models.laws import Numbers, normal
from separatrix.models.members import Linear, RMSNorm, taken
from separatrix.models.population import State
from separatrix.models.stack import Block, Mixer, Reading, Stack, StackConfig
from separatrix.options import option, require

__all__ = ["LinearRNN", "LinearRecurrence"]

_INNER, _OUTER = 0.9, 0.999


class LinearRecurrence(Mixer):
    """h_t = A h_{t−1} + B x_t, and C h_t as what a position receives.

    The first half of the state holds the real parts, the second half the imaginary parts.
    """

    def __init__(self, members: int, width: int, state: int) -> None:
        super().__init__(members)
        self.backend: Backend = "auto"
        self.width, self.state = width, state
        pairs = state // 2
        self.log_decay = self.parameter("log_decay", (pairs,), _on_the_ring)
        self.angle = self.parameter("angle", (pairs,), lambda numbers: 2 * math.pi * numbers.uniform())
        self.inward = self.parameter("inward", (width, state), normal((2 * width) ** -0.5))
        self.outward = Linear(members, state, width, law=normal(pairs**-0.5))

    def exponent(self) -> Pair:
        """log λ, as (member, pair)."""
        return -self.log_decay.exp(), self.angle

    def fed(self, rows: Float[Tensor, "member row width"]) -> Float[Tensor, "member state row"]:
        """What comes into the state: B x, in the order in which the recurrence wants it."""
        scale = (-torch.expm1(-2 * self.log_decay.exp())).sqrt().repeat(1, 2)
        fed = torch.bmm(self.inward.transpose(1, 2), rows.transpose(1, 2))
        return fed.to(scale.dtype) * scale.unsqueeze(-1)

    def forward(
        self, x: Float[Tensor, "member batch pos width"], at: Int[Tensor, "member batch label"] | None = None
    ) -> Float[Tensor, "member batch label width"]:
        """What is read out of the states at the positions `at`."""
        members, batch, length, width = x.shape
        fed = self.fed(x.reshape(members, -1, width)).view(members, self.state, batch, length)
        real, imag = fed.chunk(2, dim=1)
        states = torch.cat(diagonal_recurrence((real, imag), *self.exponent(), backend=self.backend), dim=1)
        return self.outward(taken(states.permute(0, 2, 3, 1), at))  # type: ignore[no-any-return]

    def start(self, batch: int, like: Tensor) -> State:
        """Every number is 0."""
        return like.new_zeros(self.members, batch, self.state)

    def step(
        self, x: Float[Tensor, "member batch width"], state: State
    ) -> tuple[Float[Tensor, "member batch width"], State]:
        """The state turned and shrunk by one step, then the input fed to it."""
        rate = [part.squeeze(-1).unsqueeze(1) for part in powers(*self.exponent(), x.new_ones(1))]
        kept = torch.cat(product(state.chunk(2, dim=-1), (rate[0], rate[1])), dim=-1)
        state = kept + self.fed(x).transpose(1, 2)
        return self.outward(state), state

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """The numbers of h."""
        return (recurrent_state(numbers=self.state, precision_bits=precision),)


def _on_the_ring(numbers: Numbers) -> Tensor:
    """log(−log |λ|) with |λ|² uniform between the squares of the two radii."""
    square = _INNER**2 + (_OUTER**2 - _INNER**2) * numbers.uniform()
    return (-square.log() / 2).log()


@MODELS.register("linear-rnn")
class LinearRNN(Stack):
    """A linear recurrence and a ReGLU map in every block."""

    name = "linear-rnn"
    title = "Linear RNN (W)"
    source = "Wen, Dang, Lyu, 2024; initial weights of Orvieto et al., 2023"

    @dataclass(frozen=True, kw_only=True)
    class Config(StackConfig):
        """Depth, width and state; `ffn` is four times the width unless said."""

        layers: int = option(2, help="blocks, one after another")
        state: int = option(64, help="numbers that each layer carries; even")
        ffn: int = option(0, help="inner width of the feed-forward map; 0 for four times the width")
        norm: bool = option(True, help="RMSNorm before each part of a block; W's own form has none")

        def validate(self) -> None:
            """The state is made of pairs."""
            require(
                self.state >= 2 and self.state % 2 == 0,
                f"LinearRNN carries pairs of numbers, so its state is even; got state={self.state}. "
                f"Try {max(2, self.state + self.state % 2)}.",
            )
            require(self.ffn >= 0, f"LinearRNN needs ffn of at least 0; got ffn={self.ffn}.")

    config: Config

    @property
    def shape(self) -> tuple[int, int]:
        """Inner width and no heads."""
        return self.config.ffn or 4 * self.config.width, 0

    def make_reading(self) -> Reading:
        """A token table; order is known from the recurrence."""
        return Reading(
            self.members,
            self.config.width,
            self.signature,
            embedding=self.config.embedding,
            deviation=1.0,
        )

    def make_block(self, place: int) -> Block:
        """The recurrence, then ReGLU, each behind a norm if there are norms."""
        members, width = self.members, self.config.width
        inner, _ = self.shape
        mixer = LinearRecurrence(members, width, self.config.state)
        gated = Gated(members, width, inner, law=normal(width**-0.5), last=normal(inner**-0.5), relu=True)
        return Block(mixer, self.make_norm(), gated, self.make_norm())

    def make_norm(self) -> nn.Module:
        """RMSNorm, or nothing."""
        return RMSNorm(self.members, self.config.width) if self.config.norm else nn.Identity()
