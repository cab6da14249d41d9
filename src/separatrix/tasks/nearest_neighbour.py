"""Nearest neighbour: labelled unit vectors, then a query; answer the nearest one's label (S, section 5.2).

>>> from separatrix.tasks import task
>>> nearest = task("nearest-neighbour", n=4, dimension=4, noise=1)
>>> row = nearest.parse("++-+ :1 -+-- :0 +--+ :0 ++++?")
>>> nearest.render_target(nearest.solve(row.unsqueeze(0)).answer[0])
':1'
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from separatrix.errors import InvalidInput, TooLarge
from separatrix.randomness import Draws, host_constant
from separatrix.tasks import TASKS
from separatrix.tasks._hypercube import beyond, by_distance, chances, sum_of_marked_lists
from separatrix.tasks.domains import split_union
from separatrix.tasks.interface import Asking, Batch, Classes, Labels, Partition, Reals, Task, option, require
from separatrix.tasks.shaping import labels_at, uniform_between

_LONGEST_TEXT = 1 << 24


@TASKS.register("nearest-neighbour")
@dataclass(frozen=True, kw_only=True)
class NearestNeighbour(Task):
    """x₁ y₁ … x_{k−1} y_{k−1} x_k with n/2 < k ≤ n: the label of the point with the largest ⟨x_k, x_i⟩.

    The points are vertices of the hypercube {±1/√d}^d, the unit vectors that S's appendix G uses, and every
    input keeps S's margin: ⟨x_k, x_j⟩ ≥ ⟨x_k, x_i⟩ + γ for the nearest j and all other i. An inner product
    is 1 less 2/d for each coordinate that differs, so the margin says that x_i differs from the query in at
    least ⌈γd/2⌉ more coordinates than x_j; all comparisons are of these whole numbers. A decimal γ is
    taken as written: 0.1 is a tenth.

    S gives no law for samples. Here k is uniform above n/2 up to n; the nearest j is uniform in 1 … k − 1;
    x_j is a uniform vertex and the query is x_j with f coordinates flipped, f uniform from 0 to `noise` and
    the coordinates a uniform subset; every other point is uniform among the vertices that leave the
    margin; labels are uniform and independent. Inputs whose query is further than `noise` from every point
    are inputs too, but are not sampled.

    A position holds d coordinates and then one number for each label: a point has its coordinates and
    zeros, a label zeros and a single 1, padding nothing but zeros. The answer belongs at the query.
    """

    name = "nearest-neighbour"
    title = "Nearest neighbour"
    source = "S"
    showcase = MappingProxyType({"n": 13, "labels": 4, "noise": 3, "lengths": "full"})

    n: int = option(help="most points, the query included")
    dimension: int = option(16, help="dimension d of the points")
    labels: int = option(2, help="number of labels")
    margin: float = option(0.25, help="margin γ between the nearest and any other inner product")
    noise: int = option(2, help="most coordinates in which a sampled query differs from its nearest point")
    lengths: Literal["varied", "full"] = option("varied", help="sample n/2 < k ≤ n, or k = n only")

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        require(2 <= self.n <= 1 << 16, f"nearest-neighbour needs 2 ≤ n ≤ 2^16; got n={self.n}. Try 64.")
        require(
            1 <= self.dimension <= 512,
            f"nearest-neighbour needs a dimension from 1 to 512; got dimension={self.dimension}. Try 16.",
        )
        require(
            1 <= self.labels <= 1 << 12,
            f"nearest-neighbour needs 1 to 2^12 labels; got labels={self.labels}. Try 2.",
        )
        most = (1 << 21) // (self.dimension + self.labels)
        require(
            self.n <= most,
            f"nearest-neighbour with dimension + labels = {self.dimension + self.labels} needs n ≤ {most}; "
            f"got n={self.n}. Try {most}.",
        )
        require(
            0 < self.margin <= 2,
            f"nearest-neighbour needs 0 < margin ≤ 2, since inner products lie between -1 and 1; "
            f"got margin={self.margin}. Try 0.25.",
        )
        spare = self.dimension - self._gap
        require(
            0 <= self.noise <= spare,
            f"nearest-neighbour with dimension={self.dimension} and margin={self.margin} needs noise "
            f"from 0 to {spare}, to leave room for the margin; got noise={self.noise}. "
            f"Try {min(max(0, self.noise), spare)}.",
        )

    @property
    def length(self) -> int:
        """A point and a label for each of n − 1, and the query."""
        return 2 * self.n - 1

    @property
    def input_space(self) -> Reals:
        """Coordinates, then labels."""
        return Reals(width=self.dimension + self.labels)

    @property
    def target_space(self) -> Classes:
        """A label."""
        return Classes(size=self.labels)

    @property
    def asking(self) -> Asking:
        """One answer, behind everything it depends on."""
        return Asking()

    @property
    def _gap(self) -> int:
        return _gap(self.margin, self.dimension)

    @property
    def _scale(self) -> float:
        return _scale(self.dimension)

    @property
    def sampled_sizes(self) -> tuple[int, int]:
        """Points with a label."""
        return (self.n - 1 if self.lengths == "full" else self.n // 2), self.n - 1

    def positions_of(self, size: int) -> int:
        """Each point and its label, and the query."""
        return 2 * size + 1

    def draw(self, draws: Draws) -> Batch:
        """A query, its neighbour a few flips away, and other points that leave the margin."""
        stored = self.drawn_sizes(draws)
        winner = uniform_between(draws, "nearest", 0, stored - 1).unsqueeze(1)
        query = draws.coins("query", (self.dimension,))
        flips = uniform_between(draws, "flips", 0, self.noise)
        near = draws.permutations("flipped", self.dimension) < flips.unsqueeze(1)
        differs = self._further(draws, flips + self._gap)
        differs = differs.scatter(1, winner.unsqueeze(2).expand(-1, 1, self.dimension), near.unsqueeze(1))
        marks = draws.integers("labels", (self.n - 1,), self.labels)
        inputs = self._write(query, differs, marks, stored)
        answer = labels_at(2 * stored, marks.gather(1, winner).squeeze(1), length=self.length)
        return Batch(inputs=inputs, targets=answer.targets, mask=answer.mask, lengths=2 * stored + 1)

    def solve(self, inputs: Float[Tensor, "batch pos width"]) -> Labels:
        """The signs of points and query agree or not; their products are summed in whole numbers."""
        points = inputs[:, ::2, : self.dimension]
        signs = (points > 0).int() - (points < 0).int()
        stored = signs[:, :, 0].abs().sum(1) - 1
        query = signs.gather(1, stored.view(-1, 1, 1).expand(-1, 1, self.dimension))
        products = (signs * query).sum(2)
        order = torch.arange(self.n, device=inputs.device)
        products = products.masked_fill(order >= stored.unsqueeze(1), -self.dimension - 1)
        nearest = products.argmax(1)
        marks = inputs[:, 1::2, self.dimension :].argmax(2)
        answer = marks.gather(1, nearest.unsqueeze(1)).squeeze(1)
        return labels_at(2 * stored, answer, length=self.length)

    def check_content(self, row: Float[Tensor, "pos width"]) -> None:
        """Points and labels in turn, a query, then padding; enough points, and the margin."""
        words = self._words(row)
        least = self.n // 2
        require(
            len(words) % 2 == 1 and len(words) > 2 * least,
            f"An input has an odd number of words from {2 * least + 1} to {self.length}, points with labels "
            f"and then a query; got {len(words)}.",
        )
        for place, word in enumerate(words):
            wanted = "label" if place % 2 else "point"
            require(
                word != "" and word.startswith(":") == (wanted == "label"),
                f"Word {place + 1} must be a {wanted}; got '{word}'.",
            )
        *stored, query = words[::2]
        differences = sorted(sum(map(str.__ne__, point, query)) for point in stored)
        nearest, other = (*differences, self.dimension + self._gap)[:2]
        require(
            other - nearest >= self._gap,
            f"A margin of {self.margin} asks that every point but the nearest differ from the query in at "
            f"least {self._gap} more coordinates; the nearest differs in {nearest} and another in {other}.",
        )

    def domain_size(self) -> int:
        """Summed over the points stored and the coordinates in which the nearest differs from the query.

        With m points of which the nearest differs in D coordinates there are 2^d queries, labels^m
        labellings, m places for the nearest, C(d, D) nearest points, and T^(m−1) lists of others, where
        T = C(d, D + gap) + … + C(d, d).
        """
        total = 0
        for distance in range(self.dimension + 1):
            ratio = self.labels * self._others(distance)
            lists = sum_of_marked_lists(ratio, self.n - 1) - sum_of_marked_lists(ratio, self.n // 2 - 1)
            total += math.comb(self.dimension, distance) * self.labels * lists
        return total << self.dimension

    def decode(self, numbers: Int[Tensor, "batch"]) -> Float[Tensor, "batch pos width"]:
        """By the terms of `domain_size`, fewest points first."""
        self._refuse_listing()
        dimension = self.dimension
        shapes = [(m, far) for m in range(self.n // 2, self.n) for far in range(dimension + 1)]
        sizes = [
            math.comb(dimension, far) * (self._others(far) ** (m - 1) * m * self.labels**m << dimension)
            for m, far in shapes
        ]
        part, rest = split_union(numbers, sizes)
        stored, distance = numbers.new_tensor(shapes)[part].unbind(1)
        choices = numbers.new_tensor([math.comb(dimension, far) for far in range(dimension + 1)])
        begins = choices.cumsum(0) - choices
        others = numbers.new_tensor([self._others(far) for far in range(dimension + 1)])[distance]
        vertices = by_distance(dimension, numbers.device)

        query, rest = vertices[rest % (1 << dimension)], rest >> dimension
        winner, rest = rest % stored, rest // stored
        near, rest = begins[distance] + rest % choices[distance], rest // choices[distance]
        points, marks = [], []
        for place in range(self.n - 1):
            radix = torch.where(stored > place, self.labels, 1)
            marks.append(rest % radix)
            rest = rest // radix
            radix = torch.where((stored > place) & (winner != place), others, 1)
            point = (1 << dimension) - 1 - rest % radix
            rest = rest // radix
            points.append(vertices[torch.where(winner == place, near, point)])
        return self._write(query, torch.stack(points, dim=1), torch.stack(marks, dim=1), stored)

    def render(self, row: Float[Tensor, "pos width"]) -> str:
        """Points as their signs, labels as :0, :1, …, and a question mark behind the query."""
        return f"{' '.join(self._words(row))}?"

    def parse(self, text: str) -> Float[Tensor, "pos width"]:
        """The text that `render` writes, and nothing else."""
        require(
            len(text) <= _LONGEST_TEXT,
            f"A text has at most {_LONGEST_TEXT:,} characters; got {len(text):,}.",
        )
        words = text.split()
        require(
            len(words) <= self.length,
            f"nearest-neighbour with n={self.n} has inputs of at most {self.length} words; got {len(words)}.",
        )
        require(
            words != [] and words[-1].endswith("?"),
            f"The last word must be the query: {self.dimension} signs and a question mark, "
            f"such as {'+-' * (self.dimension // 2)}{'+' * (self.dimension % 2)}?.",
        )
        words[-1] = words[-1].removesuffix("?")
        row = torch.zeros(self.length, self.input_space.width, dtype=torch.float32)
        for place, word in enumerate(words):
            label = self._label(word)
            if label is not None:
                row[place, self.dimension + label] = 1
            elif len(word) == self.dimension and set(word) <= {"+", "-"}:
                signs = torch.tensor([1 if sign == "+" else -1 for sign in word], dtype=torch.float32)
                row[place, : self.dimension] = signs * self._scale
            else:
                raise InvalidInput(
                    f"'{word[:40]}' is neither a point of {self.dimension} signs + and - nor a label from :0 "
                    f"to :{self.labels - 1}."
                )
        self.check(row)
        return row

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """The label."""
        return f":{int(target)}"

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds the labelled points and Bob the query; or Alice the first n/2 of them (S-T8)."""
        return {
            "prefix/suffix": Partition.prefix(self.length, self.length - 1),
            "halves": Partition.prefix(self.length, 2 * (self.n // 2)),
        }

    def _further(self, draws: Draws, least: Int[Tensor, "batch"]) -> Bool[Tensor, "batch stored dim"]:
        """Where n − 1 uniform points differ from the query, given that each does in at least so many places.

        Coordinate by coordinate, each differs with its probability given those before it; when as many
        coordinates are left as must still differ, that probability is one.
        """
        words = draws.words("points", self.dimension * (self.n - 1))
        words = words.view(-1, self.dimension, self.n - 1)
        table = chances(self.dimension, str(draws.device))
        missing = least.unsqueeze(1).expand(-1, self.n - 1)
        differs = torch.empty_like(words, dtype=torch.bool)
        for place in range(self.dimension):
            differ = words[:, place] < table[self.dimension - place][missing]
            missing = (missing - differ.long()).clamp_(min=0)
            differs[:, place] = differ
        return differs.transpose(1, 2)

    def _write(
        self,
        query: Bool[Tensor, "batch dim"],
        differs: Bool[Tensor, "batch stored dim"],
        marks: Int[Tensor, "batch stored"],
        stored: Int[Tensor, "batch"],
    ) -> Float[Tensor, "batch pos width"]:
        """The input whose points differ from the query where said; only the first `stored` are written."""
        rows = torch.zeros(
            len(query), self.length, self.input_space.width, dtype=torch.float32, device=query.device
        )
        order = torch.arange(self.n, device=query.device)
        end = stored.unsqueeze(1)
        # A point that differs nowhere is the query itself, and it stands behind the last stored point.
        differs = torch.nn.functional.pad(differs, (0, 0, 0, 1)) & (order < end).unsqueeze(2)
        points = (query.unsqueeze(1) ^ differs) * (2 * self._scale) - self._scale
        rows[:, ::2, : self.dimension] = points.masked_fill_((order > end).unsqueeze(2), 0)
        marked = marks.masked_fill(order[:-1] >= end, -1).unsqueeze(2)
        names = torch.arange(self.labels, device=query.device)
        rows[:, 1::2, self.dimension :] = (marked == names).float()
        return rows

    def _words(self, row: Float[Tensor, "pos width"]) -> list[str]:
        """What stands at each position up to the padding, an empty word for nothing."""
        scale, words = self._scale, []
        for place, numbers in enumerate(row.tolist()):
            point, label = numbers[: self.dimension], numbers[self.dimension :]
            if not any(numbers):
                words.append("")
            elif not any(label) and all(abs(number) == scale for number in point):
                words.append("".join("+" if number > 0 else "-" for number in point))
            elif not any(point) and sorted(label) == [0.0] * (self.labels - 1) + [1.0]:
                words.append(f":{label.index(1.0)}")
            else:
                raise InvalidInput(
                    f"Position {place} holds neither a point with coordinates ±{scale:.6g}, nor a label as a "
                    "single 1, nor padding."
                )
        while words and not words[-1]:
            words.pop()
        return words

    def _label(self, word: str) -> int | None:
        """The number of a label written in its one way."""
        if not re.fullmatch(r":(0|[1-9][0-9]{0,8})", word, re.ASCII):
            return None
        label = int(word[1:])
        return label if label < self.labels else None

    def _others(self, distance: int) -> int:
        """Vertices that leave the margin beside a nearest at this distance from the query."""
        return beyond(self.dimension, distance + self._gap)

    def _refuse_listing(self) -> None:
        if self.dimension > 16 or self.domain_size() >> 62:
            raise TooLarge(
                f"nearest-neighbour with n={self.n} and dimension={self.dimension} has too many inputs to "
                "number; choose a smaller n or dimension."
            )


@host_constant
def _gap(margin: float, dimension: int) -> int:
    """The margin in coordinates."""
    return math.ceil(Fraction(repr(float(margin))) * dimension / 2)


@host_constant
def _scale(dimension: int) -> float:
    """The size of a coordinate, as float32 has it."""
    return torch.tensor(1 / math.sqrt(dimension), dtype=torch.float32).item()
