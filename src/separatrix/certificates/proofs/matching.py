"""Proof of R-M2 and R-M3 on the weights: a cosine of a sum of angles tells 0 from every other residue.

Read off the tensors: with (c, s) the point of a number on the circle, queries and keys are affine in it, so
the logit is a polynomial in the points of the asking position and of those in the tuple. Its part that is a
multiple A of cos(2π(z_i + z_j …)/M) is split off; the absolute values of all other coefficients bound what
remains. Where the sum is 0 modulo M the cosine is 1, elsewhere at most cos(2π/M): finitely many residues,
two intervals. The stored points, the stored weights and every operation are off by what the code and the
arithmetic prove, which widens these intervals, and all tuples of the row count as rivals.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
from flint import arb, ctx, fmpq
from jaxtyping import Float
from torch import Tensor

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.enclosures.boxes import Ends, as_ends, matrix_product
from separatrix.certificates.lemmas.nearness import (
    FLOAT64,
    Near,
    exact,
    near_affine,
    near_dot,
    near_product,
    stored,
    zeros,
)
from separatrix.certificates.lemmas.presence import Presence, behind, share_claims
from separatrix.certificates.lemmas.proving import claim
from separatrix.certificates.refusals import NotProved
from separatrix.evidence import Claim
from separatrix.models.explicit import ExplicitModel
from separatrix.models.explicit.codes import Circle
from separatrix.models.explicit.heads import AttentionHead, Head
from separatrix.models.explicit.inputs import InputMap, TokenInputs
from separatrix.models.explicit.third_order import ThirdOrderHead
from separatrix.models.explicit.transformer import UnmaskedTransformer
from separatrix.tasks import Task
from separatrix.tasks.match2 import Match2
from separatrix.tasks.match3 import Match3

__all__ = ["CircleHead", "Points", "cosine_of_turn", "points", "prove"]

_ONE_PLACE: Final = 2  # of the basis (cosine, sine, 1)
_BASIS: Final = 3


def prove(model: ExplicitModel, task: Task, rounding: Rounding) -> tuple[Claim, ...]:
    """For every row of n residues: the answer at each position is whether some tuple completes it to 0."""
    if not isinstance(model, UnmaskedTransformer) or not isinstance(task, Match2 | Match3):
        raise NotProved("This proof is about unmasked Transformers that match numbers.")
    pairs = isinstance(task, Match2)
    if task.distinct or (isinstance(task, Match3) and task.variant != "full"):
        raise NotProved("This proof is about the form in which any positions, repeats too, may match.")
    if len(model.layers) != 1 or len(model.layers[0].heads) != 1 or model.readout.classes != 2:
        raise NotProved("This proof is about one head and the answers no and yes.")
    layer = model.layers[0]
    found = points(rounding, model.inputs, task.residues)
    head = CircleHead.read(rounding, layer.heads[0], found)
    if len(head.keys) != (1 if pairs else 2):
        raise NotProved("Pairs are matched by a standard head, triples by one of order three.")
    source = "R-M2" if pairs else "R-M3"
    presence, gaps = head.presence(rounding, count=task.n, modulus=task.residues)
    ends = [behind(rounding, layer, joined, found.range) for joined in (presence.absent, presence.present)]
    return (
        *gap_claims(gaps, source),
        *share_claims(rounding, model.readout, absent=ends[0], present=ends[1], what="match", source=source),
    )


def gap_claims(gaps: Box, source: str) -> tuple[Claim, ...]:
    """The dummy's logit lies between those of matches and those of everything else."""
    names = ("gap below the dummy", "gap above the dummy")
    sides = (
        "the logit of a tuple that does not match stays below the dummy's by more than this",
        "the logit of a match exceeds the dummy's by more than this",
    )
    return tuple(
        claim(name, side, ">", Fraction(0), "logit", gaps[place : place + 1], source=source)
        for place, (name, side) in enumerate(zip(names, sides, strict=True))
    )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Points:
    """The vectors of residues, affine in their points on the circle, and the model's one own element."""

    form: Ends
    """(width, 3): what cosine, sine and 1 are multiplied by."""
    near: Near
    """The vectors that are computed, beside the ideal ones."""
    range: Box
    """All that a computed vector can be."""
    dummy: Float[Tensor, "width"]
    dummy_near: Near
    dummy_range: Box


