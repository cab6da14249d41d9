"""Stream vectors that are affine in the codes of numbers nobody enumerates: positions, indices, keys.

A position's vector is base + M·T(a), where T(a) is the word of some number a in a code of signs. Products of
two such vectors are bilinear in the words. If the bilinear form is diagonal, what counts is where two words
differ; so for a query whose number is a, the key of the same number has one logit, and all keys at Hamming
distance w have logits in one interval. The code says how many of these there can be. Whatever is not
diagonal, and every rounding error, widens the intervals: a changed weight is never overlooked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from flint import fmpq
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.enclosures.boxes import Ends, as_ends, matrix_product
from separatrix.certificates.enclosures.fixed_rounding import FixedRounding
from separatrix.certificates.enclosures.float_rounding import FloatRounding
from separatrix.certificates.lemmas.feed_forward import feed_forward
from separatrix.certificates.lemmas.float_errors import LARGEST, UNKNOWN, fineness, summing_error
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.codes import Code, OneHot, SignCode
from separatrix.models.explicit.heads import Head
from separatrix.models.explicit.inputs import TokenInputs
from separatrix.models.explicit.layers import Layer, Readout

__all__ = [
    "VALUE",
    "Coded",
    "Matched",
    "Rivals",
    "after_attention",
    "answers",
    "head_keys",
    "logits_by_distance",
    "matched_logits",
    "plain_logits",
    "token_rows",
    "weights",
]

VALUE: Final = "value"
"""The name of the number that a token itself carries, beside the names of position tracks."""
_ZERO: Final = fmpq(0)
_FINEST: Final = 20  # embeddings that are multiples of 2^-20 below 2^20 are summed exactly in float64


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Coded:
    """Computed vectors base + Σ parts[name]·T(number of that name).

    `base` is (case, width): rows that are told apart, such as symbols, one by one. `parts` are shared by all.
    """

    base: Box
    parts: Mapping[str, Ends]

    def range(self) -> Box:
        """The vectors of each case, whatever the numbers are: signs are between −1 and 1."""
        radius = sum(
            (np.abs(part).sum(axis=1) for part in self.parts.values()), start=_zeros(self.base.shape[1])
        )
        return self.base.widened(as_ends(radius))

    def fineness(self) -> NDArray[np.int64]:
        """For each coordinate, a power of two that its numbers are multiples of whatever the words are."""
        known = [fineness(self.base.low).min(axis=0, initial=LARGEST)]
        known += [fineness(part).min(axis=1, initial=LARGEST) for part in self.parts.values()]
        points = np.all(self.base.low == self.base.high, axis=0)
        return np.where(points, np.minimum.reduce(known), UNKNOWN).astype(np.int64)

    def image(self, rounding: Rounding, matrix: Float[Tensor, "out inner"]) -> Coded:
        """What the arithmetic computes for W x: the exact image of both parts, and the rounding error."""
        exact = weights(rounding, matrix)
        base = matrix_product(self.base, exact)
        moved = {name: matrix_product(exact, _point(old.T)).low for name, old in self.parts.items()}
        parts = {name: part for name, part in moved.items() if part.any()}
        image = Coded(base=base, parts=parts)
        return Coded(base=base + _affine_error(rounding, self, exact, image), parts=parts)


def weights(rounding: Rounding, tensor: Float[Tensor, "..."]) -> Box:
    """Weights as the arithmetic has them: exactly known numbers."""
    held = rounding.encode(Box.exact(tensor))
    if not held.is_point:
        raise NotProved("A weight is so small that the arithmetic may or may not flush it to 0.")
    return held


def _affine_error(rounding: Rounding, x: Coded, matrix: Box, image: Coded) -> Box:
    """How far a computed W x may lie from the exact one, for every x of these (case, inner)."""
    reach = image.range()
    if isinstance(rounding, FixedRounding):
        if bool(np.any(reach.magnitude > rounding.largest)):
            raise NotProved("A product leaves the range of the arithmetic, where it would be clamped.")
        rounded = _zeros_like(reach.low)
        for out in range(rounded.shape[1]):
            base, words = image.base[:, out], [part[out] for part in image.parts.values()]
            # A sum of multiples of the step is one too, and is not rounded; signs change nothing about that.
            if not base.is_point or not all(_on_grid(each, rounding.step) for each in (base.low, *words)):
                rounded[:, out] = rounding.step
        return Box(-rounded, rounded)
    radius = _zeros_like(reach.low)
    if isinstance(rounding, FloatRounding):
        sizes, bound = x.range().magnitude.max(axis=0), as_ends(np.abs(matrix.low))
        finest, fine = x.fineness(), fineness(matrix.low)
        for out in range(len(bound)):
            radius[:, out] = summing_error(rounding, sizes, bound[out], finest, fine[out])
            if sum(sizes * bound[out], start=_ZERO) + radius[0, out] > rounding.form.largest:
                raise NotProved("A product may overflow.")
    return Box(-radius, radius)


def _on_grid(numbers: Ends, step: fmpq) -> bool:
    return all((number / step).denominator == 1 for number in numbers.reshape(-1))


def token_rows(
    rounding: Rounding, inputs: TokenInputs, name: str, *, coded: bool = False, rows: range | None = None
) -> Coded:
    """The vectors of a class of tokens: one case for each token, or one case with the number left open."""
    found = [each for each in inputs.classes if each.name == name]
    if not found:
        raise NotProved(f"There is no class of tokens called {name}.")
    kind = found[0]
    if kind.placed is not None or VALUE in kind.tracks:
        raise NotProved("Tokens write at their places, or a track has a name that is taken.")
    tracks = {track.name: track.code for track in inputs.tracks}
    parts: dict[str, Ends] = {}
    base = kind.bias[None, :]
    used = [kind.bias]
    if kind.code is not None and coded:
        _require_signs(kind.code)
        parts[VALUE] = Box.exact(kind.matrix).low
        used.append(kind.matrix)
    elif kind.code is not None:
        span = rows if rows is not None else range(kind.count)
        numbers = torch.arange(span.start, span.stop)
        base = kind.bias + kind.code.rows(numbers) @ kind.matrix.T
        used += [base, kind.matrix]
    for track, matrix in kind.tracks.items():
        _require_signs(tracks[track])
        parts[track] = Box.exact(matrix).low
        used.append(matrix)
    for each in used:
        scaled = each * 2.0**_FINEST
        if bool((scaled != scaled.round()).any()) or bool((each.abs() >= 2.0**_FINEST).any()):
            raise NotProved("An embedding is too fine for its sums to be exact in float64.")
    exact = Coded(base=Box.exact(base), parts={key: part for key, part in parts.items() if part.any()})
    _require_representable(rounding, exact)
    return exact


def _require_signs(code: Code) -> None:
    if not isinstance(code, SignCode | OneHot):
        raise NotProved("This proof reads addresses of signs; the model's are of another kind.")


def _require_representable(rounding: Rounding, rows: Coded) -> None:
    """Embeddings enter the arithmetic unrounded."""
    if isinstance(rounding, FixedRounding):
        numbers = [rows.base.low, *rows.parts.values()]
        fits = all(_on_grid(each, rounding.step) for each in numbers)
        if not fits or bool(np.any(rows.range().magnitude > rounding.largest)):
            raise NotProved("An embedding is no number of the arithmetic.")
    else:
        # Multiples of 2^-16 below 2^8 are floats of any width; others are too rare to care.
        fits = all(_on_grid(each, fmpq(1, 1 << 16)) for each in (rows.base.low, *rows.parts.values()))
        if not fits or bool(np.any(rows.range().magnitude > 256)):
            raise NotProved("An embedding may be no number of the arithmetic.")


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Rivals:
    """At most `most` keys with computed logits in one interval."""

    logit: Box
    most: int


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Matched:
    """Logits of one query: the key of the same number, and the others by their distance."""

    target: Box
    rivals: tuple[Rivals, ...]

    def groups(self, value: Box, others: Box) -> list[KeyGroup]:
        """For `attend`: the target with its value, and rivals whose values lie in a common box."""
        found = [KeyGroup(logit=self.target, value=value)]
        found += [
            KeyGroup(logit=rival.logit, value=others, least=0, most=rival.most) for rival in self.rivals
        ]
        return found


def matched_logits(
    rounding: Rounding, query: Coded, asked: str, key: Coded, offered: str, code: Code
) -> Matched:
    """Logits between a query that asks for number `asked` and keys that offer number `offered` of one code.

    Both sides are computed vectors (after Wq and Wk). Words may depend on no other number.
    """
    if isinstance(code, OneHot):
        return _one_hot(rounding, *_bilinear(rounding, query, asked, key, offered, code.dim))
    assert isinstance(code, SignCode)
    by_distance = logits_by_distance(rounding, query, asked, key, offered, code.dim)
    # Words of different numbers may be equal: then the distance is 0.
    rivals = [
        Rivals(logit=by_distance[distance], most=count)
        for distance, count in sorted(code.distances().items())
    ]
    return Matched(target=by_distance[0], rivals=tuple(rivals))


def logits_by_distance(
    rounding: Rounding, query: Coded, asked: str, key: Coded, offered: str, dim: int
) -> tuple[Box, ...]:
    """The same for words of `dim` signs of no particular code: logits at Hamming distance 0, 1, … dim."""
    form, constant, slack, error = _bilinear(rounding, query, asked, key, offered, dim)
    diagonal = [form[i, i] for i in range(dim)]
    off = sum((abs(form[i, j]) for i in range(dim) for j in range(dim) if i != j and form[i, j]), start=_ZERO)
    whole = sum(diagonal, start=_ZERO)
    ordered = sorted(diagonal)
    radius = slack + off + error

    def logit(low: fmpq, high: fmpq) -> Box:
        ends = constant + Box.between(low - radius, high + radius)
        return rounding.encode(ends) if isinstance(rounding, FixedRounding) else ends

    return tuple(
        logit(
            whole - 2 * sum(ordered[dim - distance :], start=_ZERO),
            whole - 2 * sum(ordered[:distance], start=_ZERO),
        )
        for distance in range(dim + 1)
    )


def _bilinear(
    rounding: Rounding, query: Coded, asked: str, key: Coded, offered: str, dim: int
) -> tuple[Ends, Box, fmpq, fmpq]:
    """The form of the two words, the constant, how much terms of one word alone can add, and the error."""
    strange = {*query.parts} - {asked} | {*key.parts} - {offered}
    if strange:
        raise NotProved(f"A logit depends on {', '.join(sorted(strange))}, which it should not.")
    inner = query.base.shape[1]
    q = query.parts.get(asked, _zeros(inner, dim))
    k = key.parts.get(offered, _zeros(inner, dim))
    constant = matrix_product(query.base, key.base).hull()
    slack = _total(matrix_product(query.base, _point(k.T)).magnitude)
    slack += _total(matrix_product(key.base, _point(q.T)).magnitude)
    form = matrix_product(_point(q.T), _point(k.T)).low
    return form, constant, slack, _dot_error(rounding, query, key)


def _one_hot(rounding: Rounding, form: Ends, constant: Box, slack: fmpq, error: fmpq) -> Matched:
    size = form.shape[0]
    diagonal = [form[i, i] for i in range(size)]
    others = [form[i, j] for i in range(size) for j in range(size) if i != j] or [_ZERO]

    def logit(low: fmpq, high: fmpq) -> Box:
        ends = constant + Box.between(low - slack - error, high + slack + error)
        return rounding.encode(ends) if isinstance(rounding, FixedRounding) else ends

    return Matched(
        target=logit(min(diagonal), max(diagonal)),
        rivals=(Rivals(logit=logit(min(others), max(others)), most=size - 1),),
    )


def plain_logits(rounding: Rounding, query: Coded, key: Coded) -> Box:
    """The computed logit between vectors whose numbers are unrelated, in one interval."""
    q, k = query.range().hull(0), key.range().hull(0)
    return rounding.dot(q.reshape(-1), k.reshape(-1)).reshape(1)


def _dot_error(rounding: Rounding, left: Coded, right: Coded) -> fmpq:
    """How far a computed inner product may lie from the exact one; fixed point rounds it once, later."""
    if not isinstance(rounding, FloatRounding):
        return _ZERO
    first, second = (each.range().magnitude.max(axis=0) for each in (left, right))
    error = summing_error(rounding, first, second, left.fineness(), right.fineness())
    if sum(first * second, start=_ZERO) + error > rounding.form.largest:
        raise NotProved("A logit may overflow.")
    return error


def head_keys(rounding: Rounding, head: Head, rows: Coded) -> tuple[Coded, Box]:
    """Keys and values that a head keeps of these positions: values (case, out) whatever the numbers are."""
    return rows.image(rounding, head.key), rows.image(rounding, head.value).range()


def after_attention(rounding: Rounding, layer: Layer, joined: Box, stream: Box | None = None) -> Box:
    """From what the heads returned, (case, joined), to the stream behind the layer."""
    y = rounding.affine(joined, weights(rounding, layer.output))
    if layer.attention_residual:
        if stream is None:
            raise NotProved("The layer adds its input, which this proof does not follow.")
        y = rounding.add(stream, y)
    psi = layer.feed_forward
    if psi is None:
        return y
    return feed_forward(rounding, psi, y, residual=layer.feed_forward_residual)


def answers(rounding: Rounding, readout: Readout, stream: Box) -> Box:
    """The scores (case, out) that the readout computes."""
    if not readout.scores:
        raise NotProved("The readout gives vectors where classes are asked for.")
    y = rounding.affine(stream, weights(rounding, readout.map.matrix), weights(rounding, readout.map.bias))
    if readout.code is None:
        return y
    rows = readout.code.rows(torch.arange(readout.code.count))
    return rounding.affine(y, weights(rounding, rows))


def _point(ends: Ends) -> Box:
    return Box(ends, ends)


def _total(ends: Ends) -> fmpq:
    """The largest sum of a row."""
    return max((sum(row, start=_ZERO) for row in ends), default=_ZERO)


def _zeros(*shape: int) -> Ends:
    return as_ends(np.full(shape, _ZERO, dtype=object))


def _zeros_like(ends: Ends) -> Ends:
    return _zeros(*ends.shape)
