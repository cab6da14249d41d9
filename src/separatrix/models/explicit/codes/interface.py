"""What a code is: a vector for each of `count` whole numbers, made on demand and never kept in a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from separatrix.records import JsonObject

__all__ = ["Code", "SignCode"]


class Code(ABC):
    """Vectors of `dim` numbers for 0 … count − 1; what lies outside, such as −1, has the vector 0.

    Entries are float64 numbers: whole ones are exact, others are the float64 nearest to the true value.
    """

    kind: ClassVar[str]
    """The name under which a file says which code it uses."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many numbers have a vector."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Coordinates of a vector."""

    @property
    @abstractmethod
    def entries(self) -> tuple[Fraction, Fraction]:
        """The least and the greatest entry of any vector, the vector 0 among them."""

    @property
    @abstractmethod
    def square(self) -> Fraction:
        """The largest ⟨u, u⟩ of a vector u, roundings of its entries aside."""

    @property
    @abstractmethod
    def parameters(self) -> int:
        """Numbers that must be stored to make the vectors."""

    @abstractmethod
    def rows(self, numbers: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape dim"]:
        """The vector of each number, made without the others, on the numbers' device."""

    @abstractmethod
    def spec(self) -> JsonObject:
        """`kind` and what else it takes to make the code again."""


class SignCode(Code):
    """Addresses: different numbers have vectors of entries ±1 that differ in many places."""

    @property
    def entries(self) -> tuple[Fraction, Fraction]:
        """Signs."""
        return Fraction(-1), Fraction(1)

    @property
    def square(self) -> Fraction:
        """As many ones as there are coordinates."""
        return Fraction(self.dim)

    @abstractmethod
    def distances(self) -> Mapping[int, int]:
        """For each Hamming distance, how many other words at most lie so far from any one word; proven.

        Summed over all distances it may exceed count − 1, where a bound is taken from a larger code.
        """

    @property
    def coherence(self) -> Fraction:
        """γ: the largest ⟨u, v⟩ / dim of two different words, proven; at least 0 by convention."""
        nearest = min(self.distances(), default=self.dim)
        return max(Fraction(0), Fraction(self.dim - 2 * nearest, self.dim))
