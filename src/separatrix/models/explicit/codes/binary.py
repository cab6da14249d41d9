"""The cheapest addresses: a number's own binary digits as signs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.models.explicit.codes._common import (
    LARGEST_COUNT,
    absolute_coherence,
    bits_for,
    require_between,
    whole_numbers,
    zero_outside,
)
from separatrix.models.explicit.codes.interface import SignCode
from separatrix.records import JsonObject

__all__ = ["Binary"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Binary(SignCode):
    """Digit j of the number at coordinate j, a 0 as −1 and a 1 as +1.

    k = ⌈log2 count⌉ coordinates are the fewest that signs can do with, and neighbours differ in one place
    only: γ = 1 − 2/k.
    """

    kind: ClassVar[str] = "binary"
    count: int = field()

    def __post_init__(self) -> None:
        require_between("A binary code", least=0, most=LARGEST_COUNT, count=self.count)

    @property
    def dim(self) -> int:
        """Digits of the largest number, at least one."""
        return max(1, bits_for(self.count))

    @property
    def parameters(self) -> int:
        """Nothing is stored."""
        return 0

    def rows(self, numbers: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
        """The digits as signs, the lowest first."""
        wide, inside = whole_numbers(numbers, self.count)
        places = torch.arange(self.dim, device=wide.device)
        digits = (wide.unsqueeze(-1) >> places) & 1
        return zero_outside((2 * digits - 1).to(torch.float64), inside)

    def distances(self) -> Mapping[int, int]:
        """C(k, w) words differ from a given one in w digits; fewer are used where count is no power of 2."""
        if self.count < 2:
            return MappingProxyType({})
        return MappingProxyType({places: math.comb(self.dim, places) for places in range(1, self.dim + 1)})

    @property
    def absolute_coherence(self) -> Fraction:
        """The largest |⟨u, v⟩| / dim of two different words: 1, as some number's complement is used too."""
        return absolute_coherence(self.distances(), self.dim)

    def spec(self) -> JsonObject:
        """Its count."""
        return {"kind": self.kind, "count": self.count}
