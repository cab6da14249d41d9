"""What a number system is: a finite set of numbers and where results are rounded into it.

A program written against `NumberSystem` runs unchanged in S's and W's p-bit numbers and in floats. Numbers
travel as `Numbers`, which know their system and can be reshaped; arithmetic belongs to the system. Nothing is
global: a system is a value, and so is the choice of rounding points.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from separatrix.errors import InvalidInput

__all__ = ["NumberSystem", "Numbers", "RoundingPoints", "Values", "concatenate", "stack"]

Values: TypeAlias = Tensor | NDArray[Any] | int | float | Fraction | Sequence[Any]
"""What can be encoded: numbers, nested sequences of them, arrays and tensors; always read exactly."""


class RoundingPoints(Enum):
    """Which intermediate results of a composite operation are rounded; its result always is.

    It concerns fixed point only: floats round at every step whatever is asked, in any order of summation.
    """

    EVERY_STEP = "every step"
    """Each product, each exp, each sum, each quotient."""
    LAST_STEP = "last step"
    """The exact real result, once."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """A tensor of numbers of one system. Only the system knows what its parts mean; all have one shape."""

    system: NumberSystem
    parts: tuple[Tensor, ...]

    @property
    def shape(self) -> torch.Size:
        """The axes of the numbers."""
        return self.parts[0].shape

    @property
    def device(self) -> torch.device:
        """Where the numbers lie."""
        return self.parts[0].device

    def each(self, move: Callable[[Tensor], Tensor]) -> Numbers:
        """Apply a map that only moves, picks or repeats elements."""
        return Numbers(self.system, tuple(move(part) for part in self.parts))

    def __getitem__(self, index: Any) -> Numbers:
        return self.each(lambda part: part[index])

    def reshape(self, *shape: int) -> Numbers:
        """The same numbers in another shape."""
        return self.each(lambda part: part.reshape(*shape))

    def transpose(self, first: int, second: int) -> Numbers:
        """Two axes exchanged."""
        return self.each(lambda part: part.transpose(first, second))

    def expand(self, *shape: int) -> Numbers:
        """Axes of length 1 repeated, without a copy."""
        return self.each(lambda part: part.expand(*shape))

    def to(self, device: torch.device | str) -> Numbers:
        """The same numbers on another device."""
        return self.each(lambda part: part.to(device))


def stack(numbers: Sequence[Numbers], axis: int = 0) -> Numbers:
    """Numbers of one system and shape along a new axis."""
    return _join(numbers, lambda parts: torch.stack(parts, axis))


def concatenate(numbers: Sequence[Numbers], axis: int = 0) -> Numbers:
    """Numbers of one system along an axis they have."""
    return _join(numbers, lambda parts: torch.cat(parts, axis))


def _join(numbers: Sequence[Numbers], join: Callable[[list[Tensor]], Tensor]) -> Numbers:
    system = numbers[0].system
    rows = [system.parts_of(part) for part in numbers]
    return Numbers(system, tuple(join(list(parts)) for parts in zip(*rows, strict=True)))


class NumberSystem(ABC):
    """A finite set of numbers, and operations that are exact and then rounded into it.

    Results beyond an end of a fixed-point range become that end; floats follow IEEE 754. All broadcast.
    """

    @property
    @abstractmethod
    def bits(self) -> int:
        """Bits that tell every number of the system apart, the sign included."""

    @property
    @abstractmethod
    def largest(self) -> Fraction:
        """The largest finite number. The least is its negative."""

    @property
    @abstractmethod
    def smallest(self) -> Fraction:
        """The smallest positive number; in fixed point also the step between neighbours."""

    @abstractmethod
    def encode(self, values: Values, *, device: torch.device | str | None = None) -> Numbers:
        """Exact values, rounded as the system rounds, clamped to its range; tensors stay on their device."""

    @abstractmethod
    def decode(self, numbers: Numbers) -> NDArray[np.object_]:
        """The exact values, an array of `Fraction`."""

    @abstractmethod
    def decode_float64(self, numbers: Numbers) -> Float[Tensor, "*shape"]:
        """The values as float64: exact where they fit in 53 bits, else within a few of its last units."""

    @abstractmethod
    def add(self, left: Numbers, right: Numbers) -> Numbers:
        """The sum of two."""

    @abstractmethod
    def subtract(self, left: Numbers, right: Numbers) -> Numbers:
        """The difference of two."""

    @abstractmethod
    def negate(self, numbers: Numbers) -> Numbers:
        """The negative; never rounded, for every system is symmetric."""

    @abstractmethod
    def multiply(self, left: Numbers, right: Numbers) -> Numbers:
        """The product of two."""

    @abstractmethod
    def divide(self, left: Numbers, right: Numbers) -> Numbers:
        """The quotient of two; a divisor of 0 is refused."""

    @abstractmethod
    def exp(self, numbers: Numbers) -> Numbers:
        """e to the power of the numbers: the true value rounded in fixed point, torch's in floats."""

    @abstractmethod
    def relu(self, numbers: Numbers) -> Numbers:
        """The numbers where positive, else 0; never rounded."""

    @abstractmethod
    def compare(self, left: Numbers, right: Numbers) -> Int[Tensor, "*shape"]:
        """-1, 0 or 1 as left is less than, equal to or greater than right."""

    @abstractmethod
    def max(self, numbers: Numbers, axis: int) -> Numbers:
        """The largest along an axis."""

    @abstractmethod
    def argmax(self, numbers: Numbers, axis: int) -> Int[Tensor, "*rest"]:
        """The first place of the largest along an axis."""

    @abstractmethod
    def where(self, condition: Bool[Tensor, "*shape"], left: Numbers, right: Numbers) -> Numbers:
        """Left where the condition holds, right elsewhere."""

    @abstractmethod
    def sum(self, numbers: Numbers, axis: int) -> Numbers:
        """The exact sum along an axis, then rounded."""

    @abstractmethod
    def matmul(
        self, left: Numbers, right: Numbers, *, rounding: RoundingPoints = RoundingPoints.LAST_STEP
    ) -> Numbers:
        """(…, row, inner) × (…, inner, column): sums of products, rounded where `rounding` says."""

    @abstractmethod
    def softmax(
        self,
        logits: Numbers,
        *,
        mask: Bool[Tensor, "*shape"] | None = None,
        rounding: RoundingPoints = RoundingPoints.EVERY_STEP,
    ) -> Numbers:
        """Weights along the last axis; where the mask is false the weight is 0 and the logit plays no part.

        The largest logit is subtracted first (S, App. D), so exps lie in [0, 1] and one of them is exactly 1.
        `EVERY_STEP` rounds each difference, each exp, their sum and each quotient. `LAST_STEP` rounds the
        true weight e^(a_i) / Σ e^(a_j) once.
        """

    def parts_of(self, numbers: Numbers) -> tuple[Tensor, ...]:
        """The parts of numbers of this very system; others are refused rather than read wrongly."""
        if numbers.system != self:
            raise InvalidInput(
                f"{self} was given numbers of {numbers.system}; decode them there and encode them here."
            )
        return numbers.parts

    def dot(
        self, left: Numbers, right: Numbers, *, rounding: RoundingPoints = RoundingPoints.LAST_STEP
    ) -> Numbers:
        """The inner product along the last axis."""
        return self.matmul(left[..., None, :], right[..., :, None], rounding=rounding)[..., 0, 0]

    def weighted_sum(
        self, weights: Numbers, values: Numbers, *, rounding: RoundingPoints = RoundingPoints.EVERY_STEP
    ) -> Numbers:
        """Attention's second half, (…, query, key) × (…, key, width): each product rounded, then the sum."""
        return self.matmul(weights, values, rounding=rounding)

    def attention(
        self,
        queries: Numbers,
        keys: Numbers,
        values: Numbers,
        *,
        mask: Bool[Tensor, "*batch query key"] | None = None,
        rounding: RoundingPoints = RoundingPoints.EVERY_STEP,
    ) -> Numbers:
        """softmax(Q Kᵀ) V with (…, query, inner), (…, key, inner) and (…, key, width).

        Each logit is the exact inner product rounded once, whatever `rounding` says about what follows.
        """
        logits = self.matmul(queries, keys.transpose(-1, -2))
        return self.weighted_sum(
            self.softmax(logits, mask=mask, rounding=rounding), values, rounding=rounding
        )


