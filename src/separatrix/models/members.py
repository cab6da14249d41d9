"""Layers of many members at once: every parameter has a leading axis of members.

Activations are (member, batch, …, width) and weights (member, in, out), so that one matrix product serves
all members and none sees another.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from separatrix.models.laws import Law, Numbers, constant

__all__ = ["LayerNorm", "Linear", "MemberModule", "RMSNorm", "initialise", "taken"]

_ALIGNED = 8
"""Numbers of bfloat16 in 16 bytes."""
_MANY_ROWS = 4096


class MemberModule(nn.Module):
    """A layer that declares its parameters together with the law of their initial values."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.members = members
        self._laws: dict[str, Law] = {}

    def parameter(self, name: str, shape: tuple[int, ...], law: Law, *, trained: bool = True) -> Tensor:
        """A parameter of this shape for each member, to be kept under this name.

        One that is not trained keeps its initial value.
        """
        self._laws[name] = law
        values = torch.zeros(self.members, *shape)
        return nn.Parameter(values) if trained else nn.Buffer(values)

    def draw(self, prefix: str, member: int, seed: int) -> None:
        """Give one member's parameters of this layer their initial values."""
        for name, law in self._laws.items():
            values = getattr(self, name)[member]
            numbers = Numbers(seed=seed, parameter=f"{prefix}{name}", shape=tuple(values.shape))
            with torch.no_grad():
                values.copy_(law(numbers))


def initialise(model: nn.Module, seeds: Sequence[int]) -> None:
    """Draw the initial weights: member i's under the i-th seed."""
    for member, seed in enumerate(seeds):
        initialise_member(model, member, seed)


def initialise_member(model: nn.Module, member: int, seed: int) -> None:
    """Draw one member's initial weights; the others keep theirs."""
    for prefix, module in model.named_modules():
        if isinstance(module, MemberModule):
            module.draw(f"{prefix}." if prefix else "", member, seed)


class Linear(MemberModule):
    """x W + b, a W and a b for each member."""

    def __init__(self, members: int, wide: int, out: int, *, law: Law, bias: Law | None = None) -> None:
        """`law` is that of W, `bias` that of b, if there is one."""
        super().__init__(members)
        self.weight = self.parameter("weight", (wide, out), law)
        self.bias = None if bias is None else self.parameter("bias", (out,), bias)

    def forward(self, x: Float[Tensor, "member *lead wide"]) -> Float[Tensor, "member *lead out"]:
        """The product at every position."""
        return linear(x, self.weight, self.bias)


def linear(
    x: Float[Tensor, "member *lead wide"],
    weight: Float[Tensor, "member wide out"],
    bias: Float[Tensor, "member out"] | None = None,
) -> Float[Tensor, "member *lead out"]:
    """x W + b, all positions of a member in one matrix product."""
    rows, out = x.reshape(x.shape[0], -1, x.shape[-1]), weight.shape[-1]
    spare = _spare(rows, out)
    if spare:
        weight, bias = F.pad(weight, (0, spare)), None if bias is None else F.pad(bias, (0, spare))
    if bias is None:
        product = torch.bmm(rows, weight)
    elif x.is_cuda:  # the compiler fuses the sum with what follows, and keeps the weights' gradient in order
        product = torch.bmm(rows, weight)
        product = product + bias.unsqueeze(1).to(product.dtype)
    else:
        product = torch.baddbmm(bias.unsqueeze(1), rows, weight)
    found = product.view(*x.shape[:-1], out + spare)
    return found[..., :out] if spare else found


def _spare(rows: Float[Tensor, "member row wide"], out: int) -> int:
    """Columns of zeros that a product gets and loses again.

    Many rows on a GPU whose beginnings are not aligned are slow to write and to read again, up to six times.
    """
    return -out % _ALIGNED if rows.is_cuda and rows.shape[1] >= _MANY_ROWS else 0


class LayerNorm(MemberModule):
    """Mean 0 and variance 1 over the width, then a scale and a shift for each member."""

    def __init__(self, members: int, width: int, *, epsilon: float = 1e-5) -> None:
        super().__init__(members)
        self.width, self.epsilon = width, epsilon
        self.weight = self.parameter("weight", (width,), constant(1))
        self.bias = self.parameter("bias", (width,), constant(0))

    def forward(self, x: Float[Tensor, "member *lead width"]) -> Float[Tensor, "member *lead width"]:
        """Normalised, in the type of what comes in."""
        lead = (self.members, *[1] * (x.dim() - 2), self.width)
        plain = F.layer_norm(x.to(self.weight.dtype), (self.width,), eps=self.epsilon)
        return (plain * self.weight.view(lead) + self.bias.view(lead)).to(x.dtype)


class RMSNorm(MemberModule):
    """Mean square 1 over the width, then a scale for each member."""

    def __init__(self, members: int, width: int, *, epsilon: float = 1e-5) -> None:
        super().__init__(members)
        self.width, self.epsilon = width, epsilon
        self.weight = self.parameter("weight", (width,), constant(1))

    def forward(self, x: Float[Tensor, "member *lead width"]) -> Float[Tensor, "member *lead width"]:
        """Normalised, in the type of what comes in."""
        lead = (self.members, *[1] * (x.dim() - 2), self.width)
        wide = x.to(self.weight.dtype)
        plain = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return (plain * self.weight.view(lead)).to(x.dtype)


def taken(
    x: Float[Tensor, "member batch pos width"], at: Int[Tensor, "member batch label"] | None
) -> Float[Tensor, "member batch label width"]:
    """The rows at these positions of each example; without positions, all of them."""
    if at is None:
        return x
    return x.gather(2, at.unsqueeze(-1).expand(*at.shape, x.shape[-1]))
