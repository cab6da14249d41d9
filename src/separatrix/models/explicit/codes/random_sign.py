"""Random signs: addresses nearly orthogonal by chance, searched for until that is a fact."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import InvalidInput, TooLarge
from separatrix.models.explicit.codes._common import (
    LARGEST_COUNT,
    WORD,
    absolute_coherence,
    require_between,
    require_gamma,
    signs_of_words,
    whole_numbers,
    zero_outside,
)
from separatrix.models.explicit.codes.interface import SignCode
from separatrix.randomness import philox4x32, site_number
from separatrix.records import JsonObject

__all__ = ["RandomSign", "dimension_needed"]

WIDEST = 1 << 20
MOST_CHECKED = 1 << 14
MOST_ENTRIES_CHECKED = 1 << 28
LARGEST_DIMENSION_SEARCHED = 1 << 15
_LARGEST_SEED = (1 << 64) - 1
_STREAM, _SITE = "random-sign", "signs"
_BLOCK_WORDS = 4
_PRODUCTS_AT_ONCE = 1 << 22


@dataclass(frozen=True, kw_only=True, slots=True)
class RandomSign(SignCode):
    """Fair signs: row i is a pure function of (seed, i), so a row costs the same wherever it stands.

    They are the coins that example i of the stream "random-sign" draws at the site "signs", heads being −1.
    """

    kind: ClassVar[str] = "random-sign"
    count: int = field()
    dim: int = field()
    seed: int

    def __post_init__(self) -> None:
        require_between("A code of random signs", least=0, most=LARGEST_COUNT, count=self.count)
        require_between("A code of random signs", least=1, most=WIDEST, dim=self.dim)
        require_between("A code of random signs", least=0, most=_LARGEST_SEED, seed=self.seed)

    @property
    def parameters(self) -> int:
        """The seed, and the number of the stream it is read from."""
        return 2

    def rows(self, numbers: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
        """The signs of each number, straight from the generator's counter."""
        wide, inside = whole_numbers(numbers, self.count)
        number = wide.unsqueeze(-1)
        block = torch.arange(-(-self.dim // (WORD * _BLOCK_WORDS)), device=wide.device)
        zero = torch.zeros_like(number | block)
        purpose = site_number(_STREAM, _SITE)
        counter = (zero | block, zero | purpose, zero | (number & 0xFFFFFFFF), zero | (number >> 32))
        words = philox4x32(counter, (self.seed & 0xFFFFFFFF, self.seed >> 32))
        return zero_outside(signs_of_words(torch.stack(words, dim=-1).flatten(-2), self.dim), inside)

    @classmethod
    def search(
        cls,
        *,
        count: int,
        gamma: Fraction | float,
        dim: int | None = None,
        seed: int = 0,
        tries: int = 64,
    ) -> RandomSign:
        """The first seed from `seed` on under which no two of the words have a product above γ·dim.

        Unless given, dim is k = ⌈2 (2 ln N − ln 2) / γ²⌉: by Hoeffding's inequality a pair is too close with
        probability at most e^(−γ²k/2) ≤ 2/N², so fewer than one of the N(N − 1)/2 pairs is expected to be,
        and some choice of signs has none.
        """
        exact = require_gamma(gamma)
        require_between("A search for random signs", least=0, most=LARGEST_COUNT, count=count)
        require_between("A search for random signs", least=1, most=1 << 20, tries=tries)
        require_between("A search for random signs", least=0, most=_LARGEST_SEED, seed=seed)
        if dim is None:
            dim = _hoeffding_dimension(count, exact)
        for tried in range(tries):
            code = cls(count=count, dim=dim, seed=(seed + tried) & _LARGEST_SEED)
            if all(int(products.max()) <= exact * dim for _, products in _products(code)):
                return code
        raise InvalidInput(
            f"None of {tries} seeds from {seed} on keeps {count} random words of {dim} signs within "
            f"γ = {exact}; try a larger dim or γ, or more tries."
        )

    def distances(self) -> Mapping[int, int]:
        """For each distance the most others that any word has there, from all pairs; made once and kept."""
        return _measured_distances(self)

    @property
    def absolute_coherence(self) -> Fraction:
        """The largest |⟨u, v⟩| / dim of two different words."""
        return absolute_coherence(self.distances(), self.dim)

    def spec(self) -> JsonObject:
        """Its count, width and seed."""
        return {"kind": self.kind, "count": self.count, "dim": self.dim, "seed": self.seed}


def dimension_needed(*, count: int, gamma: Fraction | float) -> int:
    """The least k for which random signs in k dimensions exist with |⟨u, v⟩| ≤ γk, by the exact binomial.

    That is the least k with N(N − 1)/2 · P(|sum of k fair signs| > γk) < 1. With t the largest distance that
    is too small, the probability is 2·(C(k, 0) + … + C(k, t)) / 2^k; going from k to k + 1 doubles that sum
    less its last term, so that each k costs a few operations on whole numbers.
    """
    exact = require_gamma(gamma)
    require_between("A random code", least=0, most=LARGEST_COUNT, count=count)
    pairs = math.comb(count, 2)
    near, last, total = -1, 0, 0
    for dim in range(1, LARGEST_DIMENSION_SEARCHED + 1):
        # `last` is C(dim − 1, near) and `total` the sum of C(dim − 1, 0) … C(dim − 1, near).
        total = 2 * total - last
        last = last * dim // (dim - near) if near >= 0 else 0
        while dim - 2 * (near + 1) > exact * dim:
            near += 1
            last = last * (dim - near + 1) // near if near else 1
            total += last
        if pairs * 2 * total < 1 << dim:
            return dim
    raise TooLarge(
        f"{count} random words within γ = {exact} need more than {LARGEST_DIMENSION_SEARCHED} dimensions; "
        "try a larger γ."
    )


def _hoeffding_dimension(count: int, gamma: Fraction) -> int:
    if gamma == 0:
        raise InvalidInput("A search for random signs at γ = 0 needs its dim said; try a γ above 0.")
    needed = math.ceil(2 * (2 * math.log(max(2, count)) - math.log(2)) / float(gamma) ** 2)
    if needed > WIDEST:
        raise TooLarge(
            f"{count} random words within γ = {float(gamma):.2g} take more than {WIDEST} signs each; "
            "try a larger γ."
        )
    return needed


def _products(code: RandomSign) -> Iterator[tuple[int, Float[Tensor, "some count"]]]:
    """Products of some words with all of them, block by block; a word's product with itself reads −dim.

    float32 counts signs exactly to 2^24, whatever the order in which they are added.
    """
    if code.count > MOST_CHECKED or code.count * code.dim > MOST_ENTRIES_CHECKED:
        raise TooLarge(
            f"All pairs of random words are compared for up to {MOST_CHECKED} words and "
            f"{MOST_ENTRIES_CHECKED} signs; got {code.count} words of {code.dim}. "
            "Try ExtendedBCH or Binary, whose distances are known without comparing."
        )
    if code.count == 0:
        return
    numbers = torch.arange(code.count)
    made_at_once = max(1, _PRODUCTS_AT_ONCE // code.dim)
    words = torch.cat([code.rows(some).to(torch.float32) for some in torch.split(numbers, made_at_once)])
    for some in torch.split(numbers, max(1, _PRODUCTS_AT_ONCE // max(code.count, code.dim))):
        products = words[some] @ words.T
        products[torch.arange(len(some)), some] = -code.dim
        yield len(some), products


@lru_cache(maxsize=64)
def _measured_distances(code: RandomSign) -> Mapping[int, int]:
    width = code.dim + 1
    most = torch.zeros(width, dtype=torch.int64)
    for some, products in _products(code):
        distances = ((code.dim - products) / 2).to(torch.int64)
        distances += width * torch.arange(some).unsqueeze(-1)
        counts = torch.bincount(distances.flatten(), minlength=some * width).view(some, width)
        # The word itself was counted as its own opposite.
        counts[:, code.dim] -= 1
        most = torch.maximum(most, counts.amax(0))
    return MappingProxyType({place: number for place, number in enumerate(most.tolist()) if number})
