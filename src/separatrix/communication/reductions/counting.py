"""INDEX in counting: the symbol at a place is how often that place's token occurs (W-4.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.communication.problems import Index
from separatrix.communication.reductions.interface import Reduction, places
from separatrix.tasks.counting import Counting

__all__ = ["IndexToCounting"]


@final
@dataclass(frozen=True, kw_only=True)
class IndexToCounting(Reduction[Counting]):
    """Token i of the first N occurs x_i times, and the last token of the alphabet fills what is left.

    N = min(n, alphabet − 1), and each place of Alice's string has room for r = ⌊n/N⌋ tokens, so her symbols
    run from 0 to r. "Does token y occur more than t times?" for t = 0 … r − 1 has x_y times the answer yes.
    With an alphabet larger than n that is one question about one bit, as W has it.
    """

    problem_name: ClassVar[str] = Index.name
    task_name: ClassVar[str] = Counting.name
    size: ClassVar[str] = "N = min(n, |Σ| − 1) symbols of an alphabet of ⌊n/N⌋ + 1"
    reads: ClassVar[str] = "the label at the threshold, in each row: how many say yes"

    def validate(self) -> None:
        """Every such task has two tokens and a place."""

    @property
    def problem(self) -> Index:
        """A symbol for each token but one."""
        return Index(n=self._places, alphabet=self.asks + 1)

    @property
    def split(self) -> str:
        """The sequence is Alice's, the query is Bob's."""
        return "prefix/suffix"

    @property
    def asks(self) -> int:
        """A row for each threshold."""
        return self.task.n // self._places

    @property
    def _places(self) -> int:
        return min(self.task.n, self.task.alphabet - 1)

    def alice(self, x: Int[Tensor, "batch alice_place"]) -> Int[Tensor, "batch alice_pos"]:
        """In the room of place i its token x_i times, then filler."""
        filler = self.task.alphabet - 1
        taken = places(self.asks, x) < x.unsqueeze(2)
        tokens = torch.where(taken, places(self._places, x).unsqueeze(1), filler).flatten(1)
        return torch.nn.functional.pad(tokens, (0, self.task.n - tokens.shape[1]), value=filler)

    def bob(self, y: Int[Tensor, "batch 1"]) -> Int[Tensor, "batch ask 2"]:
        """Token y with each threshold."""
        thresholds = (places(self.asks, y) + self.task.alphabet).expand(len(y), -1)
        return torch.stack([y.expand_as(thresholds), thresholds], dim=2)

    def read(self, targets: Int[Tensor, "batch ask pos"], y: Int[Tensor, "batch 1"]) -> Int[Tensor, "batch"]:
        """How many thresholds are passed."""
        return targets[:, :, self.task.n + 1].sum(1)
