"""How a proof says that it did not go through."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Shaped
from torch import Tensor

__all__ = ["NotProved", "NotRun"]


class NotProved(Exception):
    """Why a statement about a model could not be proven, in one sentence; never shown as a verdict.

    `suspects` are inputs, rows of the task, on which the model may well be wrong: they are tried next.
    """

    def __init__(self, reason: str, suspects: Sequence[Shaped[Tensor, "pos *width"]] = ()) -> None:
        """Because of this."""
        super().__init__(reason)
        self.suspects = tuple(suspects)


class NotRun(Exception):
    """Some input was not run to its end, because a search was cut off: it is neither right nor wrong."""
