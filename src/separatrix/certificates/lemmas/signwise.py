"""Vectors known sign by sign: words that enter the stream, that a head fetches, and that name a class.

A coordinate that depends on one sign of a word, and on other things only a little, lies in one interval where
the sign is + and in another where it is −. Attention works coordinate by coordinate, so one run with every
sign + and one with every sign − show what it makes of any word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from flint import fmpq
from torch import Tensor

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.enclosures.boxes import Ends, as_ends
from separatrix.certificates.enclosures.fixed_rounding import FixedRounding
from separatrix.certificates.enclosures.float_rounding import FloatRounding
from separatrix.certificates.lemmas.coded import VALUE, Coded, matched_logits
from separatrix.certificates.lemmas.float_errors import fineness, summing_error
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.codes import SignCode

__all__ = ["Signwise", "added", "embedded", "exact", "fetched", "folded", "lead_of_words", "require_short"]

_ZERO: Final = fmpq(0)
_ONE: Final = fmpq(1)
_FINEST: Final = 20
_LARGEST: Final = 16


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Signwise:
    """Coordinate c lies in `plus[c]` where sign `signs[c]` of a word is +, else in `minus[c]`."""

    signs: tuple[int, ...]
    minus: Box
    plus: Box
    dim: int

    @classmethod
    def of(cls, vectors: Coded, name: str, dim: int) -> Signwise:
        """By each coordinate's largest coefficient; the others are part of both intervals."""
        single = folded(vectors, name)
        part = single.parts.get(name, zeros(single.base.shape[1], dim))
        base = single.base.hull(0)
        sizes = np.abs(part)
        signs = tuple(int(max(range(dim), key=lambda i: row[i])) for row in sizes)
        chosen = _row([row[sign] for row, sign in zip(part, signs, strict=True)])
        rest = as_ends(sizes.sum(axis=1) - np.abs(chosen))
        spread = base.widened(rest)
        return cls(signs=signs, minus=spread - exact(chosen), plus=spread + exact(chosen), dim=dim)

    def coded(self, name: str) -> Coded:
        """The same as a coefficient of each sign and a box of what remains; (1, width)."""
        middles = [(box.low + box.high) / 2 for box in (self.minus, self.plus)]
        half = as_ends((middles[1] - middles[0]) / 2)
        part = zeros(len(self.signs), self.dim)
        for row, sign in enumerate(self.signs):
            part[row, sign] = half[row]
        base = Box.union(self.minus + exact(half), self.plus - exact(half))
        return Coded(base=base.reshape(1, -1), parts={name: part} if part.any() else {})

    def given(self, sign: int, *, positive: bool) -> Box:
        """The vector (width,) where one sign is known and the others are not."""
        known = self.plus if positive else self.minus
        either = Box.union(self.minus, self.plus)
        here = np.array([each == sign for each in self.signs], dtype=bool)
        return Box(
            as_ends(np.where(here, known.low, either.low)), as_ends(np.where(here, known.high, either.high))
        )


def exact(ends: Ends) -> Box:
    """The box of these numbers."""
    return Box(ends, ends)


def folded(vectors: Coded, *kept: str) -> Coded:
    """Words other than those named become part of the box, whatever they are."""
    others = {name: part for name, part in vectors.parts.items() if name not in kept}
    box = Coded(base=vectors.base, parts=others).range() if others else vectors.base
    return Coded(base=box, parts={name: part for name, part in vectors.parts.items() if name in kept})


def fetched(
    rounding: Rounding, target: Box, rivals: Sequence[KeyGroup], value: Coded, name: str, dim: int
) -> tuple[Signwise, Box]:
    """What a head returns, sign by sign of the word in its target's value, and the target's weight."""
    offered = Signwise.of(value, name, dim)
    minus, plus = (
        rounding.attend([KeyGroup(logit=target, value=side), *rivals])
        for side in (offered.minus, offered.plus)
    )
    found = Signwise(signs=offered.signs, minus=minus.output, plus=plus.output, dim=dim)
    return found, minus.weights[:1]


