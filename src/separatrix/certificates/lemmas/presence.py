"""Attention that tells whether any key matches: what it returns if some do, and if none does.

Matching keys have one logit, all others stay below a dummy's. How many match is not known, only that it is
between none and all; the cases "none", "1", "2 or 3", "4 to 7", … are enclosed one by one, because in fixed
point the rounding of many equal weights depends on how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.enclosures.boxes import as_ends
from separatrix.certificates.lemmas.coded import answers, weights
from separatrix.certificates.lemmas.proving import claim
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit.layers import Layer, Readout

__all__ = ["Presence", "behind", "ranges", "share_claims"]


def ranges(most: int) -> Iterator[tuple[int, int]]:
    """1 to `most`, in stretches whose ends differ by less than a factor of two."""
    least = 1
    while least <= most:
        yield least, min(2 * least - 1, most)
        least *= 2


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Presence:
    """What a head returns, (out,) each: where no key matches, and where at least one does."""

    absent: Box
    present: Box

    @classmethod
    def enclosed(
        cls, rounding: Rounding, *, matching: KeyGroup, others: KeyGroup, dummies: Sequence[KeyGroup]
    ) -> Presence:
        """`matching.most` keys match at most; `others` are the keys that do not, as many as may be."""
        absent = rounding.attend([others, *dummies]).output
        found = [
            rounding.attend(
                [
                    KeyGroup(logit=matching.logit, value=matching.value, least=least, most=most),
                    others,
                    *dummies,
                ]
            ).output
            for least, most in ranges(matching.most)
        ]
        return cls(absent=absent, present=Box.union(*found))


def behind(rounding: Rounding, layer: Layer, joined: Box, stream: Box) -> Box:
    """The stream (width,) behind a layer, from what its heads returned: plain intervals all the way."""
    y = rounding.affine(joined.reshape(1, -1), weights(rounding, layer.output)).reshape(-1)
    if layer.attention_residual:
        y = rounding.add(stream, y)
    psi = layer.feed_forward
    if psi is None:
        return y
    if psi.kind != "relu":
        raise NotProved("This proof is about feed-forward maps of ReLU units.")
    x = y.reshape(1, -1)
    for place, each in enumerate(psi.maps):
        x = rounding.affine(x, weights(rounding, each.matrix), weights(rounding, each.bias))
        x = rounding.relu(x) if place < len(psi.maps) - 1 else x
    image = x.reshape(-1)
    return rounding.add(y, image) if layer.feed_forward_residual else image


def share_claims(
    rounding: Rounding,
    readout: Readout,
    *,
    absent: Box,
    present: Box,
    what: str,
    source: str,
) -> tuple[Claim, ...]:
    """The readout's two leads: class 0 where nothing matches, class 1 where something does."""
    scores = answers(rounding, readout, Box.stack([absent, present]))
    low, high = scores.low, scores.high
    leads = Box(
        as_ends(np.array([low[0, 0] - high[0, 1], low[1, 1] - high[1, 0]], dtype=object)),
        as_ends(np.array([high[0, 0] - low[0, 1], high[1, 1] - low[1, 0]], dtype=object)),
    )
    return (
        claim(
            f"lead of the answer no where there is no {what}",
            f"on every input the score of no exceeds that of yes at every position without a {what}",
            ">",
            Fraction(0),
            "score",
            leads[:1],
            source=source,
        ),
        claim(
            f"lead of the answer yes where there is a {what}",
            f"on every input the score of yes exceeds that of no at every position with a {what}",
            ">",
            Fraction(0),
            "score",
            leads[1:],
            source=source,
        ),
    )