def as_tensor_or_array(values: Values) -> Tensor | NDArray[np.object_]:
    """A tensor if float64 or int64 holds the values exactly, else an array of Python's or numpy's numbers."""
    if isinstance(values, Tensor) and values.dtype != torch.uint64 and not values.is_complex():
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        native = values.astype(values.dtype.newbyteorder("="))
        held = native.dtype != np.uint64 and native.dtype.itemsize <= 8
        return torch.from_numpy(native) if held else native.astype(object)
    try:
        return np.asarray(_without_tensors(values), dtype=object)
    except ValueError:
        raise InvalidInput(
            "A number system encodes rows of one length; got rows of several. Pad or encode them one by one."
        ) from None


def _without_tensors(values: Any) -> Any:
    """Nested sequences with arrays for tensors: numpy reads neither bfloat16 nor what needs gradients."""
    if isinstance(values, Tensor) and values.ndim:
        return np.array(values.reshape(-1).tolist(), dtype=object).reshape(values.shape)
    if isinstance(values, Tensor | np.ndarray) and values.ndim == 0:
        return values.tolist()
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return [_without_tensors(value) for value in values]
    return values


def refuse_nonfinite(values: Tensor) -> None:
    """Infinity and NaN are no numbers of any system; a mask is the way to leave a logit out."""
    if not bool(values.isfinite().all()):
        raise InvalidInput(
            "A number system encodes finite numbers; got infinity or NaN. Replace or mask them."
        )


