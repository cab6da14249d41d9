"""Between which values a linear readout of the stream lies, over all inputs of a region.

A readout of one head is a ratio of two sums over positions. It is at least λ on a region if and only if

    H(λ) = min Σ_t w(t, option_t) · (v(t, option_t) − λ) ≥ 0,

a minimum that every position takes by itself (Dinkelbach, 1967). H falls and is concave in λ, so what two of
its values say of it in between is on the safe side: a few values serve all regions of a question, which share
most of their positions. For one region at a time the iteration itself gives the least value exactly.

Several heads are bounded one by one, or jointly. For reference ratios λ_h, Σ n_h/d_h is Σ λ_h plus
Σ x_h/d_h with x_h = n_h − λ_h d_h, and x/d is at least the smaller of x/d_min and x/d_max: a concave
function of the x_h, whose least value is found by trying both ends for each head.

All values are computed in float64 and rounded outward by a bound of what rounding may have done.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final, NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from separatrix.certificates.one_layer.tables import Tables
from separatrix.certificates.questions import Question

__all__ = ["UNIT", "Contexts", "Ranges"]

UNIT: Final = 2.0**-52
_KNOTS: Final = 17
_ROUNDS: Final = 10
"""Of Dinkelbach's iteration, if it does not end before."""
_ROUNDS_TOGETHER: Final = 4
_MOST_TOGETHER: Final = 6
"""Heads that are bounded jointly; every combination of their ends is tried."""
_NUMBERS_AT_ONCE: Final = 1 << 22
_SLACK: Final = 2.0**-40
"""What rounding may do to a distance, as a part of the sizes of what is subtracted; widths are below 2^11."""
_BESIDE: Final = (-1.0, -0.6, -0.35, -0.2, -0.1, -0.04, 0.04, 0.1, 0.2, 0.35, 0.6, 1.0)
"""Where else than at its root H is looked at, in parts of the way from the root to the least value."""
_ALIKE: Final = 4.0
"""A head whose denominator varies by more than this factor is bounded by itself."""


class Ranges(NamedTuple):
    """Proven bounds from below and above."""

    low: Float[Tensor, "region direction"]
    high: Float[Tensor, "region direction"]