def added(rounding: Rounding, left: Coded, right: Coded) -> Coded:
    """The residual: computed sums of vectors that may hold different words."""
    parts = {**left.parts}
    for name, part in right.parts.items():
        parts[name] = as_ends(parts[name] + part) if name in parts else part
    whole = Coded(base=left.base + right.base, parts=parts)
    reach = whole.range().magnitude.max(axis=0)
    if isinstance(rounding, FixedRounding) and bool(np.any(reach > rounding.largest)):
        raise NotProved("A sum leaves the range of the arithmetic, where it would be clamped.")
    if not isinstance(rounding, FloatRounding):
        return whole
    sizes = [each.range().magnitude.max(axis=0) for each in (left, right)]
    fine = [left.fineness(), right.fineness()]
    ones = _row([_ONE, _ONE])
    radius = _row(
        [
            summing_error(
                rounding,
                _row([size[i] for size in sizes]),
                ones,
                np.array([each[i] for each in fine]),
                fineness(ones),
            )
            if all(size[i] for size in sizes)
            else _ZERO
            for i in range(len(reach))
        ]
    )
    return Coded(base=whole.base.widened(radius), parts=parts)


def require_short(tensors: Iterable[Tensor]) -> None:
    """Entries of embeddings are multiples of 2^-20 below 16, so that float64 sums a few of them exactly."""
    for tensor in tensors:
        scaled = tensor * 2.0**_FINEST
        if bool((scaled != scaled.round()).any()) or bool((tensor.abs() >= _LARGEST).any()):
            raise NotProved("An entry of the input map is too fine or too large for its sums to be exact.")


def embedded(rounding: Rounding, base: Ends, parts: Mapping[str, Ends]) -> Coded:
    """Vectors base + Σ parts·words, summed exactly and then turned into numbers of the arithmetic.

    Rounding needs to know the numbers that are rounded: a coordinate depends on one sign of one word at most.
    """
    known = base.copy()
    found = {name: zeros(*part.shape) for name, part in parts.items()}
    reach = np.abs(base).max(axis=0) + sum((np.abs(part).sum(axis=1) for part in parts.values()), start=_ZERO)
    if bool(np.any(reach >= _LARGEST)):
        raise NotProved("A coordinate of the input map is too large for its sum to be exact.")
    for row in range(base.shape[1]):
        signs = [(name, sign) for name, part in parts.items() for sign in np.flatnonzero(part[row])]
        if len(signs) > 1:
            raise NotProved(
                "A coordinate of the input map mixes several signs, which this proof does not follow."
            )
        if not signs:
            known[:, row] = rounding.encode(exact(base[:, row])).low
            continue
        name, sign = signs[0]
        entry = parts[name][row, sign]
        plus, minus = (rounding.encode(exact(base[:, row] + turn * entry)).low for turn in (1, -1))
        half = {(high - low) / 2 for high, low in zip(plus, minus, strict=True)}
        if len(half) > 1:
            raise NotProved("A coordinate of the input map is rounded differently from case to case.")
        known[:, row] = (plus + minus) / 2
        found[name][row, sign] = half.pop()
    return Coded(base=exact(known), parts={name: part for name, part in found.items() if part.any()})


def lead_of_words(rounding: Rounding, word: Signwise, code: SignCode) -> Box:
    """By how much ⟨word of v, y⟩ exceeds that of every other class, where y spells v sign by sign; (1,)."""
    if word.signs != tuple(range(code.dim)):
        raise NotProved("The readout does not spell the classes' words in their order.")
    rows = zeros(code.dim, code.dim)
    for sign in range(code.dim):
        rows[sign, sign] = _ONE
    words = Coded(base=exact(zeros(1, code.dim)), parts={VALUE: rows})
    found = matched_logits(rounding, word.coded(VALUE), VALUE, words, VALUE, code)
    if not found.rivals:
        return Box.exact([1])
    (low, high), ends = found.target.scalar, [rival.logit.scalar for rival in found.rivals]
    return Box.between([low - max(top for _, top in ends)], [high - min(bottom for bottom, _ in ends)])


def zeros(*shape: int) -> Ends:
    """Nothing but 0."""
    return as_ends(np.full(shape, _ZERO, dtype=object))


def _row(values: Sequence[fmpq]) -> Ends:
    row = np.empty(len(values), dtype=object)
    row[:] = values
    return row
