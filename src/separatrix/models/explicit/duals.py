"""The vector that has the product 1 with every address of a set: w = Uᵀy with (U Uᵀ)y = dim, divided by dim.

How exact is it? The Gram matrix U Uᵀ of sign vectors is whole. y is solved for in float64, corrected once
and rounded to multiples of 2^-36, so that w is a sum of such multiples and exact, and so is U Uᵀy. What is
left of the equation is measured, set by set, and a set for which it exceeds 2^-26 is refused: every vector
that comes out of here has products with its addresses within `DUAL_ERROR` of 1, on any device.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.explicit.codes import SignCode

__all__ = ["DUAL_ERROR", "DUAL_GRID", "cumulative_coherence", "duals"]

DUAL_GRID: Final = Fraction(1, 2**36)
"""Entries of a dual vector are multiples of it."""
DUAL_ERROR: Final = Fraction(1, 2**26)
"""More than the product of a dual vector and an address of its set, over dim, differs from 1."""
_SETS_AT_ONCE: Final = 1 << 22


def duals(code: SignCode, sets: Int[Tensor, "*shape members"]) -> Float[Tensor, "*shape dim"]:
    """For each set of numbers its dual vector: ⟨w, u_j⟩ = dim for j in the set, up to `DUAL_ERROR`·dim."""
    flat = sets.reshape(-1, sets.shape[-1])
    at_once = max(1, _SETS_AT_ONCE // max(1, flat.shape[1] * code.dim))
    parts = [_solved(code, part) for part in torch.split(flat, at_once)]
    rows = torch.cat(parts) if parts else torch.zeros(0, code.dim, dtype=torch.float64, device=sets.device)
    return rows.reshape(*sets.shape[:-1], code.dim)


def _solved(code: SignCode, sets: Int[Tensor, "set members"]) -> Float[Tensor, "set dim"]:
    vectors = code.rows(sets)
    gram = vectors @ vectors.mT
    wanted = torch.full((*sets.shape, 1), float(code.dim), dtype=torch.float64, device=sets.device)
    factors, pivots, singular = torch.linalg.lu_factor_ex(gram)
    fine = float(1 / DUAL_GRID)
    if not bool((singular == 0).all()):
        raise _refusal(code, sets[singular != 0][0])
    y = torch.linalg.lu_solve(factors, pivots, wanted)
    y = y + torch.linalg.lu_solve(factors, pivots, wanted - gram @ y)
    y = torch.round(y * fine) / fine
    # Products of whole numbers and multiples of the grid, all below 2^16: float64 adds them without error.
    left = (wanted - gram @ y).abs().squeeze(-1).amax(-1)
    wrong = ~(left <= float(DUAL_ERROR) * code.dim) | ~(y.abs().sum((1, 2)) * code.dim < 2.0**16)
    if bool(wrong.any()):
        raise _refusal(code, sets[wrong][0])
    return (vectors.mT @ y).squeeze(-1)


def _refusal(code: SignCode, numbers: Int[Tensor, "members"]) -> InvalidInput:
    shown = ", ".join(map(str, numbers.tolist()[:8]))
    return InvalidInput(
        f"The addresses of {{{shown}}} in {code.dim} dimensions are dependent, or nearly so; no vector tells "
        "their set apart. Take a wider code."
    )


def cumulative_coherence(code: SignCode, members: int) -> Fraction:
    """The most that |⟨u, v⟩| / dim can add up to over so many words v other than u, proven.

    With μ₁ this number, a dual vector of q members has coefficients of at most 1/(1 − μ₁(q − 1)), because
    the Gram matrix differs from a multiple of 1 by rows of at most μ₁(q − 1); and its product with an address
    outside its set is at most μ₁(q) times that.
    """
    left, total = members, 0
    near = sorted(((abs(code.dim - 2 * far), count) for far, count in code.distances().items()), reverse=True)
    for product, count in near:
        used = min(left, count)
        total += used * product
        left -= used
    return Fraction(total, code.dim)
