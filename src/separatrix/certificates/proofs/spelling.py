"""The last steps of proofs whose classes are spelled by digits: one sign known at a time, the others open."""

from __future__ import annotations

import numpy as np

from separatrix.certificates.enclosures import Box, Rounding
from separatrix.certificates.lemmas.coded import after_attention
from separatrix.certificates.lemmas.coded import weights as encoded
from separatrix.certificates.lemmas.signwise import Signwise
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.codes import SignCode
from separatrix.models.explicit.layers import Layer, Readout

__all__ = ["spelled"]


def spelled(
    rounding: Rounding, layer: Layer, readout: Readout, found: Signwise, stream: Box, classes: SignCode
) -> Signwise:
    """What the readout's map gives, sign by sign of the class's word."""
    if not readout.scores or readout.code is None or readout.code.spec() != classes.spec():
        raise NotProved("The readout scores the task's classes by the binary digits of their numbers.")
    sides = []
    for positive in (False, True):
        joined = Box.stack([found.given(sign, positive=positive) for sign in range(classes.dim)])
        rows = Box.concatenate([stream.hull(0).reshape(1, -1)] * classes.dim)
        behind = after_attention(rounding, layer, joined, rows)
        bias = encoded(rounding, readout.map.bias)
        image = rounding.affine(behind, encoded(rounding, readout.map.matrix), bias)
        order = np.arange(classes.dim)
        sides.append(image[order, order])
    return Signwise(signs=tuple(range(classes.dim)), minus=sides[0], plus=sides[1], dim=classes.dim)
