"""Two-party problems: Alice holds x, Bob holds y, and both want one value of the pair.

The classic five stand here. Inputs are strings of symbols, so a problem of any length can be drawn from and
a small one listed. Answers are numbers below `values`, and a decision is 0 or 1. What a task becomes when
its input is split between two parties is in `task_problems`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final, final

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.errors import InvalidInput
from separatrix.options import check_types, option, require
from separatrix.randomness import Draws
from separatrix.registry import unknown_name
from separatrix.tasks.domains import digits

__all__ = [
    "PROBLEMS",
    "Disjointness",
    "Equality",
    "GreaterThan",
    "Index",
    "InnerProduct",
    "Problem",
    "Strings",
    "problem",
]

_LISTED: Final = 1 << 24


@final
@dataclass(frozen=True, kw_only=True)
class Strings:
    """All strings of `length` symbols 0 … `symbols` − 1; number 0 is the string of zeros."""

    length: int
    symbols: int = 2

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.symbols**self.length)

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch place"]:
        """The strings with these numbers, the first symbol most significant."""
        return digits(numbers, [self.symbols] * self.length)

    def all(self) -> Int[Tensor, "batch place"]:
        """Every string, in order of number."""
        require(
            self.count <= _LISTED, f"There are {self.symbols}^{self.length} strings, and 2^24 can be listed."
        )
        return self.decode(torch.arange(self.count))

    def drawn(self, draws: Draws, name: str) -> Int[Tensor, "batch place"]:
        """One uniform string for each row."""
        return draws.integers(name, (self.length,), self.symbols)


@dataclass(frozen=True, kw_only=True)
class Problem(ABC):
    """The interface; a problem is the frozen dataclass of its parameters."""

    name: ClassVar[str]
    title: ClassVar[str]

    n: int = option(help="length of the strings")

    def __post_init__(self) -> None:
        check_types(self, name=self.name)
        require(self.n >= 1, f"{self.name} needs n of at least 1; got n={self.n}.")

    @property
    @abstractmethod
    def alice(self) -> Strings:
        """What Alice may hold."""

    @property
    @abstractmethod
    def bob(self) -> Strings:
        """What Bob may hold."""

    @property
    def values(self) -> int:
        """How many answers there are; 2 for a decision."""
        return 2

    @abstractmethod
    def value(
        self, x: Int[Tensor, "*batch alice_place"], y: Int[Tensor, "*batch bob_place"]
    ) -> Int[Tensor, "*batch"]:
        """The answer to each pair; leading axes broadcast, so a matrix comes of (a, 1, ·) and (1, b, ·)."""

    @abstractmethod
    def apart(
        self, first: Int[Tensor, "batch alice_place"], second: Int[Tensor, "batch alice_place"]
    ) -> Int[Tensor, "batch bob_place"]:
        """For each pair of different strings of Alice's, one of Bob's with which their answers differ.

        That there always is one is why all of Alice's strings need different messages.
        """


@dataclass(frozen=True, kw_only=True)
class _Bits(Problem):
    """Both hold n bits."""

    @property
    def alice(self) -> Strings:
        """n bits."""
        return Strings(length=self.n)

    @property
    def bob(self) -> Strings:
        """n bits."""
        return Strings(length=self.n)


@final
@dataclass(frozen=True, kw_only=True)
class Index(Problem):
    """Which symbol stands at Bob's place in Alice's string? One message of n·log(alphabet) bits is needed."""

    name: ClassVar[str] = "index"
    title: ClassVar[str] = "INDEX"

    alphabet: int = option(2, help="symbols of Alice's string")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.alphabet >= 2, f"index needs an alphabet of at least 2; got alphabet={self.alphabet}.")

    @property
    def alice(self) -> Strings:
        """n symbols."""
        return Strings(length=self.n, symbols=self.alphabet)

    @property
    def bob(self) -> Strings:
        """A place, counted from 0."""
        return Strings(length=1, symbols=self.n)

    @property
    def values(self) -> int:
        """The symbols."""
        return self.alphabet

    def value(
        self, x: Int[Tensor, "*batch alice_place"], y: Int[Tensor, "*batch bob_place"]
    ) -> Int[Tensor, "*batch"]:
        """x at place y."""
        shape = torch.broadcast_shapes(x.shape[:-1], y.shape[:-1])  # type: ignore[no-untyped-call]
        return x.expand(*shape, self.n).gather(-1, y.expand(*shape, 1)).squeeze(-1)

    def apart(
        self, first: Int[Tensor, "batch alice_place"], second: Int[Tensor, "batch alice_place"]
    ) -> Int[Tensor, "batch bob_place"]:
        """The first place where they differ."""
        return (first != second).byte().argmax(-1, keepdim=True)


@final
@dataclass(frozen=True, kw_only=True)
class Equality(_Bits):
    """Are both strings the same?"""

    name: ClassVar[str] = "eq"
    title: ClassVar[str] = "EQ"

    def value(
        self, x: Int[Tensor, "*batch alice_place"], y: Int[Tensor, "*batch bob_place"]
    ) -> Int[Tensor, "*batch"]:
        """1 if they are."""
        return (x == y).all(-1).long()

    def apart(
        self, first: Int[Tensor, "batch alice_place"], second: Int[Tensor, "batch alice_place"]
    ) -> Int[Tensor, "batch bob_place"]:
        """The first of them."""
        return first


@final
@dataclass(frozen=True, kw_only=True)
class Disjointness(_Bits):
    """Do two sets meet? The answer is 1 if they do, as in the task of this name."""

    name: ClassVar[str] = "disj"
    title: ClassVar[str] = "DISJ"

    def value(
        self, x: Int[Tensor, "*batch alice_place"], y: Int[Tensor, "*batch bob_place"]
    ) -> Int[Tensor, "*batch"]:
        """1 if some place is 1 in both."""
        return ((x == 1) & (y == 1)).any(-1).long()

    def apart(
        self, first: Int[Tensor, "batch alice_place"], second: Int[Tensor, "batch alice_place"]
    ) -> Int[Tensor, "batch bob_place"]:
        """The set of the first place where they differ."""
        return _only((first != second).byte().argmax(-1), self.n)


@final
@dataclass(frozen=True, kw_only=True)
class GreaterThan(_Bits):
    """Is Alice's number greater than Bob's? The first bit is the highest."""

    name: ClassVar[str] = "gt"
    title: ClassVar[str] = "GT"

    def value(
        self, x: Int[Tensor, "*batch alice_place"], y: Int[Tensor, "*batch bob_place"]
    ) -> Int[Tensor, "*batch"]:
        """1 if x > y: the first place where they differ decides."""
        differ = x != y
        first = differ.byte().argmax(-1, keepdim=True)
        x = x.expand(differ.shape)
        return (differ.any(-1) & (x.gather(-1, first).squeeze(-1) == 1)).long()

    def apart(
        self, first: Int[Tensor, "batch alice_place"], second: Int[Tensor, "batch alice_place"]
    ) -> Int[Tensor, "batch bob_place"]:
        """The lesser of them: it is not greater than itself, and the other is."""
        return torch.where(self.value(first, second).bool().unsqueeze(-1), second, first)


@final
@dataclass(frozen=True, kw_only=True)
class InnerProduct(_Bits):
    """Is the number of places that are 1 in both odd?"""

    name: ClassVar[str] = "ip"
    title: ClassVar[str] = "inner product modulo 2"

    def value(
        self, x: Int[Tensor, "*batch alice_place"], y: Int[Tensor, "*batch bob_place"]
    ) -> Int[Tensor, "*batch"]:
        """The sum of products modulo 2."""
        return (x * y).sum(-1) % 2

    def apart(
        self, first: Int[Tensor, "batch alice_place"], second: Int[Tensor, "batch alice_place"]
    ) -> Int[Tensor, "batch bob_place"]:
        """The set of the first place where they differ."""
        return _only((first != second).byte().argmax(-1), self.n)


def _only(place: Int[Tensor, "batch"], n: int) -> Int[Tensor, "batch n"]:
    """1 at the place, 0 elsewhere."""
    return torch.nn.functional.one_hot(place, n)


PROBLEMS: Final = {kind.name: kind for kind in (Index, Equality, Disjointness, GreaterThan, InnerProduct)}


def problem(name: str, *, n: int, alphabet: int = 2) -> Problem:
    """The classic problem of this name, in letters of either case; only `index` has an alphabet."""
    kind = PROBLEMS.get(name.lower())
    if kind is None:
        raise unknown_name("problem", name, tuple(PROBLEMS))
    if kind is Index:
        return Index(n=n, alphabet=alphabet)
    if alphabet != 2:
        raise InvalidInput(f"Only index has an alphabet; {kind.name} is about bits, got alphabet={alphabet}.")
    return kind(n=n)
