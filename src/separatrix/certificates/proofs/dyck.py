"""Proof of S-E-cited on the weights: bounded Dyck by attention, case by case, with the place left open.

A position is known by its place, its token, its depth (below 0; 0 … k; above k), the type that layer 2 found
for it, and whether a fault lies at or before it. All these are axes (see `axes`), and the proof follows the
coordinates over them. Three facts carry it from one position to whole strings:

- What a head with equal logits computes never falls if a value rises, in every arithmetic and order of
  summation, since products and sums are rounded monotonically. So strings of other depths lie between those
  with the nearest ones, and further faults only raise the mean of the faults.
- Until the first fault the bracket that layer 2 looks for exists, and among the earlier brackets only those
  of its parity can have its depth; no two rivals stand at one place, at any length.
- A string is a member iff it has no fault and ends at depth 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
from flint import fmpq

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.enclosures.boxes import Ends, as_ends
from separatrix.certificates.lemmas.axes import (
    Coordinates,
    affine,
    collapsed,
    embedded,
    feed_forward,
    stacked,
    sums,
)
from separatrix.certificates.lemmas.proving import claim, one_head
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.inputs import TokenInputs
from separatrix.models.explicit.layers import Layer
from separatrix.models.explicit.transformer import Transformer
from separatrix.tasks import Task
from separatrix.tasks.dyck import Dyck

__all__ = ["prove_next", "prove_recognise"]

_SOURCE: Final = "S-E-cited"
_AXES: Final = 5  # place, token, depth, type found, fault
_PLACE, _TOKEN, _DEPTH, _FOUND, _FAULT = range(_AXES)
_BELOW: Final = 0  # the depth case "below 0"; case 1 + d is depth d, and the last is "above k"
_APART: Final = 32  # rivals that are counted one by one; the others are counted with the highest of them
_ZERO: Final = fmpq(0)
_ONE: Final = fmpq(1)


def prove_recognise(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every string of every length up to n: is it a member?"""
    proof = _Proof.of(model, task, rounding, form="recognise", layers=3)
    stream = proof.depths()
    found, weights = proof.found(stream, asking=proof.closing, shift=1)
    stream = proof.after(1, stream, [found])
    stream = proof.faults(stream)
    scores = proof.scores(stream)
    leads = []
    for token in range(2 * proof.types):
        for case in range(proof.deepest + 3):
            leads.append(_lead(_at(scores, token=token, case=case, fault=1), 0))
            if _BELOW < case <= proof.deepest + 1:
                leads.append(_lead(_at(scores, token=token, case=case, fault=0), int(case == 1)))
    return (_weight(weights), _answer(Box.concatenate(leads)))


