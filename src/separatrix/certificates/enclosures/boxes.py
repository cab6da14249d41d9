"""Arrays of intervals with exact rational ends.

Ends are `flint.fmpq`, so sums and products of ends are never rounded behind one's back; what is irrational
(e^x) is rounded outward to a fixed number of binary digits, and `shortened` does so for any ends that have
grown long. Whether a *computed* result lies in a box is the business of the roundings, not of this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias, final

import numpy as np
from flint import arb, ctx, fmpq, fmpq_mat, fmpz
from numpy.typing import NDArray
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.evidence.exact import Interval
from separatrix.precision.system import Values, as_fraction, as_tensor_or_array

__all__ = [
    "Box",
    "Ends",
    "Unbounded",
    "as_ends",
    "as_rational",
    "exp_ends",
    "exps",
    "matrix_product",
    "power_of_two",
    "products",
    "quotients",
]

Ends: TypeAlias = NDArray[np.object_]

KEPT_BITS = 256  # binary digits that survive an outward rounding
NEGLIGIBLE = -4096  # below this, e^x is only said to be positive and at most e^NEGLIGIBLE
OUT_OF_REACH = 1 << 16  # above this, e^x is refused rather than written out

ZERO = fmpq(0)
ONE = fmpq(1)


class Unbounded(InvalidInput):
    """A result that may overflow, so that nothing can be said about it."""


@final
@dataclass(frozen=True, eq=False)
class Box:
    """low ≤ value ≤ high, element by element. A point holds one array as both ends."""

    low: Ends
    high: Ends

    def __post_init__(self) -> None:
        if self.low.shape != self.high.shape:
            raise InvalidInput(f"A box has ends of one shape; got {self.low.shape} and {self.high.shape}.")
        if self.low is not self.high and bool(np.any(self.low > self.high)):
            raise InvalidInput("A box has every low end at most its high end; at least one is above it.")

    @classmethod
    def exact(cls, values: Values | fmpq) -> Box:
        """The box of exactly these numbers; a float is the dyadic fraction that it stands for."""
        ends = exact_ends(values)
        return cls(ends, ends)

    @classmethod
    def between(cls, low: Values | fmpq, high: Values | fmpq) -> Box:
        """From exact ends of any kind, broadcast together."""
        first, second = np.broadcast_arrays(exact_ends(low), exact_ends(high))
        return cls(first, second)

    @classmethod
    def union(cls, *boxes: Box) -> Box:
        """The least box that holds every one of these, element by element."""
        low, high = boxes[0].low, boxes[0].high
        for box in boxes[1:]:
            low, high = np.minimum(low, box.low), np.maximum(high, box.high)
        return cls(low, high)

    @classmethod
    def concatenate(cls, boxes: Sequence[Box], axis: int = 0) -> Box:
        """Joined along an axis they have."""
        return _joined(boxes, lambda ends: np.concatenate(ends, axis))

    @classmethod
    def stack(cls, boxes: Sequence[Box], axis: int = 0) -> Box:
        """Joined along a new axis."""
        return _joined(boxes, lambda ends: np.stack(ends, axis))

    @property
    def shape(self) -> tuple[int, ...]:
        """The axes."""
        return self.low.shape

    @property
    def size(self) -> int:
        """How many intervals there are."""
        return int(self.low.size)

    @property
    def is_point(self) -> bool:
        """Whether every interval holds one number only."""
        return self.low is self.high or bool(np.all(self.low == self.high))

    @property
    def width(self) -> Ends:
        """high - low."""
        return as_ends(self.high - self.low)

    @property
    def magnitude(self) -> Ends:
        """The largest absolute value that each interval holds."""
        return as_ends(np.maximum(abs(self.low), abs(self.high)))

    @property
    def scalar(self) -> tuple[fmpq, fmpq]:
        """The two ends of a box of one interval."""
        if self.size != 1:
            raise InvalidInput(f"One interval was expected; got a box of shape {self.shape}. Index it first.")
        return self.low.reshape(-1)[0], self.high.reshape(-1)[0]

    def each(self, move: Callable[[Ends], Any]) -> Box:
        """Apply a map that only moves, picks or repeats elements."""
        low = as_ends(move(self.low))
        return Box(low, low if self.low is self.high else as_ends(move(self.high)))

    def __getitem__(self, index: Any) -> Box:
        return self.each(lambda ends: ends[index])

    def reshape(self, *shape: int) -> Box:
        """The same intervals in another shape."""
        return self.each(lambda ends: ends.reshape(shape))

    def broadcast(self, shape: tuple[int, ...]) -> Box:
        """Axes of length 1 repeated, without a copy."""
        return self.each(lambda ends: np.broadcast_to(ends, shape))

    def hull(self, axis: int | None = None) -> Box:
        """The least intervals that hold all those along an axis, or all there are."""
        return Box(as_ends(self.low.min(axis=axis)), as_ends(self.high.max(axis=axis)))

    def sum(self, axis: int) -> Box:
        """The real sum, without rounding."""
        low = as_ends(self.low.sum(axis=axis) + ZERO)
        return Box(low, low if self.low is self.high else as_ends(self.high.sum(axis=axis) + ZERO))

    def contains(self, values: Values | Box) -> bool:
        """Whether all the values, or all of another box, lie inside."""
        other = values if isinstance(values, Box) else Box.exact(values)
        return bool(np.all(self.low <= other.low) and np.all(other.high <= self.high))

    def __add__(self, other: Box) -> Box:
        low = as_ends(self.low + other.low)
        points = self.low is self.high and other.low is other.high
        return Box(low, low if points else as_ends(self.high + other.high))

    def __neg__(self) -> Box:
        low = as_ends(-self.high)
        return Box(low, low if self.low is self.high else as_ends(-self.low))

    def __sub__(self, other: Box) -> Box:
        return self + (-other)

    def scaled(self, factor: int | Fraction | fmpq) -> Box:
        """Every interval times one exact number, without rounding."""
        exact = exact_ends(factor).reshape(())[()]
        first, second = as_ends(self.low * exact), as_ends(self.high * exact)
        if self.low is self.high:
            return Box(first, first)
        return Box(first, second) if exact >= 0 else Box(second, first)

    def widened(self, radius: Ends | fmpq) -> Box:
        """Both ends moved outward by a radius that is not negative."""
        return Box(as_ends(self.low - radius), as_ends(self.high + radius))

    def shortened(self, bits: int = KEPT_BITS) -> Box:
        """Ends longer than so many binary digits rounded outward to them, relative to their size."""
        return self.mapped(lambda low: _short(low, bits, up=False), lambda high: _short(high, bits, up=True))

    def mapped(self, down: Callable[[fmpq], fmpq], up: Callable[[fmpq], fmpq]) -> Box:
        """Low ends and high ends each through their own map; points stay points if both maps agree."""
        return Box(_mapped(self.low, down), _mapped(self.high, up)).simplified()

    def monotone(self, rise: Callable[[fmpq], fmpq]) -> Box:
        """The image under a function that never falls."""
        low = _mapped(self.low, rise)
        return Box(low, low if self.low is self.high else _mapped(self.high, rise))

    def simplified(self) -> Box:
        """The same box; a point is held as one array, which later steps recognise at once."""
        return Box(self.low, self.low) if self.is_point else self

    def interval(self, bits: int = 128) -> Interval:
        """One interval as evidence, rounded outward to multiples of 2^-bits."""
        low, high = self.scalar
        return Interval.outward(low=as_rational(low), high=as_rational(high), bits=bits)

    def intervals(self, bits: int = 128) -> tuple[Interval, ...]:
        """Every interval as evidence, in row-major order."""
        return tuple(one.interval(bits) for one in (self.reshape(-1)[place] for place in range(self.size)))

    def __str__(self) -> str:
        shown = ", ".join(str(each) for each in self[...].reshape(-1)[:8].intervals())
        return f"Box of shape {self.shape}: {shown}{', …' if self.size > 8 else ''}"


def _joined(boxes: Sequence[Box], join: Callable[[list[Ends]], Ends]) -> Box:
    low = join([box.low for box in boxes])
    points = all(box.low is box.high for box in boxes)
    return Box(low, low if points else join([box.high for box in boxes]))


def as_ends(values: Any) -> Ends:
    """Numpy hands back a bare object for an array without axes."""
    if isinstance(values, np.ndarray):
        return values
    array = np.empty((), dtype=object)
    array[()] = values
    return array


def _mapped(ends: Ends, change: Callable[[fmpq], fmpq]) -> Ends:
    """Equal ends are common, and each distinct one is worked out once."""
    known: dict[fmpq, fmpq] = {}
    image = np.empty(ends.shape, dtype=object)
    flat = image.reshape(-1)
    for place, end in enumerate(ends.reshape(-1)):
        found = known.get(end)
        if found is None:
            found = known[end] = change(end)
        flat[place] = found
    return image


def exact_ends(values: Values | fmpq) -> Ends:
    """An array of fmpq with exactly these values."""
    if isinstance(values, fmpq | fmpz):
        return as_ends(fmpq(values))
    array: NDArray[Any]
    if isinstance(values, np.ndarray) and values.dtype == object:
        array = values
    else:
        read = as_tensor_or_array(values)
        array = np.array(read.detach().tolist(), dtype=object) if isinstance(read, Tensor) else read
        if isinstance(read, Tensor):
            array = array.reshape(tuple(read.shape))
    return _mapped_values(array)


def _mapped_values(array: NDArray[Any]) -> Ends:
    ends = np.empty(array.shape, dtype=object)
    flat = ends.reshape(-1)
    for place, value in enumerate(array.reshape(-1)):
        flat[place] = value if isinstance(value, fmpq) else _rational(value)
    return ends


def _rational(value: object) -> fmpq:
    if isinstance(value, float) and math.isfinite(value):
        return fmpq(*value.as_integer_ratio())
    if isinstance(value, fmpz):
        return fmpq(value)
    exact = as_fraction(value)
    return fmpq(exact.numerator, exact.denominator)


def as_rational(value: fmpq) -> Fraction:
    """The same number for those who know Python's fractions only."""
    return Fraction(int(value.p), int(value.q))


