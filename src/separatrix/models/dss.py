"""Diagonal state spaces, DSS-EXP: every channel is a linear system with a diagonal complex state.

A channel with step size Δ samples x' = Λx + u; its answer to a single 1 is the kernel

    K_t = Re Σ_n w_n (e^{Λ_n Δ} − 1)/Λ_n · e^{Λ_n Δ t},    Λ_n = −exp(decay_n) + i · frequency_n,

and a whole input is answered by one convolution with it. Λ is shared by the channels of a layer, Δ and w are
each channel's own. Initial values as in the paper: Λ from the eigenvalues of the skew-symmetric HiPPO matrix,
log Δ uniform between log 0.001 and log 0.1, w and the skip D standard normal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from separatrix.accounting import StatePart, recurrent_state
from separatrix.models import MODELS
from separatrix.models.feed_forward import Perceptron
from separatrix.models.kernels.choice import Backend
from separatrix.models.kernels.diagonal import Pair, exponential_less_one, powers, product
from separatrix.models.kernels.long_convolution import convolution_at, long_convolution
from separatrix.models.laws import Numbers, constant, fixed, normal, uniform
from separatrix.models.members import LayerNorm, Linear, taken
from separatrix.models.population import State
from separatrix.models.stack import Block, Mixer, Reading, Stack, StackConfig
from separatrix.options import option, require

__all__ = ["DSS", "StateSpace", "hippo_frequencies"]

_SMALLEST_STEP, _LARGEST_STEP = 1e-3, 1e-1
_COLUMNS = 32


class StateSpace(Mixer):
    """Every channel's state space, GELU, and a linear map of all channels."""

    def __init__(self, members: int, width: int, state: int) -> None:
        super().__init__(members)
        self.backend: Backend = "auto"
        self.width, self.state = width, state
        self.log_decay = self.parameter("log_decay", (state,), constant(math.log(0.5)))
        self.frequency = self.parameter("frequency", (state,), fixed(hippo_frequencies(state)))
        self.log_step = self.parameter("log_step", (width,), _log_step)
        self.mixing = self.parameter("mixing", (2, width, state), normal(1))  # w: real parts, imaginary parts
        self.skip = self.parameter("skip", (width,), normal(1))
        bound = uniform(width**-0.5)
        self.outward = Linear(members, width, width, law=bound, bias=bound)

    def exponents(self) -> Pair:
        """Λ_n Δ for every channel and n, as (member, width, state)."""
        step = self.log_step.exp().unsqueeze(-1)
        return -self.log_decay.exp().unsqueeze(1) * step, self.frequency.unsqueeze(1) * step

    def coefficients(self) -> Pair:
        """w_n (e^{Λ_n Δ} − 1)/Λ_n."""
        grown = exponential_less_one(*self.exponents())
        real, imag = -self.log_decay.exp().unsqueeze(1), self.frequency.unsqueeze(1)
        size = real.square() + imag.square()
        mixed = product((self.mixing[:, 0], self.mixing[:, 1]), grown)
        return product(mixed, (real / size, -imag / size))

    def kernel(self, length: int) -> Float[Tensor, "member width pos"]:
        """Each channel's answer to a single 1, its skip included, in the type of the parameters.

        With t = 32 · row + column the power is a product of two: the sum over n becomes a matrix product, and
        few powers are taken instead of one for every t.
        """
        decay, angle = self.exponents()
        columns = torch.arange(_COLUMNS, device=decay.device, dtype=decay.dtype)
        rows = torch.arange(0, length, _COLUMNS, device=decay.device, dtype=decay.dtype)
        fine = torch.cat(powers(decay, angle, columns), dim=2)
        real, imag = self.coefficients()
        coarse = product((real.unsqueeze(-1), imag.unsqueeze(-1)), powers(decay, angle, rows))
        with torch.autocast(decay.device.type, enabled=False):
            kernel = torch.cat([coarse[0], -coarse[1]], dim=2).transpose(2, 3) @ fine
        kernel = kernel.flatten(2)[..., :length]
        return kernel + F.pad(self.skip.unsqueeze(-1), (0, length - 1))

    def forward(
        self, x: Float[Tensor, "member batch pos width"], at: Int[Tensor, "member batch label"] | None = None
    ) -> Float[Tensor, "member batch label width"]:
        """What the channels answer at the positions `at`."""
        kernel = self.kernel(x.shape[2])
        if at is not None and at.shape[-1] == 1 and self.backend != "reference":
            mixed = convolution_at(x, kernel.transpose(1, 2), at.squeeze(-1)).unsqueeze(2)
        else:
            channels = long_convolution(x.permute(0, 3, 1, 2), kernel, backend=self.backend)
            mixed = taken(channels.permute(0, 2, 3, 1), at)
        return self.outward(F.gelu(mixed))  # type: ignore[no-any-return]

    def start(self, batch: int, like: Tensor) -> State:
        """Every state is 0."""
        zeros = like.new_zeros(self.members, batch, self.width, self.state)
        return zeros, zeros

    def step(
        self, x: Float[Tensor, "member batch width"], state: State
    ) -> tuple[Float[Tensor, "member batch width"], State]:
        """Every state turned and shrunk by one step, then the input added to it."""
        one = self.log_step.new_ones(1)
        rate = [part.squeeze(-1).unsqueeze(1) for part in powers(*self.exponents(), one)]
        kept = product(state, (rate[0], rate[1]))
        real, imag = kept[0] + x.unsqueeze(-1), kept[1]
        weights = [part.unsqueeze(1) for part in self.coefficients()]
        answer = (weights[0] * real - weights[1] * imag).sum(-1) + self.skip.unsqueeze(1) * x
        return self.outward(F.gelu(answer)), (real, imag)

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        """A complex number for every channel and n."""
        numbers = 2 * self.width * self.state
        return (recurrent_state(numbers=numbers, precision_bits=precision, name="state-space state"),)


