"""Sparse averaging: at every i, the mean of the q values that the set S_i names (R, section 3).

>>> from separatrix.tasks import task
>>> average = task("q-sparse-averaging", n=3, q=2)
>>> row = average.parse("v=(1) S={2,3}; v=(-1) S={1}; v=(1) S={}")
>>> row.tolist()  # each value, then the members of its set
[[1.0, 2.0, 3.0], [-1.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
>>> [average.render_target(mean) for mean in average.solve(row.unsqueeze(0)).targets[0]]
['(0)', '(0.5)', '(0)']
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from types import MappingProxyType
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from separatrix.errors import InvalidInput, TooLarge
from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks.domains import digits, split_union, subset
from separatrix.tasks.interface import Asking, Batch, Labels, Partition, Reals, Task, Vectors, option, require

_LONGEST_TEXT = 1 << 24


@TASKS.register("q-sparse-averaging")
@dataclass(frozen=True, kw_only=True)
class QSparseAveraging(Task):
    """Average the values at the few places that each position asks for.

    Position i holds a value v_i in d dimensions, of norm at most 1, and a set S_i of at most q positions. Its
    row is the d coordinates and then q columns with the members of S_i, numbers from 1 to n in increasing
    order, followed by 0 where the set is smaller. i itself is the place of the row.

    The target at every i is (1/q) Σ_{j ∈ S_i} v_j, always divided by q, also where the set is smaller, and 0
    for the empty set. (R defines sets of exactly q and then uses empty ones in the reduction from INDEX.) An
    answer is right if its Euclidean distance from the target is less than 1/(4q).

    So that every input is exact and can be listed, coordinates lie on a grid: −grid … +grid times a step,
    the greatest power of two at which the norm is at most 1. In one dimension with grid 1: −1, 0, 1.

    R names no distribution. Samples have independent values uniform on the grid and independent sets,
    uniform among those of q members; with `sizes="up-to"` the number of members is uniform in 0 … q first.
    """

    name = "q-sparse-averaging"
    title = "Sparse averaging"
    source = "R"
    showcase = MappingProxyType({"n": 8, "q": 2, "grid": 2})

    n: int = option(help="how many positions")
    q: int = option(3, help="most members of a set")
    d: int = option(1, help="dimension of the values")
    grid: int = option(1, help="steps from 0 to a coordinate's greatest value")
    sizes: Literal["exact", "up-to"] = option("exact", help="sample sets of q members, or of 0 to q")

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        require(2 <= self.n <= 1 << 16, f"q-sparse-averaging needs 2 ≤ n ≤ 2^16; got n={self.n}. Try 20.")
        require(
            1 <= self.q <= min(self.n, 64),
            f"q-sparse-averaging needs sets of 1 ≤ q ≤ {min(self.n, 64)} of the n={self.n} positions; "
            f"got q={self.q}. Try {min(self.n, 3)}.",
        )
        require(1 <= self.d <= 64, f"q-sparse-averaging needs 1 ≤ d ≤ 64; got d={self.d}. Try 1.")
        require(
            1 <= self.grid <= 1024, f"q-sparse-averaging needs 1 ≤ grid ≤ 1024; got grid={self.grid}. Try 1."
        )
        numbers = self.n * (self.d + self.q)
        require(
            numbers <= 1 << 18,
            f"q-sparse-averaging needs n·(d + q) ≤ 2^18; got {self.n}·({self.d} + {self.q}) = {numbers:,}. "
            f"Try n={(1 << 18) // (self.d + self.q)}.",
        )

    @property
    def step(self) -> float:
        """The distance between neighbouring values of a coordinate, a power of two."""
        places = 0
        while self.d * self.grid**2 > 4**places:
            places += 1
        return math.ldexp(1, -places)

    @property
    def length(self) -> int:
        """n rows."""
        return self.n

    @property
    def input_space(self) -> Reals:
        """A value and the members of a set."""
        return Reals(width=self.d + self.q)

    @property
    def target_space(self) -> Vectors:
        """A mean, to be met more closely than 1/(4q)."""
        return Vectors(width=self.d, tolerance=1 / (4 * self.q))

    @property
    def asking(self) -> Asking:
        """Everywhere, about all of the input."""
        return Asking(most=self.n, ahead=True)

    def draw(self, draws: Draws) -> Batch:
        """Uniform values and sets."""
        steps = draws.integers("values", (self.n, self.d), 2 * self.grid + 1) - self.grid
        inputs = torch.cat([steps.float() * self.step, self._sets(draws).float()], dim=2)
        labels = self.solve(inputs)
        lengths = torch.full((draws.batch,), self.n, device=draws.device)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=lengths)

    def solve(self, inputs: Float[Tensor, "batch pos width"]) -> Labels:
        """Fetch and add: sums of multiples of the step are exact, and only the division by q rounds."""
        values, members = inputs[..., : self.d], inputs[..., self.d :].long()
        # Row 0 is the value of an absent member, row j that of position j.
        known = torch.nn.functional.pad(values, (0, 0, 1, 0))
        total = torch.zeros_like(values)
        for member in members.unbind(2):
            total += known.gather(1, member.unsqueeze(2).expand(-1, -1, self.d))
        # By a tensor: CUDA turns a division by a number into a product with its rounded inverse.
        mean = total / torch.full_like(total, self.q)
        return Labels(targets=mean, mask=torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device))

    def check_content(self, row: Float[Tensor, "pos width"]) -> None:
        """Values on the grid, then increasing members, then zeros."""
        for place, numbers in enumerate(row.tolist(), start=1):
            for coordinate in numbers[: self.d]:
                require(self._on_grid(coordinate), self._off_grid(_decimal(coordinate)))
            members = [member for member in numbers[self.d :] if member != 0]
            in_order = all(low < high for low, high in pairwise(members))
            require(
                in_order
                and all(1 <= member <= self.n and member == int(member) for member in members)
                and not any(numbers[self.d + len(members) :]),
                f"The set of position {place} must be increasing numbers from 1 to {self.n} and then zeros; "
                f"got {numbers[self.d :]}.",
            )

    def domain_size(self) -> int:
        """At each position any value of the grid with any set of at most q."""
        return int((self._values() * sum(self._sets_by_size())) ** self.n)

    def decode(self, numbers: Int[Tensor, "batch"]) -> Float[Tensor, "batch pos width"]:
        """At each position the coordinates' digits and the number of the set, small sets first."""
        choices = self._values() * sum(self._sets_by_size())
        if choices > 1 << 62:
            raise TooLarge(
                f"q-sparse-averaging has too many inputs to number at n={self.n}, q={self.q} and d={self.d}; "
                "choose smaller ones."
            )
        places = digits(numbers, [choices] * self.n).flatten()
        value, rest = places % self._values(), places // self._values()
        coordinates = digits(value, [2 * self.grid + 1] * self.d) - self.grid
        size, rank = split_union(rest, self._sets_by_size())
        members = torch.zeros(len(places), self.q, dtype=torch.int64, device=places.device)
        for count in range(1, self.q + 1):
            chosen = subset(torch.where(size == count, rank, 0), count, self.n) + 1
            padded = torch.nn.functional.pad(chosen, (0, self.q - count))
            members = torch.where((size == count).unsqueeze(1), padded, members)
        rows = torch.cat([coordinates.float() * self.step, members.float()], dim=1)
        return rows.view(len(numbers), self.n, -1)

    def render(self, row: Float[Tensor, "pos width"]) -> str:
        """A value and a set for each position: `v=(0.5,-0.5) S={2,5}; v=(0,0.5) S={}`."""
        return "; ".join(
            f"v=({','.join(map(_decimal, numbers[: self.d]))}) "
            f"S={{{','.join(str(int(member)) for member in numbers[self.d :] if member)}}}"
            for numbers in row.tolist()
        )

    def parse(self, text: str) -> Float[Tensor, "pos width"]:
        """The input a text describes; a set's members may stand in any order."""
        require(
            len(text) <= _LONGEST_TEXT, f"A text has at most {_LONGEST_TEXT:,} characters; got {len(text):,}."
        )
        parts = text.split(";")
        require(
            len(parts) == self.n,
            f"q-sparse-averaging needs {self.n} values with their sets, separated by ';'; got {len(parts)}.",
        )
        return torch.tensor([self._parse_position(part.strip()) for part in parts], dtype=torch.float32)

    def render_target(self, target: Float[Tensor, "d"]) -> str:
        """The mean to four digits."""
        return f"({','.join(f'{coordinate:.4g}' for coordinate in target.tolist())})"

    def partitions(self) -> Mapping[str, Partition]:
        """All but the last position against it (the reductions from INDEX and from disjointness); halves."""
        return {
            "prefix/suffix": Partition.prefix(self.length, self.n - 1),
            "halves": Partition.prefix(self.length, self.n // 2),
        }

    def _values(self) -> int:
        return int((2 * self.grid + 1) ** self.d)

    def _sets_by_size(self) -> list[int]:
        return [math.comb(self.n, size) for size in range(self.q + 1)]

    def _sets(self, draws: Draws) -> Int[Tensor, "batch pos q"]:
        """Floyd's method, for all sets at once.

        Step by step take a uniform number up to n − q + 1, then up to n − q + 2, … up to n, or that bound
        itself if the number is in the set already. The last s steps alone give a uniform set of s.
        """
        shape = (self.n,)
        up_to = self.sizes == "up-to"
        size = draws.integers("sizes", shape, self.q + 1) if up_to else None
        members: list[Tensor] = []
        for step in range(self.q):
            bound = self.n - self.q + step + 1
            drawn = draws.integers(f"member {step}", shape, bound) + 1
            taken = torch.zeros_like(drawn, dtype=torch.bool)
            for member in members:
                taken |= member == drawn
            drawn.masked_fill_(taken, bound)
            # An absent member sorts behind all others.
            members.append(drawn if size is None else drawn.masked_fill_(step < self.q - size, self.n + 1))
        ordered = torch.stack(members, dim=2).sort(dim=2).values
        return ordered.masked_fill_(ordered > self.n, 0)

    def _parse_position(self, part: str) -> list[float]:
        shape = re.fullmatch(r"v=\(([^(){}]*)\)\s*S=\{([^(){}]*)\}", part)
        if shape is None:
            example = f"v=({','.join(['0'] * self.d)}) S={{1}}"
            raise InvalidInput(f"A position is written like {_shorten(example)}; got '{_shorten(part)}'.")
        value = [self._coordinate(word.strip()) for word in shape[1].split(",")]
        require(
            len(value) == self.d,
            f"A value has {self.d} coordinate{'s' * (self.d > 1)}; got '({_shorten(shape[1])})'.",
        )
        words = shape[2].split(",") if shape[2].strip() else []
        members = sorted(_member(word, self.n) for word in words)
        require(
            len(set(members)) == len(members) <= self.q,
            f"A set has at most {self.q} different members; got '{{{_shorten(shape[2])}}}'.",
        )
        return [*value, *map(float, members), *[0.0] * (self.q - len(members))]

    def _coordinate(self, word: str) -> float:
        if not re.fullmatch(r"[+-]?[0-9]{1,3}(\.[0-9]{1,30})?", word, re.ASCII):
            raise InvalidInput(f"A coordinate is a decimal number such as -0.5; got '{_shorten(word)}'.")
        exact = Fraction(word)
        require(Fraction(float(exact)) == exact and self._on_grid(float(exact)), self._off_grid(word))
        return float(exact)

    def _on_grid(self, coordinate: float) -> bool:
        steps = coordinate / self.step
        return abs(steps) <= self.grid and steps == int(steps)

    def _off_grid(self, shown: str) -> str:
        return (
            f"A coordinate is a multiple of {_decimal(self.step)} from {_decimal(-self.grid * self.step)} to "
            f"{_decimal(self.grid * self.step)}; got {shown}."
        )


def _member(word: str, n: int) -> int:
    digits_ = word.strip()
    if not re.fullmatch(r"[1-9][0-9]{0,6}", digits_, re.ASCII) or int(digits_) > n:
        raise InvalidInput(f"A member of a set is a number from 1 to {n}; got '{_shorten(digits_)}'.")
    return int(digits_)


def _decimal(number: float) -> str:
    """All digits, without an exponent, and no sign on zero."""
    return f"{number + 0.0:.40f}".rstrip("0").rstrip(".")


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}…"
