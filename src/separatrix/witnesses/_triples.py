"""A feed-forward map that has all the numbers before it and decides whether two of them complete one to 0.

For a pair (s, t) of slots let X = z + z_s + z_t, made negative where the pair must not count. Six units give
a(X), the distance of X from the nearest of 0, M and 2M; the next layer has one unit, ReLU(2 − 4a), which is 2
for a match and 0 for every other whole X, even if X is off by a quarter. So the sum over all pairs is at
least 1, or exactly 0, in any arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import torch

from separatrix.errors import InvalidInput
from separatrix.models.explicit.layers import Readout
from separatrix.models.explicit.linear import Affine, FeedForward

__all__ = ["MOST_SLOTS", "decider", "yes_or_no"]

MOST_SLOTS: Final = 48
_BENDS: Final = ((-1, 0.0, 1.0), (1, 0.0, 1.0), (1, 0.5, -2.0), (1, 1.0, 2.0), (1, 1.5, -2.0), (1, 2.0, 2.0))
"""Units of a(X): the sign of X, where the unit starts in multiples of M, and what it is multiplied by."""


def decider(
    *,
    width: int,
    number: int,
    slots: Sequence[tuple[int, float]],
    modulus: int,
    barred: Mapping[int, int] | None,
) -> FeedForward:
    """ψ on streams of this width: `number` is the coordinate of z, a slot is a coordinate and its factor.

    `barred`, if given, says for each slot which coordinate is 1 where the slot holds z itself: then no pair
    with that slot counts, nor one of a slot with itself.
    """
    count = len(slots)
    if count > MOST_SLOTS:
        raise InvalidInput(
            f"Deciding among all pairs of {count} numbers takes more than {3 * count**4 // 2:,} weights; at "
            f"most {MOST_SLOTS} numbers are taken. Take a shorter row or a smaller window."
        )
    pairs = [(s, t) for s in range(count) for t in range(s, count) if barred is None or s != t]
    first = torch.zeros(6 * len(pairs), width, dtype=torch.float64)
    starts = torch.zeros(6 * len(pairs), dtype=torch.float64)
    second = torch.zeros(len(pairs), 6 * len(pairs), dtype=torch.float64)
    for place, (s, t) in enumerate(pairs):
        row = torch.zeros(width, dtype=torch.float64)
        row[number] += 1
        for slot in (s, t):
            coordinate, factor = slots[slot]
            row[coordinate] += factor
            if barred is not None:
                row[barred[slot]] -= 4.0 * modulus
        for unit, (sign, start, bend) in enumerate(_BENDS):
            first[6 * place + unit] = sign * row
            starts[6 * place + unit] = -start * modulus
            second[place, 6 * place + unit] = -4 * bend
    total = torch.ones(1, len(pairs), dtype=torch.float64)
    return FeedForward(
        maps=(
            Affine(matrix=first, bias=starts),
            Affine(matrix=second, bias=torch.full((len(pairs),), 2.0, dtype=torch.float64)),
            Affine(matrix=total, bias=torch.zeros(1, dtype=torch.float64)),
        )
    )


def yes_or_no() -> Readout:
    """Class 1 where a number exceeds ½."""
    return Readout(
        map=Affine(
            matrix=torch.tensor([[-1.0], [1.0]], dtype=torch.float64),
            bias=torch.tensor([0.5, -0.5], dtype=torch.float64),
        ),
        code=None,
        scores=True,
    )
