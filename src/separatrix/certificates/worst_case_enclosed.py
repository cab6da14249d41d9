"""Proven bounds on the least readout of one softmax head, for the logits and values as they stand.

    found = enclosed(head, values)        # one query, one direction
    found.interval                        # floats low ≤ least readout ≤ high, usually neighbours
    found.above(0)                        # the claim that no input's readout is 0 or less

The logits and values are floats and read exactly; all that follows is about real numbers. The high end is
the readout of the worst input found, from a ball that holds it. The low end is a float λ for which

    F(λ) = Σ_t min_σ e^{s(t, σ)} (v(t, σ) − λ) ≥ 0

is proven in ball arithmetic (`flint.arb`), so that no input has a readout below λ. Neither end depends on how
the input was found: should the floats of `worst_case` have missed a better one, the proof fails, the least
terms of F name it, and it takes the place of the old one.

A large head has millions of terms, and all but a few cannot be the least at their position. Those are told
apart in float64. With u = 2^-53 and logits at most `WIDE` below the position's largest, rounding s − top
moves the exponent by at most WIDE u, exp is off by 4u of its value, the difference v − λ and the product by u
each: a computed term is within 2^-43 of the real one, relatively, and beside that within three times the
least normal float, which covers results that are flushed to 0. Twice as much is allowed for. Positions with
logits further apart keep all their options.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import torch
from flint import arb, ctx
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from separatrix.certificates.enclosures import rounding_of
from separatrix.certificates.worst_case import IN_CACHE, WIDE, Head, parts, values_for, worst_case
from separatrix.errors import InvalidInput
from separatrix.evidence import Claim, Interval
from separatrix.precision import Float64 as Float64System
from separatrix.precision.system import as_fraction

__all__ = ["EnclosedWorstCase", "enclosed"]

BITS: Final = 128
"""Binary digits of a ball's midpoint."""
SMALL: Final = 2**15
"""Heads with at most so many options are proven in balls alone."""
MOST_TRIALS: Final = 64
RELATIVE: Final = 2.0**-42
ABSOLUTE: Final = 2.0**-1019
"""A computed term is within RELATIVE times its size plus ABSOLUTE of the real one; see above."""


@dataclass(frozen=True, kw_only=True)
class EnclosedWorstCase:
    """A proven interval around the least readout, and an input whose readout lies in it."""

    interval: Interval
    options: tuple[int, ...]
    inputs: str
    """How many inputs there are, as a product of powers."""
    assumptions: tuple[str, ...]
    """What is assumed of the floats that told terms apart; nothing where balls did it alone."""

    def above(self, threshold: Fraction | float) -> Claim:
        """The claim that the readout is above the threshold on every input."""
        limit = as_fraction(threshold)
        means = "balls, most terms ruled out in float64" if self.assumptions else "balls"
        return Claim(
            name="least readout",
            statement=f"The head's readout is above {float(limit):g} on each of {self.inputs} inputs.",
            relation=">",
            threshold=limit,
            unit="score",
            source=f"Σ_t min_σ e^s (v − λ) ≥ 0 at the interval's low end, in {means}",
            interval=self.interval,
        )


def enclosed(
    head: Head, values: Float[Tensor, "pos option"], *, trust_floats: bool = True
) -> EnclosedWorstCase:
    """Prove how small the readout can be over all inputs that `head` allows.

    With `trust_floats` a head of many options is thinned out in float64 first, under the assumptions that the
    result names; else every term is a ball, which takes some 2 µs each.
    """
    flat, directions = values_for(head, values)
    if head.queries or directions:
        raise InvalidInput(
            "An enclosure is of one query and one direction, (pos, option) each; got logits "
            f"{tuple(head.logits.shape)} and values {(*directions, *flat.shape[1:])}. Index both first."
        )
    floats = trust_floats and head.logits.numel() > SMALL
    start = worst_case(head, values).options.tolist()
    with ctx.workprec(BITS):
        terms = _Terms.of(head, flat[0], floats=floats)
        interval, options = _prove(terms, start)
    return EnclosedWorstCase(
        interval=interval,
        options=tuple(options),
        inputs=_count(head),
        assumptions=rounding_of(Float64System()).error_model() if floats else (),
    )


def _prove(terms: _Terms, choice: list[int]) -> tuple[Interval, list[int]]:
    """Lower λ from a choice's readout until F(λ) ≥ 0 is proven; a better choice that turns up is taken."""
    readout = terms.readout(choice)
    level, step = _float_below(readout.lower()), 0.0
    for _ in range(MOST_TRIALS):
        total, better = terms.least_sum(level, reference=choice)
        if total >= 0:
            return _between(level, readout), choice
        challenger = terms.readout(better)
        if challenger.upper() < readout.upper():
            readout, choice = challenger, better
            level = min(_float_below(readout.lower()), math.nextafter(level, -math.inf))
        else:
            # Balls cannot tell F from 0 this close to its root, so λ takes longer and longer steps down.
            step = max(2 * step, math.ulp(level), terms.size * 2.0**-100)
            level -= step
    # A mean is never below all that it is the mean of.
    return _between(terms.least_value, readout), choice