@final
class Contexts:
    """The inputs of a question's regions, seen through the tables of a model."""

    def __init__(
        self,
        tables: Tables,
        question: Question,
        *,
        scores: Float[Tensor, "head"] | None = None,
        stream: Float[Tensor, "width"] | None = None,
        between: Mapping[int, tuple[float, float]] | None = None,
    ) -> None:
        """`scores` and `stream` are how far the floats of a model may take it from its tables.

        `between` leaves, for some heads, only the inputs whose denominator lies between two numbers: those
        on which the head's weight on anything that stands fast is in an interval.
        """
        self.tables = tables
        seen, device = tables.positions, tables.weights.device
        self.regions = tuple(region.upto(seen).to(device) for region in question.regions)
        self.allowed: Bool[Tensor, "region pos option"] = torch.stack(
            [region.allowed for region in self.regions]
        )
        self.factor = torch.ones(len(tables.outward), dtype=torch.float64, device=device)
        if scores is not None:
            self.factor = (scores * (1 + 8 * UNIT)).exp()
        self.off = torch.zeros_like(tables.own) if stream is None else stream
        somewhere = self.allowed.any(0).unsqueeze(2)
        self._largest: Float[Tensor, "head part"] = (tables.values.abs() * somewhere).amax((1, 2))
        self._partly = [(~rows.all(1)).nonzero().squeeze(1) for rows in self.allowed]
        self._weighted: Float[Tensor, "head pos option part"] = tables.weights.unsqueeze(3) * tables.values
        ends = [self._denominators(number) for number in range(len(self.regions))]
        self.least_below: Float[Tensor, "region head"] = torch.stack([low for low, _ in ends])
        self.most_below: Float[Tensor, "region head"] = torch.stack([high for _, high in ends])
        self._cut = frozenset(between or {})
        for head, (low, high) in (between or {}).items():
            self.least_below[:, head].clamp_min_(low)
            self.most_below[:, head].clamp_max_(high)

    def _denominators(self, number: int) -> tuple[Float[Tensor, "head"], Float[Tensor, "head"]]:
        weights = self.tables.weights
        spread = self.factor * (1 + self.tables.positions * UNIT)
        low, _ = self.minimum(number, weights)
        high, _ = self.minimum(number, -weights)
        return low / spread, -high * spread

    def minimum(
        self, number: int, costs: Float[Tensor, "batch pos option"]
    ) -> tuple[Float[Tensor, "batch"], Int[Tensor, "batch pos"]]:
        """The least sum of costs over a region, and where it is taken."""
        region = self.regions[number]
        if region.order is not None:
            return region.least(costs)
        value, options = self._by_position(number, costs)
        return value.sum(1), options

    def _by_position(
        self, number: int, costs: Float[Tensor, "batch pos option"]
    ) -> tuple[Float[Tensor, "batch pos"], Int[Tensor, "batch pos"]]:
        """The least cost at every position, where positions choose by themselves."""
        value, options = costs.min(2)
        some = self._partly[number]  # the other positions have all their options
        kept = costs[:, some].masked_fill(~self.allowed[number, some], torch.inf)
        value[:, some], options[:, some] = kept.min(2)
        return value, options

    @staticmethod
    def _loosened(costs: Float[Tensor, "*lead"], factor: Float[Tensor, ""]) -> Float[Tensor, "*lead"]:
        """The least that costs can be if each is scaled by a factor of its own, at most this or 1 over it."""
        return torch.minimum(costs * factor, costs / factor)

    @staticmethod
    def _scaled(costs: Float[Tensor, "*lead"], factor: Float[Tensor, ""]) -> Float[Tensor, "*lead"]:
        """The factors that make costs least."""
        return torch.where(costs < 0, factor, 1 / factor)

    def projected(
        self, directions: Float[Tensor, "direction width"], head: int
    ) -> Float[Tensor, "direction pos option"]:
        """What a head's values say in these directions."""
        inner = directions @ self.tables.outward[head].T
        positions, options, part = self.tables.values[head].shape
        flat = self.tables.values[head].reshape(-1, part) @ inner.T
        return flat.T.reshape(len(directions), positions, options)

    def _products(
        self, directions: Float[Tensor, "direction width"], head: int
    ) -> Float[Tensor, "direction pos option"]:
        """The same times the weights."""
        inner = directions @ self.tables.outward[head].T
        positions, options, part = self._weighted[head].shape
        flat = inner @ self._weighted[head].reshape(-1, part).T
        return flat.reshape(len(directions), positions, options)

    def _sizes(self, directions: Float[Tensor, "direction width"], head: int) -> Float[Tensor, "direction"]:
        """What `projected` adds up for an option, in absolute values, at most; it is rounded by a part."""
        return (directions.abs() @ self.tables.outward[head].abs().T) @ self._largest[head]

    def _rounded(self, directions: Float[Tensor, "direction width"], head: int) -> Float[Tensor, "direction"]:
        """How far a head's least ratio may be from one whose sum Σ w (v − λ) was rounded.

        The sum of any input is off by a part of Σ w (|v| + |λ|), so by a part of its own denominator, which
        it is divided by: what other inputs have for theirs does not matter.
        """
        return 4 * self._terms * UNIT * self.factor[head].square() * self._sizes(directions, head)

    @property
    def _terms(self) -> int:
        """More than the roundings of any sum over positions of what a head's values say in a direction."""
        return self.tables.positions + self.tables.outward.shape[1] + self.tables.outward.shape[2] + 64

    def centres(self) -> Float[Tensor, "region width"]:
        """A stream in the middle of each region: that of options of equal chance. Any would do."""
        return self.tables.stream(*self.tables.middle(self.allowed))

    # ---- all regions at once -------------------------------------------------------------------------

    def ranges(self, directions: Float[Tensor, "direction width"]) -> Ranges:
        """Bounds of directions · stream over every region."""
        if any(region.order is not None for region in self.regions):
            each = [
                (self.least(number, directions), -self.least(number, -directions))
                for number in range(len(self.regions))
            ]
            return Ranges(torch.stack([low for low, _ in each]), torch.stack([high for _, high in each]))
        own = directions @ self.tables.own
        low = own.expand(len(self.regions), -1).clone()
        high = low.clone()
        for head in range(len(self.tables.outward)):
            parts = max(1, _NUMBERS_AT_ONCE // (_KNOTS * self.allowed.shape[2]))
            for start in range(0, len(directions), parts):
                some = slice(start, start + parts)
                below, above = self._head_ranges(head, directions[some])
                low[:, some] += below
                high[:, some] += above
        sizes = directions.abs() @ self.tables.own.abs() + low.abs().amax(0) + high.abs().amax(0)
        slack = self._terms * UNIT * sizes + directions.abs() @ self.off
        return Ranges(low - slack, high + slack)

    def _head_ranges(
        self, head: int, directions: Float[Tensor, "direction width"]
    ) -> tuple[Float[Tensor, "region direction"], Float[Tensor, "region direction"]]:
        weights = self.tables.weights[head]
        values = self.projected(directions, head)
        somewhere = self.allowed.any(0)
        least = values.masked_fill(~somewhere, torch.inf).amin((1, 2))
        most = values.masked_fill(~somewhere, -torch.inf).amax((1, 2))
        knots = least.unsqueeze(1) + (most - least).unsqueeze(1) * torch.linspace(
            0, 1, _KNOTS, dtype=values.dtype, device=values.device
        )
        knots[:, -1] = most
        below = values.new_zeros(len(self.regions), *knots.shape)
        above = torch.zeros_like(below)
        products = weights * values
        for place in range(weights.shape[0]):
            rows, which = torch.unique(self.allowed[:, place], dim=0, return_inverse=True)
            for number, row in enumerate(rows):
                kept = row.nonzero().squeeze(1)
                terms = products[:, place, kept].unsqueeze(1) - knots.unsqueeze(2) * weights[place, kept]
                factor = self.factor[head]
                small = self._loosened(terms.amin(2), factor)
                large = -self._loosened(-terms.amax(2), factor)
                mine = (which == number).nonzero().squeeze(1)
                below[mine] += small
                above[mine] += large
        slack = self._rounded(directions, head)
        low, high = _root(knots, below), _root(knots, above)
        if head in self._cut:
            ends = self.least_below[:, head, None, None], self.most_below[:, head, None, None]
            low = torch.maximum(low, _beside(knots, below, *ends).amax(2))
            high = torch.minimum(high, -_beside(-knots, -above, *ends).amax(2))
        return low - slack, high + slack

    # ---- one region at a time ------------------------------------------------------------------------

    def least(
        self, number: int, directions: Float[Tensor, "direction width"], *, jointly: bool = False
    ) -> Float[Tensor, "direction"]:
        """A bound from below of directions · stream over a region: exact for one head."""
        every = range(len(self.tables.outward))
        ratio = self.most_below[number] / self.least_below[number]
        together = [head for head in every if bool(ratio[head] <= _ALIKE)] if jointly else []
        together = together[:_MOST_TOGETHER]
        total = directions @ self.tables.own
        size = directions.abs() @ self.tables.own.abs()
        for head in every:
            if head not in together or len(together) == 1:
                total = total + self._least_of_head(number, head, directions)
                size = size + self._sizes(directions, head)
        if len(together) > 1:
            low, large = self._least_together(number, together, directions)
            total, size = total + low, size + large
        return total - 4 * self._terms * UNIT * size - directions.abs() @ self.off

    def _least_of_head(
        self, number: int, head: int, directions: Float[Tensor, "direction width"]
    ) -> Float[Tensor, "direction"]:
        """Dinkelbach's iteration; its last λ is corrected by what H still is there."""
        weights, factor = self.tables.weights[head], self.factor[head]
        products = self._products(directions, head)
        allowed = self.allowed[number]
        middle = (products * allowed).sum((1, 2)) / (weights * allowed).sum().clamp_min(1e-300)
        guess, least = middle, torch.full_like(middle, -torch.inf)
        low, high = self.least_below[number, head], self.most_below[number, head]
        # A little below the ratio of an input H is above 0 in spite of rounding, and nothing is to correct.
        rounded = self._rounded(directions, head)
        for turn in range(_ROUNDS):
            costs = torch.addcmul(products, guess[:, None, None], weights, value=-1)
            if self.regions[number].order is None:  # a factor for all options does not change their order
                by_position, options = self._by_position(number, costs)
                chosen = by_position
                rest = self._loosened(by_position, factor).sum(1)
            else:
                rest, options = self.minimum(number, self._loosened(costs, factor))
                chosen = _taken(costs, options)
            least = torch.maximum(least, guess + torch.where(rest < 0, rest / low, rest / high))
            scale = self._scaled(chosen, factor)
            above, below = (_taken(each, options) * scale for each in (products, weights.expand_as(products)))
            after = above.sum(1) / below.sum(1) - rounded
            if turn and bool((after >= guess).all()):
                break
            guess = after if not turn else torch.minimum(guess, after)  # the first may be below all inputs
        if head in self._cut:
            least = torch.maximum(least, self._least_beside(number, head, products, guess) - 4 * rounded)
        return least - rounded

    def _least_beside(
        self,
        number: int,
        head: int,
        products: Float[Tensor, "direction pos option"],
        root: Float[Tensor, "direction"],
    ) -> Float[Tensor, "direction"]:
        """What H says beside its root, where not every denominator is left.

        n/d = x + (n − x d)/d is at least x + H(x)/d for any x, with the d that makes it least. Where all
        inputs are left, no x is better than the root; else one is, below it or above it.
        """
        weights, factor = self.tables.weights[head], self.factor[head]
        low, high = self.least_below[number, head], self.most_below[number, head]
        open_products = products.masked_fill(~self.allowed[number], torch.inf)
        reach = (root - (open_products / weights.clamp_min(1e-300)).amin((1, 2))).abs().clamp_max(1e6)
        best = torch.full_like(root, -torch.inf)
        for step in _BESIDE:
            x = root + step * reach
            costs = torch.addcmul(products, x[:, None, None], weights, value=-1)
            rest, _ = self.minimum(number, self._loosened(costs, factor))
            best = torch.maximum(best, x + torch.where(rest < 0, rest / low, rest / high))
        return best

    def _least_together(
        self, number: int, heads: list[int], directions: Float[Tensor, "direction width"]
    ) -> tuple[Float[Tensor, "direction"], Float[Tensor, "direction"]]:
        weights = self.tables.weights[heads]  # head pos option
        values = torch.stack([self.projected(directions, head) for head in heads], 1)
        products = weights * values
        low, high = self.least_below[number, heads], self.most_below[number, heads]
        below = ((low + high) / 2).expand(len(directions), -1)
        allowed = self.allowed[number]
        ratios = (products * allowed).sum((2, 3)) / (weights * allowed).sum((1, 2))
        for _ in range(_ROUNDS_TOGETHER):
            costs = torch.einsum("dhto,dh->dto", products, 1 / below)
            costs = costs - torch.einsum("hto,dh->dto", weights, ratios / below)
            _, options = self.minimum(number, costs)
            chosen = options[:, None, :, None].expand(-1, len(heads), -1, 1)
            above = products.gather(3, chosen).sum((2, 3))
            below = weights.expand_as(products).gather(3, chosen).sum((2, 3))
            ratios = above / below
        least = torch.full((len(directions),), torch.inf, dtype=values.dtype, device=values.device)
        for ends in itertools.product((0, 1), repeat=len(heads)):
            scale = torch.where(torch.tensor(ends, device=low.device) == 0, 1 / low, 1 / high)
            costs = torch.zeros_like(values[:, 0])
            for place, head in enumerate(heads):
                mine = products[:, place] - ratios[:, place, None, None] * weights[place]
                costs += self._loosened(mine * scale[place], self.factor[head])
            least = torch.minimum(least, self.minimum(number, costs)[0])
        size = torch.stack([self._sizes(directions, head) for head in heads], 1) @ (high / low)
        return least + ratios.sum(1), size

    def farthest(
        self, number: int, centre: Float[Tensor, "width"], onto: Float[Tensor, "width width"]
    ) -> Float[Tensor, ""]:
        """A bound of |(stream − centre) onto| over a region, from the mean distance of what is read.

        Each head's output is a mean of values, so it lies no farther from any point than their distances
        do in the mean, and the worst mean is found like any other readout. The points are shares of the
        centre, one for each head: what the head reads at it.
        """
        above, below = self.tables.middle(self.allowed[number])
        total = centre.new_zeros(())
        rest = (self.tables.own - centre) @ onto
        size = self.tables.own.abs() + centre.abs()
        for head, outward in enumerate(self.tables.outward):
            values = self.tables.values[head]
            mean = above[head] / below[head]
            rest = rest + mean @ outward @ onto
            lengths = ((values - mean) @ (outward @ onto)).norm(dim=2)
            total = total + self._most_of_values(number, head, lengths)
            size = size + self._largest[head] @ outward.abs()
        far = total + rest.norm() + (self.off @ onto.abs()).norm()
        most: Float[Tensor, ""] = far * (1 + 1e-9) + _SLACK * (size @ onto.abs()).norm()
        return most

    def _most_of_values(
        self, number: int, head: int, values: Float[Tensor, "pos option"]
    ) -> Float[Tensor, ""]:
        weights = self.tables.weights[head]
        low = self.least_below[number, head]
        guess = values.new_zeros(())
        most = values.new_full((), torch.inf)
        for _ in range(_ROUNDS):
            costs = self._loosened(weights * (guess - values), self.factor[head])
            rest, options = self.minimum(number, costs.unsqueeze(0))
            most = torch.minimum(most, guess + (-rest[0]).clamp_min(0) / low)
            scale = self._scaled(_taken(costs.unsqueeze(0), options), self.factor[head])
            chosen = _taken(weights.unsqueeze(0), options) * scale
            after = (chosen * _taken(values.unsqueeze(0), options)).sum() / chosen.sum() * (1 + 1e-10)
            if bool(after <= guess):
                break
            guess = after
        return most


def _taken(
    values: Float[Tensor, "batch pos option"], options: Int[Tensor, "batch pos"]
) -> Float[Tensor, "batch pos"]:
    return values.gather(2, options.unsqueeze(2)).squeeze(2)


def _beside(
    knots: Float[Tensor, "direction knot"],
    heights: Float[Tensor, "region direction knot"],
    least: Float[Tensor, "region 1 1"],
    most: Float[Tensor, "region 1 1"],
) -> Float[Tensor, "region direction knot"]:
    """x + H(x)/d at the knots, with the denominator that makes it least."""
    return knots + torch.where(heights < 0, heights / least, heights / most)


def _root(
    knots: Float[Tensor, "direction knot"], heights: Float[Tensor, "region direction knot"]
) -> Float[Tensor, "region direction"]:
    """Where the broken line through the heights, which fall from above 0 to below it, is 0."""
    last = knots.shape[1] - 2
    place = ((heights >= 0).sum(2) - 1).clamp(0, last)
    first, second = (heights.gather(2, (place + step).unsqueeze(2)).squeeze(2) for step in (0, 1))
    left, right = (
        knots.expand(len(heights), -1, -1).gather(2, (place + step).unsqueeze(2)).squeeze(2)
        for step in (0, 1)
    )
    drop = first - second
    share = torch.where(drop > 0, first / drop.clamp_min(1e-300), torch.zeros_like(drop)).clamp(0, 1)
    return left + share * (right - left)