def _short(value: fmpq, bits: int, *, up: bool) -> fmpq:
    numerator, denominator = value.p, value.q
    if numerator.bit_length() <= bits and denominator.bit_length() <= bits:
        return value
    shift = bits - (abs(numerator).bit_length() - denominator.bit_length())
    if denominator == fmpz(1) << (denominator.bit_length() - 1) and numerator.bit_length() <= bits:
        return value
    scaled = value * power_of_two(shift)
    return fmpq(scaled.ceil() if up else scaled.floor()) * power_of_two(-shift)


def power_of_two(exponent: int) -> fmpq:
    """2^exponent, of either sign."""
    return fmpq(fmpz(1) << exponent) if exponent >= 0 else fmpq(fmpz(1), fmpz(1) << -exponent)


def products(left: Box, right: Box) -> Box:
    """The real products of two boxes that broadcast together."""
    if left.low is left.high and right.low is right.high:
        low = as_ends(left.low * right.low)
        return Box(low, low)
    corners = [as_ends(a * b) for a in (left.low, left.high) for b in (right.low, right.high)]
    low, high = corners[0], corners[0]
    for corner in corners[1:]:
        low, high = np.minimum(low, corner), np.maximum(high, corner)
    return Box(as_ends(low), as_ends(high))


def quotients(left: Box, right: Box) -> Box:
    """The real quotients; a divisor that may be 0 is refused."""
    if bool(np.any((right.low <= 0) & (right.high >= 0))):
        raise InvalidInput("A divisor must not be 0; at least one interval of divisors holds 0.")
    flipped = Box(as_ends(ONE / right.high), as_ends(ONE / right.low)).simplified()
    return products(left, flipped)


