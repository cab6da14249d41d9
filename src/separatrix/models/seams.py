"""Two inputs in one row: the second begins where the first has ended, and must not see it.

Where lengths are drawn, a long input beside a short one fills a row without padding. A model that can keep
them apart says how many positions it needs between them, its `seam`. Those belong to nobody: whatever a mixer
reads there it makes into forgetting, or leaves out of its sums. So each input is answered as it is in a row
of its own, and what is between has no gradient.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

__all__ = ["between", "places_in"]


def between(
    begins: Int[Tensor, "member batch"], seam: int, positions: int
) -> Bool[Tensor, "member batch pos one"]:
    """The last `seam` positions before each second input, with an axis for what is there."""
    place = torch.arange(positions, device=begins.device)
    start = begins.unsqueeze(-1)
    return ((place >= start - seam) & (place < start)).unsqueeze(-1)


def places_in(begins: Int[Tensor, "member batch"], positions: int) -> Int[Tensor, "member batch pos"]:
    """How many positions of its own input stand before each; in the seam it goes on counting the first's."""
    place = torch.arange(positions, device=begins.device)
    start = begins.unsqueeze(-1)
    return torch.where(place >= start, place - start, place)
