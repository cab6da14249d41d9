"""Heads to try the worst case on, by kind, and their worst case by trying every input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from separatrix.certificates.worst_case import Head

__all__ = ["KINDS", "DrawnHead", "draw", "every_input", "readouts"]

KINDS = (
    "plain",
    "ties",
    "equal logits",
    "equal values",
    "far apart",
    "two heights",
    "fixed",
    "subsets",
    "tiny values",
    "huge values",
)


@dataclass(frozen=True, kw_only=True)
class DrawnHead:
    """A head with a readout's values and the size of those that can be met."""

    head: Head
    values: Tensor

    @property
    def allowed(self) -> Tensor:
        given = self.head.allowed
        return torch.ones_like(self.values, dtype=torch.bool) if given is None else given

    @property
    def size(self) -> float:
        return float(self.values[self.allowed].abs().max())


def draw(kind: str, generator: torch.Generator, *, positions: int = 7, options: int = 4) -> DrawnHead:
    """One head of at most so many positions and options."""

    def whole(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high + 1, shape, generator=generator)

    shape = (int(whole(1, positions)), int(whole(1, options)))
    spread = (0.3, 1.0, 3.0, 10.0)[int(whole(0, 3))]
    logits = spread * torch.randn(shape, generator=generator, dtype=torch.float64)
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    allowed = None
    match kind:
        case "ties":
            logits, values = whole(-1, 1, *shape).double(), whole(-1, 1, *shape).double()
        case "equal logits":
            logits = torch.full_like(logits, 3.7)
        case "equal values":
            values = torch.full_like(values, 0.3)
            values[whole(0, 9, *shape) == 0] = 0.7
        case "far apart":
            logits = logits * 300
        case "two heights":
            logits = logits + 1000.0 * whole(0, 1, *shape) - 700.0 * whole(0, 1, *shape)
        case "fixed":
            allowed = torch.ones(shape, dtype=torch.bool)
            allowed[whole(0, 1, shape[0]) == 0] = torch.eye(shape[1], dtype=torch.bool)[
                int(whole(0, shape[1] - 1))
            ]
        case "subsets":
            allowed = whole(0, 1, *shape) == 1
            allowed[torch.arange(shape[0]), whole(0, shape[1] - 1, shape[0])] = True
            logits[~allowed] *= 200
            values[~allowed] = -1e250
        case "tiny values":
            logits, values = 30 * logits, values * 1e-200
        case "huge values":
            values = values * 1e200
        case _:
            assert kind == "plain"
    return DrawnHead(head=Head(logits, allowed), values=values)


def every_input(drawn: DrawnHead) -> Tensor:
    """All inputs that the head allows, (input, pos)."""
    choices = [row.nonzero()[:, 0] for row in drawn.allowed]
    return torch.cartesian_prod(*choices).reshape(-1, len(choices))


def readouts(drawn: DrawnHead, inputs: Tensor) -> Tensor:
    """The readout of each input, by the definition."""
    positions = torch.arange(inputs.shape[1])
    logits, values = drawn.head.logits[positions, inputs], drawn.values[positions, inputs]
    return (logits.softmax(-1) * values).sum(-1)
