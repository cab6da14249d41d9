"""The first layer of S-T7's constructions: every place fetches what stands in front of it.

The logit between two places is a diagonal form of the address before the one and the other's own, so the
code's distances bound the weight of all places but the one in front. What is fetched is then known sign by
sign, each in an interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.lemmas.coded import VALUE, Coded, matched_logits, plain_logits
from separatrix.certificates.lemmas.proving import one_head
from separatrix.certificates.lemmas.signwise import added, fetched, folded
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.codes import SignCode
from separatrix.models.explicit.layers import Layer
from separatrix.models.explicit.positions import Own, PositionRule, Track

__all__ = ["FETCHED", "Fetching", "Places", "token_in_front"]

FETCHED: Final = "the word in front"


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Places:
    """The tracks of a place's own address and of the one before it, in one code."""

    own: str
    before: str
    code: SignCode

    @classmethod
    def of(cls, tracks: Sequence[Track], length: int, *, others: Sequence[PositionRule] = ()) -> Places:
        """Read off the tracks; beside the two there are those of the other rules, and no more."""
        own = [track for track in tracks if track.rule == Own() and isinstance(track.code, SignCode)]
        before = [track for track in tracks if track.rule == Own(shift=-1)]
        rest = [track.rule for track in tracks if track not in own and track not in before]
        if len(own) != 1 or len(before) != 1 or rest != list(others):
            raise NotProved("Places know their own address and the one before it, and nothing unexpected.")
        code = own[0].code
        if not isinstance(code, SignCode) or before[0].code.spec() != code.spec() or code.count < length:
            raise NotProved("Both addresses of a place are in one code of signs, with a word for each place.")
        if {own[0].name, before[0].name} & {VALUE, FETCHED}:
            raise NotProved("A track has the name by which this proof calls another word.")
        return cls(own=own[0].name, before=before[0].name, code=code)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Fetching:
    """The stream behind the layer, by what stands in front of a place."""

    behind: Coded
    """Where a word stands in front."""
    again: Coded
    """At places that hold a word, behind those where one stands in front."""
    start: Coded
    """At place 0, with nothing in front."""
    weight: Box
    """Of the place in front, where a word stands there."""


def token_in_front(
    rounding: Rounding,
    layer: Layer,
    places: Places,
    *,
    in_front: Coded,
    behind: Coded,
    dim: int,
    most: int,
) -> Fetching:
    """Places `in_front` hold words of `dim` signs, places `behind` follow them; place 0 is one of the former.

    `most` is how many places place 0 can see: 1 if nothing but itself.
    """
    head = one_head(layer)
    if layer.feed_forward is not None or not layer.attention_residual:
        raise NotProved("The first layer is attention with a residual and no feed-forward map.")
    kinds = (in_front, behind)
    offered = [rows.image(rounding, head.key) for rows in kinds]
    held = [rows.image(rounding, head.value) for rows in kinds]
    everything = Box.union(*(each.range().hull(0) for each in held))

    def looking(asker: Coded, at: int) -> tuple[Box, list[KeyGroup]]:
        """The logit of the place in front, of one kind, and all other places by distance, of either kind."""
        query = asker.image(rounding, head.query)
        found = [
            matched_logits(rounding, query, places.before, keys, places.own, places.code) for keys in offered
        ]
        rivals = [
            KeyGroup(
                logit=Box.union(a.logit.reshape(1), b.logit.reshape(1)),
                value=everything,
                least=0,
                most=a.most,
            )
            for a, b in zip(found[0].rivals, found[1].rivals, strict=True)
        ]
        return found[at].target, rivals

    def plain(rows: Coded, returned: Box) -> Coded:
        image = Coded(base=returned.reshape(1, -1), parts={}).image(rounding, layer.output)
        return added(rounding, rows, image)

    target, rivals = looking(behind, 0)
    word, weight = fetched(rounding, target, rivals, folded(held[0], VALUE), VALUE, dim)
    target, rivals = looking(in_front, 1)
    label = rounding.attend([KeyGroup(logit=target, value=held[1].range().hull(0)), *rivals]).output
    query = in_front.image(rounding, head.query)
    seen = 1 if most == 1 else 2
    logits = Box.union(*(plain_logits(rounding, query, keys) for keys in offered[:seen]))
    values = Box.union(*(each.range().hull(0) for each in held[:seen]))
    mean = rounding.attend([KeyGroup(logit=logits, value=values, most=most)]).output
    return Fetching(
        behind=added(rounding, behind, word.coded(FETCHED).image(rounding, layer.output)),
        again=plain(in_front, label),
        start=plain(in_front, mean),
        weight=weight,
    )
