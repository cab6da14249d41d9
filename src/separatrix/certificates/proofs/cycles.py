"""Proof of R-G on the weights: a graph unit says of every vertex of every graph whether a walk is there.

The edges of a walk are zeros and ones, so κ takes finitely many values, 2^order at most, and each is enclosed
by itself. The walk of all ones is the only one that may win; the others are taken together, as many as there
are tuples. What the unit returns then lies in one of two intervals, and the readout tells these apart.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.lemmas.coded import weights
from separatrix.certificates.lemmas.presence import Presence, share_claims
from separatrix.certificates.lemmas.proving import claim
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.graph_unit import GraphUnit
from separatrix.tasks import Task
from separatrix.tasks.cycle3 import Cycle3
from separatrix.tasks.cycle5 import Cycle5

__all__ = ["prove"]

_SOURCE = "R-G"


def prove(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every graph of n vertices: the answer at each vertex is whether a cycle passes through it."""
    if not isinstance(model, GraphUnit) or not isinstance(task, Cycle3 | Cycle5):
        raise NotProved("This proof is about graph units that find cycles.")
    order = 3 if isinstance(task, Cycle3) else 5
    if model.order != order:
        raise NotProved(f"{task.name} is about walks of {order} edges; the unit has order {model.order}.")
    if isinstance(task, Cycle5) and task.distinct:
        raise NotProved("A graph unit finds closed walks, whose vertices need not differ.")
    if model.readout.classes != 2:
        raise NotProved("The answers are no and yes.")
    tuples = task.n ** (order - 1)
    patterns = np.array(list(itertools.product((0, 1), repeat=order)), dtype=object)
    kernel, bias = weights(rounding, model.kernel.matrix), weights(rounding, model.kernel.bias)
    # Edges enter the arithmetic first: fixed point may have no 1, or clamp it.
    logits = rounding.affine(rounding.encode(Box.exact(patterns)), kernel, bias).reshape(-1)
    value, dummy_value = weights(rounding, model.value), weights(rounding, model.dummy_value)
    walk, others = logits[-1:], logits[:-1].hull().reshape(1)
    dummy = weights(rounding, model.dummy_logit)
    presence = Presence.enclosed(
        rounding,
        matching=KeyGroup(logit=walk, value=value, least=0, most=tuples),
        others=KeyGroup(logit=others, value=value, least=0, most=tuples),
        dummies=[KeyGroup(logit=dummy, value=dummy_value)],
    )
    return (
        claim(
            "gap below the dummy",
            "the logit of a tuple that misses an edge stays below the dummy's by more than this",
            ">",
            Fraction(0),
            "logit",
            dummy - others,
            source=_SOURCE,
        ),
        claim(
            "gap above the dummy",
            "the logit of a closed walk exceeds the dummy's by more than this",
            ">",
            Fraction(0),
            "logit",
            walk - dummy,
            source=_SOURCE,
        ),
        *share_claims(
            rounding,
            model.readout,
            absent=presence.absent,
            present=presence.present,
            what="cycle",
            source=_SOURCE,
        ),
    )