@cache
def hippo_frequencies(state: int) -> Float64[Tensor, "state"]:
    """The positive imaginary parts of the skew HiPPO matrix's eigenvalues, from the largest down.

    The matrix has 2 · state rows, −½ on its diagonal and ∓√((j + ½)(k + ½)) below and above it, so that its
    eigenvalues are −½ ± i · frequency.
    """
    root = (torch.arange(2 * state, dtype=torch.float64, device="cpu") + 0.5).sqrt()  # kept for all devices
    skew = root.unsqueeze(1) * root
    skew = skew.triu(1) - skew.tril(-1)
    # A skew-symmetric matrix times i is Hermitian, with real eigenvalues in pairs ±.
    eigenvalues: Tensor = torch.linalg.eigvalsh(skew * 1j)
    return eigenvalues.flip(0)[:state]


def _log_step(numbers: Numbers) -> Tensor:
    low, high = math.log(_SMALLEST_STEP), math.log(_LARGEST_STEP)
    return low + (high - low) * numbers.uniform()


@MODELS.register("dss")
class DSS(Stack):
    """A state space in every block; a feed-forward map behind it only where one is asked for."""

    name = "dss"
    title = "Diagonal state space (DSS)"
    source = "Gupta, Gu, Berant, 2022"

    @dataclass(frozen=True, kw_only=True)
    class Config(StackConfig):
        """Depth, width and the complex numbers that each channel carries."""

        layers: int = option(2, help="blocks, one after another")
        state: int = option(64, help="complex numbers in the state of each channel")
        ffn: int = option(0, help="inner width of a feed-forward map behind each; 0 for none, as published")

        def validate(self) -> None:
            """A state of its own for each channel."""
            require(
                1 <= self.state <= 4096,
                f"DSS needs a state of 1 to 4096 numbers a channel; got state={self.state}. Try 64.",
            )
            require(self.ffn >= 0, f"DSS needs ffn of at least 0; got ffn={self.ffn}.")

    config: Config

    @property
    def shape(self) -> tuple[int, int]:
        """Inner width of the feed-forward map, if there is one, and no heads."""
        return self.config.ffn, 0

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
        """The state space behind a norm."""
        members, width, inner = self.members, self.config.width, self.config.ffn
        mixer, norm = StateSpace(members, width, self.config.state), LayerNorm(members, width)
        if not inner:
            return Block(mixer, norm, None, None)
        law, last = uniform(width**-0.5), uniform(inner**-0.5)
        perceptron = Perceptron(members, width, inner, law=law, last=last)
        return Block(mixer, norm, perceptron, LayerNorm(members, width))

    def make_norm(self) -> nn.Module:
        """LayerNorm."""
        return LayerNorm(self.members, self.config.width)