def _between(level: float, readout: arb) -> Interval:
    high = -_float_below(-readout.upper())
    return Interval(low=Fraction(level), high=Fraction(high))


def _float_below(number: arb) -> float:
    """The largest float that is not above an exact ball."""
    near = float(number)
    while not arb(near) <= number:
        near = math.nextafter(near, -math.inf)
    return near


@dataclass(frozen=True, kw_only=True)
class _Terms:
    """The options of one head with their logits and values, and how terms are told apart."""

    logits: Float64[Tensor, "pos option"]
    values: Float64[Tensor, "pos option"]
    allowed: Bool[Tensor, "pos option"]
    floats: bool

    @classmethod
    def of(cls, head: Head, values: Float64[Tensor, "pos option"], *, floats: bool) -> _Terms:
        """On the CPU."""
        logits = head.logits.cpu()
        allowed = torch.ones_like(logits, dtype=torch.bool) if head.allowed is None else head.allowed.cpu()
        return cls(logits=logits, values=values.cpu(), allowed=allowed, floats=floats)

    @property
    def least_value(self) -> float:
        """The least value of any option."""
        return float(self.values[self.allowed].min())

    @property
    def size(self) -> float:
        """The largest absolute value of any option."""
        return float(self.values[self.allowed].abs().max())

    def chosen(self, choice: Sequence[int]) -> tuple[list[float], list[float]]:
        """The logits and the values of an input's options."""
        index = torch.tensor(choice)[:, None]
        return self.logits.gather(1, index)[:, 0].tolist(), self.values.gather(1, index)[:, 0].tolist()

    def readout(self, choice: Sequence[int]) -> arb:
        """A ball around the readout of an input.

        It is taken relative to the value of the heaviest option, so that it is exact where all values agree.
        """
        logits, values = self.chosen(choice)
        heaviest = logits.index(max(logits))
        top, centre = arb(logits[heaviest]), arb(values[heaviest])
        weighted, total = arb(0), arb(0)
        for logit, value in zip(logits, values, strict=True):
            weight = (arb(logit) - top).exp()
            total += weight
            weighted += weight * (arb(value) - centre)
        return centre + weighted / total

    def least_sum(self, level: float, *, reference: Sequence[int]) -> tuple[arb, list[int]]:
        """A lower bound on F(level), up to a positive factor, and each position's option of least term.

        The factor is the weight of the heaviest option of `reference`.
        """
        top, at = arb(max(self.chosen(reference)[0])), arb(level)
        total, choice = arb(0), []
        for _, candidates in itertools.groupby(self._candidates(level), key=lambda each: each[0]):
            least, winner = arb.pos_inf(), 0
            for _, option, logit, value in candidates:
                term = (arb(logit) - top).exp() * (arb(value) - at)
                winner = option if term.mid() < least.mid() else winner
                least = least.min(term)
            total += least
            choice.append(winner)
        return total.lower(), choice

    def _candidates(self, level: float) -> Iterator[tuple[int, int, float, float]]:
        """Position, option, logit and value of every option whose term may be the least of its position."""
        places, options = self._undecided(level).nonzero(as_tuple=True)
        logits, values = self.logits[places, options], self.values[places, options]
        return zip(places.tolist(), options.tolist(), logits.tolist(), values.tolist(), strict=True)

    def _undecided(self, level: float) -> Bool[Tensor, "pos option"]:
        if not self.floats:
            return self.allowed
        kept = torch.empty_like(self.allowed)
        for here in parts(len(kept), max(1, IN_CACHE // kept.shape[1])):
            kept[here] = _not_ruled_out(self.logits[here], self.values[here], self.allowed[here], level)
        return kept


def _not_ruled_out(
    logits: Float64[Tensor, "pos option"],
    values: Float64[Tensor, "pos option"],
    allowed: Bool[Tensor, "pos option"],
    level: float,
) -> Bool[Tensor, "pos option"]:
    """The allowed options whose terms no other term at the position is surely below."""
    top = logits.masked_fill(~allowed, -math.inf).amax(1, keepdim=True)
    lowest = logits.masked_fill(~allowed, math.inf).amin(1, keepdim=True)
    terms = (logits - top).clamp_(max=0.0).exp_() * (values - level)
    margin = terms.abs() * RELATIVE + ABSOLUTE
    beaten_above = (terms + margin).masked_fill_(~allowed, math.inf).amin(1, keepdim=True)
    kept = (terms - margin <= beaten_above) | (top - lowest > WIDE)
    return kept & allowed


def _count(head: Head) -> str:
    """The number of inputs as a product of powers, such as 64^399."""
    positions, options = head.logits.shape
    counts = [options] * positions if head.allowed is None else head.allowed.sum(-1).tolist()
    powers = [
        f"{count}^{times}" if times > 1 else str(count)
        for count, times in sorted(Counter(counts).items(), reverse=True)
        if count > 1
    ]
    return " · ".join(powers) or "1"
