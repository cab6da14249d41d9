"""How far every answer of a region is, at least, from being wrong.

Behind attention the model is y ↦ z = y + map(norm(y)), then the last norm and the readout, and the answer is
right if r · output + offset > 0 for every rival. Step by step this becomes a linear function of y, whose
least value over all inputs `Contexts` knows:

- The last norm divides by a length n_z > 0, so the sign is that of g · z + c · n_z with a small c. A length
  is convex: the tangent plane at the centre is below it, and at most ρ²/(2 n_z) below, ρ being the farthest
  that an input takes the vector from the centre.
- Every unit of the map lies between two planes of what comes in (`relaxations`).
- What comes in is T(y)/n, a linear function over the length of y. With τ = T/n at the centre it is
  τ + (T − τ n)/n; the bracket is linear up to the same ρ²/(2 n), and 1/n is between two numbers, of which the
  worse one counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, final

import torch
from jaxtyping import Float
from torch import Tensor

from separatrix.certificates.one_layer.contexts import Contexts
from separatrix.certificates.one_layer.float_errors import FloatErrors, Reach
from separatrix.certificates.one_layer.form import Map, Norm, OneLayer, activated
from separatrix.certificates.one_layer.relaxations import Interval, image, planes, tail_slack
from separatrix.certificates.questions import Requirements

__all__ = ["Bounds", "Bracket"]

_LOOSE: Final = 0.25
"""A distance from the centre, as a part of the length there, that is worth a closer look."""
_SLACK: Final = 2.0**-38
"""What float64 may have moved a bound by, as a part of the sizes of its terms; each is a sum of fewer than
2^11 products, a few of them one after another."""


@final
@dataclass(frozen=True, eq=False)
class _Length:
    """The length of a vector near a centre: between `tangent` and `tangent + bend`, a plane of the vector."""

    centre: Float[Tensor, "width"]
    slope: Float[Tensor, "width"]
    here: Float[Tensor, ""]
    bend: Float[Tensor, ""]

    size: Float[Tensor, ""]
    """What the plane adds up for any vector of a region, in absolute values."""

    @property
    def rest(self) -> Float[Tensor, ""]:
        """The plane at 0."""
        return self.here - self.slope @ self.centre


def _length(
    norm: Norm, centre: Float[Tensor, "width"], farthest: Float[Tensor, ""], largest: Float[Tensor, "width"]
) -> _Length:
    here = norm.length(centre)
    slope = norm.centre(centre) / here
    bend = farthest.square() / (2 * here) * (1 + _SLACK)
    return _Length(centre, slope, here, bend, here + slope.abs() @ (centre.abs() + largest))


@final
@dataclass(frozen=True, eq=False)
class Bracket:
    """What is known of a region before its rivals are looked at."""

    number: int
    centre: Float[Tensor, "width"]
    length: _Length
    shortest: Float[Tensor, ""]
    longest: Float[Tensor, ""]
    farthest: Float[Tensor, ""]
    """From the centre, as far as the norm sees it."""
    spread: Float[Tensor, ""]
    """From the centre in all."""
    gate: Interval
    value: Interval | None
    gate_size: Float[Tensor, "unit"]
    """What is added up for a unit's argument, in absolute values."""
    value_size: Float[Tensor, "unit"]

    @property
    def largest(self) -> Float[Tensor, "width"]:
        """What the stream's numbers are at most."""
        return self.centre.abs() + self.spread


