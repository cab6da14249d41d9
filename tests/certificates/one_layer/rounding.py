"""A machine that rounds as badly as it may: every operation off by all that floats allow, in signs at will.

Float32 itself rounds up and down by turns, so that a sum of many terms is off by far less than it could be.
Here a sum of k terms is off by k units of its terms' sizes, and all errors may have one sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from separatrix.certificates.one_layer.form import Norm, OneLayer, activated


@final
@dataclass
class BadMachine:
    """The stages of a model, in float64 with errors put in."""

    form: OneLayer
    unit: float
    dice: torch.Generator

    def signs(self, like: Tensor) -> Tensor:
        """All alike, or each its own."""
        kind = int(torch.randint(4, (), generator=self.dice))
        if kind < 2:
            return torch.full_like(like, 1.0 if kind else -1.0)
        return torch.randint(0, 2, like.shape, generator=self.dice).double() * 2 - 1

    def rounded(self, x: Tensor, times: float = 1) -> Tensor:
        return x * (1 + times * self.unit * self.signs(x))

    def product(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        size = x.abs() @ weight.abs()
        found = x @ weight
        found = found + weight.shape[-2] * self.unit * self.signs(found) * size
        return found if bias is None else self.rounded(found + bias)

    def summed(self, terms: Tensor) -> Tensor:
        """Over the last axis."""
        total = terms.sum(-1)
        return total + terms.shape[-1] * self.unit * self.signs(total) * terms.abs().sum(-1)

    def norm(self, norm: Norm, x: Tensor) -> Tensor:
        mean = self.rounded(self.summed(x) / norm.width).unsqueeze(-1) if norm.centred else 0 * x[..., :1]
        centred = self.rounded(x - mean)
        if norm.centred and bool(torch.randint(2, (), generator=self.dice)):  # in one pass
            square = self.rounded(self.summed(x.square()) / norm.width)
            variance = self.rounded(square - self.rounded(mean.squeeze(-1).square())).clamp_min(0)
        else:
            variance = self.rounded(self.summed(self.rounded(centred.square())) / norm.width)
        scale = self.rounded(1 / self.rounded(variance + norm.epsilon).sqrt(), 3).unsqueeze(-1)
        return self.rounded(self.rounded(self.rounded(centred * scale) * norm.weight) + norm.bias)

    def read(self, options: Tensor) -> Tensor:
        """Rows of the stream, one option at each position."""
        form = self.form
        if form.table is not None:
            x = form.table[options]
        else:
            assert form.reals is not None
            x = self.product(options.double(), form.reals.weight, form.reals.bias)
        return x if form.places is None else self.rounded(x + form.places[: len(x)])

    def turned(self, x: Tensor, place: Tensor) -> Tensor:
        if not self.form.rotary:
            return x
        half = x.shape[-1] // 2
        power = self.rounded(10000.0 ** (-torch.arange(half, dtype=torch.float64) / half), 4)
        angle = self.rounded(place.double().unsqueeze(1) * power)
        cosine, sine = self.rounded(angle.cos(), 4), self.rounded(angle.sin(), 4)
        first, second = x[..., :half], x[..., half:]
        return torch.cat(
            [
                self.rounded(self.rounded(first * cosine) - self.rounded(second * sine)),
                self.rounded(self.rounded(first * sine) + self.rounded(second * cosine)),
            ],
            -1,
        )

    def attended(self, x: Tensor, asked: int) -> tuple[Tensor, Tensor]:
        """The scores, (pos, head), and the stream behind attention at the position asked."""
        form, place = self.form, torch.arange(len(x))
        rows = self.norm(form.before, x)
        scores, mixed = [], []
        for head in range(form.heads):
            query = self.product(rows[asked : asked + 1], form.query[head], form.query_bias[head])
            key = self.product(rows, form.key[head], form.key_bias[head])
            value = self.product(rows, form.value[head], form.value_bias[head])
            query, key = self.turned(query, place[asked : asked + 1]), self.turned(key, place)
            score = self.rounded(self.product(key, query.T).squeeze(1) / math.sqrt(form.part), 2)
            scores.append(score)
            weights = self.rounded(self.rounded(score - score.max()).exp(), 16)
            weights = self.rounded(weights / self.summed(weights))
            mixed.append(self.summed((weights.unsqueeze(1) * value).T))
        outward = form.outward.flatten(0, 1)
        attended = self.product(torch.cat(mixed).unsqueeze(0), outward, form.outward_bias)[0]
        return torch.stack(scores, 1), self.rounded(x[asked] + attended)

    def units(self, stream: Tensor) -> Tensor:
        forward = self.form.feed_forward
        normed = self.norm(self.form.second, stream).unsqueeze(0)
        gate = self.product(normed, forward.up.weight, forward.up.bias)
        inner = activated(forward.activation, gate)
        inner = inner + 16 * self.unit * self.signs(gate) * gate.abs()
        if forward.value is None:
            return inner[0]
        return self.rounded(inner * self.product(normed, forward.value.weight, forward.value.bias))[0]

    def behind(self, stream: Tensor, units: Tensor) -> Tensor:
        down = self.form.feed_forward.down
        return self.rounded(stream + self.product(units.unsqueeze(0), down.weight, down.bias)[0])

    def answers(self, z: Tensor) -> Tensor:
        normed = self.norm(self.form.last, z).unsqueeze(0)
        return self.product(normed, self.form.readout.weight, self.form.readout.bias)[0]
