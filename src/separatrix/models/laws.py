"""The laws that initial weights follow, drawn by counter.

A member's weights are a function of its seed and the parameter's name alone: they are the same whoever its
neighbours are, on every device. All are drawn in float64 on the host and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float64
from torch import Tensor

from separatrix.randomness import Draws

__all__ = ["Law", "Numbers", "constant", "fixed", "normal", "uniform"]


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The random numbers of one parameter of one member."""

    seed: int
    parameter: str
    shape: tuple[int, ...]

    def uniform(self, shape: tuple[int, ...] | None = None) -> Float64[Tensor, "*shape"]:
        """Uniform in the open interval (0, 1)."""
        shape = self.shape if shape is None else shape
        draws = Draws(seed=self.seed, stream="weights", batch=1)
        keys = draws.keys(self.parameter, math.prod(shape)).view(shape)
        return (keys.double() + 0.5) * 2.0**-62

    def normal(self) -> Float64[Tensor, "*shape"]:
        """Standard normal, by Box and Muller's two uniform numbers for each."""
        radius, angle = self.uniform((2, *self.shape)).unbind(0)
        return (-2 * radius.log()).sqrt() * (2 * math.pi * angle).cos()


Law: TypeAlias = Callable[[Numbers], Tensor]
"""A parameter's initial value from its random numbers."""


def normal(deviation: float) -> Law:
    """Centred normal numbers."""
    return lambda numbers: numbers.normal() * deviation


def uniform(bound: float) -> Law:
    """Uniform between −bound and bound."""
    return lambda numbers: (2 * numbers.uniform() - 1) * bound


def within(inputs: int) -> Law:
    """Uniform within ±1/√(inputs), as PyTorch begins a linear map."""
    return uniform(1 / math.sqrt(inputs))


def constant(value: float) -> Law:
    """The same number everywhere."""
    return lambda numbers: torch.full(numbers.shape, value, dtype=torch.float64)


def fixed(values: Tensor) -> Law:
    """Values that are no matter of chance."""
    return lambda _: values.double()
