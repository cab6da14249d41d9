"""Where a model with one layer looks on one input: each head's weight on every position."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from separatrix.certificates.one_layer.form import form_of
from separatrix.certificates.one_layer.tables import tables_of
from separatrix.certificates.questions import Question, Region, Requirements
from separatrix.models.population import Population

__all__ = ["attention_of"]


def attention_of(
    population: Population, row: Shaped[Tensor, "pos *width"], asked: int
) -> Float[Tensor, "head pos"]:
    """The weights with which every head of the one layer reads, at the position asked; each adds up to 1."""
    options = row.unsqueeze(1)
    nothing = Requirements(torch.zeros(0, 1, dtype=torch.float64), torch.zeros(0, dtype=torch.float64))
    alone = torch.ones(len(row), 1, dtype=torch.bool)
    only = Region(target="this input", allowed=alone, requirements=nothing)
    question = Question(query="this input", asked=asked, options=options, regions=(only,))
    weights = tables_of(form_of(population), question).weights.squeeze(2)
    return weights / weights.sum(1, keepdim=True)