def points(rounding: Rounding, inputs: InputMap, modulus: int, *, tracks: int = 0) -> Points:
    """The embedding of the residues modulo M, without what the given number of tracks adds at some places."""
    if not isinstance(inputs, TokenInputs) or len(inputs.classes) != 1 or len(inputs.appended) != 1:
        raise NotProved("The tokens are residues, and the model adds one element of its own.")
    kind = inputs.classes[0]
    if kind.placed is not None:
        raise NotProved("Residues write at their places, which this proof does not follow.")
    if (kind.first, kind.count, inputs.pad) != (0, modulus, None) or len(kind.tracks) != tracks:
        raise NotProved("Every residue has a vector of its own, and there is no padding.")
    if not isinstance(kind.code, Circle) or kind.code.modulus != modulus:
        raise NotProved("The residues are points of the circle.")
    matrix, bias = exact(kind.matrix), exact(kind.bias)
    near = _embedded(kind.matrix, kind.bias, fmpq(kind.code.error.numerator, kind.code.error.denominator))
    near = _entered(rounding, near, constant=~np.any(matrix != 0, axis=1), values=kind.bias)
    circle = Box.between([-1, -1], [1, 1])
    around = (
        matrix_product(circle.reshape(1, -1), Box(matrix, matrix)).reshape(-1) + Box(bias, bias)
    ).widened(near.off)
    own = inputs.appended[0]
    every = np.ones(len(own), dtype=bool)
    dummy = _entered(
        rounding, Near(size=as_ends(np.abs(exact(own))), off=zeros(len(own))), constant=every, values=own
    )
    return Points(
        form=np.concatenate([matrix, bias[:, None]], axis=1),
        near=near,
        range=around,
        dummy=own,
        dummy_near=dummy,
        dummy_range=Box(exact(own), exact(own)).widened(dummy.off),
    )


def _embedded(matrix: Float[Tensor, "width 2"], bias: Float[Tensor, "width"], error: fmpq) -> Near:
    """In float64, as input maps compute; a row that merely copies an entry, or has none, loses nothing."""
    entries = Near(
        size=as_ends(np.full(2, fmpq(1), dtype=object)), off=as_ends(np.full(2, error, dtype=object))
    )
    image = near_affine(FLOAT64, entries, matrix, bias)
    rows, shifts = exact(matrix), exact(bias)
    off = image.off.copy()
    for row in range(len(off)):
        used = [entry for entry in rows[row] if entry != 0]
        if not used:
            off[row] = fmpq(0)
        elif len(used) == 1 and abs(used[0]) == 1 and shifts[row] == 0:
            off[row] = error
    return Near(size=image.size, off=off)


