"""IEEE floats behind the same interface, so that a program for p-bit numbers runs in them unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from separatrix.precision.system import (
    Numbers,
    NumberSystem,
    RoundingPoints,
    Values,
    as_fraction,
    as_tensor_or_array,
    checked_mask,
    refuse_empty_axis,
    refuse_misfit,
    refuse_nonfinite,
    refuse_zero,
)

__all__ = ["Float32", "Float64"]


class _IEEE(NumberSystem):
    """Everything but the width. Each operation of torch rounds to nearest, ties to even.

    Sums and matrix products round at every step, in an order that torch and the device choose, and exp is
    torch's: a proof about these systems must hold for any order and an exp within 2 units in the last place.
    """

    _dtype: torch.dtype
    _bits: int
    _mantissa: int  # bits of a significand, the leading one included
    _least_exponent: int  # the smallest positive number is 2 to this
    _vanishing: float  # e to the power of anything below it is less than half the smallest positive number

    @property
    def bits(self) -> int:
        """The width of the format."""
        return self._bits

    @property
    def largest(self) -> Fraction:
        """The largest finite float."""
        return Fraction(torch.finfo(self._dtype).max)

    @property
    def smallest(self) -> Fraction:
        """The smallest subnormal float."""
        return Fraction(1, 1 << -self._least_exponent)

    def encode(self, values: Values, *, device: torch.device | str | None = None) -> Numbers:
        """To nearest, ties to even; beyond the largest finite float, that float."""
        limit = torch.finfo(self._dtype).max
        values = as_tensor_or_array(values)
        if isinstance(values, Tensor):
            refuse_nonfinite(values)
            tensor = values.to(device=device if device is not None else values.device, dtype=self._dtype)
        else:
            rounded = [self._nearest(as_fraction(value)) for value in values.reshape(-1)]
            tensor = torch.tensor(rounded, dtype=self._dtype, device=device).reshape(values.shape)
        return self._wrap(tensor.clamp(-limit, limit))

    def _nearest(self, value: Fraction) -> float:
        """Rounded once to this width: through float64 it would be rounded twice."""
        if abs(value) > self.largest:
            return float(self.largest if value > 0 else -self.largest)
        size = abs(value)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()  # 2^exponent within a factor 2
        if size < Fraction(2) ** exponent:
            exponent -= 1
        unit = Fraction(2) ** max(exponent - self._mantissa + 1, self._least_exponent)
        return float(round(value / unit) * unit)

    def decode(self, numbers: Numbers) -> NDArray[np.object_]:
        """Every finite float is a fraction; infinity and NaN are refused."""
        tensor = self._read(numbers)
        exact = [as_fraction(value) for value in tensor.reshape(-1).tolist()]
        array = np.empty(len(exact), dtype=object)
        array[:] = exact
        return array.reshape(tensor.shape)

    def decode_float64(self, numbers: Numbers) -> Float[Tensor, "*shape"]:
        """Exact."""
        return self._read(numbers).to(torch.float64)

    def add(self, left: Numbers, right: Numbers) -> Numbers:
        """The sum of two."""
        return self._wrap(self._read(left) + self._read(right))

    def subtract(self, left: Numbers, right: Numbers) -> Numbers:
        """The difference of two."""
        return self._wrap(self._read(left) - self._read(right))

    def negate(self, numbers: Numbers) -> Numbers:
        """The sign flipped."""
        return self._wrap(-self._read(numbers))

    def multiply(self, left: Numbers, right: Numbers) -> Numbers:
        """The product of two."""
        return self._wrap(self._read(left) * self._read(right))

    def divide(self, left: Numbers, right: Numbers) -> Numbers:
        """The quotient of two; a divisor of 0 is refused here too, so that programs fail alike."""
        divisor = self._read(right)
        refuse_zero((divisor == 0).any())
        return self._wrap(self._read(left) / divisor)

    def exp(self, numbers: Numbers) -> Numbers:
        """Torch's exp."""
        return self._wrap(torch.exp(self._read(numbers)))

    def relu(self, numbers: Numbers) -> Numbers:
        """The numbers where positive, else 0."""
        return self._wrap(torch.relu(self._read(numbers)))

    def compare(self, left: Numbers, right: Numbers) -> Int[Tensor, "*shape"]:
        """-1, 0 or 1."""
        first, second = self._read(left), self._read(right)
        return (first > second).to(torch.int64) - (first < second).to(torch.int64)

    def max(self, numbers: Numbers, axis: int) -> Numbers:
        """The largest along an axis."""
        refuse_empty_axis("A maximum", numbers.shape, axis)
        return self._wrap(self._read(numbers).amax(axis))

    def argmax(self, numbers: Numbers, axis: int) -> Int[Tensor, "*rest"]:
        """The first place of the largest along an axis."""
        refuse_empty_axis("A maximum", numbers.shape, axis)
        tensor = self._read(numbers)
        return (tensor == tensor.amax(axis, keepdim=True)).to(torch.int64).argmax(axis)

    def where(self, condition: Bool[Tensor, "*shape"], left: Numbers, right: Numbers) -> Numbers:
        """Left where the condition holds, right elsewhere."""
        return self._wrap(torch.where(condition, self._read(left), self._read(right)))

    def sum(self, numbers: Numbers, axis: int) -> Numbers:
        """The sum along an axis, in torch's order."""
        return self._wrap(self._read(numbers).sum(axis))

    def matmul(
        self, left: Numbers, right: Numbers, *, rounding: RoundingPoints = RoundingPoints.LAST_STEP
    ) -> Numbers:
        """Torch's matrix product; it rounds as the hardware does under either value of `rounding`."""
        refuse_misfit(left.shape, right.shape)
        return self._wrap(torch.matmul(self._read(left), self._read(right)))

    def softmax(
        self,
        logits: Numbers,
        *,
        mask: Bool[Tensor, "*shape"] | None = None,
        rounding: RoundingPoints = RoundingPoints.EVERY_STEP,
    ) -> Numbers:
        """Every step rounds, under either value of `rounding`."""
        refuse_empty_axis("A softmax", logits.shape, -1)
        tensor = self._read(logits)
        mask = checked_mask(mask, tensor.shape)
        kept = tensor if mask is None else tensor.masked_fill(~mask, -torch.inf)
        below = kept - kept.amax(-1, keepdim=True)
        # Where the result is 0 it comes several times faster from minus infinity. (`torch.softmax` is no way
        # out: it multiplies by a reciprocal, and every quotient is to be rounded once.)
        exps = torch.exp(below.masked_fill_(below < self._vanishing, -torch.inf))
        return self._wrap(exps.div_(exps.sum(-1, keepdim=True)))

    def _read(self, numbers: Numbers) -> Float[Tensor, "*shape"]:
        return self.parts_of(numbers)[0]

    def _wrap(self, tensor: Float[Tensor, "*shape"]) -> Numbers:
        return Numbers(self, (tensor,))


@final
@dataclass(frozen=True)
class Float32(_IEEE):
    """IEEE 754 binary32."""

    _dtype = torch.float32
    _bits = 32
    _mantissa = 24
    _least_exponent = -149
    _vanishing = -104.0


@final
@dataclass(frozen=True)
class Float64(_IEEE):
    """IEEE 754 binary64."""

    _dtype = torch.float64
    _bits = 64
    _mantissa = 53
    _least_exponent = -1074
    _vanishing = -746.0