def as_fraction(value: object) -> Fraction:
    """One number of Python or numpy, exactly."""
    if isinstance(value, Integral | np.bool_):
        return Fraction(int(value))  # a numpy integer would stay one inside the fraction, and wrap around
    if isinstance(value, Rational) or (isinstance(value, float | Decimal) and math.isfinite(value)):
        return Fraction(value)
    if isinstance(value, np.floating) and np.isfinite(value):
        return Fraction(*value.as_integer_ratio())
    raise InvalidInput(
        f"A number system encodes finite integers, fractions and floats; got {value!r}. "
        "Pass int, Fraction or a finite float."
    )


def refuse_misfit(left: torch.Size, right: torch.Size) -> None:
    """Inner axes of 1 and of more would broadcast where products are rounded one by one."""
    if len(left) < 2 or len(right) < 2 or left[-1] != right[-2]:
        raise InvalidInput(
            "A matrix product needs shapes (…, row, inner) and (…, inner, column); "
            f"got {tuple(left)} and {tuple(right)}. Make the inner axes equal."
        )


def refuse_empty_axis(operation: str, shape: torch.Size, axis: int) -> None:
    """Nothing is the largest of no numbers."""
    if not -len(shape) <= axis < len(shape) or shape[axis] == 0:
        raise InvalidInput(
            f"{operation} needs an axis with at least one number; got shape {tuple(shape)} and axis {axis}. "
            "Leave empty rows out and reshape a lone number to (1,)."
        )


def checked_mask(mask: Bool[Tensor, "*shape"] | None, shape: torch.Size) -> Bool[Tensor, "*shape"] | None:
    """The mask expanded to the logits' shape; a row with nothing to attend to is refused."""
    if mask is None:
        return None
    if mask.dtype != torch.bool:
        raise InvalidInput(f"A softmax mask is a bool tensor; got {mask.dtype}. Compare or cast it first.")
    mask = mask.expand(shape)
    if not bool(mask.any(-1).all()):
        raise InvalidInput(
            "A softmax mask must keep a logit in every row; a row is all false. Drop that row."
        )
    return mask


def refuse_zero(any_zero: Bool[Tensor, ""]) -> None:
    """Division by zero has no rounding."""
    if bool(any_zero):
        raise InvalidInput("A divisor must not be 0; at least one is. Mask those elements before dividing.")