def matrix_product(left: Box, right: Box) -> Box:
    """(row, inner) × (column, inner) → (row, column): Σ left · right over the inner axis, exactly enclosed.

    The ends of a sum of products of intervals are the sums of the ends of the products. With one factor of
    known sign those ends are themselves sums of products of parts of the ends, so a few exact matrix products
    give them; only where both factors may have either sign are they found one by one.
    """
    if left.shape[-1:] != right.shape[-1:] or len(left.shape) != 2 or len(right.shape) != 2:
        raise InvalidInput(
            "An inner product needs (row, inner) and (column, inner) with equal inner axes; "
            f"got {left.shape} and {right.shape}."
        )
    if left.is_point and right.is_point:
        low = _matmul(left.low, right.low)
        return Box(low, low)
    if right.is_point:
        return _by_point(left, right.low)
    if left.is_point:
        turned = _by_point(right, left.low)
        return Box(turned.low.T, turned.high.T)
    positive = right.low >= 0
    negative = (right.high <= 0) & ~positive
    over, under = (
        Box(_kept(right.low, positive), _kept(right.high, positive)),
        Box(_kept(right.low, negative), _kept(right.high, negative)),
    )
    rising_low, falling_low = _rising(left.low), _falling(left.low)
    rising_high, falling_high = _rising(left.high), _falling(left.high)
    low = _matmul(
        np.concatenate([rising_low, falling_low, rising_high, falling_high], 1),
        np.concatenate([over.low, over.high, under.low, under.high], 1),
    )
    high = _matmul(
        np.concatenate([rising_high, falling_high, rising_low, falling_low], 1),
        np.concatenate([over.high, over.low, under.high, under.low], 1),
    )
    rest = ~(positive | negative)
    for place in np.flatnonzero(rest.any(axis=0)):
        columns = np.flatnonzero(rest[:, place])
        part = products(left[:, place, None], right[None, columns, place])
        low[:, columns] += part.low
        high[:, columns] += part.high
    return Box(low, high)