def prove_next(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every prefix of every member of every length up to n: which characters may follow?"""
    proof = _Proof.of(model, task, rounding, form="next", layers=2)
    assert isinstance(task, Dyck)
    stream = proof.depths()
    found, weights = proof.found(stream, asking=range(2 * proof.types), shift=0)
    stream = proof.after(1, stream, [found])
    scores = proof.scores(stream)
    leads = []
    for token in range(2 * proof.types):
        leads.append(_lead(_at(scores, token=token, case=1, found=proof.types), 0))
        for depth in range(1, proof.deepest + 1):
            for kind in range(proof.types):
                right = 1 + kind + (task.types if depth == task.depth else 0)
                leads.append(_lead(_at(scores, token=token, case=1 + depth, found=kind), right))
    return (_weight(weights), _answer(Box.concatenate(leads)))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Proof:
    """The model's parts, checked for their shape, and the sizes of the task."""

    rounding: Rounding
    inputs: TokenInputs
    layers: tuple[Layer, ...]
    model: Transformer
    n: int
    types: int
    deepest: int

    @classmethod
    def of(cls, model: ExplicitModel, task: Task, rounding: Rounding, *, form: str, layers: int) -> _Proof:
        if not isinstance(task, Dyck) or task.form != form or not isinstance(model, Transformer):
            raise NotProved(f"This proof is about Transformers for Dyck in the form {form}.")
        inputs, readout = model.inputs, model.readout
        if not isinstance(inputs, TokenInputs) or len(model.layers) != layers or not model.causal:
            raise NotProved(f"This proof is about {layers} causal layers on tokens.")
        brackets = [(each.first, each.count) for each in inputs.classes]
        if brackets != [(0, 2 * task.types)] or inputs.pad is not None:
            raise NotProved("The tokens are the brackets of the task.")
        classes = 2 if form == "recognise" else 2 * task.types + 1
        if readout.code is not None or not readout.scores or readout.map.out != classes:
            raise NotProved("The readout scores each answer by itself.")
        return cls(
            rounding=rounding,
            inputs=inputs,
            layers=model.layers,
            model=model,
            n=task.n,
            types=task.types,
            deepest=min(task.depth, task.n // 2),
        )

    def scores(self, stream: Coordinates) -> Box:
        """What the readout computes, classes along a last axis."""
        image = self.model.readout.map
        return stacked(affine(self.rounding, stream, image.matrix, image.bias))

    @property
    def opening(self) -> range:
        """Tokens that open."""
        return range(0, 2 * self.types, 2)

    @property
    def closing(self) -> range:
        """Tokens that close."""
        return range(1, 2 * self.types, 2)

    def after(self, number: int, stream: Coordinates, heads: Sequence[Coordinates]) -> Coordinates:
        """The stream behind a layer whose heads returned these."""
        layer = self.layers[number]
        y = affine(self.rounding, [box for head in heads for box in head], layer.output)
        if layer.attention_residual:
            y = sums(self.rounding, stream, y)
        if layer.feed_forward is None:
            return y
        return feed_forward(self.rounding, layer.feed_forward, y, residual=layer.feed_forward_residual)

    def depths(self) -> Coordinates:
        """Layer 1: the mean over the first i brackets, by depth, and what the layer makes of it."""
        stream = embedded(self.rounding, self.inputs, length=self.n, axes=_AXES)
        head = _uniform(self.rounding, self.layers[0], stream)
        means = []
        for box in affine(self.rounding, stream, head.value):
            values = _along(box, _TOKEN)
            rise, fall = (
                (
                    Box(as_ends(values.low[kinds].min()), as_ends(values.high[kinds].max()))
                    for kinds in (list(self.opening), list(self.closing))
                )
                if values.size > 1
                else (values[0], values[0])
            )
            if rise.scalar[0] < fall.scalar[1]:
                raise NotProved("Layer 1 does not count opening brackets up and closing ones down.")
            ends = [self._any_number(value) for value in (fall, rise)]
            rows = [self._means(count, rise, fall, ends) for count in range(1, self.n + 1)]
            means.append(Box.stack(rows).reshape(self.n, 1, self.deepest + 3, 1, 1))
        return self.after(0, stream, [means])

    def _any_number(self, value: Box) -> Box:
        """The mean of one and the same value, (1,), however many there are."""
        group = KeyGroup(logit=Box.exact([0]), value=value.reshape(1), least=1, most=self.n, tied=True)
        return self.rounding.attend([group]).output

    def _means(self, count: int, rise: Box, fall: Box, ends: Sequence[Box]) -> Box:
        """The computed mean over `count` brackets, by depth case; `ends` are those of equal brackets."""
        lowest, above = -2 + count % 2, self.deepest + 1
        highest = above + (above + count) % 2
        cases = [Box.union(self._mean(count, lowest, rise, fall), ends[0])]
        cases += [self._mean(count, depth, rise, fall) for depth in range(above)]
        last = self._mean(count, highest, rise, fall)
        cases.append(Box.union(last, ends[1]) if highest <= count else last)
        return Box.concatenate(cases)

    def _mean(self, count: int, depth: int, rise: Box, fall: Box) -> Box:
        """(1,). Depths of the wrong parity or beyond the count never occur; any mean will do for them."""
        if (count + depth) % 2 or abs(depth) > count:
            share = Fraction(count + depth, 2 * count)
            return self.rounding.encode(rise.scaled(share) + fall.scaled(1 - share)).hull().reshape(1)
        opened = (count + depth) // 2
        logit = Box.exact([0])
        groups = [
            KeyGroup(logit=logit, value=value.reshape(1), least=many, most=many, tied=True)
            for value, many in ((rise, opened), (fall, count - opened))
        ]
        return self.rounding.attend(groups).output

    def found(self, stream: Coordinates, *, asking: Sequence[int], shift: int) -> tuple[Coordinates, Box]:
        """Layer 2: what is found where an open bracket of each type is looked for, and otherwise.

        A position of depth d looks for the last place that opens with depth d + shift. Along the axis of
        types found, the last entry is where no bracket is asked for, or a fault lies before.
        """
        rounding, head = self.rounding, one_head(self.layers[1])
        query = collapsed(stacked(affine(rounding, stream, head.query)))
        keys = self._by_side(stacked(affine(rounding, stream, head.key)))
        values = [collapsed(box) for box in affine(rounding, stream, head.value)]
        kinds = [_along(box, _TOKEN, self.types * 2) for box in values]
        targets = Box.concatenate([box[list(self.opening)] for box in kinds])
        hulls = Box.stack([box.hull() for box in kinds])
        others = Box.concatenate(
            [hulls[place : place + 1] for place in range(len(kinds)) for _ in self.opening]
        )
        outputs, weights = [], []
        for depth in range(1 - shift, self.deepest + 1 - shift):
            for logits in _distinct(rounding, query, keys, asking, 1 + depth):
                attended = rounding.attend(self._search(logits, depth + shift, targets, others))
                outputs.append(attended.output)
                weights.append(attended.weights[:1])
        found = Box.union(*outputs).reshape(len(kinds), self.types)
        anything = rounding.attend(
            [KeyGroup(logit=_whole_range(rounding, query, keys), value=hulls, least=1, most=self.n)]
        ).output
        joined = Box.concatenate([found, anything.reshape(-1, 1)], axis=1)
        rows = [joined[row].reshape(1, 1, 1, -1, 1) for row in range(len(kinds))]
        return rows, Box.concatenate(weights)

    def _by_side(self, keys: Box) -> Box:
        """Keys at every place and depth with the tokens in two: all that open, all that close."""
        whole = keys.broadcast((self.n, 2 * self.types, self.deepest + 3, *keys.shape[_FOUND:]))
        sides = (whole[:, list(kinds)] for kinds in (self.opening, self.closing))
        return Box.stack([side.hull(_TOKEN) for side in sides], axis=_TOKEN)

    def _search(self, logits: Box, level: int, targets: Box, others: Box) -> list[KeyGroup]:
        """Groups of keys wherever the bracket of this level stands that is looked for.

        Logits are (place, side, depth); no fault lies before, so keys have depths from 0 to k. A softmax is
        computed from differences of logits, so they are taken relative to the bracket's own, and each rival
        is as high as it can be at any place of it.
        """
        match = logits[:, 0, level]
        places = range(level - 1, self.n, 2)
        earlier = [
            max(match.high[place - before] - match.low[place] for place in places[before // 2 :])
            for before in range(2, 2 * len(places), 2)
        ]
        different = logits.high.copy()
        different[:, 0, level] = min(logits.low.reshape(-1))
        lowest = min(match.low[place] for place in places)
        heights = different.reshape(self.n, -1).max(axis=1) - lowest
        rivals = [*_rivals(earlier), *_rivals(sorted(heights, reverse=True))]
        floor = min([top for top, _ in rivals] + [min(logits.low.reshape(-1)) - max(match.high)])
        return [
            KeyGroup(logit=Box.exact([0]), value=targets),
            *(
                KeyGroup(logit=Box.between(floor, top), value=others, least=0, most=many)
                for top, many in rivals
            ),
        ]

    def faults(self, stream: Coordinates) -> Coordinates:
        """Layer 3: the mean of the faults without one and with one, and what the layer makes of it."""
        head = _uniform(self.rounding, self.layers[2], stream)
        values = affine(self.rounding, stream, head.value)
        if len(values) != 1:
            raise NotProved("Layer 3 averages one number.")
        shape = (1, 2 * self.types, self.deepest + 3, self.types + 1, 1)
        if any(axis > most for axis, most in zip(values[0].shape, shape, strict=True)):
            raise NotProved("What counts as a fault depends on the place.")
        box = values[0].broadcast(shape)[0, :, :, :, 0]
        if np.any(box.low < 0):
            raise NotProved("A fault may count less than none.")
        least = self._least_fault(box)
        top, fine = (self._any_number(value) for value in (box.hull(), Box.exact(0)))
        rows = []
        for count in range(1, self.n + 1):
            none = KeyGroup(
                logit=Box.exact([0]), value=Box.exact([0]), least=count - 1, most=count - 1, tied=True
            )
            one = self.rounding.attend([KeyGroup(logit=Box.exact([0]), value=least), none]).output
            rows += [fine, Box(one.low, as_ends(np.maximum(top.high, one.high)))]
        mean = Box.concatenate(rows).reshape(self.n, 1, 1, 1, 2)
        return self.after(2, stream, [[mean]])

    def _least_fault(self, box: Box) -> Box:
        """The least that a fault counts, (1,); without one nothing counts. The axes: token, case, found."""
        inside = range(1, self.deepest + 1)
        fine = [box[token, 1 + depth, self.types] for token in self.opening for depth in inside]
        clash: list[Box] = []
        for token in self.closing:
            for depth in inside:
                for kind in range(self.types):
                    (fine if kind == token // 2 else clash).append(box[token, depth, kind])
        outside = [box[:, _BELOW].reshape(-1), box[:, self.deepest + 2].reshape(-1)]
        if any(each.scalar != (_ZERO, _ZERO) for each in fine):
            raise NotProved("Something counts as a fault in a string without one.")
        lows = [min(each.low) for each in outside] + [each.scalar[0] for each in clash]
        if min(lows) <= 0:
            raise NotProved("A fault may count nothing.")
        return Box.exact([min(lows)])


def _at(scores: Box, *, token: int, case: int, found: int | None = None, fault: int | None = None) -> Box:
    """The scores in these circumstances, and in all others."""
    for axis, place in ((_TOKEN, token), (_DEPTH, case), (_FOUND, found), (_FAULT, fault)):
        if place is not None and scores.shape[axis] > 1:
            scores = scores[(*[slice(None)] * axis, slice(place, place + 1))]
    return scores


def _uniform(rounding: Rounding, layer: Layer, stream: Coordinates) -> Head:
    head = one_head(layer)
    if bool((head.query != 0).any()) and bool((head.key != 0).any()):
        raise NotProved("A head that should average may prefer some positions.")
    # 0 times a number is 0, but times what has overflowed it is none: one that may is refused.
    for matrix in (head.query, head.key):
        affine(rounding, stream, matrix)
    return head


def _along(box: Box, axis: int, size: int | None = None) -> Box:
    """A box that depends on one axis only, as a row."""
    if any(length > 1 for place, length in enumerate(box.shape) if place != axis):
        raise NotProved("What a head averages or fetches depends on more than the token.")
    row = box.reshape(-1)
    return row.broadcast((size,)) if size is not None and row.size == 1 else row


def _distinct(rounding: Rounding, query: Box, keys: Box, asking: Sequence[int], case: int) -> Iterator[Box]:
    """Logits (place, token, depth) of the keys for every query that differs from the others."""
    if query.shape[_PLACE] > 1 or query.shape[_FOUND] > 1 or keys.shape[_FOUND] > 1:
        raise NotProved("What layer 2 asks for depends on the place.")
    rows = query[0, :, min(case, query.shape[_DEPTH] - 1), 0, 0]
    tokens = asking if rows.shape[0] > 1 else [0]
    seen = set()
    for token in tokens:
        row = rows[token]
        name = (*row.low, *row.high)
        if name not in seen:
            seen.add(name)
            logits = rounding.dot(row.broadcast(keys.shape), keys)
            yield logits[:, :, 1:-1, 0, 0]


def _whole_range(rounding: Rounding, query: Box, keys: Box) -> Box:
    """All logits there can be, in one interval."""
    inner = query.shape[-1]
    q, k = (box.reshape(-1, inner).hull(0) for box in (query, keys))
    return rounding.dot(q, k).reshape(1)


def _rivals(heights: Sequence[fmpq]) -> Iterator[tuple[fmpq, int]]:
    """Heights in falling order as (at most so high, at most so many): a few one by one, then all others."""
    for top in heights[:_APART]:
        yield top, 1
    if len(heights) > _APART:
        yield max(heights[_APART:]), len(heights) - _APART


def _lead(scores: Box, right: int) -> Box:
    """The least lead of the right class over the last axis; (1,)."""
    flat = scores.reshape(-1, scores.shape[-1])
    others = [place for place in range(flat.shape[1]) if place != right]
    low = flat.low[:, right] - flat.high[:, others].max(axis=1)
    high = flat.high[:, right] - flat.low[:, others].max(axis=1)
    return Box(_row(min(low)), _row(min(high)))


def _row(value: fmpq) -> Ends:
    row = np.empty(1, dtype=object)
    row[0] = value
    return row


def _weight(found: Box) -> Claim:
    return claim(
        "layer 2: weight on the bracket that is looked for",
        "until the first fault layer 2 puts at least this weight on it",
        ">",
        Fraction(1, 2),
        "of the attention",
        found,
        source=_SOURCE,
    )


def _answer(leads: Box) -> Claim:
    return claim(
        "lead of the right answer",
        "on every input the right answer's score exceeds every other one",
        ">",
        Fraction(0),
        "score",
        leads,
        source=_SOURCE,
    )
