"""What scores of classes cost and whether they choose rightly: −log softmax(s)_y, and whether y wins.

The class with the highest score wins, of several the first; where a score is no number the cost is none, and
nobody has won. Targets are classes: one that is none is refused, or on a GPU costs no number.

Scores of every position for every class are by far the largest thing that a small model with many labels
computes, so on a GPU each of them is read once.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from separatrix.models.kernels.choice import Backend, chosen

__all__ = ["OFFERS", "class_costs", "reference"]

OFFERS: tuple[Backend, ...] = ("reference", "parallel", "triton")
_MOST_CLASSES = 16384
"""More do not fit into a program's registers."""


def class_costs(
    scores: Float[Tensor, "*lead class"], targets: Int[Tensor, "*lead"], *, backend: Backend = "auto"
) -> tuple[Float[Tensor, "*lead"], Bool[Tensor, "*lead"]]:
    """The cost of each, in float64 where the scores are and else in float32, and whether it is right."""
    way = chosen(backend, scores, offers=OFFERS)
    if way == "triton" and (backend == "triton" or scores.shape[-1] <= _MOST_CLASSES):
        from separatrix.models.kernels import triton_class_scores  # noqa: PLC0415

        return triton_class_scores.class_costs(scores, targets)
    return reference(scores, targets)


def reference(
    scores: Float[Tensor, "*lead class"], targets: Int[Tensor, "*lead"]
) -> tuple[Float[Tensor, "*lead"], Bool[Tensor, "*lead"]]:
    """The definition, which is also the fastest that plain PyTorch has."""
    scores = scores if scores.dtype == torch.float64 else scores.float()
    costs = F.cross_entropy(scores.flatten(0, -2), targets.flatten(), reduction="none").view(targets.shape)
    return costs, (scores.argmax(-1) == targets) & ~costs.detach().isnan()
