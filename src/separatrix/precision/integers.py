"""Tensors of exact integers wider than 64 bits, in plain int64 operations.

An `Integers` carries a bound it never exceeds, `|value| <= 2^bits`, known without looking at the data. Every
operation derives the bound of its result from those of its operands, so nothing can overflow unseen, and the
layout follows from the bound alone:

- up to 62 bits: one int64 word, the fast path;
- beyond: little-endian limbs of 28 bits. All but the last lie in [0, 2^28); the last carries the sign, so
  dropping low limbs is floor division. Limb products are at most 2^56, which leaves room to add 127 of them.

Everything broadcasts as torch does and runs where the tensors are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, zip_longest

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["Integers"]

LIMB = 28
LIMB_MASK = (1 << LIMB) - 1
WORD = 62
PIECE = 14  # half a limb: products of two sum exactly in float64, which has fast matrix products everywhere
PIECE_MASK = (1 << PIECE) - 1
PIECE_TERMS = 1 << 20  # so many products of pieces stay below 2^48, and below 2^62 once shifted by a piece
FLOAT_EXACT = 53
QUOTIENT_GAIN = 46  # sound bits of a float64 quotient of two numbers of at most 32 limbs


def ceil_log2(count: int) -> int:
    """The least b with count <= 2^b, for count >= 1."""
    return (count - 1).bit_length()


@dataclass(frozen=True, eq=False)
class Integers:
    """A tensor of exact integers with a static bound: |value| <= 2^bits."""

    limbs: tuple[Int[Tensor, "*shape"], ...]
    bits: int

    @classmethod
    def of(cls, words: Int[Tensor, "*shape"], bits: int) -> Integers:
        """Int64 words as they are; the caller vouches that none exceeds 2^bits."""
        return _carry((words,), bits)

    @classmethod
    def constant(cls, value: int, device: torch.device | None = None) -> Integers:
        """One integer of any size, as a tensor without axes."""
        return _constant(value, device)

    @classmethod
    def from_ints(
        cls,
        values: Sequence[int],
        shape: Sequence[int],
        *,
        bits: int | None = None,
        device: torch.device | None = None,
    ) -> Integers:
        """Python integers, row by row, in the given shape."""
        if bits is None:
            bits = ceil_log2(max((abs(value) for value in values), default=1) or 1)
        last = _count(bits) - 1
        limbs = [[(value >> LIMB * i) & LIMB_MASK for value in values] for i in range(last)]
        limbs.append([value >> LIMB * last for value in values])
        return cls(
            tuple(
                torch.tensor(limb, dtype=torch.int64, device=device).reshape(tuple(shape)) for limb in limbs
            ),
            bits,
        )

    @classmethod
    def from_float(cls, values: Float[Tensor, "*shape"], bits: int) -> Integers:
        """Integer-valued float64, exactly; the caller vouches for |value| <= 2^bits."""
        if bits <= WORD:
            return cls((values.to(torch.int64),), bits)
        # Magnitude first: the complement of a small negative number would not fit in 53 bits.
        rest, sign = values.abs(), values.sign().to(torch.int64)
        columns = []
        for i in reversed(range(_count(bits))):
            limb = torch.floor(rest * 2.0 ** (-LIMB * i))
            rest = rest - limb * 2.0 ** (LIMB * i)
            columns.append(limb.to(torch.int64) * sign)
        return _carry(columns[::-1], bits)

    def to_ints(self) -> list[int]:
        """Python integers, row by row."""
        rows = [limb.reshape(-1).tolist() for limb in self.limbs]
        return [sum(part << LIMB * i for i, part in enumerate(parts)) for parts in zip(*rows, strict=True)]

    def to_float(self) -> Float[Tensor, "*shape"]:
        """Float64 within a relative (number of limbs)·2^-53; exact below 2^53."""
        # From the top: a partial sum below 2^53 is exact, so the cancellation against the sign costs nothing.
        total = self.limbs[-1].to(torch.float64)
        for limb in reversed(self.limbs[:-1]):
            total = total * 2.0**LIMB + limb.to(torch.float64)
        return total

    @property
    def shape(self) -> torch.Size:
        """The common shape of the limbs."""
        return self.limbs[0].shape

    @property
    def device(self) -> torch.device:
        """Where the limbs lie."""
        return self.limbs[0].device

    def each(self, reshape: Callable[[Tensor], Tensor]) -> Integers:
        """Apply a map that only moves, picks or repeats elements."""
        return Integers(tuple(reshape(limb) for limb in self.limbs), self.bits)

    def take(self, index: Int[Tensor, "*places"]) -> Integers:
        """Entries of a table of one axis."""
        return self.each(lambda limb: limb.index_select(0, index.reshape(-1)).reshape(index.shape))

    def bounded(self, bits: int) -> Integers:
        """The same numbers under another bound; the caller vouches that it holds."""
        if _count(bits) == len(self.limbs):
            return Integers(self.limbs, bits)
        return _carry(self.columns(), bits)

    def columns(self) -> tuple[Int[Tensor, "*shape"], ...]:
        """The numbers in 28-bit limbs, a lone word split too."""
        if len(self.limbs) > 1 or self.bits <= LIMB:
            return self.limbs
        word = self.limbs[0]
        last = -(-self.bits // LIMB) - 1
        return (*((word >> LIMB * i) & LIMB_MASK for i in range(last)), word >> LIMB * last)

    def __add__(self, other: Integers | int) -> Integers:
        other = self._lift(other)
        bits = max(self.bits, other.bits) + 1
        if bits <= WORD:
            return Integers((self.limbs[0] + other.limbs[0],), bits)
        pairs = zip_longest(self.columns(), other.columns())
        return _carry([a + b if a is not None and b is not None else _one_of(a, b) for a, b in pairs], bits)

    def __neg__(self) -> Integers:
        return _carry([-limb for limb in self.limbs], self.bits)

    def __sub__(self, other: Integers | int) -> Integers:
        return self + -self._lift(other)

    def __mul__(self, other: Integers | int) -> Integers:
        other = self._lift(other)
        bits = self.bits + other.bits
        if bits <= WORD:
            return Integers((self.limbs[0] * other.limbs[0],), bits)
        left, right = self.columns(), other.columns()
        columns: list[Tensor | None] = [None] * (len(left) + len(right) - 1)
        for i, a in enumerate(left):
            for j, b in enumerate(right):
                sofar = columns[i + j]
                columns[i + j] = a * b if sofar is None else torch.addcmul(sofar, a, b)
        return _carry([_one_of(column, None) for column in columns], bits)

    def __lshift__(self, places: int) -> Integers:
        bits = self.bits + places
        if bits <= WORD:
            return Integers((self.limbs[0] << places,), bits)
        skip, turn = divmod(places, LIMB)
        zero = torch.zeros_like(self.limbs[0])
        return _carry([zero] * skip + [column << turn for column in self.columns()], bits)

    def __rshift__(self, places: int) -> Integers:
        """Floor of the quotient by 2^places."""
        bits = max(self.bits - places, 0)
        if len(self.limbs) == 1:
            return Integers((self.limbs[0] >> min(places, 63),), bits)
        skip, turn = divmod(places, LIMB)
        kept = self.limbs[skip:] or (self.limbs[-1] >> 63,)
        if turn == 0:
            return _carry(kept, bits)
        low = [(a >> turn) | ((b << (LIMB - turn)) & LIMB_MASK) for a, b in pairwise(kept)]
        return _carry([*low, kept[-1] >> turn], bits)

    def low_bits(self, count: int) -> Integers:
        """The remainder by 2^count, in [0, 2^count)."""
        if len(self.limbs) == 1 and count <= WORD:
            return Integers((self.limbs[0] & ((1 << count) - 1),), count)
        whole, part = divmod(count, LIMB)
        kept = list(self.bounded(max(self.bits, count + 1, WORD + 1)).limbs[: whole + 1])
        kept[whole] = kept[whole] & ((1 << part) - 1)
        return _carry(kept, count)

    def field(self, offset: int, width: int) -> Int[Tensor, "*shape"]:
        """Bits [offset, offset + width) of non-negative numbers, width at most 28, as int64."""
        if len(self.limbs) == 1:
            return (self.limbs[0] >> offset) & ((1 << width) - 1)
        skip, turn = divmod(offset, LIMB)
        found = self.limbs[skip] >> turn
        if skip + 1 < len(self.limbs):
            found = found | (self.limbs[skip + 1] << (LIMB - turn))
        return found & ((1 << width) - 1)

    def divmod(
        self, divisor: Integers | int, *, quotient_bits: int | None = None
    ) -> tuple[Integers, Integers]:
        """Quotient rounded down and remainder in [0, divisor), for positive divisors.

        `quotient_bits` is a bound on the quotient where the caller knows a better one than the dividend's.
        """
        if isinstance(divisor, int):
            return self._divmod_constant(divisor)
        bits = self.bits if quotient_bits is None else min(quotient_bits, self.bits)
        if len(self.limbs) == 1 and len(divisor.limbs) == 1:
            dividend, by = self.limbs[0], divisor.limbs[0]
            word = torch.div(dividend, by, rounding_mode="floor")
            return Integers((word,), bits), Integers((dividend - word * by,), divisor.bits)
        return self._divmod_estimated(divisor, bits)

    def _divmod_constant(self, divisor: int) -> tuple[Integers, Integers]:
        """By a reciprocal of self.bits bits: it errs by less than one, so one step down or up repairs it."""
        if divisor & (divisor - 1) == 0:
            places = divisor.bit_length() - 1
            return self >> places, self.low_bits(places)
        size = ceil_log2(divisor)
        bits = max(self.bits - size + 1, 0)
        if len(self.limbs) == 1 and size <= WORD:
            word = torch.div(self.limbs[0], divisor, rounding_mode="floor")
            return Integers((word,), bits), Integers((self.limbs[0] - word * divisor,), size)
        quotient = (self * ((1 << self.bits) // divisor)) >> self.bits
        remainder = (self - quotient * divisor).bounded(size + 1)
        step = (~remainder.less(divisor)).to(torch.int64) - remainder.negative().to(torch.int64)
        correction = Integers((step,), 0)
        return (quotient + correction).bounded(bits), (remainder - correction * divisor).bounded(size)

    def _divmod_estimated(self, divisor: Integers, bits: int) -> tuple[Integers, Integers]:
        """By float64 quotients of what is left, each subtracted exactly.

        A round shrinks the part of the quotient still missing by 2^46 and adds at most 0.51 for rounding to
        an integer; after ceil((bits + 2) / 46) rounds at most 0.77 is missing, so only the sign needs repair.
        """
        scale = divisor.to_float()
        quotient, remainder = Integers.constant(0, self.device), self
        missing = bits
        for _ in range(-(-(bits + 2) // QUOTIENT_GAIN)):
            estimate = Integers.from_float(torch.round(remainder.to_float() / scale), missing + 1)
            quotient = quotient + estimate
            missing = max(missing - QUOTIENT_GAIN, 0) + 1
            left = remainder - estimate * divisor
            remainder = left.bounded(min(divisor.bits + missing, left.bits))
        below = remainder.negative().to(torch.int64)
        correction = Integers((below,), 0)
        return (quotient - correction).bounded(bits), (remainder + correction * divisor).bounded(divisor.bits)

    def less(self, other: Integers | int) -> Bool[Tensor, "*shape"]:
        """Element by element, self < other."""
        left, right = _aligned(self, self._lift(other))
        answer = left[0] < right[0]
        for a, b in zip(left[1:], right[1:], strict=True):
            answer = (a < b) | ((a == b) & answer)
        return answer

    def equals(self, other: Integers | int) -> Bool[Tensor, "*shape"]:
        """Element by element, self == other."""
        left, right = _aligned(self, self._lift(other))
        answer = left[0] == right[0]
        for a, b in zip(left[1:], right[1:], strict=True):
            answer = answer & (a == b)
        return answer

    def negative(self) -> Bool[Tensor, "*shape"]:
        """Element by element, self < 0: the last limb has the sign."""
        return self.limbs[-1] < 0

    def odd(self) -> Bool[Tensor, "*shape"]:
        """Element by element, whether the number is odd."""
        return (self.limbs[0] & 1) == 1

    def clamp(self, low: int, high: int) -> Integers:
        """The nearest numbers of [low, high]."""
        inside = where(self.less(low), self._lift(low), self)
        inside = where(inside.less(high), inside, self._lift(high))
        return inside.bounded(ceil_log2(max(abs(low), abs(high), 1)))

    def sum(self, axis: int) -> Integers:
        """The exact sum along an axis."""
        bits = self.bits + ceil_log2(max(self.shape[axis], 1))
        if bits <= WORD:
            return Integers((self.limbs[0].sum(axis),), bits)
        return _carry([column.sum(axis) for column in self.columns()], bits)

    def maxima(self, axis: int) -> Bool[Tensor, "*shape"]:
        """Where the largest numbers along an axis stand: all of them, if several are equal."""
        standing = torch.ones(self.shape, dtype=torch.bool, device=self.device)
        lowest = torch.iinfo(torch.int64).min
        for limb in reversed(self.limbs):
            candidates = torch.where(standing, limb, lowest)
            standing = standing & (candidates == candidates.amax(axis, keepdim=True))
        return standing

    def matmul(self, other: Integers) -> Integers:
        """The exact matrix product (…, row, inner) × (…, inner, column).

        The numbers are cut into 14-bit pieces whose matrix products are exact in float64, whatever the order
        of summation, because every partial sum is an integer below 2^53.
        """
        inner = self.shape[-1]
        bits = self.bits + other.bits + ceil_log2(max(inner, 1))
        if bits <= FLOAT_EXACT:
            product = torch.matmul(self.limbs[0].to(torch.float64), other.limbs[0].to(torch.float64))
            return Integers((product.to(torch.int64),), bits)
        left, right = self._pieces(), other._pieces()
        chunk = PIECE_TERMS // min(len(left), len(right))
        total = None
        for start in range(0, max(inner, 1), chunk):
            rows = [piece[..., start : start + chunk] for piece in left]
            cols = [piece[..., start : start + chunk, :] for piece in right]
            part = _multiply_pieces(rows, cols, bits)
            total = part if total is None else (total + part).bounded(bits)
        assert total is not None
        return total

    def _pieces(self) -> list[Float[Tensor, "*shape"]]:
        columns = self.columns()
        halves = [half for column in columns for half in (column & PIECE_MASK, column >> PIECE)]
        if self.bits - LIMB * (len(columns) - 1) <= PIECE:
            halves[-2:] = [columns[-1]]
        return [half.to(torch.float64) for half in halves]

    def put(self, mask: Bool[Tensor, "*shape"], values: Sequence[int]) -> Integers:
        """A copy with the marked elements, row by row, replaced by Python integers within the bound."""
        fresh = Integers.from_ints(values, (len(values),), bits=self.bits, device=self.device)
        copies = tuple(limb.expand(mask.shape).clone() for limb in self.limbs)
        for copy, new in zip(copies, fresh.limbs, strict=True):
            copy[mask] = new
        return Integers(copies, self.bits)

    def _lift(self, other: Integers | int) -> Integers:
        return Integers.constant(other, self.device) if isinstance(other, int) else other


def where(condition: Bool[Tensor, "*shape"], left: Integers, right: Integers) -> Integers:
    """Left where the condition holds, right elsewhere."""
    bits = max(left.bits, right.bits)
    limbs = zip(left.bounded(bits).limbs, right.bounded(bits).limbs, strict=True)
    return Integers(tuple(torch.where(condition, a, b) for a, b in limbs), bits)


@lru_cache(maxsize=1024)
def _constant(value: int, device: torch.device | None) -> Integers:
    """Kept, because a copy from the host would stall a GPU at every use."""
    return Integers.from_ints([value], (), device=device)


def _count(bits: int) -> int:
    return 1 if bits <= WORD else -(-bits // LIMB)


def _one_of(first: Tensor | None, second: Tensor | None) -> Tensor:
    found = second if first is None else first
    assert found is not None
    return found


def _aligned(left: Integers, right: Integers) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    bits = max(left.bits, right.bits)
    return left.bounded(bits).limbs, right.bounded(bits).limbs


def _carry(columns: Sequence[Int[Tensor, "*shape"]], bits: int) -> Integers:
    """Normal form of sum(columns[i] · 2^(28 i)), whose absolute value the caller vouches is at most 2^bits.

    Columns beyond the last limb are folded into it modulo 2^64. That is exact: the last limb fits in 62 bits.
    """
    last = _count(bits) - 1
    limbs: list[Tensor] = []
    carry: Tensor | None = None
    for i in range(last):
        column = columns[i] if i < len(columns) else torch.zeros_like(columns[0])
        if carry is not None:
            column = column + carry
        limbs.append(column & LIMB_MASK)
        carry = column >> LIMB
    top = carry
    for i, column in enumerate(columns[last : last + 3]):
        shifted = column << (LIMB * i) if i else column
        top = shifted if top is None else top + shifted
    assert top is not None
    return Integers((*limbs, top), bits)


def _multiply_pieces(rows: list[Tensor], cols: list[Tensor], bits: int) -> Integers:
    sums: list[Tensor | None] = [None] * (len(rows) + len(cols) - 1)
    for i, row in enumerate(rows):
        for j, col in enumerate(cols):
            product = torch.matmul(row, col)
            sofar = sums[i + j]
            sums[i + j] = product if sofar is None else sofar.add_(product)
    words = [_one_of(part, None).to(torch.int64) for part in sums]
    columns = list(words[::2])
    for i, word in enumerate(words[1::2]):
        columns[i] = columns[i] + (word << PIECE)
    return _carry(columns, bits)
