"""Associative recall: a key once more; answer what followed it (S, App. C.1 before Prop. 9; W, section 4.2).

>>> from separatrix.tasks import task
>>> recall = task("associative-recall", n=3, keys=8, values=4)
>>> row = recall.parse("k5 v1 k0 v3 k7 v1 k0")
>>> recall.render_target(recall.solve(row.unsqueeze(0)).answer[0])
'v3'

With `order="fixed"` the keys are always k0, k1, k2 …, in this order:

>>> recall = task("associative-recall", n=3, keys=8, values=4, order="fixed")
>>> row = recall.parse("k0 v1 k1 v3 k2 v1 k1")
>>> recall.render_target(recall.solve(row.unsqueeze(0)).answer[0])
'v3'

W's form is one sequence of tokens, and the first occurrence of the query counts:

>>> recall = task("associative-recall", n=5, form="sequence")
>>> row = recall.parse("s2 s4 s1 s4 s3 s4")
>>> recall.render_target(recall.solve(row.unsqueeze(0)).answer[0])
's1'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from separatrix.errors import TooLarge
from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks.domains import arrangement, arrangements, digits, split_union
from separatrix.tasks.interface import Asking, Batch, Classes, Labels, Partition, TokenTask, option, require
from separatrix.tasks.shaping import labels_at, positions, uniform_between
from separatrix.tasks.vocabulary import Vocabulary, numbered


@TASKS.register("associative-recall")
@dataclass(frozen=True, kw_only=True)
class AssociativeRecall(TokenTask):
    """Retrieve by content: the token that followed the query when it first occurred.

    In S's form, `pairs`, the input is x₁ y₁ … x_k y_k x_q with different keys x, labels y, and a query that
    is one of the keys. Samples: k is uniform from min(10, n) to n, the keys are different and in uniform
    order, the labels are uniform and independent, and q is uniform in 1 … k. With `order="fixed"` the keys
    are the first k, in the order of their numbers, and everything else is as before: only the labels and
    the query are left to chance.

    In W's form, `sequence`, the input is k tokens of one alphabet and a query that occurs among the first
    k − 1 of them. Samples: k is uniform from min(10, n) to n, the tokens are uniform and independent, and
    the query is the token at a uniform place in 1 … k − 1. The answer is the token after the query's
    first occurrence, whichever place it was taken from.

    Neither paper gives a law for its samples. Where no other alphabet is asked for, it grows with n, as
    both papers assume.
    """

    name = "associative-recall"
    title = "Associative recall"
    source = "S, W"
    showcase = MappingProxyType({"n": 10, "keys": 64})

    n: int = option(help="most pairs before the query, or most tokens in a sequence")
    form: Literal["pairs", "sequence"] = option("pairs", help="S's keys with labels, or W's sequence")
    keys: int = option(0, help="number of keys in the form of pairs; 0 chooses max(64, n)")
    values: int = option(0, help="number of labels in the form of pairs; 0 chooses 64")
    alphabet: int = option(0, help="number of tokens in the form of a sequence; 0 chooses n")
    lengths: Literal["varied", "full"] = option("varied", help="sample k from min(10, n) to n, or k = n only")
    order: Literal["any", "fixed"] = option(
        "any", help="in the form of pairs, keys in any order, or always k0 k1 k2 …", newer=True
    )

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        least = 1 if self.form == "pairs" else 2
        require(
            least <= self.n <= 1 << 16,
            f"associative-recall in {self.form} form needs {least} ≤ n ≤ 2^16; got n={self.n}. Try 64.",
        )
        given = {"keys": self.keys, "values": self.values, "alphabet": self.alphabet}
        for option_name, value in given.items():
            home = "sequence" if option_name == "alphabet" else "pairs"
            require(
                value == 0 or self.form == home,
                f"associative-recall knows {option_name} only in {home} form; got {option_name}={value} with "
                f"form={self.form}. Leave it out.",
            )
            fewest = self.n if option_name == "keys" else 1
            require(
                value == 0 or fewest <= value <= 1 << 20,
                f"associative-recall needs {option_name} from {fewest} to 2^20, or 0 to choose; got "
                f"{option_name}={value}. Try {max(64, fewest)}.",
            )
        require(
            self.order == "any" or self.form == "pairs",
            f"associative-recall knows order={self.order} only in pairs form; got form={self.form}. "
            "Leave it out.",
        )

    @property
    def vocabulary(self) -> Vocabulary:
        """Labels, then keys; or the one alphabet."""
        if self.form == "sequence":
            return Vocabulary(numbered("symbol", self._alphabet, prefix="s"), padded=True)
        return Vocabulary(
            numbered("value", self._values, prefix="v"),
            numbered("key", self._keys, prefix="k"),
            padded=True,
        )

    @property
    def length(self) -> int:
        """All pairs or tokens, and the query."""
        return (2 * self.n if self.form == "pairs" else self.n) + 1

    @property
    def target_space(self) -> Classes:
        """A label, or a token of the alphabet."""
        return Classes(size=self._values if self.form == "pairs" else self._alphabet)

    @property
    def asking(self) -> Asking:
        """One answer, behind everything it depends on."""
        return Asking()

    @property
    def _keys(self) -> int:
        return self.keys or max(64, self.n)

    @property
    def _values(self) -> int:
        return self.values or 64

    @property
    def _alphabet(self) -> int:
        return self.alphabet or self.n

    @property
    def _padding(self) -> int:
        return self._values + self._keys if self.form == "pairs" else self._alphabet

    @property
    def sampled_sizes(self) -> tuple[int, int]:
        """Pairs, or tokens."""
        return (self.n if self.lengths == "full" else min(10, self.n)), self.n

    def positions_of(self, size: int) -> int:
        """These and the query."""
        return (2 * size if self.form == "pairs" else size) + 1

    def draw(self, draws: Draws) -> Batch:
        """Uniform length, contents and place of the query."""
        count = self.drawn_sizes(draws)
        if self.form == "pairs":
            asked = uniform_between(draws, "query", 0, count - 1).unsqueeze(1)
            if self.order == "fixed":
                keys = torch.arange(self.n, device=draws.device).expand(draws.batch, -1)
            else:
                keys = draws.distinct("keys", self.n, self._keys)
            values = draws.integers("values", (self.n,), self._values)
            inputs = self._write_pairs(keys, values, count, asked)
            answer, end = values.gather(1, asked).squeeze(1), 2 * count
        else:
            asked = uniform_between(draws, "query", 0, count - 2).unsqueeze(1)
            tokens = draws.integers("tokens", (self.n,), self._alphabet)
            query = tokens.gather(1, asked)
            first = (tokens == query).view(torch.uint8).argmax(1, keepdim=True)
            inputs = self._write(tokens, count, query)
            answer, end = tokens.gather(1, first + 1).squeeze(1), count
        labels = labels_at(end, answer, length=self.length)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=end + 1)

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """The query is the last token that is no padding; its label follows its first occurrence."""
        last = (inputs != self._padding).sum(1) - 1
        query = inputs.gather(1, last.unsqueeze(1))
        first = (inputs == query).view(torch.uint8).argmax(1, keepdim=True)
        return labels_at(last, inputs.gather(1, first + 1).squeeze(1), length=self.length)

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """The shape of the form, and a query that has occurred with something after it."""
        words = self.render(row).split()
        if self.form == "sequence":
            require(
                len(words) >= 3,
                f"An input has 3 to {self.length} words, a sequence and then a query; got {len(words)}.",
            )
            require(
                words[-1] in words[:-2],
                f"The query must occur in the sequence with a token after it; {words[-1]} does not.",
            )
            return
        require(
            len(words) >= 3 and len(words) % 2 == 1,
            f"An input has an odd number of words from 3 to {self.length}, pairs of key and label and then a "
            f"query; got {len(words)}.",
        )
        for place, word in enumerate(words):
            wanted, prefix = ("label", "v") if place % 2 else ("key", "k")
            require(word.startswith(prefix), f"Word {place + 1} must be a {wanted}; got '{word}'.")
        seen: set[str] = set()
        for key in words[:-1:2]:
            require(key not in seen, f"Keys must differ; {key} is there twice.")
            seen.add(key)
            expected = f"k{len(seen) - 1}"
            require(
                self.order == "any" or key == expected,
                f"Keys stand in their order here, k0 k1 k2 …, so key {len(seen)} must be {expected}; "
                f"got {key}.",
            )
        require(words[-1] in seen, f"The query must be one of the keys before it; got {words[-1]}.")

    def domain_size(self) -> int:
        """In pairs k·K(K−1)…(K−k+1)·V^k for each k; in a sequence A²(A^(k−1) − (A−1)^(k−1)).

        The latter are all queries, all last tokens and all beginnings, less those without the query. With
        the keys in a fixed order there are k·V^k pairs for each k.
        """
        if self.form == "pairs":
            # How many keys there are to choose from for the first pair, and how many fewer for each next one.
            keys, fewer = (self._keys, 1) if self.order == "any" else (1, 0)
            return _sum_of_products(keys, fewer, self._values, 1, self.n)[1]
        size = self._alphabet
        return size**2 * (_sum_of_powers(size, self.n) - _sum_of_powers(size - 1, self.n))

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """Shortest first."""
        if self.domain_size() >> 62:
            raise TooLarge(
                f"associative-recall with n={self.n} has too many inputs to number; choose a smaller n or "
                "alphabet."
            )
        if self.form == "sequence":
            return self._decode_sequence(numbers)
        return self._decode_pairs(numbers) if self.order == "any" else self._decode_labels(numbers)

    def partitions(self) -> Mapping[str, Partition]:
        """Alice holds all but the query (S-P9)."""
        return {"prefix/suffix": Partition.prefix(self.length, self.length - 1)}

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """The label or token."""
        return self.vocabulary.word(int(target))

    def _decode_pairs(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        counts = range(1, self.n + 1)
        labellings = [self._values**k for k in counts]
        sizes = [k * arrangements(k, self._keys) * labellings[k - 1] for k in counts]
        part, rest = split_union(numbers, sizes)
        asked, rest = rest % (part + 1), rest // (part + 1)
        radix = numbers.new_tensor(labellings)[part]
        # The list of k keys is the beginning of the list of n keys whose other ranks are zero.
        unused = numbers.new_tensor([arrangements(self.n - k, self._keys - k) for k in counts])[part]
        keys = arrangement(rest // radix * unused, self.n, self._keys)
        values = digits(rest % radix, [self._values] * self.n).flip(1)
        return self._write_pairs(keys, values, part + 1, asked.unsqueeze(1))

    def _decode_labels(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """With the keys in their fixed order."""
        part, rest = split_union(numbers, [k * self._values**k for k in range(1, self.n + 1)])
        count = part + 1
        values = digits(rest // count, [self._values] * self.n).flip(1)
        keys = torch.arange(self.n, device=numbers.device).expand_as(values)
        return self._write_pairs(keys, values, count, (rest % count).unsqueeze(1))

    def _decode_sequence(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """By length and place of the query's first occurrence: before it the query is missing."""
        size = self._alphabet
        shapes = [(k, first) for k in range(2, self.n + 1) for first in range(k - 1)]
        part, rest = split_union(
            numbers, [size * (size - 1) ** first * size ** (k - 1 - first) for k, first in shapes]
        )
        count, first = numbers.new_tensor(shapes)[part].unbind(1)
        query, rest = rest % size, rest // size
        tokens = []
        for place in range(self.n):
            free = (first < place) & (count > place)
            radix = torch.where(free, size, torch.where(first > place, size - 1, 1))
            token = rest % radix
            token = torch.where(first > place, token + (token >= query), token)
            tokens.append(torch.where(first == place, query, token))
            rest = rest // radix
        return self._write(torch.stack(tokens, dim=1), count, query.unsqueeze(1))

    def _write_pairs(
        self,
        keys: Int[Tensor, "batch n"],
        values: Int[Tensor, "batch n"],
        count: Int[Tensor, "batch"],
        asked: Int[Tensor, "batch 1"],
    ) -> Int[Tensor, "batch pos"]:
        keys = keys + self._values
        pairs = torch.stack([keys, values], dim=2).flatten(1)
        return self._write(pairs, 2 * count, keys.gather(1, asked))

    def _write(
        self, tokens: Int[Tensor, "batch most"], end: Int[Tensor, "batch"], query: Int[Tensor, "batch 1"]
    ) -> Int[Tensor, "batch pos"]:
        """The tokens up to `end`, the query there, padding behind it."""
        rows = torch.nn.functional.pad(tokens, (0, 1))
        rows.masked_fill_(positions(rows) > end.unsqueeze(1), self._padding)
        return rows.scatter_(1, end.unsqueeze(1), query)


def _sum_of_products(keys: int, fewer: int, values: int, low: int, high: int) -> tuple[int, int]:
    """Π_k (keys − fewer·(k − 1))·values for k from low to high, and Σ_k k times its first part up to k.

    Halving the range keeps the long multiplications few.
    """
    if low == high:
        factor = (keys - fewer * (low - 1)) * values
        return factor, low * factor
    middle = (low + high) // 2
    product, total = _sum_of_products(keys, fewer, values, low, middle)
    later_product, later_total = _sum_of_products(keys, fewer, values, middle + 1, high)
    return product * later_product, total + product * later_total


def _sum_of_powers(base: int, count: int) -> int:
    """base + base² + … + base^(count−1)."""
    return count - 1 if base == 1 else (base**count - base) // (base - 1)
