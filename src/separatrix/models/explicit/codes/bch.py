"""Extended BCH codes as addresses: far fewer dimensions than random signs, with distances that are proven."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.models.explicit.codes._common import (
    LARGEST_COUNT,
    WORD,
    absolute_coherence,
    bits_for,
    require_between,
    require_gamma,
    signs_of_words,
    whole_numbers,
    zero_outside,
)
from separatrix.models.explicit.codes._galois import (
    LARGEST_DEGREE,
    SMALLEST_DEGREE,
    generator_polynomial,
    remainder,
)
from separatrix.models.explicit.codes._weights import MOST_BITS_COUNTED, counted, most_by_packing, of_dual
from separatrix.models.explicit.codes.interface import SignCode
from separatrix.records import JsonObject

__all__ = ["ExtendedBCH"]

LENGTHS = tuple(1 << degree for degree in range(SMALLEST_DEGREE, LARGEST_DEGREE + 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtendedBCH(SignCode):
    """The primitive narrow-sense BCH code of length 2^m − 1 with a parity bit; 0 becomes +1 and 1 becomes −1.

    Message bit j of a number adds row j of the generator. The rows are systematic, but for the last: it is
    the word of ones, which every such code contains and which turns a word into its opposite. So numbers
    below 2^(k − 1) never name a word and its opposite; with `one_sided` the others serve too, where only
    ⟨u, v⟩ ≤ γ is needed and the product −1 does no harm.
    """

    kind: ClassVar[str] = "extended-bch"
    length: int
    designed: int
    """Distance that the roots of the generator polynomial promise, before the parity bit."""
    count: int = field()
    one_sided: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.length, int) or self.length not in LENGTHS:
            raise InvalidInput(
                f"An extended BCH code has one of the lengths {' '.join(map(str, LENGTHS))}; "
                f"got {_shown(self.length)}. Try 64."
            )
        if not isinstance(self.one_sided, bool):
            raise InvalidInput(f"one_sided is True or False; got {_shown(self.one_sided)}.")
        owner = "An extended BCH code"
        require_between(owner, least=1, most=self.length - 1, designed=self.designed)
        require_between(owner, least=0, most=LARGEST_COUNT, count=self.count)
        if self.count > self.words:
            raise InvalidInput(
                f"The extended BCH code of length {self.length} and designed distance {self.designed} has "
                f"{self.words} words to use; got count={self.count}. Try a smaller designed distance, or "
                "ExtendedBCH.least."
            )

    @classmethod
    def whole(cls, *, length: int, designed: int, one_sided: bool = True) -> ExtendedBCH:
        """The code with all its words; refused where there are more than 2^40."""
        words = cls(length=length, designed=designed, count=0, one_sided=one_sided).words
        return cls(length=length, designed=designed, count=words, one_sided=one_sided)

    @classmethod
    def least(cls, *, count: int, gamma: Fraction | float, one_sided: bool = True) -> ExtendedBCH:
        """The code of the smallest dim whose proven coherence is at most γ; |⟨u, v⟩| counts if two-sided.

        Of each length the code with the fewest words that are enough is tried: its distances are largest.
        """
        wanted = require_gamma(gamma)
        require_between("A search for a code", least=0, most=LARGEST_COUNT, count=count)
        for length in LENGTHS:
            designed = _largest_designed(length, bits_for(count) + (not one_sided))
            if designed is None:
                continue
            code = cls(length=length, designed=designed, count=count, one_sided=one_sided)
            if (code.coherence if one_sided else code.absolute_coherence) <= wanted:
                return code
        raise InvalidInput(
            f"No extended BCH code of length up to {LENGTHS[-1]} has {count} words within γ = {wanted}; "
            "try a larger γ, RandomSign or Binary."
        )

    @property
    def dim(self) -> int:
        """The length."""
        return self.length

    @property
    def dimension(self) -> int:
        """k: the whole code has 2^k words."""
        return len(_all_rows(self.length, self.designed))

    @property
    def words(self) -> int:
        """How many words may be used: all of them, or one of each pair of opposites."""
        return 1 << (self.dimension if self.one_sided else self.dimension - 1)

    @property
    def bits(self) -> int:
        """Message bits that the numbers in use have."""
        return bits_for(self.count)

    @property
    def generator(self) -> Int[Tensor, "bits dim"]:
        """The rows that the message bits in use add up, of 0 and 1."""
        return _matrix(_all_rows(self.length, self.designed)[: self.bits], self.length)

    @property
    def parameters(self) -> int:
        """The entries of the generator."""
        return self.bits * self.dim

    def rows(self, numbers: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
        """The word of each number: the xor of the generator's rows where the number's bits are 1."""
        wide, inside = whole_numbers(numbers, self.count)
        packed = _packed_rows(self.length, self.designed, wide.device)
        words = torch.zeros(*wide.shape, -(-self.length // WORD), dtype=torch.int64, device=wide.device)
        for place in range(self.bits):
            chosen = -((wide >> place) & 1)
            words ^= chosen.unsqueeze(-1) & packed[place]
        return zero_outside(signs_of_words(words, self.length), inside)

    def distances(self) -> Mapping[int, int]:
        """Words of each weight in the linear code that the message bits in use span; made once and kept.

        Up to 2^24 words are counted. Of more words, the whole code's weights are taken, which come from its
        dual where that is small enough to count; otherwise the designed distance (the theorem of Bose,
        Chaudhuri and Hocquenghem) and a packing argument bound each weight from above.
        """
        return _weights_in_use(self.length, self.designed, self.bits)

    @property
    def absolute_coherence(self) -> Fraction:
        """The largest |⟨u, v⟩| / dim of two different words, proven; 1 where opposites are in use."""
        return absolute_coherence(self.distances(), self.dim)

    def spec(self) -> JsonObject:
        """Its length, designed distance and count, and whether opposites may be used."""
        return {
            "kind": self.kind,
            "length": self.length,
            "designed": self.designed,
            "count": self.count,
            "one_sided": self.one_sided,
        }


def _shown(value: object) -> str:
    small = isinstance(value, int) and abs(value) < 10**20
    return str(value) if small else f"a value of type {type(value).__name__}"


def _systematic_rows(length: int, designed: int) -> Iterator[int]:
    """Multiples of the generator polynomial, each with one message bit; bit i of a row is coordinate i.

    The coordinates are the check bits, then the message bits, then the parity of them all.
    """
    polynomial = generator_polynomial(length.bit_length() - 1, designed)
    checks = polynomial.bit_length() - 1
    for place in range(checks, length - 1):
        row = (1 << place) ^ remainder(1 << place, polynomial)
        yield row | (row.bit_count() % 2) << (length - 1)


@lru_cache(maxsize=512)
def _all_rows(length: int, designed: int) -> tuple[int, ...]:
    """A basis of the whole code; the word of ones sums up all systematic rows, so it can replace the last."""
    return (*list(_systematic_rows(length, designed))[:-1], (1 << length) - 1)


def _dual_rows(length: int, designed: int) -> list[int]:
    """A basis of the dual code: each check bit with the message bits that it sums."""
    rows = list(_systematic_rows(length, designed))
    checks = length - 1 - len(rows)
    return [
        1 << check | sum((row >> check & 1) << (checks + place) for place, row in enumerate(rows))
        for check in (*range(checks), length - 1)
    ]


def _matrix(rows: tuple[int, ...] | list[int], length: int) -> Int[Tensor, "rows length"]:
    bits = [[row >> place & 1 for place in range(length)] for row in rows]
    return torch.tensor(bits, dtype=torch.int64).view(len(rows), length)


@lru_cache(maxsize=64)
def _packed_rows(length: int, designed: int, device: torch.device) -> Int[Tensor, "rows words"]:
    """The basis in words of 32 bits. It is kept, because a captured graph may not copy from the host."""
    words = [
        [row >> start & ((1 << WORD) - 1) for start in range(0, length, WORD)]
        for row in _all_rows(length, designed)
    ]
    return torch.tensor(words, dtype=torch.int64, device=device)


@lru_cache(maxsize=512)
def _largest_designed(length: int, bits: int) -> int | None:
    """The largest designed distance that leaves so many message bits; None if none does."""
    for designed in range(length - 1, 0, -1):
        if length - generator_polynomial(length.bit_length() - 1, designed).bit_length() >= bits:
            return designed
    return None


@lru_cache(maxsize=512)
def _weights_in_use(length: int, designed: int, bits: int) -> Mapping[int, int]:
    rows = _all_rows(length, designed)
    if bits <= MOST_BITS_COUNTED:
        counts = dict(enumerate(counted(_matrix(rows[:bits], length))))
    elif length - len(rows) <= MOST_BITS_COUNTED:
        counts = dict(enumerate(of_dual(counted(_matrix(_dual_rows(length, designed), length)))))
    else:
        # With the parity bit every weight is even.
        counts = most_by_packing(dim=length, bits=bits, least=designed + designed % 2)
    if bits < len(rows):
        # Without the last row no two words are opposites.
        counts[length] = 0
    return MappingProxyType({weight: count for weight, count in counts.items() if weight and count})
