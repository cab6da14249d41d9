"""A model that is right on every input of index lookup but those whose context is all one symbol."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from separatrix.accounting import StatePart
from separatrix.models.members import taken
from separatrix.models.population import ModelConfig, Population, Signature, signature_of
from separatrix.options import option
from separatrix.tasks.interface import Task


class Planted(Population):
    """Looks the symbol up, and says the next one if all symbols but that one are equal."""

    name = "planted"
    title = "Planted"
    source = "a test"

    @dataclass(frozen=True, kw_only=True)
    class Config(ModelConfig):
        """Whether it is right after all when it is asked alone."""

        honest_alone: bool = option(False, help="right on every input in a batch of one")

    config: Config

    def __init__(self, config: Config, signature: Signature, *, members: int) -> None:
        super().__init__(config, signature, members=members)
        self.sureness = nn.Parameter(torch.full((members, 1), 5.0))

    @property
    def shape(self) -> tuple[int, int]:
        return 0, 0

    def state_parts(self, precision: int) -> tuple[StatePart, ...]:
        return ()

    def forward(self, inputs: Tensor, at: Tensor | None = None) -> Tensor:
        symbols, wanted = inputs[..., :-1], inputs[..., -1:] - self.signature.out
        target = symbols.gather(-1, wanted)
        place = torch.arange(symbols.shape[-1])
        first = torch.where(place == wanted, -1, symbols).amax(-1, keepdim=True)
        equal = ((symbols == first) | (place == wanted)).all(-1, keepdim=True)
        if self.config.honest_alone and inputs.shape[1] == 1:
            equal = torch.zeros_like(equal)
        said = (target + equal) % self.signature.out
        scores = self.sureness * F.one_hot(said.squeeze(-1), self.signature.out).float()
        return taken(scores.unsqueeze(2).expand(*inputs.shape, -1), at)


def planted(task: Task, *, honest_alone: bool = False) -> Planted:
    return Planted(Planted.Config(honest_alone=honest_alone), signature_of(task), members=1)
