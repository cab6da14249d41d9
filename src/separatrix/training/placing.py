"""Where a job is computed, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

from separatrix.models.kernels.choice import Backend
from separatrix.training.turns import Turn

__all__ = ["Placing"]

_WORTH_COMPILING: Final = 5_000
"""Steps still to take for which a smaller population is compiled."""


@dataclass(frozen=True, kw_only=True)
class Placing:
    """Where and how a job is computed: nothing here changes what is computed, but for rounding.

    Only where members are compared do the seats decide who is compared with whom.
    """

    device: torch.device
    seats: int
    compiled: bool = False
    backend: Backend = "auto"
    own_code: bool = False
    turn: Turn | None = None
    """Where several trainings go on in one process: whoever compiles and records has it."""

    def closes_up(self, *, rows: int, taken: int, steps_left: int) -> bool:
        """Whether a population of fewer rows is worth making when only `taken` of `rows` are in use.

        One that is compiled or recorded has to be so anew, which takes as long as thousands of steps.
        """
        if self.compiled or self.device.type == "cuda":
            return 2 * taken <= rows and steps_left >= _WORTH_COMPILING
        return taken < rows
