"""What a computed result can be, in a named arithmetic.

Operands are boxes around numbers that were computed, so numbers of the system; a result is a box around every
number that the arithmetic may compute from such operands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from separatrix.certificates.enclosures.boxes import ZERO, Box, Unbounded, as_ends
from separatrix.certificates.enclosures.key_groups import Attended, KeyGroup
from separatrix.errors import InvalidInput

__all__ = ["Rounding", "Unbounded", "rows_of"]


class Rounding(ABC):
    """One arithmetic's errors, as maps of boxes. All element-wise operations broadcast."""

    @abstractmethod
    def error_model(self) -> tuple[str, ...]:
        """What is assumed of the arithmetic, in sentences for a certificate to print."""

    @abstractmethod
    def encode(self, values: Box) -> Box:
        """Real numbers, such as stored weights, as numbers of the system."""

    @abstractmethod
    def add(self, left: Box, right: Box) -> Box:
        """The sum of two."""

    @abstractmethod
    def multiply(self, left: Box, right: Box) -> Box:
        """The product of two."""

    @abstractmethod
    def divide(self, left: Box, right: Box) -> Box:
        """The quotient of two; divisors that may be 0 are refused."""

    @abstractmethod
    def exp(self, box: Box) -> Box:
        """The system's exponential."""

    @abstractmethod
    def affine(self, x: Box, weights: Box, bias: Box | None = None) -> Box:
        """(…, inner) × (out, inner) + (out,) → (…, out)."""

    @abstractmethod
    def dot(self, left: Box, right: Box) -> Box:
        """The inner product along the last axis."""

    @abstractmethod
    def attend(self, groups: Sequence[KeyGroup]) -> Attended:
        """One query's attention over grouped keys, from computed logits on."""

    def subtract(self, left: Box, right: Box) -> Box:
        """The difference of two; every system is symmetric, so it is the sum with the negative."""
        return self.add(left, -right)

    def relu(self, box: Box) -> Box:
        """The numbers where positive, else 0; never rounded."""
        return box.monotone(lambda end: max(end, ZERO))

    def maximum(self, left: Box, right: Box) -> Box:
        """The larger of two; never rounded."""
        return Box(as_ends(np.maximum(left.low, right.low)), as_ends(np.maximum(left.high, right.high)))


def rows_of(x: Box) -> Box:
    """(…, inner) → (row, inner)."""
    if not x.shape:
        raise InvalidInput("An affine map needs (…, inner); got a box without axes. Reshape it to (1,).")
    return x.reshape(-1, x.shape[-1]) if x.size else x.reshape(0, x.shape[-1])
