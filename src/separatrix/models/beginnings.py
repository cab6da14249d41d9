"""How weights begin, where an architecture lets one choose.

`published` is what the authors of an architecture wrote down. For GPT-2 that is one small deviation for all
maps and tables, made for widths ten times those of S: at width 64 the maps begin at a sixth of what keeps a
signal's size, and it takes thousands of steps until attention has anything to tell positions apart by.
`fan-in` begins the maps of attention and of feed-forward blocks as PyTorch does, uniform within ±1/√(inputs),
and tables with deviation 1/√width. The readout stays as it is: answers begin near even odds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from separatrix.models.laws import Law, normal, within
from separatrix.models.stack import StackConfig
from separatrix.options import option

__all__ = ["Beginning", "BegunConfig", "Initial"]

Initial = Literal["published", "fan-in"]
_GPT2 = 0.02


@dataclass(frozen=True)
class Beginning:
    """The laws of a stack's first weights, each map's from the number of its inputs."""

    table: float
    """Deviation of the token and the position table."""
    inward: Callable[[int], Law]
    back: Callable[[int], Law]
    """For maps that lead back into the stream."""


@dataclass(frozen=True, kw_only=True)
class BegunConfig(StackConfig):
    """That of a stack whose first weights are GPT-2's unless one chooses otherwise."""

    initial: Initial = option(
        "published",
        help="first weights: as the architecture was published, or by the number of a map's inputs",
        newer=True,
        begins=True,
    )

    def beginning(self, blocks: int) -> Beginning:
        """The laws of the first weights in a stack of so many blocks.

        GPT-2's are normal with deviation 0.02, those that lead back into the stream divided by √(2 · blocks).
        """
        if self.initial == "fan-in":
            return Beginning(1 / math.sqrt(self.width), within, within)
        law, last = normal(_GPT2), normal(_GPT2 / math.sqrt(2 * blocks))
        return Beginning(_GPT2, lambda _: law, lambda _: last)
