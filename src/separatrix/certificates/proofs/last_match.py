"""Proof of R-M3′, last output, on the weights: layer 1 matches pairs, layer 2 asks whether any was found.

Four kinds of elements are followed through both layers: positions whose number has its negative in the row,
positions whose number has not, the last position, and the dummy. Layer 1 is read as in the proof of R-M2.
What it leaves at each kind is an interval; layer 2 averages these, with at least one position of the first
kind in the row or with none.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.lemmas.coded import weights
from separatrix.certificates.lemmas.nearness import exact, near_affine, near_dot
from separatrix.certificates.lemmas.presence import Presence, behind, share_claims
from separatrix.certificates.lemmas.proving import one_head
from separatrix.certificates.proofs.matching import CircleHead, Points, gap_claims, points
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.codes import OneHot
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.inputs import TokenInputs
from separatrix.models.explicit.positions import Own
from separatrix.models.explicit.transformer import UnmaskedTransformer
from separatrix.tasks import Task
from separatrix.tasks.match3 import Match3

__all__ = ["prove"]

_SOURCE: Final = "R-M3′"


def prove(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every row that ends in 0: the answer there is whether two numbers before it sum to 0 modulo M."""
    if not isinstance(model, UnmaskedTransformer) or not isinstance(task, Match3):
        raise NotProved("This proof is about unmasked Transformers that match numbers.")
    if task.variant != "last" or task.distinct or len(model.layers) != 2 or model.readout.classes != 2:
        raise NotProved("This proof is about two layers that answer no or yes at the end of the row.")
    inputs, (first, second) = model.inputs, model.layers
    found = points(rounding, inputs, task.residues, tracks=1)
    flag = _flag(inputs, task)
    matcher, asker = one_head(first), one_head(second)
    if any(bool((each[:, flag != 0] != 0).any()) for each in (matcher.query, matcher.key, matcher.value)):
        raise NotProved("The first layer must not see which position is the last.")
    head = CircleHead.read(rounding, matcher, found)
    presence, gaps = head.presence(rounding, count=task.n, modulus=task.residues)
    marked = rounding.encode(found.range + Box.exact(flag))
    without = behind(rounding, first, presence.absent, found.range)
    matched = behind(rounding, first, presence.present, found.range)
    last = behind(rounding, first, presence.present, marked)
    dummy = behind(rounding, first, _dummy_asks(rounding, matcher, found, task.n), found.dummy_range)
    ends = _asked(rounding, asker, last, matched=matched, without=without, dummy=dummy, count=task.n)
    absent, present = (behind(rounding, second, joined, last) for joined in (ends.absent, ends.present))
    return (
        *gap_claims(gaps, _SOURCE),
        *share_claims(rounding, model.readout, absent=absent, present=present, what="match", source=_SOURCE),
    )


def _flag(inputs: object, task: Match3) -> torch.Tensor:
    """What the last position has more than the others: the column of the one track."""
    assert isinstance(inputs, TokenInputs)
    track = inputs.tracks[0]
    kind = inputs.classes[0]
    if track.rule != Own(shift=1 - task.n) or not isinstance(track.code, OneHot) or track.code.count != 1:
        raise NotProved("A flag marks the last position and no other.")
    column = kind.tracks[track.name][:, 0]
    used = (kind.matrix != 0).any(1) | (kind.bias != 0)
    if bool((used & (column != 0)).any()):
        raise NotProved("The flag of the last position has a coordinate of its own.")
    return column


def _dummy_asks(rounding: Rounding, head: Head, found: Points, count: int) -> Box:
    """What layer 1 returns at the dummy: its logits with numbers are affine in their points."""
    query = exact(head.query) @ exact(found.dummy)
    form = query @ (exact(head.key) @ found.form)
    asked = near_affine(rounding, found.dummy_near, head.query)
    offered = near_affine(rounding, found.near, head.key)
    itself = near_affine(rounding, found.dummy_near, head.key)
    slack = np.abs(form[:-1]).sum() + near_dot(rounding, asked, offered).off.reshape(-1)[0]
    own = query @ (exact(head.key) @ exact(found.dummy))
    own_slack = near_dot(rounding, asked, itself).off.reshape(-1)[0]
    value = weights(rounding, head.value)
    return rounding.attend(
        [
            KeyGroup(
                logit=Box.between([form[-1] - slack], [form[-1] + slack]),
                value=rounding.affine(found.range.reshape(1, -1), value).reshape(-1),
                least=count,
                most=count,
            ),
            KeyGroup(
                logit=Box.between([own - own_slack], [own + own_slack]),
                value=rounding.affine(found.dummy_range.reshape(1, -1), value).reshape(-1),
            ),
        ]
    ).output


def _asked(
    rounding: Rounding, head: Head, last: Box, *, matched: Box, without: Box, dummy: Box, count: int
) -> Presence:
    """What layer 2 returns at the last position."""
    query = rounding.affine(last.reshape(1, -1), weights(rounding, head.query)).reshape(-1)

    def group(stream: Box, least: int, most: int) -> KeyGroup:
        key = rounding.affine(stream.reshape(1, -1), weights(rounding, head.key)).reshape(-1)
        value = rounding.affine(stream.reshape(1, -1), weights(rounding, head.value)).reshape(-1)
        return KeyGroup(logit=rounding.dot(query, key).reshape(1), value=value, least=least, most=most)

    return Presence.enclosed(
        rounding,
        matching=group(matched, 0, count - 1),
        others=group(without, 0, count - 1),
        dummies=[group(last, 1, 1), group(dummy, 1, 1)],
    )