def _entered(rounding: Rounding, near: Near, *, constant: Ends, values: Float[Tensor, "width"]) -> Near:
    """Into the arithmetic; constants are known, so their rounding is."""
    rounded = near.encoded(rounding)
    known = np.abs(stored(rounding, values) - exact(values))
    return Near(size=rounded.size, off=np.where(constant, known, rounded.off))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class CircleHead:
    """A head as matrices over (cosine, sine, 1): one key or two, as many values."""

    points: Points
    query: Float[Tensor, "inner width"]
    keys: tuple[Float[Tensor, "inner width"], ...]
    values: tuple[Float[Tensor, "out width"], ...]

    @classmethod
    def read(cls, rounding: Rounding, head: AttentionHead, found: Points) -> CircleHead:
        """From either kind of head."""
        keys: tuple[Tensor, ...]
        values: tuple[Tensor, ...]
        if isinstance(head, ThirdOrderHead):
            keys, values = (head.first_key, head.second_key), (head.first_value, head.second_value)
        elif isinstance(head, Head):
            keys, values = (head.key,), (head.value,)
        else:
            raise NotProved("A head of this kind is unknown to the proof.")
        return cls(points=found, query=head.query, keys=keys, values=values)

    def presence(self, rounding: Rounding, *, count: int, modulus: int) -> tuple[Presence, Box]:
        """What the head returns at any position of a row of so many residues; the gaps around the dummy."""
        slots = len(self.keys)
        amplitude, rest, off = self._cosine(rounding)
        if amplitude <= 0:
            raise NotProved("Logits do not grow with the cosine of the sum.")
        _, nearest = cosine_of_turn(1, modulus)
        slack = rest + off
        matched = Box.between([amplitude - slack], [amplitude + slack])
        others = Box.between([-amplitude - slack], [amplitude * nearest + slack])
        value = self._value(rounding, (False,) * slots)
        dummies, whole = [], None
        for kinds in itertools.product((False, True), repeat=slots):
            if not any(kinds):
                continue
            logit = self._with_dummy(rounding, kinds)
            number = count ** (slots - sum(kinds))
            dummies.append(
                KeyGroup(logit=logit, value=self._value(rounding, kinds), least=number, most=number)
            )
            if all(kinds):
                whole = logit
        assert whole is not None
        tuples = count**slots
        gaps = Box.concatenate([whole - others, matched - whole])
        if bool(np.any(gaps.low <= 0)):
            raise NotProved(
                f"In this arithmetic logits are off by up to {float(off):.3g}, which is too much beside the "
                f"{float(amplitude * (1 - nearest)):.3g} between a match and a near miss modulo {modulus}; "
                "more bits or a smaller modulus would do."
            )
        presence = Presence.enclosed(
            rounding,
            matching=KeyGroup(logit=matched, value=value, least=0, most=tuples),
            others=KeyGroup(logit=others, value=value, least=0, most=tuples),
            dummies=dummies,
        )
        return presence, gaps

    def _cosine(self, rounding: Rounding) -> tuple[fmpq, fmpq, fmpq]:
        """Logits of residues: A, what other terms add at most, and how far computed ones may be off."""
        form = self._polynomial((False,) * len(self.keys))
        pattern = _cosine_pattern(form.ndim)
        amplitude = (form * pattern).sum() / (pattern * pattern).sum()
        rest = np.abs(form - amplitude * pattern).sum()
        return amplitude, rest, self._off(rounding, (False,) * len(self.keys))

    def _with_dummy(self, rounding: Rounding, kinds: tuple[bool, ...]) -> Box:
        """Logits of tuples that hold the dummy: a constant, up to what points and rounding add."""
        form = self._polynomial(kinds)
        constant = form[(_ONE_PLACE,) * form.ndim]
        slack = np.abs(form).sum() - abs(constant) + self._off(rounding, kinds)
        return Box.between([constant - slack], [constant + slack])

    def _polynomial(self, kinds: tuple[bool, ...]) -> Ends:
        """Coefficients over the points of the asking position and of each residue in the tuple."""
        query = exact(self.query) @ self.points.form
        sides = [
            (exact(key) @ exact(self.points.dummy))[:, None] if own else exact(key) @ self.points.form
            for key, own in zip(self.keys, kinds, strict=True)
        ]
        total = query
        for side in sides:
            total = as_ends(np.einsum("c...,cs->c...s", total, side, optimize=False))
        kept = [0, *(1 if not own else None for own in kinds)]
        summed = total.sum(axis=0)
        return as_ends(summed.reshape([_BASIS for axis in kept if axis is not None]))

    def _off(self, rounding: Rounding, kinds: tuple[bool, ...]) -> fmpq:
        query = near_affine(rounding, self.points.near, self.query)
        sides = [
            near_affine(rounding, self.points.dummy_near if own else self.points.near, key)
            for key, own in zip(self.keys, kinds, strict=True)
        ]
        both = sides[0] if len(sides) == 1 else near_product(rounding, sides[0], sides[1])
        off: fmpq = near_dot(rounding, query, both).off.reshape(-1)[0]
        return off

    def _value(self, rounding: Rounding, kinds: tuple[bool, ...]) -> Box:
        boxes = [
            rounding.affine(
                (self.points.dummy_range if own else self.points.range).reshape(1, -1),
                rounding.encode(Box.exact(value)),
            ).reshape(-1)
            for value, own in zip(self.values, kinds, strict=True)
        ]
        return boxes[0] if len(boxes) == 1 else rounding.multiply(boxes[0], boxes[1])


def _cosine_pattern(sides: int) -> Ends:
    """cos of a sum of angles as a polynomial in their cosines and sines: the real part of Π (c + is)."""
    pattern = zeros(*(_BASIS,) * sides)
    for places in itertools.product((0, 1), repeat=sides):
        sines = sum(places)
        if sines % 2 == 0:
            pattern[places] = fmpq(-1 if sines % 4 == 2 else 1)
    return pattern


def cosine_of_turn(residue: int, modulus: int) -> tuple[fmpq, fmpq]:
    """Rationals around cos(2π·residue/M)."""
    with ctx.workprec(256):
        ball = arb(fmpq(2 * residue, modulus)).cos_pi()
        ends = [ball.lower().man_exp(), ball.upper().man_exp()]
    low, high = (fmpq(mantissa) * fmpq(2) ** int(exponent) for mantissa, exponent in ends)
    return low, high