def _by_point(left: Box, right: Ends) -> Box:
    factors = np.concatenate([_rising(right), _falling(right)], 1)
    low = _matmul(np.concatenate([left.low, left.high], 1), factors)
    return Box(low, _matmul(np.concatenate([left.high, left.low], 1), factors))


def _rising(ends: Ends) -> Ends:
    return as_ends(np.maximum(ends, as_ends(ZERO)))


def _falling(ends: Ends) -> Ends:
    return as_ends(np.minimum(ends, as_ends(ZERO)))


def _kept(ends: Ends, where: Any) -> Ends:
    return np.where(where, ends, as_ends(ZERO))


def _matmul(left: Ends, right: Ends) -> Ends:
    """flint's exact matrix product; about fifteen times as quick as numpy's on objects."""
    rows, inner, columns = left.shape[0], left.shape[1], right.shape[0]
    result = np.empty((rows, columns), dtype=object)
    if inner == 0 or rows == 0 or columns == 0:
        result[...] = ZERO
        return result
    first = fmpq_mat(rows, inner, left.reshape(-1).tolist())
    second = fmpq_mat(inner, columns, right.T.reshape(-1).tolist())
    result.reshape(-1)[:] = (first * second).entries()
    return result


def exps(box: Box) -> Box:
    """The true e^x, its ends rounded outward."""
    return box.mapped(lambda low: exp_ends(low)[0], lambda high: exp_ends(high)[1])


def exp_ends(argument: fmpq, bits: int = KEPT_BITS) -> tuple[fmpq, fmpq]:
    """Rationals around e^argument that agree in about so many binary digits."""
    if argument == 0:
        return ONE, ONE
    if argument < NEGLIGIBLE:
        return ZERO, exp_ends(fmpq(NEGLIGIBLE))[1]
    if argument > OUT_OF_REACH:
        raise Unbounded(f"e^x is enclosed for x up to {OUT_OF_REACH} only; scale the logits down.")
    with ctx.workprec(bits + 16):
        ball = arb(argument).exp()
        low, high = ball.lower().man_exp(), ball.upper().man_exp()
    return _dyadic(*low), _dyadic(*high)


def _dyadic(mantissa: fmpz, exponent: fmpz) -> fmpq:
    return fmpq(mantissa) * power_of_two(int(exponent))
