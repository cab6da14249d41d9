"""A feed-forward map that looks at all pairs of gathered numbers: what it can answer, for whole numbers.

For each pair of slots the first hidden layer must have the six units of the distance a(X) of
X = z + z_s + z_t from {0, M, 2M}, and the second the unit ReLU(2 − 4a). Ideal sums are whole numbers; so
a is 0 or at least 1, and as long as the computed 2 − 4a is off by less than 2, its unit is exactly 0 where
there is no match and positive where there is one. Errors of the gathered numbers move X, and a moves no
farther than X does; what the units add on top, by rounding and by stored weights that differ from the ideal
ones, counts for each of them by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from flint import fmpq
from jaxtyping import Float
from torch import Tensor

from separatrix.certificates.enclosures import Box, Rounding
from separatrix.certificates.enclosures.boxes import as_ends
from separatrix.certificates.lemmas.coded import weights
from separatrix.certificates.lemmas.nearness import Near, exact, near_affine, slip, stored, zeros
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.linear import FeedForward

__all__ = ["Decision", "decided"]

_LEVEL: Final = fmpq(2)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Decision:
    """How far sums of three are off at most, and the result (1,) without a match and with at least one."""

    off: fmpq
    absent: Box
    present: Box


def decided(
    rounding: Rounding,
    psi: FeedForward,
    stream: Near,
    *,
    number: int,
    slots: Sequence[tuple[int, float]],
    modulus: int,
    barred: Sequence[int] | None,
) -> Decision:
    """`stream` is near ideal vectors in which slot s, times its factor, is a whole number below M or −2M.

    `barred[s]` is the coordinate that is 1 where slot s holds the asking number itself, and 0 elsewhere.
    """
    if psi.kind != "relu" or len(psi.maps) != 3:
        raise NotProved("The feed-forward map has two hidden layers of ReLU units.")
    count = len(slots)
    pairs = [(s, t) for s in range(count) for t in range(s, count) if barred is None or s != t]
    first, second, last = psi.maps
    shapes = [tuple(each.matrix.shape) for each in psi.maps]
    if shapes != [(6 * len(pairs), len(stream.size)), (len(pairs), 6 * len(pairs)), (1, len(pairs))]:
        raise NotProved("The feed-forward map has six units and then one for each pair of numbers.")
    sums = torch.zeros(len(pairs), len(stream.size), dtype=torch.float64)
    sums[:, number] += 1
    for place, pair in enumerate(pairs):
        for slot in pair:
            sums[place, slots[slot][0]] += slots[slot][1]
            if barred is not None:
                sums[place, barred[slot]] -= 4.0 * modulus
    # |X| is X and −X each where positive; turning at M/2, M, 3M/2 and 2M makes it the distance.
    signs = torch.tensor([-1.0, 1, 1, 1, 1, 1], dtype=torch.float64)
    starts = torch.tensor([0.0, 0, 0.5, 1, 1.5, 2], dtype=torch.float64) * modulus
    bends = torch.tensor([1.0, 1, -2, 2, -2, 2], dtype=torch.float64)
    # Beside the units that the computed stream should have: all six see the same X.
    hidden = near_affine(
        rounding,
        Near(size=stream.reach, off=zeros(len(stream.size))),
        first.matrix,
        first.bias,
        ideal=(signs[None, :, None] * sums[:, None, :]).flatten(0, 1),
        ideal_bias=(-starts).repeat(len(pairs)),
    )
    distance = torch.zeros(len(pairs), len(pairs), 6, dtype=torch.float64)
    each = torch.arange(len(pairs))
    distance[each, each] = -4 * bends
    heights = near_affine(
        rounding,
        hidden,
        second.matrix,
        second.bias,
        ideal=distance.flatten(1),
        ideal_bias=torch.full((len(pairs),), float(_LEVEL), dtype=torch.float64),
    )
    off = 4 * _largest_error(sums, stream) + max(heights.off)
    if off >= _LEVEL:
        raise NotProved(
            f"A sum of three numbers may be off by {float(off / 4):.3g}, which is too much to tell whole "
            "numbers apart; more bits or a smaller modulus would do."
        )
    return _summed(rounding, last.matrix, last.bias, off)


def _largest_error(sums: Float[Tensor, "pair width"], stream: Near) -> fmpq:
    """How far any X can be from the whole number it should be."""
    found = np.array([fmpq(0)] * len(sums), dtype=object)
    factors = exact(sums[sums != 0])
    for (pair, place), factor in zip((sums != 0).nonzero().tolist(), factors, strict=True):
        found[pair] += abs(factor) * stream.off[place]
    return max(found, default=fmpq(0))


def _summed(
    rounding: Rounding, matrix: Float[Tensor, "1 pair"], bias: Float[Tensor, "1"], off: fmpq
) -> Decision:
    """Units are exactly 0 without a match; with one, one of them is at least 2 − off and none negative."""
    factors, shift = stored(rounding, matrix.reshape(-1)), stored(rounding, bias)[0]
    if bool(np.any(factors < 0)):
        raise NotProved("Every match adds to the sum.")
    zero = Box.exact(np.zeros((1, len(factors)), dtype=object))
    absent = rounding.affine(zero, weights(rounding, matrix), weights(rounding, bias)).reshape(-1)
    most = factors.sum() * (_LEVEL + off)
    size = as_ends(np.array([most + abs(shift)], dtype=object))
    error = slip(rounding, size, as_ends(np.array([len(factors) + 1], dtype=object)))[0]
    low = min(factors) * (_LEVEL - off) + shift - error
    return Decision(off=off / 4, absent=absent, present=Box.between([low], [most + shift + error]))
