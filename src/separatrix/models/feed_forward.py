"""Feed-forward maps, element by element: GPT-2's, LLaMA's and W's."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from separatrix.models.laws import Law, constant
from separatrix.models.members import Linear, MemberModule

__all__ = ["Gated", "Perceptron", "gated_width"]

_ROUNDED_TO = 8


def gated_width(width: int) -> int:
    """8/3 of a width, so that three matrices have the numbers of a plain map's two; a multiple of 8."""
    return -(-8 * width // (3 * _ROUNDED_TO)) * _ROUNDED_TO


class Perceptron(MemberModule):
    """GELU between two linear maps with biases."""

    def __init__(self, members: int, width: int, inner: int, *, law: Law, last: Law | None = None) -> None:
        """`last` is the law of the map back into the stream, where it differs."""
        super().__init__(members)
        self.up = Linear(members, width, inner, law=law, bias=constant(0))
        self.down = Linear(members, inner, width, law=last or law, bias=constant(0))

    def forward(self, x: Float[Tensor, "member *lead width"]) -> Float[Tensor, "member *lead width"]:
        """The map at every position."""
        return self.down(F.gelu(self.up(x), approximate="tanh"))  # type: ignore[no-any-return]


class Gated(MemberModule):
    """W3 (σ(W1 x) ⊗ W2 x): SwiGLU with SiLU and no biases, W's ReGLU with ReLU and biases."""

    def __init__(
        self, members: int, width: int, inner: int, *, law: Law, relu: bool = False, last: Law | None = None
    ) -> None:
        super().__init__(members)
        self.inner, self.relu = inner, relu
        bias = constant(0) if relu else None
        self.up = Linear(members, width, 2 * inner, law=law, bias=bias)
        self.down = Linear(members, inner, width, law=last or law, bias=bias)

    def forward(self, x: Float[Tensor, "member *lead width"]) -> Float[Tensor, "member *lead width"]:
        """The map at every position."""
        gate, value = self.up(x).chunk(2, dim=-1)
        return self.down((torch.relu(gate) if self.relu else F.silu(gate)) * value)  # type: ignore[no-any-return]
