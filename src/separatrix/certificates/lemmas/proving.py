"""Small steps that proofs share."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from separatrix.certificates.enclosures import Box
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim, Interval, Relation
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.layers import Layer

__all__ = ["claim", "heads_of", "least_lead", "one_head"]


def claim(
    name: str,
    statement: str,
    relation: Relation,
    threshold: Fraction,
    unit: str,
    found: Box,
    *,
    source: str,
) -> Claim:
    """A claim whose worst case over a box is proven: the least element for > and ≥, else the greatest.

    For == the whole box is the interval.
    """
    low, high = found.low.reshape(-1), found.high.reshape(-1)
    if relation in (">", ">="):
        ends = min(low), min(high)
    elif relation in ("<", "<="):
        ends = max(low), max(high)
    else:
        ends = min(low), max(high)
    interval = Interval.outward(low=_fraction(ends[0]), high=_fraction(ends[1]))
    return Claim(
        name=name,
        statement=statement,
        relation=relation,
        threshold=threshold,
        unit=unit,
        source=source,
        interval=interval,
    )


def least_lead(scores: Box, right: Sequence[int]) -> Box:
    """By how much the right class's score exceeds the largest other one, for each case; (case,).

    A lead of 0 would be decided by the order of classes, so proofs ask for more than 0.
    """
    leads = []
    for case, label in enumerate(right):
        row = scores[case]
        if label >= row.shape[0]:
            raise NotProved("The readout has fewer classes than the task.")
        others = [i for i in range(row.shape[0]) if i != label]
        if not others:
            leads.append(Box.exact([1]))
            continue
        rest_low, rest_high = max(row.low[i] for i in others), max(row.high[i] for i in others)
        leads.append(Box.between([row.low[label] - rest_high], [row.high[label] - rest_low]))
    return Box.concatenate(leads)


def heads_of(layer: Layer, count: int) -> tuple[Head, ...]:
    """The standard heads of a layer that has exactly so many."""
    heads = tuple(head for head in layer.heads if isinstance(head, Head))
    if len(heads) != count or len(layer.heads) != count:
        raise NotProved(f"This proof is about layers of {count} standard heads.")
    return heads


def one_head(layer: Layer) -> Head:
    """The head of a layer that has one."""
    return heads_of(layer, 1)[0]


def _fraction(value: object) -> Fraction:
    return Fraction(int(value.numerator), int(value.denominator))  # type: ignore[attr-defined]
