"""Attention in floats: how far the computed output can be from the mean with the true weights.

With S the real sum of the computed exps e_j and ŝ the computed one, a computed weight is (e_j/S)(S/ŝ)(1 + δ),
|δ| <= u, apart from underflow. So the output is S/ŝ times a mean of the values, plus what the quotients and
the last sum add. A common factor of all e_j, such as an uncertain largest logit, cancels in the mean.

The two sums run over all keys, and n·u is no small number for 2^20 keys in float32. What saves them is that
losing keys add almost nothing. Let k terms be heavy, the other terms together have size ε, and all together
size T. Rounding a + b errs by at most min(|a|, |b|), for a and b are floats themselves. So an addition with a
light side errs by at most the computed size of that side, and these sides together have ε(1 + c), c the
growth of sums of n terms; additions within light sides err by cε; the at most 2k other roundings err by u
times a partial sum, which is at most T plus the error. The whole error E satisfies

    E <= (1 + 2c)(ε + 4n·tiny) + 2ku(T + E),

`tiny` paying for at most 2n results that are flushed, and as many operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from flint import fmpq

from separatrix.certificates.enclosures.boxes import ONE, ZERO, Box, as_ends, exp_ends
from separatrix.certificates.enclosures.floats import FloatFormat
from separatrix.certificates.enclosures.key_groups import (
    Attended,
    KeyGroup,
    Masses,
    gaps,
    highest,
    require_groups,
)
from separatrix.certificates.enclosures.rounding import Unbounded

__all__ = ["attend_in_floats"]


@final
@dataclass(frozen=True, kw_only=True)
class _Split:
    """Some groups called heavy, and the largest part of the total mass that the others can have."""

    heavy_keys: int
    light: tuple[int, ...]
    light_share: fmpq


def attend_in_floats(form: FloatFormat, groups: Sequence[KeyGroup]) -> Attended:
    """See the module."""
    present = require_groups(groups)
    exps = _exps(form, present)
    masses = Masses(
        low=tuple(group.least * low for group, (low, _) in zip(present, exps, strict=True)),
        high=tuple(group.most * high for group, (_, high) in zip(present, exps, strict=True)),
        leads=tuple(high >= ONE for _, high in exps),
        floor=ONE - 4 * form.unit,
    )
    keys = sum(group.most for group in present)
    splits = _splits(present, masses, exps)
    off = min(_error(form, keys, split, light=split.light_share, whole=ONE) for split in splits)
    # A sum of floats that are not negative is never computed below the largest of them.
    most = keys * (ONE + 4 * form.unit) / (ONE - 4 * form.unit)
    factor = (ONE / (ONE + off), min(ONE / (ONE - off), most) if off < ONE else most)

    values = form.read(Box.stack([group.value for group in present]))
    sizes = values.magnitude
    mean = masses.mean(values)
    low = np.minimum(mean.low * factor[0], mean.low * factor[1])
    high = np.maximum(mean.high * factor[0], mean.high * factor[1])
    error = np.empty(values.shape[1], dtype=object)
    for place, column in enumerate(sizes.T):
        size = masses.greatest_mean(list(column)) * factor[1]
        flushed = 4 * keys * form.tiny * max(column)
        whole = size * (ONE + form.unit) + flushed
        if 2 * (ONE + form.growth(keys)) * whole > form.largest:
            raise Unbounded(f"A weighted sum of values may overflow {form.name}; scale the values down.")
        added = min(
            _error(form, keys, split, light=_light(form, split, column, factor[1]) + flushed, whole=whole)
            for split in splits
        )
        error[place] = size * form.unit + flushed + added
    output = Box(as_ends(low - error), as_ends(high + error)).mapped(form.above, form.below)
    return Attended.of(groups, output, _weights(form, present, masses, factor))


def _weights(
    form: FloatFormat, groups: Sequence[KeyGroup], masses: Masses, factor: tuple[fmpq, fmpq]
) -> list[tuple[fmpq, fmpq]]:
    """Each group's share, times S/ŝ, each weight rounded once."""
    found = []
    for group, (low, high) in zip(groups, masses.shares(), strict=True):
        flushed = 4 * group.most * form.tiny
        least = low * factor[0] * (ONE - form.unit) - flushed
        found.append((max(least, ZERO), high * factor[1] * (ONE + form.unit) + flushed))
    return found


def _exps(form: FloatFormat, groups: Sequence[KeyGroup]) -> list[tuple[fmpq, fmpq]]:
    """Each group's computed exp, a key; up to a common factor if the largest logit m is not known.

    Then the exact e^(logit - m) is taken relative to a logit r <= m instead, times e^(r - m) for all keys.
    The computed difference is off by u times itself; near 0 also by what flushing does to two operands, to
    the maximum and to the result.
    """
    lowest, top = highest(groups)
    if lowest == top:
        known = form.read(Box.exact(top))
        boxes = [form.exp(form.rounded(form.read(group.logit) - known)) for group in groups]
        return [box.scalar for box in boxes]
    lift = exp_ends(top - lowest)[1]
    found = []
    for group, (gap, _) in zip(groups, gaps(groups), strict=True):
        low, high = group.logit.scalar
        slip = -gap * form.unit + 8 * form.tiny
        least = exp_ends(low - lowest)[0] * exp_ends(-slip)[0] * (ONE - 4 * form.unit)
        most = exp_ends(high - lowest)[1] * exp_ends(slip)[1] * (ONE + 4 * form.unit)
        found.append((ZERO if least < 2 * form.tiny * lift else least, most + 2 * form.tiny * lift))
    return [Box.between(*ends).shortened().scalar for ends in found]


def _splits(groups: Sequence[KeyGroup], masses: Masses, exps: Sequence[tuple[fmpq, fmpq]]) -> list[_Split]:
    """The groups in order of a key's mass, cut everywhere: the first so many are heavy."""
    order = sorted(range(len(groups)), key=lambda place: exps[place][1], reverse=True)
    found = []
    for cut in range(len(order) + 1):
        heavy, light = order[:cut], tuple(order[cut:])
        most_light = sum((masses.high[place] for place in light), ZERO)
        least_heavy = sum((masses.low[place] for place in heavy), ZERO)
        if not any(masses.leads[place] for place in light):
            least_heavy = max(least_heavy, masses.floor)
        whole = most_light + least_heavy
        found.append(
            _Split(
                heavy_keys=sum(groups[place].most for place in heavy),
                light=light,
                light_share=most_light / whole if whole else ONE,
            )
        )
    return found


def _light(form: FloatFormat, split: _Split, sizes: Sequence[fmpq], factor: fmpq) -> fmpq:
    """The most that the light keys' products can add up to, in one coordinate."""
    if not split.light:
        return ZERO
    return split.light_share * max(sizes[place] for place in split.light) * factor * (ONE + form.unit)


def _error(form: FloatFormat, keys: int, split: _Split, *, light: fmpq, whole: fmpq) -> fmpq:
    """The module's E, or the plain bound for sums of n terms if that is less."""
    growth = form.growth(keys)
    plain = growth * whole + (ONE + growth) * 8 * keys * form.tiny
    heavy = 2 * split.heavy_keys * form.unit
    if 2 * heavy > ONE:
        return plain
    apart = ((ONE + 2 * growth) * (light + 8 * keys * form.tiny) + heavy * whole) / (ONE - heavy)
    return min(plain, apart)
