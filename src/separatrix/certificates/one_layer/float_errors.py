"""What floats do to a model: how far each of its results can be from the one in real numbers.

Where it can be told as a change of something earlier, it is, since that costs less than following it to the
end: scores that are off by ε are weights that are off by a factor of at most e^ε, which the bounds let every
option choose for itself, and a stream that is off by so much is one more thing they choose. The rest is what
one step adds: the roundings of a norm, of the map's units, of the readout.

Roundings may come in any order of summation and any association, since a model may form ⟨x, W q⟩ where
another forms ⟨W x, q⟩; there sizes are sums of absolute values. A variance may be computed in one pass or in
two. Products of errors are covered by `_SECOND`. All of it holds for every input of a region.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.certificates.one_layer.form import Map, Norm, OneLayer
from separatrix.certificates.one_layer.relaxations import STEEPEST, Interval, image
from separatrix.certificates.one_layer.tables import Tables
from separatrix.certificates.questions import Question, Requirements

__all__ = ["ASSUMED", "ROUNDING", "FloatErrors", "Reach"]

ROUNDING: Final = {"float32": 2.0**-24, "float64": 2.0**-53}
"""By how much of itself a result may be rounded."""
ASSUMED: Final = (
    "products and sums are IEEE operations in any order, none of them in a shorter format (no TF32)",
    "exp and tanh are within 8 units in the last place, powers, sines and cosines within 2",
    "no product is so small that it is lost",
)
_SECOND: Final = 1.05
"""Room for products of two errors; each is below 2 % where a bound is given at all."""
_LARGEST: Final = 0.02
_SQUARED_AT_MOST: Final = 2.0**56
"""Numbers below this can be squared and added up in float32; where one may not be, there is no bound."""


@final
@dataclass(frozen=True, eq=False)
class Reach:
    """What is known of the streams of a region: numbers at most so large, lengths at least so short."""

    largest: Float[Tensor, "width"]
    shortest: Float[Tensor, ""]
    largest_behind: Float[Tensor, "width"]
    shortest_behind: Float[Tensor, ""]
    gate: Interval
    value: Interval | None


@final
@dataclass(frozen=True, eq=False)
class _Normed:
    """The errors behind a norm: all numbers but the shift scaled by 1 + `common`, a multiple `shift` of
    `along` added, and `single`, number by number."""

    common: Tensor
    shift: Tensor
    along: Tensor
    single: Tensor

    def through(self, image: Tensor, weight: Float[Tensor, "width out"]) -> Float[Tensor, "*lead out"]:
        """Behind a further linear map, whose image of what the common factor scales is `image`."""
        moved = self.common * image.abs() + self.shift * (self.along @ weight).abs()
        found: Tensor = moved + self.single @ weight.abs()
        return found


@final
class FloatErrors:
    """The errors of one question, in floats that round by `unit`."""

    def __init__(self, form: OneLayer, question: Question, tables: Tables, *, unit: float) -> None:
        self.form, self.unit = form, unit
        seen, device = tables.positions, tables.weights.device
        known = torch.stack([region.allowed[:seen] for region in question.regions]).any(0).to(device)
        own = int(known[question.asked].int().argmax())
        options = question.options[:seen].to(device)
        x, sizes = form.read(options), form.read_sizes(options)
        # A row of a table is what it is; numbers are multiplied and added up.
        off = 2 * unit * x.abs() if form.reals is None else self._grown(len(form.reals.weight) + 3) * sizes
        self._rows = _Row.of(form.before, x[known], off[known], self)
        self._asked = _Row.of(form.before, x[question.asked, own], off[question.asked, own], self)
        positions = tables.positions
        self.scores: Float[Tensor, "head"] = torch.stack(
            [self._scores(head, positions) for head in range(form.heads)]
        )
        """How far the logarithm of a weight may be off."""
        self.stream: Float[Tensor, "width"] = (
            sum((self._values(head, positions) for head in range(form.heads)), torch.zeros_like(tables.own))
            + off[question.asked, own]
            + self._grown(4 + form.heads) * (x[question.asked, own].abs() + form.outward_bias.abs())
        ) * _SECOND
        """How far the stream behind attention may be off besides."""

    def _grown(self, terms: int) -> float:
        return terms * self.unit / (1 - terms * self.unit)

    def normed(
        self,
        norm: Norm,
        size: Float[Tensor, "*lead width"],
        length: Float[Tensor, "*lead"],
        off: Float[Tensor, "*lead width"] | None = None,
    ) -> _Normed:
        """Of a vector with numbers up to `size`, themselves `off` so much, divided by at least `length`."""
        width, scale = norm.width, math.sqrt(norm.width)
        length = length.unsqueeze(-1)
        mean = size.mean(-1, keepdim=True) if norm.centred else torch.zeros_like(length)
        shift = self._grown(width + 2) * mean
        single = 3 * self.unit * (size + mean)
        if off is not None:
            single = single + off + (off.mean(-1, keepdim=True) if norm.centred else 0)
        ratio = 1 + (size.norm(dim=-1, keepdim=True) / length).square()
        common = (single.norm(dim=-1, keepdim=True) + scale * shift) / length
        common = common + self._grown(2 * width + 16) * ratio
        whole = scale * torch.minimum(size + mean, length) / length * norm.weight.abs()
        return _Normed(
            common=_bounded(torch.where(common < _LARGEST, common, torch.inf), size.amax(-1, keepdim=True)),
            shift=shift * scale / length,
            along=norm.weight,
            single=scale * norm.weight.abs() * single / length + 6 * self.unit * (whole + norm.bias.abs()),
        )

    def _scores(self, head: int, positions: int) -> Float[Tensor, ""]:
        form, norm, grown = self.form, self.form.before, self._grown
        rows, asked, part = self._rows, self._asked, form.part
        to_key, to_query = form.key[head], form.query[head]
        key = rows.value @ to_key + form.key_bias[head]
        query = asked.value @ to_query + form.query_bias[head]
        sizes = asked.value.abs() @ to_query.abs() + form.query_bias[head].abs()
        heavy = rows.value.abs() @ to_key.abs() + form.key_bias[head].abs()
        key_off = rows.errors.through((rows.value - norm.bias) @ to_key, to_key)
        query_off = asked.errors.through((asked.value - norm.bias) @ to_query, to_query)
        if form.rotary:
            # Turned apart, so that nothing cancels between a key and a query, and each number of a pair
            # meets both of the other's. The angles are products with a power, off by some of their parts.
            key, query, heavy, sizes = (_paired(each) for each in (key, query, heavy, sizes))
            key_off, query_off = _paired(key_off), _paired(query_off)
            moved = key_off @ query + key @ query_off + 12 * (positions + 16) * self.unit * (key @ query)
        else:
            wanted = to_key @ query
            image = ((rows.value - norm.bias) @ wanted).unsqueeze(1)
            moved = rows.errors.through(image, wanted.unsqueeze(1)).squeeze(1)
            back = key @ to_query.T
            moved = moved + asked.errors.common * (back @ (asked.value - norm.bias)).abs()
            moved = moved + asked.errors.shift * (back @ norm.weight).abs() + back.abs() @ asked.errors.single
        summed = grown(norm.width + part + 10) * (heavy @ query.abs())
        summed = summed + grown(norm.width + 3) * (key.abs() @ sizes)
        size = key.abs() @ query.abs()
        worst = moved + key_off @ query_off + 2 * summed + 4 * self.unit * size
        worst = worst.amax() / math.sqrt(part) * _SECOND
        return _bounded(worst + 2 * grown(positions + 16), torch.maximum(heavy.amax(), sizes.amax()))

    def _values(self, head: int, positions: int) -> Float[Tensor, "width"]:
        form, rows = self.form, self._rows
        onto = form.value[head] @ form.outward[head]
        brought = rows.errors.through((rows.value - form.before.bias) @ onto, onto).amax(0)
        sizes = (rows.value.abs() @ form.value[head].abs() + form.value_bias[head].abs()).amax(0)
        terms = 2 * form.before.width + form.part + positions + 16
        outward = sizes @ form.outward[head].abs()
        return _bounded(brought + self._grown(terms) * outward, torch.maximum(outward, sizes.amax()))

    def units(self, reach: Reach) -> Float[Tensor, "unit"]:
        """Of every unit of the map, given the stream."""
        norm, forward = self.form.second, self.form.feed_forward
        rows = self.normed(norm, reach.largest, reach.shortest)
        normed = _largest(norm, reach.largest, reach.shortest)

        def entering(known: Map, between: Interval) -> tuple[Tensor, Tensor]:
            shifted = norm.bias @ known.weight + known.bias
            image = torch.maximum((between.low - shifted).abs(), (between.high - shifted).abs())
            sizes = normed @ known.weight.abs() + known.bias.abs()
            error = rows.through(image, known.weight) + self._grown(norm.width + 3) * sizes
            size = torch.maximum(between.low.abs(), between.high.abs())
            return size, _bounded(error * _SECOND, sizes)

        size, error = entering(forward.up, reach.gate)
        error = STEEPEST * error + 24 * self.unit * size
        if forward.value is None:
            return error
        assert reach.value is not None
        plain = image(forward.activation, reach.gate, None)
        other, off = entering(forward.value, reach.value)
        most = torch.maximum(plain.low.abs(), plain.high.abs())
        return error * other + most * off + error * off + 2 * self.unit * (most + error) * (other + off)

    def behind(self, reach: Reach) -> Float[Tensor, "width"]:
        """Of the stream behind the map, given its units."""
        forward = self.form.feed_forward
        unit = image(forward.activation, reach.gate, reach.value)
        inner = torch.maximum(unit.low.abs(), unit.high.abs()) + self.units(reach)
        sizes = inner @ forward.down.weight.abs() + forward.down.bias.abs()
        error = self._grown(len(forward.down.weight) + 4) * sizes + 2 * self.unit * reach.largest_behind
        return _bounded(error, torch.maximum(sizes, inner.amax()))

    def outputs(self, required: Requirements, reach: Reach) -> Float[Tensor, "rival"]:
        """Of what is required of the outputs, given the stream behind the map, rival by rival."""
        last, readout = self.form.last, self.form.readout
        rows = self.normed(last, reach.largest_behind, reach.shortest_behind)
        directions = required.directions.to(readout.weight.device)
        weights = readout.weight @ directions.T
        # What is normalised has length √width, whatever it is.
        lengths = math.sqrt(last.width) * last.centre((last.weight.unsqueeze(1) * weights).T).norm(dim=1)
        sizes = _largest(last, reach.largest_behind, reach.shortest_behind) @ readout.weight.abs()
        rounded = self._grown(last.width + 4) * ((sizes + readout.bias.abs()) @ directions.abs().T)
        # An answer that is a vector is held against the right one in floats too.
        offsets = required.offsets.to(rounded.device).abs()
        compared = self._grown(len(readout.bias) + 8) * (offsets.amax() if len(offsets) else 0.0)
        found = (rows.through(lengths, weights) + rounded + compared) * _SECOND
        return _bounded(found, sizes.amax())


@final
@dataclass(frozen=True, eq=False)
class _Row:
    """What stands behind the first norm, and its errors."""

    value: Float[Tensor, "*lead width"]
    errors: _Normed

    @classmethod
    def of(
        cls,
        norm: Norm,
        x: Float[Tensor, "*lead width"],
        off: Float[Tensor, "*lead width"],
        within: FloatErrors,
    ) -> _Row:
        return cls(norm(x), within.normed(norm, x.abs(), norm.length(x), off))


def _bounded(error: Float[Tensor, "*lead"], size: Float[Tensor, "*lead"]) -> Float[Tensor, "*lead"]:
    """The error where nothing overflows; without a bound where numbers up to `size` may."""
    return torch.where(size < _SQUARED_AT_MOST, error, torch.inf)


def _paired(x: Float[Tensor, "*lead part"]) -> Float[Tensor, "*lead pair"]:
    """At least the lengths of the pairs that are turned together."""
    first, second = x.abs().chunk(2, dim=-1)
    return first + second


def _largest(norm: Norm, size: Float[Tensor, "width"], length: Float[Tensor, ""]) -> Float[Tensor, "width"]:
    """What a norm makes of numbers up to `size` whose length is at least so much."""
    whole = size + size.mean() if norm.centred else size
    share = torch.minimum(whole / length, torch.ones_like(size))
    return math.sqrt(norm.width) * share * norm.weight.abs() + norm.bias.abs()
