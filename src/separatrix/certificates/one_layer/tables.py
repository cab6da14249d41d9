"""What every option at every position does to the one position that is asked, as numbers.

With one layer, a position's weight and value depend on what stands there and on the question alone. All the
rest of an input is a choice of one option at each position, and the heads' outputs are

    o_h = Σ_t e^{s_h(t, option_t)} v_h(t, option_t) / Σ_t e^{s_h(t, option_t)}.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from separatrix.certificates.one_layer.form import OneLayer
from separatrix.certificates.questions import Question

__all__ = ["Tables", "tables_of"]


@final
@dataclass(frozen=True, eq=False)
class Tables:
    """Weights and values of the options of a question; weights are at most 1 in every head."""

    weights: Float[Tensor, "head pos option"]
    """e^(s − the head's greatest s)."""
    values: Float[Tensor, "head pos option part"]
    """Before the outward map."""
    own: Float[Tensor, "width"]
    """What the stream at the asked position is without attention: its own row, and the outward bias."""
    outward: Float[Tensor, "head part width"]

    @property
    def positions(self) -> int:
        """How many there are to attend to."""
        return self.weights.shape[1]

    def sums(
        self, options: Int[Tensor, "batch pos"]
    ) -> tuple[Float[Tensor, "batch head part"], Float[Tensor, "batch head"]]:
        """Numerators and denominators of the heads for these inputs."""
        place = torch.arange(self.positions, device=options.device)
        weights = self.weights[:, place, options]  # head batch pos
        values = self.values[:, place, options]
        return torch.einsum("hbt,hbtp->bhp", weights, values), weights.sum(2).T

    def middle(
        self, allowed: Bool[Tensor, "*lead pos option"]
    ) -> tuple[Float[Tensor, "*lead head part"], Float[Tensor, "*lead head"]]:
        """The same where all options that are allowed at a position are equally likely."""
        share = allowed.double() / allowed.sum(-1, keepdim=True)
        above = torch.einsum("...to,htop->...hp", share, self.weights.unsqueeze(3) * self.values)
        return above, torch.einsum("...to,hto->...h", share, self.weights)

    def stream(
        self, above: Float[Tensor, "batch head part"], below: Float[Tensor, "batch head"]
    ) -> Float[Tensor, "batch width"]:
        """The stream behind attention."""
        return self.own + torch.einsum("bhp,hpw->bw", above / below.unsqueeze(2), self.outward)


def tables_of(form: OneLayer, question: Question) -> Tables:
    """The tables of a question; a position behind the asked one counts only if the model looks ahead."""
    seen = question.asked + 1 if form.causal else question.length
    options = question.options[:seen].to(form.outward.device)
    x = form.read(options)
    own_option = int(question.regions[0].allowed[question.asked].int().argmax())
    normed = form.before(x)
    place = torch.arange(seen, device=x.device)
    key = torch.einsum("tow,hwp->htop", normed, form.key) + form.key_bias[:, None, None]
    value = torch.einsum("tow,hwp->htop", normed, form.value) + form.value_bias[:, None, None]
    asked = normed[question.asked, own_option]
    query = torch.einsum("w,hwp->hp", asked, form.query) + form.query_bias
    query = form.turned(query[:, None, None], place[question.asked : question.asked + 1])[:, 0, 0]
    scores = torch.einsum("hp,htop->hto", query, form.turned(key, place)) / math.sqrt(form.part)
    known = torch.stack([region.allowed[:seen] for region in question.regions]).any(0).to(x.device)
    greatest = scores.masked_fill(~known, -math.inf).amax((1, 2), keepdim=True)
    return Tables(
        weights=(scores - greatest).clamp_max(0).exp(),
        values=value,
        own=x[question.asked, own_option] + form.outward_bias,
        outward=form.outward,
    )
