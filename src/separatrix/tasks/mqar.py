"""Multi-query associative recall: labelled keys, then the same keys as queries (S, section 5.2 and App. G).

>>> from separatrix.tasks import task
>>> recall = task("mqar", n=4, vocabulary_size=8)
>>> row = recall.parse("k2 v1 k0 v3 k0 v3 k2 v1")
>>> labels = recall.solve(row.unsqueeze(0))
>>> [recall.render_target(label) for label in labels.targets[labels.mask]]
['v3', 'v1']
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks.domains import arrangement, arrangements, digits, permutation
from separatrix.tasks.interface import Asking, Batch, Classes, Labels, Partition, TokenTask, option, require
from separatrix.tasks.vocabulary import Vocabulary, numbered


@TASKS.register("mqar")
@dataclass(frozen=True, kw_only=True)
class MultiQueryRecall(TokenTask):
    """n pairs x₁ y₁ … x_n y_n: the first half of the keys are new, the second half are those keys again.

    Samples: the n/2 keys are different and in uniform order, their labels are uniform and independent, and
    the order of the queries is a uniform permutation. S states the task and no more; keys and labels are
    halves of one vocabulary as in Arora et al. (2023), whom S follows. Every query is answered in the input
    by the label after it (teacher forcing), and the model must say it one position earlier, at the query.
    """

    name = "mqar"
    title = "Multi-query associative recall"
    source = "S"
    showcase = MappingProxyType({"n": 14, "vocabulary_size": 64})

    n: int = option(help="pairs of key and label, an even number: n/2 to store and n/2 to recall")
    vocabulary_size: int = option(8192, help="number of tokens, an even number: half labels, half keys")

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        require(
            2 <= self.n <= 1 << 17 and self.n % 2 == 0,
            f"mqar needs an even n from 2 to 2^17; got n={self.n}. Try {_even(self.n, 2, 1 << 17)}.",
        )
        require(
            self.n <= self.vocabulary_size <= 1 << 20 and self.vocabulary_size % 2 == 0,
            f"mqar with n={self.n} needs an even vocabulary_size from {self.n} to 2^20, so that "
            f"{self.n // 2} keys can differ; got vocabulary_size={self.vocabulary_size}. "
            f"Try {_even(self.vocabulary_size, self.n, 1 << 20)}.",
        )

    @property
    def vocabulary(self) -> Vocabulary:
        """Labels, then keys."""
        return Vocabulary(
            numbered("value", self._values, prefix="v"), numbered("key", self._values, prefix="k")
        )

    @property
    def length(self) -> int:
        """A key and a label for each pair."""
        return 2 * self.n

    @property
    def target_space(self) -> Classes:
        """A label."""
        return Classes(size=self._values)

    @property
    def asking(self) -> Asking:
        """An answer for every query."""
        return Asking(most=self.n // 2)

    @property
    def _values(self) -> int:
        """How many labels there are, and as many keys."""
        return self.vocabulary_size // 2

    @property
    def _half(self) -> int:
        return self.n // 2

    def draw(self, draws: Draws) -> Batch:
        """Different keys, uniform labels, queries in uniform order."""
        keys = draws.distinct("keys", self._half, self._values)
        values = draws.integers("values", (self._half,), self._values)
        order = draws.permutations("order", self._half)
        inputs, answers = self._write(keys, values, order)
        labels = self._labels(answers)
        lengths = torch.full((draws.batch,), self.length, dtype=torch.int64, device=draws.device)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=lengths)

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """Each query's place among the sorted keys of the first half leads to its label there."""
        keys, queries = inputs[:, : self.n : 2], inputs[:, self.n :: 2]
        ordered, origin = keys.sort(dim=1)
        pair = origin.gather(1, torch.searchsorted(ordered, queries.contiguous()))
        return self._labels(inputs[:, 1 : self.n : 2].gather(1, pair))

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """Keys and labels in turn; the first n/2 keys differ; each comes back once with its own label."""
        tokens, word = row.tolist(), self.vocabulary.word
        for place, token in enumerate(tokens):
            wanted = "label" if place % 2 else "key"
            require(
                (token < self._values) == (wanted == "label"),
                f"Word {place + 1} must be a {wanted}; got '{word(token)}'.",
            )
        stored: dict[int, int] = {}
        for key, value in zip(tokens[: self.n : 2], tokens[1 : self.n : 2], strict=True):
            require(
                key not in stored, f"The first {self._half} keys must differ; {word(key)} is there twice."
            )
            stored[key] = value
        asked: set[int] = set()
        for key, value in zip(tokens[self.n :: 2], tokens[self.n + 1 :: 2], strict=True):
            require(
                key in stored, f"Every query must be one of the first {self._half} keys; got {word(key)}."
            )
            require(key not in asked, f"Every key must be asked for once; {word(key)} is asked for twice.")
            require(
                value == stored[key],
                f"{word(key)} has the label {word(stored[key])}; its query is followed by {word(value)}.",
            )
            asked.add(key)

    def domain_size(self) -> int:
        """Lists of different keys, times their labels, times the orders of the queries."""
        return math.prod(self._radices())

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """By keys, then labels, then the order of the queries."""
        # No number reaches 2^62, so a range that is longer may end there.
        radices = [min(radix, 1 << 62) for radix in self._radices()]
        keys, values, order = digits(numbers, radices).unbind(1)
        rows, _ = self._write(
            arrangement(keys, self._half, self._values),
            digits(values, [self._values] * self._half),
            permutation(order, self._half),
        )
        return rows

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds the labelled keys, Bob the queries (S-T8); the labels behind these are the answers."""
        queries, answers = (tuple(range(self.n + side, self.length, 2)) for side in (0, 1))
        return {"prefix/suffix": Partition(alice=tuple(range(self.n)), bob=queries, written=answers)}

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """The label."""
        return self.vocabulary.word(int(target))

    def _radices(self) -> list[int]:
        return [
            arrangements(self._half, self._values),
            self._values**self._half,
            math.factorial(self._half),
        ]

    def _write(
        self,
        keys: Int[Tensor, "batch half"],
        values: Int[Tensor, "batch half"],
        order: Int[Tensor, "batch half"],
    ) -> tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch half"]]:
        """The input in which the pairs come back in this order, and the labels that answer its queries."""
        rows = keys.new_empty(len(keys), self.n, 2)
        answers = values.gather(1, order)
        rows[:, : self._half, 0] = keys
        rows[:, self._half :, 0] = keys.gather(1, order)
        rows[:, :, 0] += self._values
        rows[:, : self._half, 1] = values
        rows[:, self._half :, 1] = answers
        return rows.flatten(1), answers

    def _labels(self, answers: Int[Tensor, "batch half"]) -> Labels:
        targets = answers.new_zeros(len(answers), self.length)
        targets[:, self.n :: 2] = answers
        mask = torch.zeros_like(targets, dtype=torch.bool)
        mask[:, self.n :: 2] = True
        return Labels(targets=targets, mask=mask)


def _even(value: int, least: int, most: int) -> int:
    """The even number within the limits that is nearest to a refused value."""
    return min(max(value + value % 2, least), most)