@final
class Bounds:
    """Bounds for the regions of one question."""

    def __init__(self, form: OneLayer, contexts: Contexts, errors: FloatErrors | None = None) -> None:
        """Without `errors`, of the model in real numbers."""
        self.form, self.contexts, self.errors = form, contexts, errors
        norm, forward = form.second, form.feed_forward
        self.gate = _behind(norm, forward.up)
        self.value = None if forward.value is None else _behind(norm, forward.value)
        self.gate_sizes = _behind_sizes(norm, forward.up)
        self.value_sizes = None if forward.value is None else _behind_sizes(norm, forward.value)
        width = norm.width
        eye = torch.eye(width, dtype=torch.float64, device=form.outward.device)
        self.onto = norm.centre(eye)
        directions = [self.gate.weight.T, *([] if self.value is None else [self.value.weight.T]), self.onto]
        self.centres = contexts.centres()
        self.low, self.high = contexts.ranges(torch.cat(directions))

    def bracket(self, number: int) -> Bracket:
        """Intervals of a region, from the ranges that its question shares."""
        norm, centre = self.form.second, self.centres[number]
        units = self.gate.weight.shape[1]
        low, high = self.low[number], self.high[number]
        width = norm.width
        middle = norm.centre(centre)
        off = torch.maximum(high[-width:] - middle, middle - low[-width:]).clamp_min(0)
        seen_far = self.contexts.farthest(number, centre, self.onto)
        farthest = torch.minimum(off.norm(), seen_far) * (1 + _SLACK) + _SLACK * centre.norm()
        spread = self._far(number, centre, centred=False) if norm.centred else seen_far
        largest = centre.abs() + spread
        length = _length(norm, centre, farthest, largest)
        ends = self.contexts.least(number, torch.stack([length.slope, -length.slope]))
        least = math.sqrt(width * norm.epsilon)
        slack = _SLACK * length.size
        shortest = (ends[0] + length.rest - slack).clamp_min(least) * (1 - _SLACK)
        longest = torch.minimum(-ends[1] + length.rest + length.bend, length.here + farthest) + slack
        scale = math.sqrt(width)

        def behind(part: slice, known: Map, sizes: Map) -> tuple[Interval, Float[Tensor, "unit"]]:
            each = torch.stack(
                [scale * end / size for end in (low[part], high[part]) for size in (shortest, longest)]
            )
            whole = scale * sizes(largest / shortest)
            slack = _SLACK * (each.abs().amax(0) + whole)
            return Interval(each.amin(0) + known.bias - slack, each.amax(0) + known.bias + slack), whole

        gate, gate_size = behind(slice(0, units), self.gate, self.gate_sizes)
        value, value_size = None, torch.zeros_like(gate_size)
        if self.value is not None:
            assert self.value_sizes is not None
            value, value_size = behind(slice(units, 2 * units), self.value, self.value_sizes)
        return Bracket(
            number=number,
            centre=centre,
            length=length,
            shortest=shortest,
            longest=longest,
            farthest=farthest,
            spread=spread,
            gate=gate,
            value=value,
            gate_size=gate_size,
            value_size=value_size,
        )

    def sharpened(self, known: Bracket) -> Bracket:
        """Units once more, for this region alone, with the length in step with what it divides."""

        def again(part: Map, old: Interval, size: Float[Tensor, "unit"]) -> Interval:
            scale = math.sqrt(self.form.second.width)
            here = scale * (known.centre @ part.weight) / known.length.here
            directions = scale * part.weight.T - here.unsqueeze(1) * known.length.slope
            rest = here * known.length.rest
            bend = known.length.bend
            # u ≥ here + F/n, where F = least of (scale · t − here · n) and n is the end that makes it worse.
            low = self.contexts.least(known.number, directions) - rest - here.clamp_min(0) * bend
            high = -self.contexts.least(known.number, -directions) - rest - here.clamp_max(0) * bend
            low = torch.where(low < 0, low / known.shortest, low / known.longest)
            high = torch.where(high > 0, high / known.shortest, high / known.longest)
            slack = _SLACK * (size + low.abs() + high.abs() + here.abs() * known.length.size / known.shortest)
            return Interval(
                torch.maximum(old.low, here + low + part.bias - slack),
                torch.minimum(old.high, here + high + part.bias + slack),
            )

        value = None
        if self.value is not None:
            assert known.value is not None
            value = again(self.value, known.value, known.value_size)
        return replace(known, gate=again(self.gate, known.gate, known.gate_size), value=value)

    def margins(
        self, known: Bracket, required: Requirements, *, closer: bool = False
    ) -> Float[Tensor, "rival"]:
        """A bound from below of r · output + offset for every rival; where not positive, an estimate.

        `closer` takes the heads jointly, and bounds every number of the stream behind the map.
        """
        form, last = self.form, self.form.last
        device, scale = known.centre.device, math.sqrt(last.width)
        rivals, offsets = required.directions.to(device), required.offsets.to(device)
        readout = rivals @ form.readout.weight.T
        outward = last.centre(readout * last.weight)
        constant = readout @ last.bias + rivals @ form.readout.bias + offsets
        z, far = self._behind_map(known)
        reach = self._reach(known, z)
        if closer and float(far) > _LOOSE * float(last.length(z)):
            far = torch.minimum(far, self._box(known, z, reach))
        largest = reach.largest_behind
        length = _length(last, z, far, largest)
        # How short and how long the stream behind the map can be, by its tangent plane.
        ends = self._least(known, torch.stack([length.slope, -length.slope]), reach)
        least = math.sqrt(last.width * last.epsilon)
        slack = _SLACK * length.size
        shortest = torch.maximum(ends[0] + length.rest, length.here - far) - slack
        shortest = shortest.clamp_min(least) * (1 - _SLACK)
        longest = torch.minimum(length.rest - ends[1] + length.bend, length.here + far) + slack

        tilted = outward + (constant / scale).unsqueeze(1) * length.slope
        rest = (constant * length.rest + constant.clamp_max(0) * length.bend) / scale
        found = self._least(known, tilted, reach, jointly=closer) + rest
        sizes = rivals.abs() @ form.readout.weight.abs().T
        added = sizes @ last.bias.abs() + rivals.abs() @ form.readout.bias.abs() + offsets.abs()
        sizes = _centred_sizes(last, sizes * last.weight.abs())
        found = found - _SLACK * (sizes @ largest + added * (longest + length.size) / scale)
        lead = torch.where(found > 0, found * scale / longest, found * scale / length.here)
        if self.errors is None:
            return lead
        behind = replace(reach, shortest_behind=shortest)
        return lead - self.errors.outputs(required, behind)

    def _box(self, known: Bracket, z: Float[Tensor, "width"], reach: Reach) -> Float[Tensor, ""]:
        """How far an input may take the stream behind the map from z, by bounds of every number of it."""
        last = self.form.last
        eye = last.centre(torch.eye(last.width, dtype=torch.float64, device=z.device))
        ends = self._least(known, torch.cat([eye, -eye]), reach)
        middle = last.centre(z)
        low, high = ends[: last.width], -ends[last.width :]
        off = torch.maximum(high - middle, middle - low).clamp_min(0)
        rounded = 4 * _SLACK * (z.norm() + reach.largest_behind.norm())
        far: Float[Tensor, ""] = off.norm() * (1 + _SLACK) + rounded
        return far

    def _least(
        self, known: Bracket, outward: Float[Tensor, "rival width"], reach: Reach, *, jointly: bool = False
    ) -> Float[Tensor, "rival"]:
        """A bound from below of outward · z, z being the stream behind the map."""
        form, forward = self.form, self.form.feed_forward
        back = outward @ forward.down.weight.T
        found = planes(forward.activation, known.gate, known.value)
        up, under = back.clamp_min(0), back.clamp_max(0)
        gate = up * found.lower_gate + under * found.upper_gate
        rest = (up * found.lower_rest + under * found.upper_rest).sum(1) + outward @ forward.down.bias
        rest = rest + gate @ self.gate.bias
        size = back.abs() @ torch.maximum(found.lower_rest.abs(), found.upper_rest.abs())
        size = size + outward.abs() @ (self._map_size(known) + known.largest) + gate.abs() @ known.gate_size
        inner = gate @ self.gate.weight.T
        if self.value is not None:
            value = up * found.lower_value + under * found.upper_value
            rest = rest + value @ self.value.bias
            size = size + value.abs() @ known.value_size
            inner = inner + value @ self.value.weight.T
        if self.errors is not None:
            rest = rest - back.abs() @ self.errors.units(reach) - outward.abs() @ self.errors.behind(reach)

        # Through the norm: T(y)/n around its value at the centre.
        root = math.sqrt(form.second.width)
        ratio = (inner @ known.centre) / known.length.here
        bracket = inner - ratio.unsqueeze(1) * known.length.slope
        offset = -ratio * known.length.rest - ratio.clamp_min(0) * known.length.bend
        least = torch.full_like(rest, torch.inf)
        for divisor in (known.shortest, known.longest):
            directions = outward + (root / divisor) * bracket
            here = self.contexts.least(known.number, directions, jointly=jointly)
            least = torch.minimum(least, here + rest + root * (ratio + offset / divisor))
            size = size + here.abs() + root * (ratio.abs() * known.length.size + offset.abs()) / divisor
        return least - (_SLACK + tail_slack(forward.down.weight.shape[0])) * size

    def _reach(self, known: Bracket, z: Float[Tensor, "width"]) -> Reach:
        """How large the stream's numbers may be, and how short it, before the map and behind it."""
        off, down = self._units_off(known), self.form.feed_forward.down.weight.abs()
        reach = Reach(
            largest=known.largest,
            shortest=known.shortest,
            largest_behind=z.abs() + known.spread + off @ down,
            shortest_behind=known.shortest,  # until it is known better
            gate=known.gate,
            value=known.value,
        )
        if self.errors is None:
            return reach
        error = self.errors.units(reach) @ down + self.errors.behind(reach)
        return replace(reach, largest_behind=(reach.largest_behind + error) * (1 + _SLACK))

    def _map_size(self, known: Bracket) -> Float[Tensor, "width"]:
        """What the map back into the stream adds up, in absolute values."""
        down = self.form.feed_forward.down
        unit = image(self.form.feed_forward.activation, known.gate, known.value)
        return torch.maximum(unit.low.abs(), unit.high.abs()) @ down.weight.abs() + down.bias.abs()

    def _units_off(self, known: Bracket) -> Float[Tensor, "unit"]:
        """How far the units may be from what they are at the centre, but for their errors."""
        here = image_at(self.form, self.form.second(known.centre))
        unit = image(self.form.feed_forward.activation, known.gate, known.value)
        return torch.maximum(unit.high - here, here - unit.low).clamp_min(0) * (1 + _SLACK)

    def _behind_map(self, known: Bracket) -> tuple[Float[Tensor, "width"], Float[Tensor, ""]]:
        """The stream behind the map at the centre, and how far from it an input may take it."""
        form, forward = self.form, self.form.feed_forward
        z = known.centre + forward.down(image_at(form, form.second(known.centre)))
        eye = torch.eye(form.last.width, dtype=torch.float64, device=z.device)
        onto = (forward.down.weight @ form.last.centre(eye)).abs()
        off, extra = self._units_off(known), torch.zeros_like(z)
        if self.errors is not None:
            reach = self._reach(known, z)
            off = off + self.errors.units(reach)
            extra = self.errors.behind(reach) @ form.last.centre(eye).abs()
        same = form.last.centred == form.second.centred
        far = known.farthest if same else self._far(known.number, known.centre, centred=form.last.centred)
        rounded = 4 * _SLACK * (known.largest + self._map_size(known)).norm()
        return z, (far + (off @ onto + extra).norm()) * (1 + _SLACK) + rounded

    def _far(self, number: int, centre: Float[Tensor, "width"], *, centred: bool) -> Float[Tensor, ""]:
        eye = torch.eye(self.form.last.width, dtype=torch.float64, device=centre.device)
        onto = eye - eye.mean(1, keepdim=True) if centred else eye
        return self.contexts.farthest(number, centre, onto)


def image_at(form: OneLayer, normed: Float[Tensor, "width"]) -> Float[Tensor, "unit"]:
    """The units of the map at a point."""
    forward = form.feed_forward
    inner = activated(forward.activation, forward.up(normed))
    return inner if forward.value is None else inner * forward.value(normed)


def _behind(norm: Norm, known: Map) -> Map:
    """A map behind a norm as one of what is divided: norm(y) W + b = (√width / length) · y W' + b'."""
    weight = norm.weight.unsqueeze(1) * known.weight
    return Map(norm.centre(weight.T).T, norm.bias @ known.weight + known.bias)


def _behind_sizes(norm: Norm, known: Map) -> Map:
    """The same with absolute values throughout, its bias divided as the rest is multiplied."""
    weight = _centred_sizes(norm, (norm.weight.unsqueeze(1) * known.weight).abs().T).T
    bias = norm.bias.abs() @ known.weight.abs() + known.bias.abs()
    return Map(weight, bias / math.sqrt(norm.width))


def _centred_sizes(norm: Norm, sizes: Float[Tensor, "*lead width"]) -> Float[Tensor, "*lead width"]:
    """What centring numbers up to these sizes adds up."""
    return sizes + sizes.mean(-1, keepdim=True) if norm.centred else sizes
