"""How many words of each weight a binary linear code has: counted, or counted in the dual, or bounded.

In a linear code the words at distance w from a given one are as many as the words of weight w, whichever
word is given: N² products become one weight for each word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["MOST_BITS_COUNTED", "counted", "most_by_packing", "of_dual"]

MOST_BITS_COUNTED = 24
_BITS_AT_ONCE = 10


def counted(generator: Int[Tensor, "bits dim"]) -> list[int]:
    """The number of words of each weight 0 … dim, by making every word.

    Every word is the sum of one spanned by the first half of the rows and one by the others. As signs, two
    words at distance w have the product dim − 2w, so a matrix product weighs all sums at once; float32 is
    exact for them.
    """
    bits, dim = generator.shape
    assert bits <= MOST_BITS_COUNTED, f"2^{bits} words are too many to count"
    counts = torch.zeros(dim + 1, dtype=torch.int64)
    first, others = _spanned(generator[: bits // 2]), _spanned(generator[bits // 2 :])
    for some in torch.split(others, 1 << _BITS_AT_ONCE):
        weights = ((dim - first @ some.T) / 2).to(torch.int64)
        counts += torch.bincount(weights.flatten(), minlength=dim + 1)
    return [int(count) for count in counts.tolist()]


def _spanned(rows: Int[Tensor, "bits dim"]) -> Float[Tensor, "words dim"]:
    """All sums of the rows, as signs: adding bits is multiplying signs."""
    words = torch.ones(1, rows.shape[1], dtype=torch.float32)
    for row in (1 - 2 * rows).to(torch.float32):
        words = torch.cat([words, words * row])
    return words


def of_dual(counts: Sequence[int]) -> list[int]:
    """The weights of the dual code from those of a code: MacWilliams' identity, in whole numbers.

    |C| · B_j = Σ_w A_w K_j(w), where the Krawtchouk number K_j(w) is the coefficient of x^j in
    (1 − x)^w (1 + x)^(dim − w). Multiplied by (1 − x) / (1 + x), the polynomial for w gives that for w + 1.
    """
    dim = len(counts) - 1
    totals = [0] * (dim + 1)
    polynomial = [math.comb(dim, power) for power in range(dim + 1)]
    for count in counts:
        if count:
            totals = [total + count * value for total, value in zip(totals, polynomial, strict=True)]
        polynomial = _next_krawtchouk(polynomial)
    size = sum(counts)
    assert all(total >= 0 and total % size == 0 for total in totals), "these are no weights of a linear code"
    return [total // size for total in totals]


def _next_krawtchouk(polynomial: list[int]) -> list[int]:
    """The polynomial times (1 − x) / (1 + x): from q·(1 + x) = p·(1 − x), q_j = p_j − p_(j−1) − q_(j−1)."""
    following: list[int] = []
    before = last = 0
    for value in polynomial:
        last = value - before - last
        before = value
        following.append(last)
    return following


def most_by_packing(*, dim: int, bits: int, least: int) -> dict[int, int]:
    """For each weight, no more words than this, in a code of even weights ≥ `least` with the word of ones.

    Take t places from a word of weight w, 2t < least: no two words can leave the same rest, so the C(w, t)
    rests of each word are different ones of the C(dim, w − t) sets of w − t places. The complement of a word
    is a word, so none weighs more than dim − least but the word of ones.
    """
    radius = (least - 1) // 2
    most = {
        weight: min(1 << bits, math.comb(dim, weight - radius) // math.comb(weight, radius))
        for weight in range(least, dim - least + 1, 2)
    }
    return {weight: count for weight, count in {**most, dim: 1}.items() if count}
