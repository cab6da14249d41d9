"""Attention to a set by its dual vector: what each member, and what all others together, can weigh.

With y the coefficients of the set's addresses, the product of the dual vector with an address is
Σ y_s⟨u_s, u_j⟩: dim on the set, and outside at most what either all sets, looked at one by one, or the
cumulative coherence of the code allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, final

import numpy as np
import torch
from flint import fmpq
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.certificates.enclosures import Box, KeyGroup, Rounding
from separatrix.certificates.enclosures.boxes import Ends, as_ends
from separatrix.certificates.enclosures.fixed_rounding import FixedRounding
from separatrix.certificates.enclosures.float_rounding import FloatRounding
from separatrix.certificates.lemmas.nearness import Near, exact, near_affine, near_dot, stored, zeros
from separatrix.certificates.refusals import NotProved
from separatrix.models.explicit.codes import SignCode
from separatrix.models.explicit.duals import DUAL_ERROR, DUAL_GRID, cumulative_coherence, duals

__all__ = ["Products", "SetAttention", "by_coherence", "by_listing", "require_exactly"]

_EXACT_SUMS: Final = 2**16


@final
@dataclass(frozen=True, kw_only=True)
class Products:
    """Bounds for every set: products inside and outside, over dim, and the size of an entry of w."""

    inside_low: fmpq
    inside_high: fmpq
    outside_low: fmpq
    outside_high: fmpq
    entry: fmpq
    how: str


def by_coherence(code: SignCode, members: int) -> Products:
    """For every set of so many members; see `cumulative_coherence`. One member's vector is its address."""
    error = _fmpq(DUAL_ERROR)
    if members == 1:
        around = 1 + error
        return Products(
            inside_low=1 - error,
            inside_high=around,
            outside_low=-around,
            outside_high=_fmpq(code.coherence) * around,
            entry=around,
            how="the coherence of the code",
        )
    beside = _fmpq(cumulative_coherence(code, members - 1))
    if beside >= 1:
        raise NotProved("The addresses of a set may be dependent, as far as the code's coherence tells.")
    coefficient = (1 + error) / (1 - beside)
    outside = _fmpq(cumulative_coherence(code, members)) * coefficient
    return Products(
        inside_low=1 - error,
        inside_high=1 + error,
        outside_low=-outside,
        outside_high=outside,
        entry=members * coefficient,
        how="the cumulative coherence of the code",
    )


def by_listing(code: SignCode, sets: Int[Tensor, "set members"]) -> Products:
    """For exactly these sets. Products of signs and multiples of the grid add up without error in float64."""
    every = code.rows(torch.arange(code.count))
    out_low, out_high, entry = 0.0, -float(code.dim), 0.0
    for some in torch.split(sets, 1 << 12):
        vectors = duals(code, some)
        fine = vectors * float(1 / DUAL_GRID)
        if bool((fine != fine.round()).any()) or bool((vectors.abs().sum(1) >= _EXACT_SUMS).any()):
            raise NotProved("A dual vector is too large for its products to be exact.")
        products = vectors @ every.T
        out_low = min(out_low, float(products.min()))
        out_high = max(out_high, float(products.scatter(1, some, -float(code.dim)).max()))
        entry = max(entry, float(vectors.abs().max()))
    error = _fmpq(DUAL_ERROR)
    return Products(
        inside_low=1 - error,
        inside_high=1 + error,
        outside_low=_fmpq(Fraction(out_low)) / code.dim,
        outside_high=_fmpq(Fraction(out_high)) / code.dim,
        entry=_fmpq(Fraction(entry)),
        how="every set, one by one",
    )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SetAttention:
    """Computed weights: of one member, of all keys outside the set together; and how many keys there are."""

    member: Box
    outside: Box
    keys: int

    @classmethod
    def enclosed(
        cls,
        rounding: Rounding,
        *,
        query: Float[Tensor, "dim dim"],
        key: Float[Tensor, "dim dim"],
        products: Products,
        members: int,
        others: int,
    ) -> SetAttention:
        """From what the head does to a dual vector, a multiple of it, and to an address, nothing.

        Entries that are not what they should be are counted as errors of queries and keys.
        """
        dim = len(query)
        factor = query[0, 0]
        same = torch.eye(dim, dtype=torch.float64)
        vector = Near(size=_filled(dim, products.entry), off=zeros(dim)).encoded(rounding)
        asked = near_affine(rounding, vector, query, ideal=factor * same)
        offered = near_affine(rounding, _signs(rounding, dim), key, ideal=same)
        slack = near_dot(rounding, asked, offered).off.reshape(-1)[0]
        scale = exact(factor).reshape(-1)[0] * dim
        if scale <= 0:
            raise NotProved("Logits do not grow with the product of a dual vector and an address.")
        inside = Box.between([scale * products.inside_low - slack], [scale * products.inside_high + slack])
        outside = Box.between([scale * products.outside_low - slack], [scale * products.outside_high + slack])
        nothing = Box.exact([0])
        attended = rounding.attend(
            [
                KeyGroup(logit=inside, value=nothing),
                KeyGroup(logit=inside, value=nothing, least=members - 1, most=members - 1),
                KeyGroup(logit=outside, value=nothing, least=others, most=others),
            ]
        )
        return cls(member=attended.weights[:1], outside=attended.weights[2:], keys=members + others)

    def moved(self, *, share: fmpq, size: fmpq, contributing: int) -> fmpq:
        """How far Σ weight·value lies from share times the sum of the values of so many members.

        Values are at most `size`: the members' distance from the share counts, and the weight outside.
        It bounds a norm too, if `size` bounds the norm of each value.
        """
        low, high = self.member.scalar
        return (contributing * max(abs(low - share), abs(high - share)) + self.outside.scalar[1]) * size

    def rounded(self, rounding: Rounding, *, size: fmpq, contributing: int, nonzero: int) -> fmpq:
        """What rounding the products and their sum adds in a coordinate where `nonzero` keys have a value."""
        _, high = self.member.scalar
        _, rest = self.outside.scalar
        if isinstance(rounding, FixedRounding):
            # A weight that was rounded to 0 has the product 0, and so has a value of 0.
            step = rounding.step * _fmpq(max(rounding.most_down, rounding.most_up))
            return step * (contributing if rest == 0 else nonzero)
        if isinstance(rounding, FloatRounding):
            growth = rounding.form.growth(self.keys)
            total = (contributing * high + rest) * size
            return growth * total + (1 + growth) * 8 * self.keys * (1 + size) * rounding.form.tiny
        return fmpq(0)


def _signs(rounding: Rounding, dim: int) -> Near:
    """Signs are numbers of most arithmetics; where they are not, they are rounded."""
    near = Near(size=_filled(dim, fmpq(1)), off=zeros(dim))
    both = torch.tensor([1.0, -1.0], dtype=torch.float64)
    return near if bool(np.all(stored(rounding, both) == exact(both))) else near.encoded(rounding)


def require_exactly(
    matrix: Float[Tensor, "rows columns"], wanted: Float[Tensor, "rows columns"], what: str
) -> None:
    """Refuse an input map that does more than to place what it reads: then its float64 sums are exact."""
    if matrix.shape != wanted.shape or bool((matrix != wanted).any()):
        raise NotProved(f"The proof needs {what}.")


def _filled(size: int, value: fmpq) -> Ends:
    return as_ends(np.full(size, value, dtype=object))


def _fmpq(value: Fraction) -> fmpq:
    return fmpq(value.numerator, value.denominator)
