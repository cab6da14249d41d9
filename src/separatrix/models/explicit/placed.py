"""What a token says, written at coordinates of its place: the embedding that keeps positions apart.

An embedding may be any function of token and position. This one is a small matrix for all places: its image
of the token's code stands in a block of coordinates that belongs to the place alone, and nothing is stored
for each place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import InvalidFile
from separatrix.models.explicit.linear import taken
from separatrix.models.explicit.positions import PositionRule, rule_from
from separatrix.records import JsonObject, Reader

__all__ = ["Placed", "placed_from"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Placed:
    """matrix·code(v) at coordinates start + rows·p … start + rows·p + rows − 1, p the number of the place.

    Places whose rule gives no number below `count` write nothing.
    """

    rule: PositionRule
    count: int
    start: int
    matrix: Float[Tensor, "rows dim"]

    @property
    def end(self) -> int:
        """The coordinate behind the last block."""
        return self.start + self.count * self.matrix.shape[0]

    def rows(
        self,
        codes: Float[Tensor, "chosen dim"],
        places: Int[Tensor, "chosen"],
        lengths: Int[Tensor, "chosen"],
        *,
        width: int,
    ) -> Float[Tensor, "chosen width"]:
        """The vectors, 0 outside the place's own block."""
        image = codes @ self.matrix.T.to(codes.device)
        numbers = self.rule.numbers(places.unsqueeze(1), lengths.unsqueeze(1))
        inside = (numbers >= 0) & (numbers < self.count)
        size = self.matrix.shape[0]
        block = numbers.clamp(0, self.count - 1) * size + torch.arange(size, device=codes.device)
        vectors = codes.new_zeros(len(codes), width)
        return vectors.scatter_(1, self.start + block, image * inside)

    def spec(self) -> JsonObject:
        """The rule, how many places have a block, how large it is, and where the first one starts."""
        return {
            "rule": self.rule.spec(),
            "count": self.count,
            "start": self.start,
            "rows": self.matrix.shape[0],
        }


def placed_from(data: object, tensors: dict[str, Tensor], name: str, *, dim: int, width: int) -> Placed:
    """What a file describes; its matrix is removed from `tensors`."""
    read = Reader(data, what="what a class of tokens writes at coordinates of its place")
    rule = rule_from(read.value("rule"), what="the rule of the places")
    count, start, rows = (read.count(field) for field in ("count", "start", "rows"))
    read.finish()
    if not 1 <= count <= width or not 1 <= rows <= width or start + count * rows > width:
        raise InvalidFile(
            f"Blocks of {rows} coordinates for {count} places from coordinate {start} on do not fit into a "
            f"stream of width {width}."
        )
    return Placed(rule=rule, count=count, start=start, matrix=taken(tensors, name, rows, dim))
