"""Equality: w [SEP] w′; is w′ the same string as w (S, section 4.1 and appendix H.2)?

>>> from separatrix.tasks import task
>>> equality = task("equality", n=6)
>>> rows = torch.stack([equality.parse("0 1 1 [SEP] 0 1 1"), equality.parse("0 1 [SEP] 1 1")])
>>> equality.solve(rows).answer.tolist()
[1, 0]

As next-character prediction, the answer after each symbol is the set of symbols that may follow:

>>> copying = task("equality", n=6, form="ncp", alphabet=3)
>>> labels = copying.solve(copying.parse("2 0 [SEP] 2 0").unsqueeze(0))
>>> [copying.render_target(target) for target in labels.targets[labels.mask]]
['any', 'any', '2', '0', 'end']
>>> copying.continuations(labels.targets[0, 0])
('0', '1', '2', '[SEP]')

Two parties may hold any two halves of the places; here w stands at the first and the last of four:

>>> apart = task("equality", n=4, alice=(0, 3))
>>> apart.solve(apart.parse("0 0 [SEP] 1 1").unsqueeze(0)).answer.tolist()
[1]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from separatrix.randomness import Draws
from separatrix.tasks import TASKS
from separatrix.tasks.domains import digits, split_union
from separatrix.tasks.interface import Asking, Batch, Classes, Labels, Partition, TokenTask, option, require
from separatrix.tasks.shaping import labels_at, positions, uniform_between
from separatrix.tasks.vocabulary import Vocabulary, numbered, words


@TASKS.register("equality")
@dataclass(frozen=True, kw_only=True)
class Equality(TokenTask):
    """Compare two strings of equal length, in the three forms of S, appendix H.2.

    The halves together have k symbols, k uniform over the even numbers from the least one that is at least
    max(2, n/10) up to n, and w is uniform. The paper's list starts at n/10 itself, which is odd for n = 50.

    - `random`: with probability ½ w′ = w, else w′ is uniform, so that it may be equal again. The label, at
      the last symbol, is 1 iff w′ = w: with probability ½ + ½·alphabet^(−k/2).
    - `one`: with probability ½ w′ = w, label 1; else w′ is w with one symbol, its place uniform, replaced by
      another one, uniform, label 0.
    - `ncp`: next-character prediction: w′ = w always. Every position is labelled with the set of words that
      may follow it in the language of all w [SEP] w, w not empty, as one class: class s < alphabet is the
      symbol s and nothing else; class alphabet, "any", is every symbol and [SEP], for every position of the
      first half; class alphabet + 1, "end", is the empty set, for the last position. A string counts as
      right only if all its positions are.

    With `alice` the same symbols stand elsewhere (S, lemma 5): symbol i of w at the place alice[i], and those
    of w′ at the other places in ascending order. Places are counted from 0 without the separator, which
    stays in the middle and says nothing. All inputs then have n symbols.
    """

    name = "equality"
    title = "Equality of strings"
    source = "S"
    showcase = MappingProxyType({"n": 24, "form": "one", "alphabet": 26, "lengths": "full"})

    n: int = option(help="most symbols in both halves together, even")
    form: Literal["random", "one", "ncp"] = option(
        "random", help="negatives at random, with one symbol changed, or next-character prediction"
    )
    alphabet: int = option(0, help="number of symbols |Σ|; 0: as in the paper, 2 for random, else 1024")
    lengths: Literal["varied", "full"] = option(
        "varied", help="sample even lengths from n/10 to n, or n only"
    )
    alice: tuple[int, ...] | None = option(
        None, help="the places of w among the n symbols; None: the first half", flag=False
    )

    def validate(self) -> None:
        """Sizes within reach, and fitting each other."""
        require(
            self.n >= 2 and self.n % 2 == 0,
            f"equality needs an even n ≥ 2; got n={self.n}. Try {min(max(self.n + self.n % 2, 2), 1 << 18)}.",
        )
        require(self.n <= 1 << 18, f"equality takes n up to 2^18; got n={self.n}. Try 400.")
        require(
            0 <= self.alphabet <= 1 << 20,
            f"equality needs an alphabet of 1 to 2^20 symbols, or 0 for the paper's; "
            f"got alphabet={self.alphabet}. Try 2.",
        )
        require(
            self.form != "one" or self.alphabet != 1,
            "equality with one symbol changed needs an alphabet of 2 symbols or more; got alphabet=1. Try 2.",
        )
        if self.alice is not None:
            self._check_alice(self.alice)

    @property
    def symbols(self) -> int:
        """|Σ|, without the separator."""
        return self.alphabet or (2 if self.form == "random" else 1024)

    @property
    def vocabulary(self) -> Vocabulary:
        """Symbols, then the separator."""
        return Vocabulary(numbered("symbol", self.symbols), words("separator", "[SEP]"), padded=True)

    @property
    def length(self) -> int:
        """n symbols and the separator."""
        return self.n + 1

    @property
    def target_space(self) -> Classes:
        """1 for equal, 0 for different; in the form ncp a set of continuations."""
        return Classes(size=self.symbols + 2 if self.form == "ncp" else 2)

    @property
    def asking(self) -> Asking:
        """One verdict, or the next characters everywhere."""
        return Asking() if self.form != "ncp" else Asking(most=self.length)

    @property
    def places(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Where the symbols of w and of w′ stand in an input of full length, the separator counted."""
        half = self.n // 2
        first = tuple(range(half)) if self.alice is None else self.alice
        held = {*first}
        second = tuple(place for place in range(self.n) if place not in held)
        moved = (tuple(place + (place >= half) for place in string) for string in (first, second))
        return next(moved), next(moved)

    def continuations(self, target: int | Int[Tensor, ""]) -> tuple[str, ...]:
        """The words that a class of the form ncp stands for, in the order of the vocabulary."""
        number = int(target)
        require(
            self.form == "ncp" and 0 <= number <= self.symbols + 1,
            f"Sets of continuations are numbered from 0 to {self.symbols + 1} in the form ncp; "
            f"got {number} in the form {self.form}.",
        )
        if number < self.symbols:
            return (self.vocabulary.word(number),)
        known = range(self.symbols + 1) if number == self.symbols else ()
        return tuple(self.vocabulary.word(token) for token in known)

    @property
    def sampled_sizes(self) -> tuple[int, int]:
        """Symbols of w: of the least even number that is at least n/10, half."""
        varied = self.lengths == "varied" and self.alice is None
        return (-(-self.n // 20) if varied else self.n // 2), self.n // 2

    def positions_of(self, size: int) -> int:
        """Two strings and the separator."""
        return 2 * size + 1

    def draw(self, draws: Draws) -> Batch:
        """A length, w, and w′ as the form says."""
        longest = self.n // 2
        half = self.drawn_sizes(draws)
        first = draws.integers("symbols", (longest,), self.symbols)
        if self.form == "ncp":
            labels = self._continuation_labels(first, half)
            second = first
        else:
            second, equal = self._second(draws, first, half)
            labels = labels_at(2 * half, equal.long(), length=self.length)
        inputs = self._write(first, second, half)
        return Batch(inputs=inputs, targets=labels.targets, mask=labels.mask, lengths=2 * half + 1)

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Labels:
        """Compare what stands before the separator with what stands as far behind it."""
        inputs = self._joined(inputs)
        half = (inputs == self.symbols).int().argmax(1)
        first = inputs[:, : self.n // 2]
        if self.form == "ncp":
            return self._continuation_labels(first, half)
        place = positions(first)
        second = inputs.gather(1, (place + half.unsqueeze(1) + 1).clamp_(max=self.n))
        return labels_at(2 * half, self._agree(first, second, half).long(), length=self.length)

    def check_content(self, row: Int[Tensor, "pos"]) -> None:
        """Two halves of equal, positive length around one separator; in the form ncp equal ones."""
        padding = self.vocabulary.pad
        tokens = [token for token in row.tolist() if token != padding]
        separators = tokens.count(self.symbols)
        require(
            separators == 1,
            f"equality needs one [SEP] between the two strings; got {separators} of them.",
        )
        half = tokens.index(self.symbols)
        require(
            1 <= half == len(tokens) - half - 1,
            f"equality needs two strings of equal length, one symbol or more; "
            f"got {half} and {len(tokens) - half - 1} symbols.",
        )
        require(
            self.alice is None or len(tokens) == self.length,
            f"equality with places for the first string takes all n={self.n} symbols; got {len(tokens) - 1}.",
        )
        require(
            self.form != "ncp" or tokens[:half] == tokens[half + 1 :],
            f"The form ncp takes only strings of the language, w [SEP] w; got {self.render(row)[:80]!r}.",
        )

    def domain_size(self) -> int:
        """Over all half-lengths h, or n/2 alone: |Σ|^2h pairs, or |Σ|^h in the form ncp, where w′ is w."""
        ratio, longest = self._growth, self.n // 2
        if self.alice is not None:
            return int(ratio**longest)
        return longest if ratio == 1 else (int(ratio ** (longest + 1)) - ratio) // (ratio - 1)

    def decode(self, numbers: Int[Tensor, "batch"]) -> Int[Tensor, "batch pos"]:
        """Shortest first."""
        sizes = self._listed_sizes()
        if self.alice is None:
            part, rest = split_union(numbers, sizes)
        else:
            part, rest = torch.full_like(numbers, self.n // 2 - 1), numbers
        # The least significant digits come first, so that short strings are the front of long ones.
        width = len(sizes) if self.form == "ncp" else 2 * len(sizes)
        symbols = digits(rest, [self.symbols] * width).flip(1)
        both = (symbols, symbols) if self.form == "ncp" else (symbols[:, ::2], symbols[:, 1::2])
        spare = (0, self.n // 2 - len(sizes))
        first, second = (torch.nn.functional.pad(string, spare) for string in both)
        return self._write(first, second, part + 1)

    def partitions(self) -> Mapping[str, Partition]:
        """The splits that put w_i and w′_i in different hands, for strings of full length.

        Halves: Alice holds w and the separator, Bob w′ (S, theorems 11 and 12). Odd and even places do the
        same if w_i and w′_i, n/2 + 1 apart, have different parity. In the form ncp the model writes w′
        itself, and there is nothing to split. With `alice` the parties hold w and w′ wherever these stand,
        and the separator is Alice's.
        """
        if self.form == "ncp":
            return {}
        if self.alice is not None:
            first, second = self.places
            return {"w/w′": Partition(alice=tuple(sorted((*first, self.n // 2))), bob=second)}
        splits = {"halves": Partition.prefix(self.length, self.n // 2 + 1)}
        if self.n % 4 == 0:
            splits["odd/even"] = Partition.odd_even(self.length)
        return splits

    def render_target(self, target: Int[Tensor, ""]) -> str:
        """1 or 0; in the form ncp the forced symbol, "any" or "end"."""
        number = int(target)
        if self.form != "ncp":
            return str(number)
        return {self.symbols: "any", self.symbols + 1: "end"}.get(number) or self.vocabulary.word(number)

    def _check_alice(self, alice: tuple[int, ...]) -> None:
        whole = isinstance(alice, tuple) and all(type(place) is int for place in alice)
        require(
            whole and len({*alice}) == len(alice) == self.n // 2 and all(0 <= p < self.n for p in alice),
            f"alice names n/2={self.n // 2} different places from 0 to {self.n - 1}; got {str(alice)[:60]}.",
        )
        require(
            self.form != "ncp",
            "The form ncp copies w behind the separator, so nobody holds w′; leave alice out or take "
            "form=random.",
        )

    @property
    def _growth(self) -> int:
        """How many times more inputs there are with each symbol more in a half."""
        return self.symbols if self.form == "ncp" else self.symbols**2

    def _listed_sizes(self) -> list[int]:
        """The number of inputs of each half-length, as far as int64 can number them."""
        sizes = [self._growth]
        total = self._growth
        while len(sizes) < self.n // 2 and total + sizes[-1] * self._growth < 1 << 63:
            sizes.append(sizes[-1] * self._growth)
            total += sizes[-1]
        return sizes

    def _second(
        self, draws: Draws, first: Int[Tensor, "batch half"], half: Int[Tensor, "batch"]
    ) -> tuple[Int[Tensor, "batch half"], Bool[Tensor, "batch"]]:
        """w′ and whether it is w."""
        equal = draws.coins("equal", ())
        if self.form == "random":
            other = draws.integers("other symbols", (self.n // 2,), self.symbols)
            second = torch.where(equal.unsqueeze(1), first, other)
            return second, self._agree(first, second, half)
        place = uniform_between(draws, "changed place", 0, half - 1).unsqueeze(1)
        turn = uniform_between(draws, "changed symbol", 1, self.symbols - 1).unsqueeze(1)
        changed = (first.gather(1, place) + turn * ~equal.unsqueeze(1)) % self.symbols
        return first.scatter(1, place, changed), equal

    def _agree(
        self, first: Int[Tensor, "batch half"], second: Int[Tensor, "batch half"], half: Int[Tensor, "batch"]
    ) -> Bool[Tensor, "batch"]:
        """Whether the first `half` symbols are the same."""
        differs = (first ^ second).masked_fill_(positions(first) >= half.unsqueeze(1), 0)
        return differs.amax(1) == 0

    def _continuation_labels(self, first: Int[Tensor, "batch half"], half: Int[Tensor, "batch"]) -> Labels:
        """Any symbol within w, then w once more from the separator on, then the end."""
        end = 2 * half.unsqueeze(1)
        targets = torch.full((len(first), self.length), self.symbols, dtype=torch.int64, device=first.device)
        targets.scatter_(1, half.unsqueeze(1) + positions(first), first)
        targets.scatter_(1, end, self.symbols + 1)
        outside = positions(targets) > end
        return Labels(targets=targets.masked_fill_(outside, 0), mask=~outside)

    def _write(
        self, first: Int[Tensor, "batch half"], second: Int[Tensor, "batch half"], half: Int[Tensor, "batch"]
    ) -> Int[Tensor, "batch pos"]:
        separator, padding = self.symbols, self.symbols + 1
        middle = half.unsqueeze(1)
        rows = torch.nn.functional.pad(first, (0, self.length - first.shape[1]))
        rows.scatter_(1, middle + 1 + positions(second), second)
        rows.scatter_(1, middle, separator)
        return self._spread(rows.masked_fill_(positions(rows) > 2 * middle, padding))

    def _spread(self, rows: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
        """From w [SEP] w′ to the places that `alice` says."""
        if self.alice is None:
            return rows
        return torch.empty_like(rows).scatter_(1, self._order(rows), rows)

    def _joined(self, rows: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
        """Back to w [SEP] w′."""
        return rows if self.alice is None else rows.gather(1, self._order(rows))

    def _order(self, rows: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
        """Where each symbol of w [SEP] w′ stands, moved to the device once: captured graphs cannot copy."""
        if rows.device not in self._order_by_device:
            first, second = self.places
            order = torch.tensor([*first, self.n // 2, *second], device=rows.device)
            self._order_by_device[rows.device] = order
        return self._order_by_device[rows.device].expand_as(rows)

    @cached_property
    def _order_by_device(self) -> dict[torch.device, Int[Tensor, "pos"]]:
        return {}
